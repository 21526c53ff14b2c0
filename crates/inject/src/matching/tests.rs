//! Tests of a whole selection.

use pillion_kubernetes::outcome::Refusal;
use pillion_samples::lookups::FakeObjects;
use pillion_sidecarset::made;
use pillion_sidecarset::names;
use pillion_sidecarset::native::NativeSidecars;
use pillion_sidecarset::sidecar::List;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// Returns a cluster with the Namespaces `prod` and `dev`.
fn cluster() -> FakeObjects {
    let labelled = |name: &str| {
        Ok(Some(json!({"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, "env": name}}})))
    };
    FakeObjects::answering(Ok(None)).with("Namespace prod", labelled("prod")).with("Namespace dev", labelled("dev"))
}

fn set(name: &str, edit: &Value) -> SidecarSet {
    let mut spec = json!({"selector": {"matchLabels": {"app": "x"}}, "containers": [{"name": name, "image": "i:1"}]});
    let mut metadata = json!({"name": name});
    for (key, value) in edit.as_object().unwrap() {
        if key == "annotations" || key == "uid" { metadata[key] = value.clone() } else { spec[key] = value.clone() }
    }
    SidecarSet::from_decoded(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": metadata, "spec": spec
    }))
}

fn selected_from(
    cluster: &dyn Lookup,
    namespace: &str,
    pod: &Value,
    sets: &[SidecarSet],
    revisions: &[ControllerRevision],
    uid: &str,
) -> Result<Vec<SidecarSet>, String> {
    let compiled: Vec<CompiledSet<'_>> = sets.iter().map(CompiledSet::new).collect();
    let query = Query { pod: Pod::decode(pod).unwrap(), namespace, uid };
    let sources =
        Sources { revisions, system_namespace: "kruise-system", lookup: cluster, native_sidecars: NativeSidecars::Off };
    let Selection { sets, reasons, .. } = select(&compiled, query, sources);
    Refusal::from_reasons(reasons).map_or(Ok(sets), |refusal| Err(refusal.message()))
}

fn pod() -> Value {
    json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main"}]}})
}

fn selected(namespace: &str, sets: &[SidecarSet]) -> Vec<String> {
    let sets = selected_from(&cluster(), namespace, &pod(), sets, &[], "u").unwrap();
    sets.iter().map(|set| set.name().to_owned()).collect()
}

#[test]
fn e18_a_pod_gets_so_many_sets() {
    let sets: Vec<_> = (0..=SETS_MAX).map(|index| set(&format!("s{index:03}"), &json!({}))).collect();
    assert_eq!(selected("prod", &sets[1..]).len(), SETS_MAX);
    assert_eq!(
        selected_from(&cluster(), "prod", &pod(), &sets, &[], "u").unwrap_err(),
        "metadata.labels: 251 SidecarSets match the Pod; a Pod gets at most 250; narrow the selectors of the SidecarSets"
    );
}

/// The SidecarSets have so many containers and init containers.
#[rstest]
#[case::one_with_all(&[(125, 125)], None)]
#[case::one_with_more(&[(125, 126)], Some("s0"))]
#[case::two_with_all(&[(200, 0), (0, 50)], None)]
#[case::two_with_more(&[(200, 0), (0, 51), (1, 0)], Some("s1"))]
fn e18_a_pod_gets_so_many_sidecars(#[case] counts: &[(usize, usize)], #[case] refused: Option<&str>) {
    let list = |count: usize, name: &str| -> Value {
        (0..count).map(|index| json!({"name": format!("{name}-{index}"), "image": "i:1"})).collect()
    };
    let sets: Vec<_> = counts
        .iter()
        .enumerate()
        .map(|(index, (containers, init_containers))| {
            let lists = json!({
                "containers": list(*containers, &format!("c{index}")),
                "initContainers": list(*init_containers, &format!("i{index}")),
            });
            set(&format!("s{index}"), &lists)
        })
        .collect();
    let expected = refused.map(|name| {
        format!(
            "SidecarSet \"{name}\": spec.containers: with those of this SidecarSet, the Pod would get more than 250 containers \
             and init containers of SidecarSets; narrow the selectors of the SidecarSets, or give them fewer containers"
        )
    });
    assert_eq!(selected_from(&cluster(), "prod", &pod(), &sets, &[], "u").err(), expected);
}

#[test]
fn e18_a_base_that_its_canary_replaces_brings_no_sidecars() {
    let list = |name: &str| -> Value { (0..200).map(|index| json!({"name": format!("{name}-{index}")})).collect() };
    let canary = json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "a"});
    let sets = [
        set("a", &json!({"containers": list("a")})),
        set("b", &json!({"containers": list("b"), "annotations": canary})),
    ];
    assert_eq!(selected("prod", &sets), ["b"]);
}

