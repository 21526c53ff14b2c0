//! Tests of the texts of explanations.

use pillion_admission::settings::Settings;
use pillion_kubernetes::lookup::{Answer, Failure, Lookup, ObjectRef};
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::controller_revision::ControllerRevision;
use rstest::rstest;
use serde_json::{Value, json};

use super::chosen_revision::Why;
use super::parts::Fate;
use super::*;

/// A cluster with the Namespaces `prod` and `dev`, which have labels, and `broken`, which cannot be read.
pub(super) struct Cluster;

impl Lookup for Cluster {
    fn get(&self, object: &ObjectRef) -> Answer {
        match (object.kind, object.name.as_str()) {
            ("Namespace", name @ ("prod" | "dev")) => Ok(Some(json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, "env": name}}
            }))),
            ("Namespace", "broken") => Err(Failure::Timeout),
            _ => Ok(None),
        }
    }
}

pub(super) fn settings(revisions: &[ControllerRevision]) -> Settings {
    Settings { controller_revisions: revisions.to_vec(), ..Settings::default() }
}

pub(super) fn context<'a>(settings: &'a Settings, sidecar_sets: &'a [SidecarSet]) -> Context<'a> {
    Context { settings, sidecar_sets, lookup: &Cluster, now: Timestamp(0) }
}

/// Returns a revision of set `s` that contains the container `old`.
pub(super) fn stored() -> ControllerRevision {
    ControllerRevision::decode(json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {"name": "s-1", "labels": {"kruise.io/sidecarset-name": "s"}},
        "data": {"spec": {"$patch": "replace", "containers": [{"name": "old", "image": "i:0"}]}}
    }))
    .unwrap()
}

/// Returns a set that selects `app=web`, with the fields of `edit` added to its spec; `annotations` go into its
/// metadata.
fn set(name: &str, edit: &Value) -> SidecarSet {
    let mut set = json!({
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": name, "image": "i:1"}]}
    });
    for (key, value) in edit.as_object().unwrap() {
        let parent = if key == "annotations" { "metadata" } else { "spec" };
        set[parent][key] = value.clone();
    }
    SidecarSet::from_decoded(set)
}

fn pod() -> Value {
    json!({"metadata": {"name": "p", "labels": {"app": "web", "tier": "be"}}, "spec": {"containers": [{"name": "main"}]}})
}

fn explained(namespace: &str, pod: &Value, sets: &[SidecarSet]) -> Explanation {
    explain(PodRequest { uid: "u", namespace, object: pod }, context(&settings(&[stored()]), sets))
}

fn findings(decision: &Decision) -> Vec<Finding> {
    match decision {
        Decision::NotInjected(findings) | Decision::Refused(findings) => findings.clone(),
        Decision::Injected(_) | Decision::Withheld(_) => Vec::new(),
    }
}

/// Returns the findings about the only set, in namespace `prod`.
fn said(edit: &Value) -> Vec<String> {
    let explanation = explained("prod", &pod(), &[set("s", edit)]);
    findings(&explanation.sets[0].decision)
        .iter()
        .map(|finding| format!("{} {} {finding}", finding.kind.rule(), finding.kind.name()))
        .collect()
}

