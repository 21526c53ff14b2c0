#![allow(clippy::unnecessary_wraps, reason = "they are answers to look-ups")]

use pillion_kubernetes::lookup::{Answer, Failure};
use pillion_kubernetes::outcome::Code;
use pillion_samples::lookups::FakeObjects;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::{LookupErrors, injection, whitelist};
use super::set;
use crate::controller_revision::ControllerRevision;
use crate::gates::Gates;
use crate::sidecar_set::SidecarSet;

fn config_map(whitelist: &str) -> Answer {
    Ok(Some(json!({"data": {"SidecarSet_PatchPodMetadata_WhiteList": whitelist}})))
}

fn patching(annotations: Value) -> SidecarSet {
    let patches = json!([{"annotations": annotations}]);
    set("a", json!({"metadata": {"labels": {"team": "x"}}, "spec": {"patchPodMetadata": patches}}))
}

fn collect(rule: impl FnOnce(&mut LookupErrors)) -> LookupErrors {
    let mut findings = LookupErrors::default();
    rule(&mut findings);
    findings
}

fn fields(findings: &LookupErrors) -> Vec<(&str, Code)> {
    let invalid = findings.invalid.iter().map(|error| (error.path.as_str(), Code::Invalid));
    invalid.chain(findings.unavailable.iter().map(|error| (error.path.as_str(), Code::Unavailable))).collect()
}

const ALL: (&str, Code) = ("spec.patchPodMetadata", Code::Invalid);

#[rstest]
#[case::allowed(r#"{"rules": [{"allowedAnnotationKeyExprs": ["^key"]}]}"#, &[])]
#[case::unanchored(r#"{"rules": [{"allowedAnnotationKeyExprs": ["ey-"]}]}"#, &[])]
#[case::one_of_two(r#"{"rules": [{"allowedAnnotationKeyExprs": ["^a$", "-a$"]}]}"#, &[])]
#[case::none_matches(r#"{"rules": [{"allowedAnnotationKeyExprs": ["^other"]}]}"#, &[("spec.patchPodMetadata[0].annotations[key-a]", Code::Invalid)])]
#[case::rule_for_these_labels(r#"{"rules": [{"selector": {"matchLabels": {"team": "x"}}, "allowedAnnotationKeyExprs": ["."]}]}"#, &[])]
#[case::rule_for_all_labels(r#"{"rules": [{"selector": {}, "allowedAnnotationKeyExprs": ["."]}]}"#, &[])]
#[case::rule_for_other_labels(r#"{"rules": [{"selector": {"matchLabels": {"team": "y"}}, "allowedAnnotationKeyExprs": ["["]}]}"#, &[ALL])]
#[case::no_rules(r#"{"rules": []}"#, &[ALL])]
#[case::null_rules(r#"{"rules": null}"#, &[ALL])]
#[case::no_json("{", &[ALL])]
#[case::no_object("[]", &[ALL])]
#[case::no_list(r#"{"rules": {}}"#, &[ALL])]
#[case::no_pattern(r#"{"rules": [{"allowedAnnotationKeyExprs": ["["]}]}"#, &[ALL])]
#[case::no_text(r#"{"rules": [{"allowedAnnotationKeyExprs": [1]}]}"#, &[ALL])]
#[case::no_selector(r#"{"rules": [{"selector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}, "allowedAnnotationKeyExprs": ["."]}]}"#, &[ALL])]
fn val22_the_whitelist_of_the_cluster(#[case] text: &str, #[case] expected: &[(&str, Code)]) {
    let cluster = FakeObjects::answering(config_map(text));
    let set = patching(json!({"key-a": "v"}));
    let findings =
        collect(|findings| whitelist::check(&set, Gates::default(), None, "kruise-system", &cluster, findings));
    assert_eq!(fields(&findings), expected);
    assert_eq!(cluster.asked().len(), 1);
}

#[test]
fn e18_a_whitelist_of_too_many_expressions_cannot_be_used() {
    let text = json!({"rules": [{"allowedAnnotationKeyExprs": vec!["[ab]{1000}"; 70]}]}).to_string();
    let set = patching(json!({"key-a": "v"}));
    let cluster = FakeObjects::answering(config_map(&text));
    let findings =
        collect(|findings| whitelist::check(&set, Gates::default(), None, "kruise-system", &cluster, findings));
    let errors: Vec<String> = findings.invalid.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "spec.patchPodMetadata: Required value: whitelist.rules[0].allowedAnnotationKeyExprs: too many or too long expressions: all of them together may have 65,536 steps; a character is a step, and {n} repeats"
        ]
    );
}