#[rstest]
#[case::labels(json!({}), true)]
#[case::other_labels(json!({"selector": {"matchLabels": {"app": "y"}}}), false)]
#[case::empty_selector(json!({"selector": {}}), false)]
#[case::no_selector(json!({"selector": null}), false)]
#[case::paused(json!({"injectionStrategy": {"paused": true}}), false)]
#[case::namespace_by_name(json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "prod"}}}), true)]
#[case::another_namespace_by_name(
    json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "dev"}}}), false
)]
#[case::namespace_in_list(json!({"namespaceSelector": {"matchExpressions": [
    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["dev", "prod"]}
]}}), true)]
#[case::namespace_by_label(json!({"namespaceSelector": {"matchLabels": {"env": "prod"}}}), true)]
#[case::namespace_by_other_label(json!({"namespaceSelector": {"matchLabels": {"env": "dev"}}}), false)]
#[case::invalid_namespace_selector(
    json!({"namespaceSelector": {"matchExpressions": [{"key": "env", "operator": "Like"}]}}), false
)]
fn match6_matching(#[case] edit: Value, #[case] matches: bool) {
    let mut set = set("s", &edit);
    if let Some(spec) = set.as_value_mut()["spec"].as_object_mut() {
        spec.retain(|_, value| !value.is_null());
    }
    assert_eq!(selected("prod", &[set]).len(), usize::from(matches));
}

/// Whether a set uses its account in a namespace: neither labels of Pods nor a pause matter.
#[rstest]
#[case::everywhere(json!({}), "prod", true)]
#[case::other_labels(json!({"selector": {"matchLabels": {"app": "y"}}}), "prod", true)]
#[case::paused(json!({"injectionStrategy": {"paused": true}}), "prod", true)]
#[case::by_name(json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "prod"}}}), "prod", true)]
#[case::another_by_name(json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "dev"}}}), "prod", false)]
#[case::by_label(json!({"namespaceSelector": {"matchLabels": {"env": "prod"}}}), "prod", true)]
#[case::another_label(json!({"namespaceSelector": {"matchLabels": {"env": "dev"}}}), "prod", false)]
#[case::invalid(json!({"namespaceSelector": {"matchExpressions": [{"key": "env", "operator": "Like"}]}}), "prod", false)]
#[case::gone(json!({"namespaceSelector": {"matchLabels": {"env": "prod"}}}), "gone", false)]
fn mrg8_where_a_set_can_be(#[case] edit: Value, #[case] namespace: &str, #[case] can: bool) {
    let set = set("s", &edit);
    let set = CompiledSet::new(&set);
    assert_eq!(can_be_in(&set, namespace, &cluster()), Ok(can));
}

#[test]
fn mrg8_a_namespace_is_looked_up_only_for_its_labels() {
    let silent = FakeObjects::answering(Ok(None)).with("Namespace prod", Err(Failure::Timeout));
    let asked = |edit: &Value| can_be_in(&CompiledSet::new(&set("s", edit)), "prod", &silent);
    assert_eq!(asked(&json!({})), Ok(true));
    assert_eq!(
        asked(&json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "dev"}}})),
        Ok(false)
    );
    assert_eq!(silent.asked(), [""; 0]);
    assert_eq!(asked(&json!({"namespaceSelector": {"matchLabels": {"env": "prod"}}})), Err(Failure::Timeout));
}

