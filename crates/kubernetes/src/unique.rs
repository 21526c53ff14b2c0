//! Detection of duplicate texts in a list.

/// Returns, for each text, whether it is the first occurrence.
///
/// Sorts the list instead of filling a set: most lists are already in some order, and then sorting needs one comparison
/// per text. A set compares each text with some twenty others, and names often share a long prefix (E18).
pub fn are_first<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<bool> {
    let mut sorted: Vec<(&str, usize)> = texts.enumerate().map(|(index, text)| (text, index)).collect();
    sorted.sort_unstable();
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
}
