use std::time::Duration;

use pillion_kubernetes::authorizer::{Authorizer, Question};
use pillion_kubernetes::lookup::{Answer, Failure, Lookup, ObjectRef};
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::hash;
use pillion_sidecarset::names;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::settings::Settings;

/// A cluster in which nothing can be read.
struct Closed;

impl Lookup for Closed {
    fn get(&self, _: &ObjectRef) -> Answer {
        Err(Failure::Forbidden)
    }
}

impl Authorizer for Closed {
    fn allows(&self, _: &Question) -> Result<bool, String> {
        Err("try again".to_owned())
    }
}

fn author() -> Author {
    Author { user: "ann".to_owned(), groups: Vec::new() }
}

fn manifest() -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "s"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "containers": [{"name": "c", "image": "i:1"}]},
    })
}

fn sets(manifests: Vec<Value>) -> Vec<SidecarSet> {
    manifests.into_iter().map(|manifest| decode(manifest).unwrap().into_sidecar_set()).collect()
}

fn run(request: SidecarSetRequest, others: &[SidecarSet]) -> Outcome {
    let context = Context {
        others,
        settings: &Settings::default(),
        world: World { lookup: &Closed, authorizer: &Closed, now: Timestamp(0), elapsed: &Duration::default },
    };
    admit(request, &context)
}

fn create(object: Value) -> Outcome {
    let version = json::text(&object, &["apiVersion"]).rsplit('/').next().unwrap_or_default().to_owned();
    run(
        SidecarSetRequest { operation: Operation::Create, version, object, old_object: None, author: author() },
        &sets(vec![manifest()]),
    )
}

fn update(object: Value, old_object: Option<Value>) -> Outcome {
    let request = SidecarSetRequest {
        operation: Operation::Update,
        version: "v1beta1".to_owned(),
        object,
        old_object,
        author: author(),
    };
    run(request, &sets(vec![manifest()]))
}

fn mutated(outcome: Outcome) -> Value {
    match outcome.verdict {
        Verdict::Mutated(object) => object,
        other => panic!("{other:?}"),
    }
}