#[rstest]
#[case::label_value(
    json!({"selector": {"matchLabels": {"app": "api"}}}),
    &[r#"MATCH-6 PodLabel spec.selector.matchLabels[app]: Pod has "web", wanted "api""#]
)]
#[case::label_absent(
    json!({"selector": {"matchLabels": {"App": "web"}}}),
    &[r#"MATCH-6 PodLabel spec.selector.matchLabels[App]: Pod has no label "App" (it has app=web, tier=be), wanted "web""#]
)]
#[case::every_requirement_that_fails(
    json!({"selector": {"matchLabels": {"app": "web", "tier": "fe"}, "matchExpressions": [
        {"key": "app", "operator": "Exists"},
        {"key": "app", "operator": "NotIn", "values": ["web"]},
        {"key": "tier", "operator": "In", "values": ["x", "y"]},
        {"key": "tier", "operator": "NotIn", "values": ["be", "fe"]},
        {"key": "tier", "operator": "DoesNotExist"},
        {"key": "gone", "operator": "Exists"},
    ]}}),
    &[
        r#"MATCH-6 PodLabel spec.selector.matchLabels[tier]: Pod has "be", wanted "fe""#,
        r#"MATCH-6 PodLabel spec.selector.matchExpressions[1]: Pod has app="web", wanted not "web""#,
        r#"MATCH-6 PodLabel spec.selector.matchExpressions[2]: Pod has tier="be", wanted one of "x", "y""#,
        r#"MATCH-6 PodLabel spec.selector.matchExpressions[3]: Pod has tier="be", wanted none of "be", "fe""#,
        r#"MATCH-6 PodLabel spec.selector.matchExpressions[4]: Pod has tier="be", wanted no such label"#,
        r#"MATCH-6 PodLabel spec.selector.matchExpressions[5]: Pod has no label "gone" (it has app=web, tier=be), wanted any value"#,
    ]
)]
#[case::empty_selector(
    json!({"selector": {}}), &["MATCH-6 SelectorEmpty spec.selector: is empty, which selects no Pod"]
)]
#[case::paused_and_more(
    json!({"injectionStrategy": {"paused": true}, "selector": {"matchLabels": {"app": "api"}}}),
    &[
        "MATCH-6 Paused spec.injectionStrategy.paused: injection is paused",
        r#"MATCH-6 PodLabel spec.selector.matchLabels[app]: Pod has "web", wanted "api""#,
    ]
)]
#[case::another_namespace(
    json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "dev", "env": "dev"}}}),
    &[
        r#"MATCH-4 OtherNamespace spec.namespaceSelector.matchLabels[kubernetes.io/metadata.name]: the namespace is "prod", wanted "dev""#,
        r#"MATCH-6 NamespaceLabel spec.namespaceSelector.matchLabels[env]: Namespace "prod" has "prod", wanted "dev""#,
    ]
)]
#[case::other_namespaces(
    json!({"namespaceSelector": {"matchExpressions": [
        {"key": "env", "operator": "Exists"},
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]},
    ]}}),
    &[r#"MATCH-4 OtherNamespace spec.namespaceSelector.matchExpressions[1]: the namespace is "prod", wanted one of "a", "b""#]
)]
#[case::namespace_label(
    json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}),
    &[
        r#"MATCH-6 NamespaceLabel spec.namespaceSelector.matchLabels[team]: Namespace "prod" has no label "team" (it has env=prod, kubernetes.io/metadata.name=prod), wanted "a""#,
    ]
)]
#[case::namespace_selector_that_nobody_understands(
    json!({"namespaceSelector": {"matchExpressions": [{"key": "env", "operator": "Like"}]}}),
    &[
        r#"MATCH-6 NamespaceSelectorInvalid spec.namespaceSelector.matchExpressions[0].operator: cannot be understood, which selects no namespace: supported values: "In", "NotIn", "Exists", "DoesNotExist""#,
    ]
)]
#[case::selector_that_nobody_understands(
    json!({"selector": {"matchExpressions": [{"key": "env", "operator": "Like"}]}}),
    &[
        r#"MATCH-6 SelectorInvalid spec.selector.matchExpressions[0].operator: Unsupported value: supported values: "In", "NotIn", "Exists", "DoesNotExist""#,
    ]
)]
#[case::no_such_revision(
    json!({"injectionStrategy": {"revision": {"customVersion": "v9"}}}),
    &[
        r#"INJ-2 Revision spec.injectionStrategy.revision.customVersion: no ControllerRevision of this SidecarSet with customVersion "v9" is in the settings; add it to controllerRevisions, or use revisionName"#,
    ]
)]
#[case::no_percentage(
    json!({"injectionStrategy": {"revision": {"revisionName": "s-1", "policy": "Partial"}}, "updateStrategy": {"partition": "5"}}),
    &[r#"INJ-4 UpdateStrategy spec.updateStrategy.partition: "5" is not a percentage"#]
)]
#[case::name_taken(
    json!({"containers": [{"name": "main", "image": "i:1"}]}),
    &[r#"DIFF-4 NameTaken spec.containers[0].name: sidecar "main" has the name of a container of the Pod"#]
)]
#[case::resources(
    json!({"containers": [{"name": "c", "image": "i:1", "resourcesPolicy": {
        "targetContainersMode": "sum", "targetContainersNameRegex": "^x$", "resourcesExpr": {"limits": {"cpu": "cpu"}}
    }}]}),
    &[
        r#"INJ-14 ResourcesPolicy spec.containers[0].resourcesPolicy.targetContainersNameRegex: no containers match the regex pattern "^x$""#,
    ]
)]
fn reasons_name_the_field_what_is_there_and_what_is_wanted(#[case] edit: Value, #[case] expected: &[&str]) {
    assert_eq!(said(&edit), expected);
}