#[test]
fn diff3_match5_bound_sets_come_first_then_cluster_wide_ones_each_by_name() {
    let bound =
        |name| set(name, &json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "prod"}}}));
    let sets = [set("b", &json!({})), bound("z"), set("a", &json!({})), bound("y")];
    assert_eq!(selected("prod", &sets), ["y", "z", "a", "b"]);
    assert_eq!(selected("dev", &sets), ["a", "b"]);
}

#[test]
fn match8_a_matching_canary_takes_its_base_out() {
    let canary = |edit: Value| {
        let mut spec = edit;
        spec["annotations"] =
            json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "base"});
        set("canary", &spec)
    };
    assert_eq!(selected("prod", &[set("base", &json!({})), canary(json!({}))]), ["canary"]);
    let paused = canary(json!({"injectionStrategy": {"paused": true}}));
    assert_eq!(selected("prod", &[set("base", &json!({})), paused]), ["base"]);
}

#[test]
fn match6_a_missing_namespace_is_no_match_and_an_unreadable_one_is_refused() {
    let sets = [set("s", &json!({"namespaceSelector": {"matchLabels": {"env": "prod"}}}))];
    assert_eq!(selected("gone", &sets), Vec::<String>::new());
    for (answer, says) in [
        (
            Err(Failure::Forbidden),
            "contextAwareResources must list v1 Namespace and hostCapabilities kubernetes/get_resource",
        ),
        (Err(Failure::Timeout), "try again"),
        (Ok(Some(json!("damaged"))), "try again"),
        (Ok(Some(json!({"metadata": {"name": "prod", "labels": []}}))), "try again"),
    ] {
        let cluster = FakeObjects::answering(Ok(None)).with("Namespace prod", answer);
        let message = selected_from(&cluster, "prod", &pod(), &sets, &[], "u").unwrap_err();
        assert!(message.contains("SidecarSet \"s\": spec.namespaceSelector") && message.contains(says), "{message}");
    }
}

#[test]
fn namespaces_are_looked_up_only_for_sets_whose_labels_match() {
    let cluster = cluster();
    let elsewhere = json!({
        "selector": {"matchLabels": {"app": "y"}}, "namespaceSelector": {"matchLabels": {"env": "prod"}}
    });
    let sets = [set("s", &elsewhere), set("t", &json!({}))];
    assert_eq!(selected_from(&cluster, "prod", &pod(), &sets, &[], "u").unwrap().len(), 1);
    assert_eq!(cluster.asked(), Vec::<String>::new());
}

#[rstest]
#[case::by_name(json!({"matchLabels": {"kubernetes.io/metadata.name": "prod"}}), true)]
#[case::by_names(json!({"matchExpressions": [
    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["dev", "prod"]}
]}), true)]
#[case::by_other_names(json!({"matchExpressions": [
    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["dev"]}
]}), true)]
#[case::not_by_its_name(json!({"matchExpressions": [
    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["dev", "prod"]}
]}), false)]
#[case::without_a_name(json!({"matchExpressions": [
    {"key": "kubernetes.io/metadata.name", "operator": "DoesNotExist"}
]}), false)]
#[case::every_namespace(json!({}), true)]
fn match6_a_selector_of_names_needs_no_lookup(#[case] selector: Value, #[case] matches: bool) {
    let cluster = FakeObjects::answering(Ok(None)).with("Namespace prod", Err(Failure::Timeout));
    let sets = [set("s", &json!({"namespaceSelector": selector}))];
    let found = selected_from(&cluster, "prod", &pod(), &sets, &[], "u").unwrap();
    assert_eq!((found.len() == 1, cluster.asked()), (matches, Vec::new()));
}

#[test]
fn match6_a_selector_of_names_and_labels_needs_the_namespace() {
    let labels = json!({"kubernetes.io/metadata.name": "prod", "env": "prod"});
    let sets = [set("s", &json!({"namespaceSelector": {"matchLabels": labels}}))];
    assert_eq!(selected("prod", &sets), ["s"]);
    let cluster = FakeObjects::answering(Ok(None)).with("Namespace prod", Err(Failure::Timeout));
    assert!(selected_from(&cluster, "prod", &pod(), &sets, &[], "u").is_err());
}

