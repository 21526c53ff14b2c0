//! Suggestions for misspelt words ("did you mean ...?").

/// Returns the candidate that is most similar to `word`: one that differs only in case, or in few letters.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    let length = word.chars().count();
    let allowed = (length / 4).clamp(1, 3);
    candidates
        .into_iter()
        // Skip candidates whose length differs by more letters than allowed: the word may be long (E18).
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= allowed)
        .filter_map(|candidate| {
            let distance = distance(&word, &candidate.to_ascii_lowercase());
            (distance <= allowed).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns how many letters must be inserted, removed, replaced or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    let mut previous = None;
    for (row, letter) in one.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, theirs) in other.iter().enumerate() {
            let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX / 2);
            let mut cost = at(&last, column) + usize::from(letter != *theirs);
            cost = cost.min(at(&last, column + 1) + 1).min(at(&current, column) + 1);
            let left = column.checked_sub(1);
            if left.and_then(|left| other.get(left)) == Some(&letter) && previous == Some(*theirs) {
                cost = cost.min(at(&before_last, column - 1) + 1);
            }
            current.push(cost);
        }
        before_last = std::mem::replace(&mut last, current);
        previous = Some(letter);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::case("sidecarsets", Some("sidecarSets"))]
    #[case::swapped("volumeMoutns", Some("volumeMounts"))]
    #[case::missing("volumMounts", Some("volumeMounts"))]
    #[case::plural("volumeMount", Some("volumeMounts"))]
    #[case::too_much("imagge", Some("image"))]
    #[case::short("nam", Some("name"))]
    #[case::another_word("resources", None)]
    #[case::short_and_different("foo", None)]
    #[case::empty("", None)]
    fn near_misses_are_found(#[case] word: &str, #[case] expected: Option<&str>) {
        assert_eq!(nearest(word, ["name", "image", "volumeMounts", "sidecarSets"]), expected);
    }

    #[rstest]
    #[case("", "", 0)]
    #[case("", "abc", 3)]
    #[case("abc", "", 3)]
    #[case("abcd", "abdc", 1)]
    #[case("kitten", "sitting", 3)]
    #[case("äb", "ab", 1)]
    fn distances_are_counted_in_letters(#[case] one: &str, #[case] other: &str, #[case] expected: usize) {
        assert_eq!(distance(one, other), expected);
    }
}