#[rstest]
#[case::is_not_known("gone", json!({}), "NamespaceNotFound", r#"spec.namespaceSelector: Namespace "gone" is not known, wanted one with env=prod"#)]
#[case::is_not_readable("broken", json!({}), "NamespaceUnreadable", "spec.namespaceSelector: Namespace \"broken\" could not be read: no answer in time")]
#[case::does_not_matter("broken", json!({"selector": {"matchLabels": {"app": "api"}}}), "PodLabel", r#"spec.selector.matchLabels[app]: Pod has "web", wanted "api""#)]
fn match6_a_namespace_that(
    #[case] namespace: &str,
    #[case] mut edit: Value,
    #[case] kind: &str,
    #[case] expected: &str,
) {
    edit["namespaceSelector"] = json!({"matchLabels": {"env": "prod"}});
    let explanation = explained(namespace, &pod(), &[set("s", &edit)]);
    let found = findings(&explanation.sets[0].decision);
    assert_eq!(found.iter().map(|finding| finding.kind.name()).collect::<Vec<_>>(), [kind]);
    assert_eq!(found[0].to_string(), expected);
}

#[test]
fn findings_say_what_to_do() {
    let found = |edit: Value| findings(&explained("prod", &pod(), &[set("s", &edit)]).sets[0].decision).remove(0);
    let label = found(json!({"selector": {"matchLabels": {"app": "api"}}}));
    assert_eq!((label.wanted.as_str(), label.found.as_deref()), ("app=api", Some("web")));
    assert_eq!(label.remedy, "label the Pod or its template app=api, or change the selector");
    let expression = json!({"key": "team", "operator": "Exists"});
    let absent = found(json!({"selector": {"matchExpressions": [expression]}}));
    assert_eq!((absent.wanted.as_str(), absent.found), ("team", None));
    let taken = found(json!({"containers": [{"name": "main", "image": "i:1"}]}));
    assert_eq!(taken.remedy, "rename the Pod's \"main\" or the sidecar");
}

#[test]
fn sets_stand_in_the_order_of_injection() {
    let bound = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "prod"}}});
    let other = json!({"selector": {"matchLabels": {"app": "api"}}});
    let sets = [set("b", &other), set("z", &bound), set("a", &json!({}))];
    let explanation = explained("prod", &pod(), &sets);
    let names: Vec<_> = explanation.sets.iter().map(|set| set.name.as_str()).collect();
    assert_eq!(names, ["z", "a", "b"]);
}

#[test]
fn match8_a_base_gives_way_to_its_canary() {
    let canary = |paused: bool| {
        set(
            "c",
            &json!({
                "annotations": {"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "b"},
                "injectionStrategy": {"paused": paused}
            }),
        )
    };
    let decision = |paused| explained("prod", &pod(), &[set("b", &json!({})), canary(paused)]).sets.remove(0).decision;
    let found = findings(&decision(false));
    assert_eq!(found[0].kind, finding::Kind::Canary);
    assert_eq!(found[0].problem, "its canary \"c\" matches the Pod too and takes its place");
    assert!(matches!(decision(true), Decision::Injected(_)));
}

#[rstest]
#[case::opt2_is_left_out(
    "prod",
    "s",
    "OPT-2 OptedOut metadata.annotations[pillion.dev/opt-out-of]: of the Pod leaves \"s\" out, which the SidecarSet allows"
)]
#[case::opt3_asks_a_namespace_that_cannot_be_read(
    "broken",
    "",
    "MATCH-6 NamespaceUnreadable metadata.annotations[pillion.dev/opt-out]: Namespace \"broken\" could not be read: no answer in time"
)]
fn a_set_that_may_be_left_out(#[case] namespace: &str, #[case] of_pod: &str, #[case] expected: &str) {
    let mut pod = pod();
    pod["metadata"]["annotations"] = json!({"pillion.dev/opt-out-of": of_pod});
    let allowed = set("s", &json!({"annotations": {"pillion.dev/opt-out": "Allowed"}}));
    let found = findings(&explained(namespace, &pod, &[allowed]).sets[0].decision);
    let said: Vec<String> =
        found.iter().map(|finding| format!("{} {} {finding}", finding.kind.rule(), finding.kind.name())).collect();
    assert_eq!(said, [expected]);
}

#[test]
fn sets_without_fault_are_withheld_while_another_refuses() {
    let clash = set("x", &json!({"containers": [{"name": "main", "image": "i:1"}]}));
    let explanation = explained("prod", &pod(), &[set("s", &json!({})), clash]);
    assert!(matches!(explanation.sets[0].decision, Decision::Withheld(_)));
    assert!(matches!(explanation.sets[1].decision, Decision::Refused(_)));
}

