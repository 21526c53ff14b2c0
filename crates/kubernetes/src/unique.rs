//! Duplicate names in a list, and the order of names.

/// Returns, for each text, whether it is the first occurrence.
///
/// Sorts the list instead of filling a set: most lists are already in some order, and then sorting needs one comparison
/// per text. A set compares each text with some twenty others, and names often share a long prefix (E18).
pub fn are_first<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<bool> {
    let sorted = sorted(texts);
    let mut first = vec![true; sorted.len()];
    for (one, other) in sorted.iter().zip(sorted.iter().skip(1)) {
        if one.0 == other.0
            && let Some(is_first) = first.get_mut(other.1)
        {
            *is_first = false;
        }
    }
    first
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
