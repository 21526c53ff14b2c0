//! The tests of `make cost`, which take long.

use pillion_bench::cost::{Input, samples, survey};
use pillion_bench::engine::Counter;
use rstest::rstest;

use super::{OBJECT, PAIRED, SET, counter, judge_pair};

/// How many entries, or forty bytes each, a place gets; twice and four times as many follow.
const COUNT: usize = 200;
/// Judges cases and tells every finding.
fn survey(judge: impl Fn(&survey::Case<'_>, &Counter) -> Option<String> + Sync, of: Cases) {
    let Some(counter) = counter() else { return };
    let inputs = samples::all(&counter).unwrap();
    let found = survey::survey(&of(&inputs), |case| judge(case, &counter));
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
}

type Cases = for<'a> fn(&'a [Input]) -> Vec<survey::Case<'a>>;

#[test]
fn e18_each_list_map_text_and_number_alone() {
    survey(|case, counter| case.judge(counter, COUNT), survey::each);
}

#[test]
fn e18_each_list_map_text_and_number_alone_in_every_way() {
    survey(|case, counter| case.judge(counter, COUNT), survey::each_thoroughly);
}

#[test]
fn e18_all_pairs() {
    survey(
        |case, counter| case.judge_product(counter, PAIRED),
        |inputs| inputs.iter().flat_map(survey::pairs).collect(),
    );
}

/// Pairs that grow no more than their input, and take up to one and a half times the bound at a mebibyte
/// (docs/security.md, "What an input may cost").
#[rstest]
#[case::mounts_and_volumes_with_an_identity("pod/identity", [
    format!("{OBJECT}/containers/0/volumeMounts"), format!("{OBJECT}/volumes"),
])]
#[case::mounts_and_volumes_asserted("pod/assert", [
    format!("{OBJECT}/containers/0/volumeMounts"), format!("{OBJECT}/volumes"),
])]
#[case::transferred_names_and_variables("pod/plain", [
    format!("{SET}/containers/0/transferEnv/1/envNames"), format!("{OBJECT}/containers/0/env"),
])]
#[case::mounts_and_volumes_of_a_set("sidecarset/create", [
    format!("{OBJECT}/containers/0/volumeMounts"), format!("{OBJECT}/volumes"),
])]
fn e18_known_pairs_at_a_mebibyte(#[case] sample: &str, #[case] pointers: [String; 2]) {
    judge_pair(sample, &pointers);
}