#[rstest]
#[case::no_config_map(Ok(None), &[ALL], &[])]
#[case::no_data(Ok(Some(json!({}))), &[ALL], &[])]
#[case::no_key(Ok(Some(json!({"data": {"other": ""}}))), &[ALL], &[])]
#[case::no_rule(config_map("{}"), &[ALL], &[])]
#[case::no_match_even_with_the_gate(
    config_map(r#"{"rules": [{"allowedAnnotationKeyExprs": ["^b$"]}]}"#),
    &[("spec.patchPodMetadata[0].annotations[a]", Code::Invalid)],
    &[("spec.patchPodMetadata[0].annotations[a]", Code::Invalid)]
)]
#[case::forbidden(
    Err(Failure::Forbidden),
    &[("spec.patchPodMetadata", Code::Unavailable)],
    &[("spec.patchPodMetadata", Code::Unavailable)]
)]
fn val21_the_gate_speaks_where_no_whitelist_does(
    #[case] answer: Answer,
    #[case] closed: &[(&str, Code)],
    #[case] open: &[(&str, Code)],
) {
    let set = patching(json!({"a": "v"}));
    for (allowed, expected) in [(false, closed), (true, open)] {
        let gates = Gates { patch_pod_metadata_defaults_allowed: allowed, ..Gates::default() };
        let findings = collect(|findings| {
            whitelist::check(&set, gates, None, "kruise-system", &FakeObjects::answering(answer.clone()), findings);
        });
        assert_eq!(fields(&findings), expected, "gate {allowed}");
    }
}

#[test]
fn val20_nothing_is_asked_without_need() {
    let cluster = FakeObjects::answering(Err(Failure::Timeout));
    let validate = |set: &SidecarSet, inline: Option<&Value>| {
        collect(|findings| whitelist::check(set, Gates::default(), inline, "kruise-system", &cluster, findings))
    };
    assert_eq!(validate(&set("a", json!({})), None), LookupErrors::default());
    let inline = json!({"rules": [{"allowedAnnotationKeyExprs": ["^a$"]}]});
    assert_eq!(validate(&patching(json!({"a": ""})), Some(&inline)), LookupErrors::default());
    assert_eq!(
        fields(&validate(&patching(json!({"b": ""})), Some(&inline))),
        [("spec.patchPodMetadata[0].annotations[b]", Code::Invalid)]
    );
    assert_eq!(cluster.asked().len(), 0);
}

fn revision(data: Value) -> Answer {
    Ok(Some(json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": data,
        "metadata": {"name": "r", "namespace": "kruise-system", "labels": {"kruise.io/sidecarset-name": "a"}},
    })))
}

#[rstest]
#[case::there(revision(json!({"spec": {"$patch": "replace", "containers": []}})), None)]
#[case::without_a_spec(revision(json!({})), None)]
#[case::of_another_shape(revision(json!({"spec": {"containers": 1}})), Some(Code::Invalid))]
#[case::of_another_kind_of_patch(revision(json!({"spec": {"$patch": "bogus"}})), Some(Code::Invalid))]
#[case::missing(Ok(None), Some(Code::Invalid))]
#[case::unknown(Err(Failure::Timeout), Some(Code::Unavailable))]
fn val6_the_revision_must_be_there(#[case] answer: Answer, #[case] expected: Option<Code>) {
    let set = set("a", json!({"spec": {"injectionStrategy": {"revision": {"revisionName": "r"}}}}));
    let findings = collect(|findings| {
        injection::check_revision(&set, &[], "kruise-system", &FakeObjects::answering(answer), findings);
    });
    let expected: Vec<_> =
        expected.into_iter().map(|code| ("spec.injectionStrategy.revision.revisionName", code)).collect();
    assert_eq!(fields(&findings), expected);
}

#[test]
fn val6_nothing_is_asked_for_the_latest_version() {
    let cluster = FakeObjects::answering(Err(Failure::Timeout));
    assert_eq!(
        collect(|findings| injection::check_revision(&set("a", json!({})), &[], "kruise-system", &cluster, findings)),
        LookupErrors::default()
    );
    assert_eq!(cluster.asked().len(), 0);
}

fn asking_for(revision: Value) -> SidecarSet {
    set("a", json!({"spec": {"injectionStrategy": {"revision": revision}}}))
}

