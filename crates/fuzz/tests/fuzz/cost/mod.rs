//! No input costs more than its length (E18), on the released module.
//!
//! The tests need the module that `PILLION_MODULE` names: cargo builds another one for tests, without link-time
//! optimization. `make cost` turns on the feature `cost`, which adds the slow tests: every place of every sample, all
//! pairs, mixtures of places, and other products. Products of two objects that attacks have found are rows of
//! `products`. `density` has values as short as possible, and needs no certain module; `patterns` has expressions.

mod density;
#[cfg(feature = "cost")]
mod mixed;
mod patterns;
mod products;
#[cfg(feature = "cost")]
mod suspects;
#[cfg(feature = "cost")]
mod thorough;

use std::env;
use std::fs;
use std::sync::LazyLock;

use pillion_bench::engine::{Bounds, Counter};
use pillion_fuzz::cost::grow::{Growth, GrowthKind};
use pillion_fuzz::cost::judge::BOUNDS;
use pillion_fuzz::cost::place::Part;
use pillion_fuzz::cost::survey::{self, Case, Sample};
use pillion_testkit::sample;
use rstest::rstest;

/// The module is compiled once for all tests, since that takes seconds.
static SURVEYED: LazyLock<Option<(Counter, Vec<Sample>)>> = LazyLock::new(|| {
    let module = env::var_os("PILLION_MODULE").filter(|path| !path.is_empty())?;
    let bytes = fs::read(&module).unwrap_or_else(|error| panic!("{}: {error}", module.display()));
    // The limit exceeds what an evaluation may take, so that a finding can state the count.
    let counter = Counter::bounded(&bytes, Bounds { instructions: 8 * BOUNDS.instructions, ..BOUNDS }).unwrap();
    let samples = survey::samples(&counter).unwrap();
    Some((counter, samples))
});

fn surveyed() -> Option<&'static (Counter, Vec<Sample>)> {
    let surveyed = SURVEYED.as_ref();
    if surveyed.is_none() {
        eprintln!("skipped: PILLION_MODULE names no module; `make test` does");
    }
    surveyed
}

const OBJECT: &str = "/request/object/spec";
const OLD: &str = "/request/oldObject";
const SET: &str = "/settings/sidecarSets/0/spec";
const ISSUERS: &str = "spec/kubernetes/kubeAPIServer/serviceAccountConfig/acceptedIssuers";

/// Lists, maps, texts and numbers of the samples, in the most significant ways to grow: one of eight, or all with
/// `PILLION_WHOLE=1`.
#[test]
fn e18_each_place_alone() {
    let Some((counter, samples)) = surveyed() else { return };
    let mut cases = survey::each_briefly(samples);
    // Cases of one kind come together, so that the sample has some of every kind.
    cases.sort_by_key(kinds);
    expect_none(&survey::survey(&sample::every(8, cases), |case| case.judge(counter)));
}

/// Returns for each place that grows: its kind, whether it grows by the shortest entries, and the part of the input.
fn kinds(case: &Case<'_>) -> Vec<(Part, bool, String)> {
    let part = |growth: &Growth| growth.place.pointer.split('/').nth(1).unwrap_or_default().to_owned();
    case.growths.iter().map(|growth| (growth.place.part, growth.kind == GrowthKind::Bare, part(growth))).collect()
}

fn expect_none(found: &[String]) {
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
}

/// Pairs that attacks have found.
#[rstest]
#[case::verbs_and_resources("sidecarset/create", [
    format!("{OBJECT}/serviceAccountPermissions/0/verbs"), format!("{OBJECT}/serviceAccountPermissions/0/resources"),
])]
#[case::a_long_verb_and_resources("sidecarset/create", [
    format!("{OBJECT}/serviceAccountPermissions/0/resources"), format!("{OBJECT}/serviceAccountPermissions/0/verbs/0"),
])]
#[case::a_long_name_and_verbs("sidecarset/create", [
    format!("{OBJECT}/serviceAccountPermissions/0/verbs"),
    format!("{OBJECT}/serviceAccountPermissions/0/resourceNames/0"),
])]
#[case::mounts_and_volumes("pod/unmatched", [
    format!("{OBJECT}/containers/0/volumeMounts"), format!("{OBJECT}/volumes"),
])]
#[case::mounts_and_volumes_of_ephemeral_containers("guard/ephemeral", [
    format!("{OBJECT}/ephemeralContainers/0/volumeMounts"), format!("{OBJECT}/volumes"),
])]
#[case::ephemeral_containers_and_volumes("guard/ephemeral", [
    format!("{OBJECT}/ephemeralContainers"), format!("{OBJECT}/volumes"),
])]
#[case::ephemeral_containers_and_holders("guard/ephemeral", [
    format!("{OBJECT}/ephemeralContainers"), format!("{OBJECT}/containers"),
])]
#[case::finalizers_of_the_authority("guard/authority/update", [
    "/request/object/metadata/finalizers".to_owned(), format!("{OLD}/metadata/finalizers"),
])]
#[case::values_of_two_sets("sidecarset/create", [
    format!("{OBJECT}/selector/matchExpressions/0/values"), format!("{SET}/selector/matchExpressions/0/values"),
])]
#[case::secrets_of_an_account("guard/account/update", [
    "/request/object/secrets".to_owned(), format!("{OLD}/secrets"),
])]
#[case::values_and_other_sets("sidecarset/create", [
    format!("{OBJECT}/selector/matchExpressions/0/values"), "/settings/sidecarSets".to_owned(),
])]
#[case::transfers_and_variables("pod/plain", [
    format!("{SET}/containers/0/transferEnv"), format!("{OBJECT}/containers/0/env"),
])]
#[case::sets_and_mounts("pod/plain", [
    "/settings/sidecarSets".to_owned(), format!("{OBJECT}/containers/0/volumeMounts"),
])]
#[case::sidecars_and_mounts("pod/plain", [format!("{SET}/containers"), format!("{OBJECT}/containers/0/volumeMounts")])]
#[case::mounts_and_volumes_with_an_identity("pod/identity", [
    format!("{OBJECT}/containers/0/volumeMounts"), format!("{OBJECT}/volumes"),
])]
#[case::mounts_and_volumes_asserted("pod/assert", [
    format!("{OBJECT}/containers/3/volumeMounts"), format!("{OBJECT}/volumes"),
])]
#[case::mounts_and_volumes_of_a_set("sidecarset/create", [
    format!("{OBJECT}/containers/0/volumeMounts"), format!("{OBJECT}/volumes"),
])]
#[case::transferred_names_and_variables("pod/plain", [
    format!("{SET}/containers/0/transferEnv/1/envNames"), format!("{OBJECT}/containers/0/env"),
])]
#[case::mounts_and_volumes_isolated("pod/isolate", [
    format!("{OBJECT}/containers/0/volumeMounts"), format!("{OBJECT}/volumes"),
])]
#[case::accepted_issuers("shoot/update", [format!("/request/object/{ISSUERS}"), format!("{OLD}/{ISSUERS}")])]
fn e18_known_pairs(#[case] sample: &str, #[case] pointers: [String; 2]) {
    judge_pair(sample, &pointers);
}

/// Judges two places that grow to a mebibyte together.
fn judge_pair(sample: &str, [one, other]: &[String; 2]) {
    let Some((counter, samples)) = surveyed() else { return };
    let found = samples.iter().find(|known| known.input.name() == sample).unwrap();
    let case = survey::pair(found, [one, other]).unwrap_or_else(|| panic!("{sample} has no {one} or no {other}"));
    assert_eq!(case.judge_whole(counter), None);
}