/// Returns the code and the fields of a refusal.
fn refused(outcome: &Outcome) -> (Code, Vec<String>) {
    match &outcome.verdict {
        Verdict::Refused(refusal) => (refusal.code(), refusal.reasons().map(|reason| reason.field.clone()).collect()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn idv8_modes_and_behaviours_are_stored_canonical_where_the_gate_is_on() {
    let mut object = manifest();
    object["spec"]["serviceAccountMode"] = json!("isolate");
    let request = |object| SidecarSetRequest {
        operation: Operation::Create,
        version: "v1beta1".to_owned(),
        object,
        old_object: None,
        author: author(),
    };
    let others = sets(vec![manifest()]);
    let gates = Gates { service_account_injection: true, ..Gates::default() };
    let context = Context {
        others: &others,
        settings: &Settings { gates, ..Settings::default() },
        world: World { lookup: &Closed, authorizer: &Closed, now: Timestamp(0), elapsed: &Duration::default },
    };
    let stored = mutated(admit(request(object.clone()), &context));
    assert_eq!(stored["spec"]["serviceAccountMode"], "Isolate");
    assert_eq!(refused(&create(object)), (Code::Invalid, vec!["spec.serviceAccountMode".to_owned()]), "IDV-1");
}

#[test]
fn def2_what_was_admitted_is_unchanged_when_it_comes_again() {
    let once = mutated(create(manifest()));
    assert_eq!(once["spec"]["containers"][0]["podInjectPolicy"], "BeforeAppContainer");
    assert_eq!(create(once.clone()).verdict, Verdict::Unchanged);
    assert_eq!(update(once.clone(), Some(once)).verdict, Verdict::Unchanged);
}

#[test]
fn hash1_hashes_are_written_whatever_the_user_put_there() {
    let clean = mutated(create(manifest()));
    let mut pasted = manifest();
    pasted["metadata"]["annotations"] = json!({names::HASH: "mine", "other": "stays"});
    let annotations = mutated(create(pasted))["metadata"]["annotations"].take();
    assert_eq!(annotations[names::HASH], clean["metadata"]["annotations"][names::HASH]);
    assert_eq!(annotations["other"], "stays");
    let hashes = hash::hashes(&clean["spec"]);
    assert_eq!(annotations[names::HASH], hashes.hash);
    assert_eq!(annotations[names::HASH_WITHOUT_IMAGE], hashes.without_image);
}

#[test]
fn answers_come_in_the_version_of_the_request_with_unknown_fields() {
    let mut object = manifest();
    object["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    object["spec"]["namespace"] = json!("default");
    object["spec"]["containers"][0]["future"] = json!({"a": 25});
    let outcome = create(object);
    assert!(
        outcome.warnings.iter().any(|text| text.starts_with("spec.containers[0].future")),
        "{:?}",
        outcome.warnings
    );
    let object = mutated(outcome);
    assert_eq!(object["apiVersion"], "apps.kruise.io/v1alpha1");
    assert_eq!(object["spec"]["namespace"], "default");
    assert_eq!(object["spec"]["containers"][0]["future"], json!({"a": 25}));
}

#[test]
fn a_set_that_nobody_will_inject_gets_a_warning() {
    let warning = |outcome: &Outcome| outcome.warnings.iter().any(|text| text.contains("will not be injected"));
    let mut stranger = manifest();
    stranger["metadata"]["name"] = json!("t");
    stranger["spec"]["selector"] = json!({"matchLabels": {"a": "c"}});
    assert!(!warning(&create(manifest())) && warning(&create(stranger.clone())));
    stranger["spec"]["selector"] = json!({});
    assert!(!warning(&create(stranger)), "a refusal says enough");
}

#[test]
fn def1_types_are_refused_with_every_field() {
    let mut object = manifest();
    object["spec"]["containers"] = json!([{"name": 1, "image": "i", "stdin": "yes"}]);
    let (code, mut fields) = refused(&create(object));
    fields.sort();
    assert_eq!(
        (code, fields),
        (Code::Undecodable, vec!["spec.containers[0].name".into(), "spec.containers[0].stdin".into()])
    );
}

#[rstest]
#[case::no_object(json!(null))]
#[case::text(json!("x"))]
#[case::another_kind(json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "Pod"}))]
#[case::another_group(json!({"apiVersion": "apps/v1beta1", "kind": "SidecarSet"}))]
#[case::def1_unsupported_version(json!({"apiVersion": "apps.kruise.io/v2", "kind": "SidecarSet"}))]
fn def1_other_objects_are_undecodable(#[case] object: Value) {
    assert_eq!(refused(&create(object)).0, Code::Undecodable);
}

#[rstest]
#[case::missing(None, "oldObject")]
#[case::wrong_type(Some(json!({"spec": {"containers": 1}})), "oldObject.spec.containers")]
#[case::another_version(Some(json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet"})), "oldObject.apiVersion")]
fn def1_updates_need_the_object_before_them(#[case] old: Option<Value>, #[case] field: &str) {
    assert_eq!(refused(&update(manifest(), old)), (Code::Undecodable, vec![field.to_owned()]));
}

#[test]
fn diff27_val1_every_error_is_reported_at_once_and_conflicts_only_when_there_is_none() {
    let mut object = manifest();
    object["metadata"]["name"] = json!("a.b");
    assert_eq!(refused(&create(object.clone())), (Code::Invalid, vec!["metadata.name".to_owned()]));
    object["spec"]["updateStrategy"] = json!({"partition": -1});
    let (code, fields) = refused(&create(object.clone()));
    assert_eq!((code, fields), (Code::Invalid, vec!["metadata.name".into(), "spec.updateStrategy.partition".into()]));
    object["metadata"]["name"] = json!("t");
    object["spec"]["updateStrategy"] = json!({});
    assert_eq!(refused(&create(object)), (Code::Invalid, vec!["spec.containers[0].name".to_owned()]));
}

#[test]
fn a_failed_look_up_asks_for_another_try_unless_the_object_is_wrong_anyway() {
    let mut object = manifest();
    object["spec"]["patchPodMetadata"] = json!([{"annotations": {"a": "b"}}]);
    assert_eq!(refused(&create(object.clone())), (Code::Unavailable, vec!["spec.patchPodMetadata".to_owned()]));
    object["spec"]["selector"] = json!({});
    assert_eq!(refused(&create(object)).0, Code::Invalid);
}

#[test]
fn val30_updates_are_compared_with_the_object_before() {
    let mut object = manifest();
    object["spec"]["containers"] = json!([{"name": "new", "image": "i:1"}]);
    assert_eq!(refused(&update(object, Some(manifest()))).1, ["spec.containers[0].name"]);
}

/// The API server makes the name after the webhooks that may change the object.
#[test]
fn val2_a_name_that_is_still_to_be_made_is_not_missing() {
    let mut object = manifest();
    object["metadata"] = json!({"generateName": "t-"});
    object["spec"]["containers"][0]["name"] = json!("other");
    let outcome = create(object.clone());
    assert!(outcome.warnings[0].starts_with("SidecarSet \"t-*\" is not among"), "{:?}", outcome.warnings);
    assert_eq!(mutated(outcome)["metadata"].get("name"), None);
    object["spec"]["selector"] = json!({});
    let Verdict::Refused(refusal) = create(object.clone()).verdict else { panic!("no selector") };
    assert!(refusal.message().starts_with("SidecarSet \"t-*\": spec.selector"), "{}", refusal.message());
    object["metadata"] = json!({});
    assert_eq!(refused(&create(object)).1, ["metadata.name", "spec.selector"]);
}

/// An edit that leaves the clash is refused, too: every Pod of both is. The init container can be renamed.
#[test]
fn val52_a_set_that_is_stored_with_a_clash_is_refused_until_it_is_gone() {
    let mut stored = manifest();
    stored["metadata"]["name"] = json!("t");
    stored["spec"]["containers"] = json!([{"name": "d", "image": "i:1"}]);
    stored["spec"]["initContainers"] = json!([{"name": "c", "image": "i:1"}]);
    let mut edited = stored.clone();
    edited["spec"]["containers"][0]["image"] = json!("i:2");
    let outcome = update(edited.clone(), Some(stored.clone()));
    let Verdict::Refused(refusal) = &outcome.verdict else { panic!("{outcome:?}") };
    assert_eq!(
        refusal.message(),
        "SidecarSet \"t\": spec.initContainers[0].name: Invalid value: \"c\": SidecarSet \"s\" has a container of this name for \
         the same Pods; rename the init container or change a selector"
    );
    edited["spec"]["initContainers"][0]["name"] = json!("renamed");
    mutated(update(edited.clone(), Some(stored.clone())));
    // Deleting it is a way out, too: it can lose its finalizers, and nothing else can change.
    stored["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    stored["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    let mut going = stored.clone();
    going["metadata"]["finalizers"] = json!([]);
    mutated(update(going, Some(stored.clone())));
    edited["spec"]["initContainers"][0]["name"] = json!("c");
    assert_eq!(refused(&update(edited, Some(stored))).1, ["spec.initContainers[0].name"]);
}

#[test]
fn names_of_the_request_stand_in_for_those_that_are_missing() {
    let mut object = manifest();
    object.as_object_mut().unwrap().remove("kind");
    object.as_object_mut().unwrap().remove("apiVersion");
    let request = SidecarSetRequest {
        operation: Operation::Create,
        version: "v1beta1".to_owned(),
        object,
        old_object: None,
        author: author(),
    };
    let object = mutated(run(request, &[]));
    assert_eq!((object.get("kind"), object.get("apiVersion")), (None, None));
}

/// Draws JSON of any shape with keys that the rules read.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec![-1_i64, 0, 1, 101, i64::MAX]).prop_map(Value::from),
        prop::sample::select(vec!["", "a", "Always", "1Gi", "-1m", "[", "cpu*", "RollingUpdate", "50%", "v1"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        let keys = prop::sample::select(vec![
            "metadata",
            "name",
            "annotations",
            "labels",
            "spec",
            "containers",
            "initContainers",
            "volumes",
            "image",
            "env",
            "valueFrom",
            "fieldRef",
            "resources",
            "limits",
            "cpu",
            "resourcesPolicy",
            "resourcesExpr",
            "updateStrategy",
            "type",
            "partition",
            "selector",
            "matchLabels",
            "matchExpressions",
            "operator",
            "patchPodMetadata",
            "injectionStrategy",
            "revision",
            "revisionName",
            "transferEnv",
            "hostPath",
            "sourceContainerNameFrom",
            "startupProbe",
            "httpGet",
            "ownerReferences",
            "upgradeStrategy",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(keys, inner, 0..6).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #[test]
    fn any_object_gets_an_answer_and_what_is_admitted_stays_as_it_is(metadata in any_json(), spec in any_json()) {
        let object = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": metadata, "spec": spec,
        });
        if let Verdict::Mutated(object) = create(object).verdict {
            prop_assert_eq!(create(object).verdict, Verdict::Unchanged);
        }
    }
}

#[test]
fn e18_a_set_has_a_length_unless_it_was_stored_longer() {
    let long = |length: usize| {
        let mut object = manifest();
        object["spec"]["containers"][0]["command"] = json!(["n".repeat(length)]);
        object
    };
    let problems = |outcome: Outcome| match outcome.verdict {
        Verdict::Refused(refusal) => refusal.reasons().map(|reason| reason.problem.clone()).collect(),
        _ => Vec::new(),
    };
    let too_long = ["Too long: may have at most 524288 bytes"];
    assert_eq!(problems(create(long(510_000))), [""; 0]);
    assert_eq!(problems(create(long(530_000))), too_long);
    assert_eq!(problems(update(long(530_000), Some(long(1)))), too_long);
    assert_eq!(problems(update(long(540_000), Some(long(530_000)))), [""; 0]);
}
