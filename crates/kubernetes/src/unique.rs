//! Duplicate names in a list.

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
}
