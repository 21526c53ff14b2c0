//! Duplicate names in a list, and the order of names.

/// Returns, for each text, whether it is the first occurrence.
///
/// Many lists are in order already, and then one comparison for each text suffices. Other lists are sorted by checksums
/// instead of filling a set: a set compares each text with some twenty others, and texts often share a long prefix (E18).
pub fn are_first<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<bool> {
    let texts: Vec<&str> = texts.collect();
    let mut first = vec![true; texts.len()];
    if texts.is_sorted_by(|one, next| one < next) {
        return first;
    }
    let mut sorted: Vec<(u64, &str, usize)> =
        texts.into_iter().enumerate().map(|(index, text)| (checksum(text), text, index)).collect();
    sorted.sort_unstable();
    for ((sum, text, _), (next_sum, next, index)) in sorted.iter().zip(sorted.iter().skip(1)) {
        if sum == next_sum
            && text == next
            && let Some(is_first) = first.get_mut(*index)
        {
            *is_first = false;
        }
    }
    first
}

/// Returns a number that is the same for equal texts, and usually another for others. Whoever finds texts with one
/// checksum gains nothing: they are compared as a whole then.
fn checksum(text: &str) -> u64 {
    let word = |bytes: &[u8]| bytes.iter().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    text.as_bytes()
        .chunks(8)
        .fold(0, |sum, bytes| (sum ^ word(bytes)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
}

/// Returns the items in the order of their names; items with one name stay in their order.
///
/// Sorts names with indexes: sorting the items would add five kilobytes to the module for each type of item.
pub fn ordered<'i, T>(items: &'i [T], name: impl Fn(&'i T) -> &'i str) -> impl Iterator<Item = &'i T> {
    sorted(items.iter().map(name)).into_iter().filter_map(|(_, index)| items.get(index))
}

/// Returns the texts with their indexes, ascending.
fn sorted<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<(&'a str, usize)> {
    let mut sorted: Vec<(&str, usize)> = texts.enumerate().map(|(index, text)| (text, index)).collect();
    sorted.sort_unstable();
    sorted
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(&[], &[])]
    #[case::different(&["b", "a"], &[true, true])]
    #[case::in_order(&["a", "b", "c"], &[true, true, true])]
    #[case::in_order_with_repetitions(&["a", "a", "b", "b"], &[true, false, true, false])]
    #[case::with_zeros(&["\0", "", "\0\0", "\0"], &[true, true, true, false])]
    #[case::long_prefixes(&["aaaaaaaaab", "aaaaaaaaa", "aaaaaaaaab"], &[true, true, false])]
    #[case::repeated(&["b", "a", "b", "", "a", "b", ""], &[true, true, false, true, false, false, false])]
    fn the_first_of_each_text_counts(#[case] texts: &[&str], #[case] expected: &[bool]) {
        assert_eq!(are_first(texts.iter().copied()), expected);
    }

    #[rstest]
    #[case::none(&[], &[])]
    #[case::by_name(&["b1", "c2", "a3"], &["a3", "b1", "c2"])]
    #[case::equal_names_stay(&["b2", "a9", "b1", "a1"], &["a9", "a1", "b2", "b1"])]
    fn items_are_put_into_the_order_of_their_names(#[case] items: &[&str], #[case] expected: &[&str]) {
        let ordered: Vec<&str> = ordered(items, |item| item.split_at(1).0).copied().collect();
        assert_eq!(ordered, expected);
    }
}