#[test]
fn an_invalid_selector_is_refused_where_its_namespace_matches() {
    let invalid = json!({"matchExpressions": [{"key": "app", "operator": "Like"}]});
    let message =
        selected_from(&cluster(), "prod", &pod(), &[set("s", &json!({"selector": invalid}))], &[], "u").unwrap_err();
    assert!(message.starts_with("SidecarSet \"s\": spec.selector.matchExpressions[0].operator"), "{message}");
    let elsewhere = json!({"selector": invalid, "namespaceSelector": {"matchLabels": {"env": "dev"}}});
    assert_eq!(selected("prod", &[set("s", &elsewhere)]), Vec::<String>::new());
}

/// Returns a revision of set `s` with the container `old`.
fn stored() -> ControllerRevision {
    ControllerRevision::decode(json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {"name": "s-1", "labels": {"kruise.io/sidecarset-name": "s"}},
        "data": {"spec": {"$patch": "replace", "containers": [{"name": "old", "image": "i:0"}], "volumes": null}}
    }))
    .unwrap()
}

fn revised(strategy: &Value, pod: &Value, uid: &str) -> Result<String, String> {
    let set = set(
        "s",
        &json!({
            "injectionStrategy": {"revision": {"revisionName": "s-1", "policy": "Partial"}}, "updateStrategy": strategy
        }),
    );
    let sets = selected_from(&cluster(), "prod", pod, &[set], &[stored()], uid)?;
    Ok(json::text(&sets[0].containers()[0], &["name"]).to_owned())
}

#[rstest]
#[case::inj3_paused(json!({"paused": true}), Ok("old"))]
#[case::inj4_no_partition(json!({}), Ok("s"))]
#[case::diff15_inj4_number(json!({"partition": 5}), Ok("s"))]
#[case::inj4_nothing_in_percent(json!({"partition": "0%"}), Ok("s"))]
#[case::inj4_everything_in_percent(json!({"partition": "100%"}), Ok("old"))]
#[case::inj4_not_selected(json!({"selector": {"matchLabels": {"app": "y"}}, "partition": "0%"}), Ok("old"))]
#[case::inj4_selected(json!({"selector": {"matchLabels": {"app": "x"}}, "partition": "0%"}), Ok("s"))]
#[case::inj4_no_percentage(json!({"partition": "5"}), Err("spec.updateStrategy.partition"))]
#[case::inj4_invalid_selector(
    json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}), Err("spec.updateStrategy.selector")
)]
fn partial_revisions(#[case] strategy: Value, #[case] expected: Result<&str, &str>) {
    match (revised(&strategy, &pod(), "u"), expected) {
        (Ok(name), Ok(expected)) => assert_eq!(name, expected),
        (Err(message), Err(expected)) => assert!(message.contains(expected), "{message}"),
        (outcome, _) => panic!("{outcome:?}"),
    }
}

#[rstest]
#[case::everything_in_percent(json!({"partition": "100%"}), "old")]
#[case::nothing_in_percent(json!({"partition": "0%"}), "s")]
#[case::no_partition(json!({}), "s")]
#[case::paused(json!({"paused": true}), "old")]
#[case::not_selected(json!({"selector": {"matchLabels": {"app": "y"}}}), "old")]
fn diff30_a_draw_between_the_latest_version_and_the_one_before(#[case] strategy: Value, #[case] expected: &str) {
    let partial = json!({"injectionStrategy": {"revision": {"policy": "Partial"}}, "updateStrategy": strategy});
    let injected = |revisions: &[ControllerRevision]| {
        let sets = selected_from(&cluster(), "prod", &pod(), &[set("s", &partial)], revisions, "u").unwrap();
        json::text(&sets[0].containers()[0], &["name"]).to_owned()
    };
    assert_eq!(injected(&[stored()]), expected);
    assert_eq!(injected(&[]), "s", "without an earlier version, every Pod gets the latest");
}