#[rstest]
#[case::match2_deleted(
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    "metadata.deletionTimestamp: the Pod is being deleted, which leaves it as it is"
)]
#[case::inj13_records(
    json!({"metadata": {"labels": {"app": "web"}, "annotations": {"kruise.io/sidecarset-hash": "["}}}),
    "metadata.annotations[kruise.io/sidecarset-hash]: cannot be read: it must be a JSON object of records by SidecarSet"
)]
#[case::undecodable(json!({"spec": []}), "spec: must be an object, found a list")]
fn what_is_about_the_pod_is_said_of_the_pod(#[case] edit: Value, #[case] expected: &str) {
    let mut pod = pod();
    for (key, value) in edit.as_object().unwrap() {
        pod[key] = value.clone();
    }
    let explanation = explained("prod", &pod, &[set("s", &json!({}))]);
    assert_eq!(explanation.pod.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    assert!(explanation.sets.iter().all(|set| !matches!(set.decision, Decision::Injected(_))));
}

#[test]
fn match2_the_status_of_a_manifest_says_nothing() {
    let mut pod = pod();
    pod["status"] = json!({"phase": "Succeeded"});
    let explanation = explained("prod", &pod, &[set("s", &json!({}))]);
    assert_eq!(explanation.pod, []);
    assert!(matches!(explanation.sets[0].decision, Decision::Injected(_)));
}

fn injection(pod: &Value, edit: &Value) -> Injection {
    let mut explanation = explained("prod", pod, &[set("s", edit)]);
    match explanation.sets.remove(0).decision {
        Decision::Injected(injection) => injection,
        decision => panic!("{decision:?}"),
    }
}

#[rstest]
#[case::inj1(json!({}), None, "spec.injectionStrategy.revision names none")]
#[case::inj5(json!({"revision": {"revisionName": "s-1"}}), Some("s-1"), "spec.injectionStrategy.revision asks for it")]
#[case::inj3(
    json!({"revision": {"revisionName": "s-1", "policy": "Partial"}, "update": {"paused": true}}),
    Some("s-1"), "spec.updateStrategy.paused is true"
)]
#[case::inj4_not_selected(
    json!({"revision": {"revisionName": "s-1", "policy": "Partial"}, "update": {"selector": {"matchLabels": {"app": "api"}}}}),
    Some("s-1"), r#"spec.updateStrategy.selector.matchLabels[app]: Pod has "web", wanted "api""#
)]
#[case::inj4_number(
    json!({"revision": {"revisionName": "s-1", "policy": "Partial"}, "update": {"partition": 3}}),
    None, "policy Partial, and spec.updateStrategy.partition is no percentage"
)]
#[case::inj4_drawn(
    json!({"revision": {"revisionName": "s-1", "policy": "Partial"}, "update": {"partition": "100%"}}),
    Some("s-1"), "100% of Pods get the stored revision; this request's uid draws 81.4%"
)]
#[case::diff30_not_drawn(
    json!({"revision": {"policy": "Partial"}, "update": {"partition": "0%"}}),
    None, "0% of Pods get the stored revision; this request's uid draws 81.4%"
)]
#[case::diff30_drawn(
    json!({"revision": {"policy": "Partial"}, "update": {"partition": "100%"}}),
    Some("s-1"), "100% of Pods get the stored revision; this request's uid draws 81.4%"
)]
fn the_revision_and_why(#[case] strategy: Value, #[case] stored: Option<&str>, #[case] why: &str) {
    let edit = json!({"injectionStrategy": {"revision": strategy["revision"]}, "updateStrategy": strategy["update"]});
    let revision = injection(&pod(), &edit).matched.revision;
    assert_eq!((revision.stored.as_deref(), revision.why.to_string().as_str()), (stored, why));
}

#[rstest]
#[case::drawn(json!({"partition": "100%"}), "no earlier version of this SidecarSet is known")]
#[case::paused(json!({"paused": true}), "no earlier version of this SidecarSet is known")]
#[case::not_selected(json!({"selector": {"matchLabels": {"app": "api"}}}), "no earlier version of this SidecarSet is known")]
#[case::not_drawn(json!({"partition": "0%"}), "0% of Pods get the stored revision; this request's uid draws 81.4%")]
fn diff30_a_pod_gets_the_latest_version_if_there_is_no_earlier_one(#[case] strategy: Value, #[case] why: &str) {
    let edit = json!({"injectionStrategy": {"revision": {"policy": "Partial"}}, "updateStrategy": strategy});
    let sets = [set("s", &edit)];
    let explanation =
        explain(PodRequest { uid: "u", namespace: "prod", object: &pod() }, context(&Settings::default(), &sets));
    let Decision::Injected(injection) = &explanation.sets[0].decision else { panic!("{:?}", explanation.sets[0]) };
    let revision = &injection.matched.revision;
    assert_eq!((revision.stored.as_deref(), revision.why.to_string().as_str()), (None, why));
}

