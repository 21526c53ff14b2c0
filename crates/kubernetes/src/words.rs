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
            let distance = strsim::osa_distance(&word, &candidate.to_ascii_lowercase());
            (distance <= allowed).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
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
    #[case::counted_in_letters("imäge", Some("image"))]
    #[case::empty("", None)]
    fn near_misses_are_found(#[case] word: &str, #[case] expected: Option<&str>) {
        assert_eq!(nearest(word, ["name", "image", "volumeMounts", "sidecarSets"]), expected);
    }
}