#[rstest]
#[case::whole("50%", Some(0.5))]
#[case::sign("+50%", Some(0.5))]
#[case::negative("-50%", Some(-0.5))]
#[case::no_fraction("5.%", Some(0.05))]
#[case::no_whole(".5%", Some(0.005))]
#[case::exponent("5E+1%", Some(0.5))]
#[case::digit_separators("1_0.2_5%", Some(0.1025))]
#[case::infinite("inf%", Some(f64::INFINITY))]
#[case::infinite_with_a_sign("-Infinity%", Some(f64::NEG_INFINITY))]
#[case::too_large("1e400%", None)]
#[case::not_a_number_with_a_sign("+nan%", None)]
#[case::no_number("%", None)]
#[case::point_alone(".%", None)]
#[case::exponent_alone("e5%", None)]
#[case::exponent_without_digits("1e%", None)]
#[case::two_points("1.2.3%", None)]
#[case::two_signs("--1%", None)]
#[case::separator_at_the_end("1_%", None)]
#[case::two_separators("1__0%", None)]
#[case::space(" 1%", None)]
#[case::no_percentage("50", None)]
fn inj4_a_partition_is_a_number_that_go_reads(#[case] text: &str, #[case] share: Option<f64>) {
    assert_eq!(chosen_revision::percentage(text), share);
}

/// Returns the Pod after the injection of these sets.
fn injected(sets: &[SidecarSet]) -> Value {
    let context = crate::Context {
        now: pillion_kubernetes::time::Timestamp(0),
        sort_by_name: false,
        hides_tokens: None,
        other_webhooks: None,
    };
    let mut pod = pod();
    let changes = crate::plan(Pod::decode(&pod.clone()).unwrap(), sets, context).unwrap();
    changes.apply(&mut pod);
    pod
}

#[test]
fn order2_inj4_a_draw_depends_on_the_uid_and_stands_once_its_containers_are_in_the_pod() {
    let half = json!({"partition": "50%"});
    let drawn = |pod: &Value, uid: &str| revised(&half, pod, uid).unwrap();
    let uid_of = |name: &str| (0..100).map(|n| n.to_string()).find(|uid| drawn(&pod(), uid) == name).unwrap();
    let (uid_old, uid_new) = (uid_of("old"), uid_of("s"));

    let set = set("s", &json!({"injectionStrategy": {"revision": {"revisionName": "s-1"}}}));
    let old = selected_from(&cluster(), "prod", &pod(), &[set], &[stored()], "u").unwrap();
    let injected = injected(&old);
    assert_eq!(drawn(&injected, &uid_new), "old");

    let mut annotations_only = pod();
    annotations_only["metadata"]["annotations"] = injected["metadata"]["annotations"].clone();
    assert_eq!(drawn(&annotations_only, &uid_new), "s");
    assert_eq!(drawn(&annotations_only, &uid_old), "old");
}

#[test]
fn inj6_history_keeps_metadata_and_takes_spec_hashes_and_revision() {
    let set = set(
        "s",
        &json!({
            "annotations": {"team": "a", (names::HASH): "current"}, "volumes": [{"name": "v"}],
            "injectionStrategy": {"revision": {"revisionName": "s-1"}}
        }),
    );
    let old = selected_from(&cluster(), "prod", &pod(), &[set], &[stored()], "u").unwrap().remove(0);
    assert_eq!(old.annotation("team"), "a");
    assert_eq!(old.hash(), pillion_sidecarset::hash::hashes(old.spec(&[]).unwrap()).hash);
    assert_eq!(json::text(old.as_value(), &["status", "latestRevision"]), "s-1");
    assert_eq!((old.volumes().len(), json::text(&old.containers()[0], &["name"])), (0, "old"));
}

fn names_of(pod: &Value) -> Vec<&str> {
    json::items(pod, &["spec", "containers"]).iter().map(|container| json::text(container, &["name"])).collect()
}