/// Returns the stored version `v1` of the set `a`.
fn stored(data: Value) -> ControllerRevision {
    ControllerRevision::decode(json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": data,
        "metadata": {"name": "a-1", "labels": {
            "kruise.io/sidecarset-name": "a", "apps.kruise.io/sidecarset-custom-version": "v1"
        }},
    }))
    .unwrap()
}

/// Returns the errors for a set that a request writes, and whether there is a warning.
fn written(
    (new, old): (&SidecarSet, Option<&SidecarSet>),
    (revisions, sets): (&[ControllerRevision], &[SidecarSet]),
    is_watched: bool,
) -> (Vec<(String, Code)>, bool) {
    let lookup = &FakeObjects::answering(Ok(None));
    let sources = injection::Sources { revisions, sets, is_watched, system_namespace: "kruise-system", lookup };
    let mut findings = LookupErrors::default();
    let unknown = injection::check_written(new, old, sources, &mut findings);
    (fields(&findings).into_iter().map(|(path, code)| (path.to_owned(), code)).collect(), unknown.is_some())
}

const FINE: (Vec<(String, Code)>, bool) = (Vec::new(), false);

fn invalid(field: &str) -> (Vec<(String, Code)>, bool) {
    (vec![(format!("spec.injectionStrategy.revision.{field}"), Code::Invalid)], false)
}

#[test]
fn val6_a_custom_version_is_there_where_the_settings_or_a_bundle_have_it() {
    let new = asking_for(json!({"customVersion": "v1"}));
    let good = stored(json!({"spec": {"containers": []}}));
    let bundled = new.clone().with_revision(&good);
    for is_watched in [false, true] {
        assert_eq!(written((&new, None), (std::slice::from_ref(&good), &[]), is_watched), FINE);
        assert_eq!(written((&new, None), (&[], std::slice::from_ref(&bundled)), is_watched), FINE);
    }
    let broken = new.clone().with_revision(&stored(json!({"spec": {"containers": 1}})));
    assert_eq!(written((&new, None), (&[], &[broken]), true), invalid("customVersion"));
}

#[rstest]
#[case::of_no_set(None)]
#[case::of_another_set(Some(("b", "v1")))]
#[case::of_another_version(Some(("a", "v0")))]
fn val6_a_custom_version_that_nobody_shows_is_left_to_the_controller(#[case] bundled: Option<(&str, &str)>) {
    let new = asking_for(json!({"customVersion": "v1"}));
    let sets: Vec<SidecarSet> = bundled
        .map(|(name, version)| {
            let revision = json!({"spec": {"injectionStrategy": {"revision": {"customVersion": version}}}});
            set(name, revision).with_revision(&stored(json!({"spec": {"containers": []}})))
        })
        .into_iter()
        .collect();
    assert_eq!(written((&new, None), (&[], &sets), true), (Vec::new(), true));
    // Without a controller that searches for the version, no Pod would get it.
    assert_eq!(written((&new, None), (&[], &sets), false), invalid("customVersion"));
}

#[test]
fn val6_a_name_can_be_looked_up() {
    let new = asking_for(json!({"revisionName": "a-1"}));
    assert_eq!(written((&new, None), (&[], &[]), true), invalid("revisionName"));
    let bundled = new.clone().with_revision(&stored(json!({"spec": {"containers": []}})));
    assert_eq!(written((&new, None), (&[], &[bundled]), true), FINE);
}

#[rstest]
#[case::custom_version(json!({"customVersion": "v1"}), json!({"customVersion": "v2"}), "customVersion")]
#[case::name(json!({"revisionName": "a-1"}), json!({"revisionName": "a-2"}), "revisionName")]
#[case::policy(json!({"revisionName": "a-1", "policy": "Always"}), json!({"customVersion": "v1"}), "revisionName")]
fn val6_a_revision_that_stays_blocks_no_update(#[case] asked: Value, #[case] before: Value, #[case] field: &str) {
    let new = asking_for(asked.clone());
    let mut same = asked.clone();
    same["policy"] = json!("Partial");
    for is_watched in [false, true] {
        assert_eq!(written((&new, Some(&asking_for(same.clone()))), (&[], &[]), is_watched), FINE);
    }
    assert_eq!(written((&new, Some(&asking_for(before))), (&[], &[]), false), invalid(field));
    assert_eq!(written((&new, Some(&set("a", json!({})))), (&[], &[]), false), invalid(field));
}
