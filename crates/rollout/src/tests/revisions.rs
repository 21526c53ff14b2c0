//! The history of a SidecarSet.

use std::collections::BTreeSet;

use pillion_kubernetes::json;
use pillion_plan::Step;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::sidecar_set::SidecarSet;
use rstest::rstest;
use serde_json::{Value, json};

use super::{cold, revision, sidecar_set};
use crate::history::{History, Latest, Revision};

const VERSION: &str = "apps.kruise.io/sidecarset-custom-version";

fn version(image: &str) -> SidecarSet {
    sidecar_set(&json!({"image": image}), &json!({}))
}

#[test]
fn rev4_a_revision_has_the_labels_and_annotations_of_the_sidecar_set() {
    let mut set = cold();
    let object = set.as_value_mut();
    object["metadata"]["labels"] = json!({"team": "a"});
    object["metadata"]["annotations"]["note"] = json!("b");
    object["spec"]["customVersion"] = json!("v7");
    let history = History::new(&set, "u", []);
    let revision = history.new_revision(3, 0, "u", "kruise-system");
    let metadata = &revision["metadata"];
    assert_eq!(metadata["labels"]["team"], "a");
    assert_eq!(metadata["labels"]["kruise.io/sidecarset-name"], "logs");
    assert_eq!(metadata["labels"][VERSION], "v7");
    let name = json::text(metadata, &["name"]);
    assert_eq!(Some(json::text(metadata, &["labels", "controller.kubernetes.io/hash"])), name.strip_prefix("logs-"));
    assert_eq!(metadata["annotations"], set.as_value()["metadata"]["annotations"]);
    assert_eq!(metadata["ownerReferences"][0]["uid"], "u");
    assert_eq!(revision["revision"], 3);
    assert_eq!(revision["data"]["spec"]["$patch"], "replace");
}

#[test]
fn rev5_a_state_is_stored_once() {
    let (old, new) = (version("agent:v1"), version("agent:v2"));
    assert_eq!(History::new(&new, "u", []).latest(), Latest::New(1));
    let (first, second) = (revision(&old, 1, &json!({})), revision(&new, 2, &json!({})));
    assert_eq!(History::new(&new, "u", [&first]).latest(), Latest::New(2));
    assert_eq!(History::new(&new, "u", [&first, &second]).latest(), Latest::Newest(&second));
    let Latest::Again(Step::Patch { object, patch, .. }) = History::new(&old, "u", [&second, &first]).latest() else {
        panic!("an older revision has the data");
    };
    assert_eq!((object.name.as_str(), patch), (first.name(), json!({"revision": 3})));
}

#[test]
fn rev5_another_name_follows_a_collision() {
    let set = cold();
    let history = History::new(&set, "u", []);
    let name =
        |collisions| json::text(&history.new_revision(1, collisions, "u", "s"), &["metadata", "name"]).to_owned();
    assert_ne!(name(0), name(1));
    assert!(
        history.has_data(&revision(&set, 1, &json!({})))
            && !history.has_data(&revision(&version("agent:v1"), 1, &json!({})))
    );
}

#[test]
fn rev1_revisions_of_an_earlier_sidecar_set_of_this_name_are_left_out() {
    let set = cold();
    let revision = revision(&set, 1, &json!({}));
    assert_eq!(History::new(&set, "another", [&revision]).latest(), Latest::New(1));
    let mut object = revision.head.as_value().clone();
    object["metadata"]["ownerReferences"] = json!([]);
    let orphan = Revision { head: ControllerRevision::from_decoded(object), ..revision };
    assert_eq!(History::new(&set, "another", [&orphan]).latest(), Latest::Newest(&orphan));
}