/// A revision in the bundle is looked up neither in the settings nor in the cluster, and the Pod is the same.
#[rstest]
#[case::by_name(json!({"revisionName": "s-1"}))]
#[case::by_version(json!({"customVersion": "v1"}))]
fn rev9_a_revision_of_the_bundle_comes_first(#[case] revision: Value) {
    let plain = set("s", &json!({"uid": "u1", "injectionStrategy": {"revision": revision}}));
    let mut versioned = stored().as_value().clone();
    versioned["metadata"]["labels"][names::CUSTOM_VERSION_LABEL] = json!("v1");
    let revision = ControllerRevision::decode(versioned).unwrap();
    let found = std::slice::from_ref(&revision);
    let by_settings = selected_from(&cluster(), "prod", &pod(), std::slice::from_ref(&plain), found, "u").unwrap();
    let text = pillion_bundle::write(&[plain.with_revision(&revision)]);
    let bundled = pillion_bundle::Bundle::read(text.as_bytes()).unwrap().sets().unwrap();
    let cluster = cluster();
    let by_bundle = selected_from(&cluster, "prod", &pod(), &bundled, &[], "u").unwrap();
    assert_eq!(injected(&by_bundle), injected(&by_settings));
    assert_eq!(names_of(&injected(&by_bundle)), ["main", "old"]);
    assert_eq!(cluster.asked(), [""; 0]);
}

#[test]
fn inj2_a_revision_that_is_not_there_is_refused() {
    let set = set("s", &json!({"injectionStrategy": {"revision": {"revisionName": "s-9"}}}));
    let message = selected_from(&cluster(), "prod", &pod(), &[set], &[], "u").unwrap_err();
    assert!(message.contains("spec.injectionStrategy.revision.revisionName") && message.contains("s-9"), "{message}");
}

/// Returns the list in which the only sidecar of a SidecarSet with this annotation is, in a Pod with this restart policy.
fn form(annotation: &str, setting: NativeSidecars, restart_policy: &str) -> Result<List, String> {
    let set = set("s", &json!({"annotations": {"pillion.dev/native": annotation}, "containers": [{"name": "c"}]}));
    let mut pod = pod();
    pod["spec"]["restartPolicy"] = json!(restart_policy);
    let compiled = [CompiledSet::new(&set)];
    let query = Query { pod: Pod::decode(&pod).unwrap(), namespace: "prod", uid: "u" };
    let cluster = cluster();
    let sources =
        Sources { revisions: &[], system_namespace: "kruise-system", lookup: &cluster, native_sidecars: setting };
    let Selection { sets, reasons, .. } = select(&compiled, query, sources);
    match Refusal::from_reasons(reasons) {
        Some(refusal) => Err(refusal.message()),
        None => Ok(made::sidecars(&sets[0]).next().unwrap().0),
    }
}

#[rstest]
#[case::nothing("", NativeSidecars::Off, "Never", List::Containers)]
#[case::a_pod_that_ends("EndingPods", NativeSidecars::Off, "OnFailure", List::Init)]
#[case::a_pod_that_does_not_end("EndingPods", NativeSidecars::Off, "Always", List::Containers)]
#[case::every_pod("Always", NativeSidecars::Off, "Always", List::Init)]
#[case::the_setting("", NativeSidecars::EndingPods, "Never", List::Init)]
#[case::the_annotation_wins("Off", NativeSidecars::Always, "Never", List::Containers)]
fn nat1_the_form_depends_on_the_annotation_the_setting_and_the_pod(
    #[case] annotation: &str,
    #[case] setting: NativeSidecars,
    #[case] restart_policy: &str,
    #[case] expected: List,
) {
    assert_eq!(form(annotation, setting, restart_policy), Ok(expected));
}

#[test]
fn nat1_an_annotation_that_cannot_be_read_refuses_the_pod() {
    let message = form("Sometimes", NativeSidecars::Off, "Always").unwrap_err();
    assert!(
        message.contains(
            "SidecarSet \"s\": metadata.annotations[pillion.dev/native]: Unsupported value: supported \
             values: \"Off\", \"EndingPods\", \"Always\"; correct the annotation"
        ),
        "{message}"
    );
}
