//! The corpus has the documented properties.

use pillion_admission::settings::Settings;
use pillion_bench::corpus::{Corpus, Style, pods, sidecar_sets};
use rstest::rstest;
use serde_json::{Value, json};

fn lengths(sets: &[Value]) -> Vec<usize> {
    let mut lengths: Vec<usize> = sets.iter().map(|set| set.to_string().len()).collect();
    lengths.sort_unstable();
    lengths
}

#[rstest]
#[case(Style::Realistic)]
#[case(Style::Worst)]
fn the_same_seed_gives_the_same_bytes_and_another_one_others(#[case] style: Style) {
    let sets = |seed| json!(sidecar_sets(seed, style, 30, 3).sets).to_string();
    assert_eq!(sets(1), sets(1));
    assert_ne!(sets(1), sets(2));
}

#[test]
fn a_set_that_matches_differs_by_its_selector_alone() {
    let without = |corpus: Corpus| -> Vec<Value> {
        let mut sets = corpus.sets;
        for spec in sets.iter_mut().filter_map(|set| set["spec"].as_object_mut()) {
            spec.remove("selector");
            spec.remove("namespaceSelector");
        }
        sets
    };
    let sets_beside = |matching| without(sidecar_sets(1, Style::Realistic, 50, matching));
    assert_eq!(sets_beside(0), sets_beside(10));
}

#[rstest]
#[case(Style::Realistic)]
#[case(Style::Worst)]
fn the_settings_are_valid(#[case] style: Style) {
    let Corpus { sets, injected } = sidecar_sets(1, style, 200, 10);
    assert!(injected >= 10);
    let settings = Settings::decode(json!({"sidecarSets": sets})).unwrap();
    assert_eq!(settings.validate(), []);
}

#[test]
fn sizes_are_those_of_real_sidecar_sets() {
    let lengths = lengths(&sidecar_sets(1, Style::Realistic, 1_000, 0).sets);
    let mean = lengths.iter().sum::<usize>() / lengths.len();
    let (least, most) = (lengths[0], lengths[lengths.len() - 1]);
    let figures = format!("{least} to {most}, {mean} on average");
    assert!((400..700).contains(&least) && (900..1_300).contains(&mean) && (4_000..6_500).contains(&most), "{figures}");
}

#[test]
fn the_pod_is_named_and_labelled_as_the_selectors_expect() {
    let pod = pods::pod(1, 2_000);
    assert_eq!(pod["metadata"]["namespace"], pods::NAMESPACE);
    assert_eq!(pod["metadata"]["labels"], Value::Object(pods::labels()));
}