#[test]
fn inj4_the_revision_that_the_pod_was_injected_with_stands() {
    let edit = |partition: &str| {
        json!({
            "injectionStrategy": {"revision": {"revisionName": "s-1", "policy": "Partial"}},
            "updateStrategy": {"partition": partition}
        })
    };
    let explanation = explained("prod", &pod(), &[set("s", &edit("100%"))]);
    let Verdict::Mutated(old) = explanation.outcome.verdict else { panic!() };
    let revision = injection(&old, &edit("1%")).matched.revision;
    assert_eq!((revision.stored.as_deref(), revision.why), (Some("s-1"), Why::Standing));
}

#[test]
fn parts_say_what_becomes_of_them() {
    let edit = json!({
        "initContainers": [
            {"name": "setup", "image": "i:1"}, {"name": "net", "image": "i:1", "restartPolicy": "Always"}
        ],
        "containers": [
            {"name": "log", "image": "i:1", "podInjectPolicy": "BeforeAppContainer", "volumeMounts": [
                {"name": "own", "mountPath": "/a"}, {"name": "data", "mountPath": "/b"}
            ]},
            {"name": "mesh", "image": "i:1",
             "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e:1"}},
        ],
        "volumes": [
            {"name": "own", "emptyDir": {}}, {"name": "data", "hostPath": {"path": "/x"}}, {"name": "unused", "emptyDir": {}}
        ],
        "imagePullSecrets": [{"name": "new"}, {"name": "had"}],
        "patchPodMetadata": [
            {"patchPolicy": "Retain", "annotations": {"kept": "set's", "added": "v"}},
            {"patchPolicy": "Overwrite", "annotations": {"written": "set's", "same": "v"}},
        ]
    });
    let mut pod = pod();
    pod["metadata"]["annotations"] = json!({"kept": "pod's", "written": "pod's", "same": "v"});
    pod["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
    pod["spec"]["imagePullSecrets"] = json!([{"name": "had"}]);
    let parts = injection(&pod, &edit).parts;
    let containers: Vec<_> = parts
        .containers
        .iter()
        .map(|part| (part.name.as_str(), part.half_of.as_deref(), part.is_native, part.index, part.of, part.fate))
        .collect();
    assert_eq!(
        containers,
        [
            ("setup", None, false, 1, 2, Fate::Added),
            ("net", None, true, 0, 2, Fate::Added),
            ("log", None, false, 0, 4, Fate::Added),
            ("mesh-1", Some("mesh"), false, 1, 4, Fate::Added),
            ("mesh-2", Some("mesh"), false, 2, 4, Fate::Added),
        ]
    );
    let fates =
        |parts: &[parts::Part]| parts.iter().map(|part| (part.name.clone(), part.fate.name())).collect::<Vec<_>>();
    let named = |parts: &[(&str, &'static str)]| {
        parts.iter().map(|(name, fate)| ((*name).to_owned(), *fate)).collect::<Vec<_>>()
    };
    assert_eq!(fates(&parts.volumes), named(&[("own", "Added"), ("data", "Shadowed"), ("unused", "Unused")]));
    assert_eq!(fates(&parts.pull_secrets), named(&[("new", "Added"), ("had", "Kept")]));
    assert_eq!(
        fates(&parts.annotations),
        named(&[("added", "Added"), ("kept", "Shadowed"), ("same", "Kept"), ("written", "Replaced")])
    );
}

#[test]
fn admitting_again_keeps_what_is_there_and_replaces_what_differs() {
    let first = explained("prod", &pod(), &[set("s", &json!({}))]);
    let Verdict::Mutated(mut injected) = first.outcome.verdict else { panic!() };
    let again = injection(&injected, &json!({})).parts;
    assert!(again.are_there(), "{again:?}");
    injected["spec"]["containers"][0]["image"] = json!("evil");
    let repaired = injection(&injected, &json!({})).parts;
    assert_eq!(repaired.containers[0].fate, Fate::Replaced);
    assert!(!repaired.are_there());
}