#[rstest]
#[case::none(None, None, None)]
#[case::new(Some("v2"), None, Some("v2"))]
#[case::changed(Some("v2"), Some("v1"), Some("v2"))]
#[case::as_before(Some("v2"), Some("v2"), None)]
#[case::never_removed(None, Some("v1"), None)]
fn rev6_diff12_the_custom_version_is_the_label(
    #[case] wanted: Option<&str>,
    #[case] label: Option<&str>,
    #[case] expected: Option<&str>,
) {
    let mut set = cold();
    let mut head = revision(&set, 1, &json!({})).head.as_value().clone();
    if let Some(label) = label {
        head["metadata"]["labels"][VERSION] = json!(label);
    }
    if let Some(wanted) = wanted {
        set.as_value_mut()["spec"]["customVersion"] = json!(wanted);
    }
    let revision = Revision { head: ControllerRevision::from_decoded(head), data: String::new() };
    let step = History::new(&set, "u", []).relabel(&revision);
    let patched = step.map(|step| {
        let Step::Patch { patch, .. } = step else { panic!("a patch") };
        json::text(&patch, &["metadata", "labels", VERSION]).to_owned()
    });
    assert_eq!(patched.as_deref(), expected);
}

fn names(steps: impl Iterator<Item = Step>) -> Vec<String> {
    let name = |step| if let Step::Delete { object, .. } = step { object.name } else { panic!("{step:?}") };
    steps.map(name).collect()
}

#[rstest]
#[case::limit(json!({"revisionHistoryLimit": 2}), &[], &[0, 1], 2)]
#[case::at_least_one(json!({"revisionHistoryLimit": 0}), &[], &[0, 1, 2], 1)]
#[case::ten_by_default(json!({}), &[], &[], 4)]
#[case::used_by_pods(json!({"revisionHistoryLimit": 2}), &[0, 1], &[2], 3)]
#[case::wanted_by_name(json!({"revisionHistoryLimit": 1, "injectionStrategy": {"revision": {"revisionName": "#1"}}}), &[], &[0, 2], 2)]
#[case::wanted_by_version(
    json!({"revisionHistoryLimit": 1, "injectionStrategy": {"revision": {"customVersion": "v1"}}}), &[], &[0, 2], 2
)]
#[case::diff30_before_the_latest(
    json!({"revisionHistoryLimit": 1, "injectionStrategy": {"revision": {"policy": "Partial"}}}), &[], &[0, 1], 2
)]
fn rev7_old_revisions_go_unless_they_are_used(
    #[case] spec: Value,
    #[case] used: &[usize],
    #[case] expected: &[usize],
    #[case] kept: usize,
) {
    let images = ["agent:v0", "agent:v1", "agent:v2", "agent:v3"];
    let versions = images.map(version);
    let mut revisions: Vec<Revision> =
        (1..).zip(&versions).map(|(number, set)| revision(set, number, &json!({}))).collect();
    for labelled in [0, 1] {
        let mut head = revisions[labelled].head.as_value().clone();
        head["metadata"]["labels"][VERSION] = json!("v1");
        revisions[labelled].head = ControllerRevision::from_decoded(head);
    }
    let name = |index: usize| revisions[index].name().to_owned();
    let spec = spec.to_string().replace("#1", &name(1));
    let mut resource = versions[3].clone();
    super::merge(&mut resource.as_value_mut()["spec"], &serde_json::from_str(&spec).unwrap());
    let used: BTreeSet<String> = used.iter().map(|index| name(*index)).collect();
    let history = History::new(&versions[3], "u", &revisions);
    let truncation = history.truncated(&name(3), &used, &resource);
    assert_eq!(names(truncation.steps()), expected.iter().map(|index| name(*index)).collect::<Vec<_>>());
    assert_eq!(truncation.kept, kept);
}

#[test]
fn rev7_a_revision_that_was_just_created_counts() {
    let (old, new) = (version("agent:v1"), version("agent:v2"));
    let revision = revision(&old, 1, &json!({}));
    let mut resource = new.clone();
    resource.as_value_mut()["spec"]["revisionHistoryLimit"] = json!(1);
    let history = History::new(&new, "u", [&revision]);
    let truncation = history.truncated("logs-new", &BTreeSet::new(), &resource);
    assert_eq!(names(truncation.steps()), [revision.name()]);
}
