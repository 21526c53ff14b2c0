use rstest::rstest;
use serde_json::{Value, json};

use super::super::{canary, update, validate, validate_manifest};
use super::{collect, container, paths, set, with_spec};

/// Returns a container that Pods get as a hot-upgrade pair.
fn hot(name: &str, fields: Value) -> Value {
    let mut hot = container(name, fields);
    hot["upgradeStrategy"] = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    hot
}

#[test]
fn val14_errors_name_what_is_made() {
    let long = "a".repeat(62);
    let errors = validate(&with_spec(
        json!({"containers": [hot(&long, json!({})), container("b-1", json!({}))], "initContainers": [
            hot("b", json!({"restartPolicy": "Always"}))
        ]}),
    ));
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            format!(
                "spec.containers[0].name: Invalid value: \"{long}\": HotUpgrade makes the containers \"{long}-1\" and \
                 \"{long}-2\", whose names have 64 characters; a container's name has at most 63, so use at most 61 characters, \
                 or upgradeType ColdUpgrade"
            ),
            "spec.containers[1].name: Invalid value: \"b-1\": HotUpgrade makes the container \"b-1\" of \"b\", and \
             spec.initContainers[0] makes another one of this name; rename one of them"
                .to_owned()
        ]
    );
}

#[test]
fn a_valid_set_has_no_errors() {
    assert_eq!(validate_manifest(&with_spec(json!({}))), []);
}

#[test]
fn val2_nothing_makes_the_name_of_a_manifest() {
    let manifest = set("a", json!({"metadata": {"name": null, "generateName": "a-"}}));
    assert_eq!(paths(&validate_manifest(&manifest)), ["metadata.name"]);
}

#[rstest]
#[case::name(json!({"name": "a-B-9"}), &[])]
#[case::dashes_at_the_ends(json!({"name": "-a-"}), &[])]
#[case::dots(json!({"name": "a.b"}), &["metadata.name"])]
#[case::underscore(json!({"name": "Bad_Name"}), &["metadata.name"])]
#[case::no_name(json!({"name": null}), &["metadata.name"])]
#[case::no_name_yet(json!({"name": null, "generateName": "a-"}), &[])]
#[case::long_name(json!({"name": "a".repeat(64)}), &["metadata.name"])]
#[case::long_and_wrong_name(json!({"name": ".".repeat(64)}), &["metadata.name", "metadata.name"])]
#[case::generate_name(json!({"generateName": "a_"}), &["metadata.generateName"])]
#[case::namespace(json!({"namespace": "default"}), &["metadata.namespace"])]
#[case::generation(json!({"generation": -1}), &["metadata.generation"])]
#[case::label_key(json!({"labels": {"a b": "c"}}), &["metadata.labels"])]
#[case::label_value(json!({"labels": {"a": "-"}}), &["metadata.labels"])]
#[case::annotation_key(json!({"annotations": {"a b": "anything goes"}}), &["metadata.annotations"])]
#[case::annotation_keys_have_no_case(json!({"annotations": {"Example.COM/a": "b"}}), &[])]
#[case::annotation_size(json!({"annotations": {"a": "x".repeat(262_144)}}), &["metadata.annotations"])]
#[case::annotation_size_that_fits(json!({"annotations": {"a": "x".repeat(262_143)}}), &[])]
#[case::owner(json!({"ownerReferences": [{"apiVersion": "a/v1", "kind": "K", "name": "n", "uid": "u"}]}), &[])]
#[case::empty_owner(
    json!({"ownerReferences": [{}]}),
    &["metadata.ownerReferences[0].apiVersion", "metadata.ownerReferences[0].kind", "metadata.ownerReferences[0].name", "metadata.ownerReferences[0].uid"]
)]
#[case::owner_of_no_version(
    json!({"ownerReferences": [{"apiVersion": "a/b/c", "kind": "K", "name": "n", "uid": "u"}]}),
    &["metadata.ownerReferences[0].apiVersion"]
)]
#[case::owned_by_an_event(
    json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "n", "uid": "u"}]}),
    &["metadata.ownerReferences[0]"]
)]
#[case::two_controllers(
    json!({"ownerReferences": [
        {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": true},
        {"apiVersion": "v1", "kind": "K", "name": "m", "uid": "w", "controller": true},
    ]}),
    &["metadata.ownerReferences[1].controller"]
)]
#[case::finalizers(json!({"finalizers": ["a", "b c"]}), &["metadata.finalizers[1]"])]
#[case::finalizers_that_exclude_each_other(json!({"finalizers": ["orphan", "foregroundDeletion"]}), &["metadata.finalizers"])]
#[case::managed_fields(
    json!({"managedFields": [
        {"operation": "Apply", "manager": "kubectl"},
        {"operation": "Delete", "fieldsType": "V2", "manager": "a\nb", "subresource": "x".repeat(257)},
        {"operation": "Update", "manager": "m".repeat(129)},
    ]}),
    &["metadata.managedFields[1].operation", "metadata.managedFields[1].fieldsType", "metadata.managedFields[1].subresource", "metadata.managedFields[1].manager", "metadata.managedFields[2].manager"]
)]
fn val2_metadata(#[case] metadata: Value, #[case] expected: &[&str]) {
    assert_eq!(paths(&validate(&set("a", json!({"metadata": metadata})))), expected);
}

#[rstest]
#[case::roll60("upgrade-policy", "InPlace, Recreate", true)]
#[case::roll60_unknown("upgrade-policy", "Restart", false)]
#[case::roll61("progress-deadline", "10m", true)]
#[case::roll61_no_duration("progress-deadline", "soon", false)]
#[case::roll62_no_flag("rollback", "yes", false)]
#[case::roll63_no_flag("native-upgrade", "1", false)]
fn diff32_annotations_that_ask_for_more_than_images(#[case] name: &str, #[case] value: &str, #[case] is_valid: bool) {
    let key = format!("pillion.dev/{name}");
    let errors = validate(&set("a", json!({"metadata": {"annotations": {&key: value}}})));
    let expected = if is_valid { Vec::new() } else { vec![format!("metadata.annotations[{key}]")] };
    assert_eq!(paths(&errors), expected);
}

const CANARY: &str = "metadata.annotations[apps.kruise.io/sidecarset-canary]";
const BASE: &str = "metadata.annotations[apps.kruise.io/sidecarset-base]";

fn canary_of(base: &str, flag: &str, update: &str) -> crate::sidecar_set::SidecarSet {
    let annotations = json!({"apps.kruise.io/sidecarset-canary": flag, "apps.kruise.io/sidecarset-base": base});
    set("a", json!({"metadata": {"annotations": annotations}, "spec": {"updateStrategy": {"type": update}}}))
}

#[rstest]
#[case::canary("base", "true", "NotUpdate", &[])]
#[case::of_itself("a", "true", "NotUpdate", &[BASE])]
#[case::that_rolls_out("base", "true", "RollingUpdate", &[CANARY])]
#[case::no_canary_by_case("a", "True", "RollingUpdate", &[])]
#[case::no_canary_by_number("a", "1", "RollingUpdate", &[])]
#[case::no_canary_without_base("", "true", "RollingUpdate", &[])]
fn val3_canaries_alone(#[case] base: &str, #[case] flag: &str, #[case] update: &str, #[case] expected: &[&str]) {
    assert_eq!(paths(&validate(&canary_of(base, flag, update))), expected);
}

#[test]
fn val3_api13_canaries_and_their_base() {
    let canary = canary_of("base", "true", "NotUpdate");
    let base = set("base", json!({}));
    assert_eq!(collect(|errors| canary::check_base(&canary, std::slice::from_ref(&base), errors)), []);
    assert_eq!(paths(&collect(|errors| canary::check_base(&canary, &[], errors))), [BASE]);
    assert_eq!(collect(|errors| canary::check_base(&base, &[], errors)), [], "no canary, no base");
    let annotations = json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "x"});
    let chained = set("base", json!({"metadata": {"annotations": annotations}}));
    assert_eq!(paths(&collect(|errors| canary::check_base(&canary, &[chained], errors))), [BASE]);
    assert_eq!(
        paths(&collect(|errors| update::check(&canary, &canary_of("other", "true", "NotUpdate"), errors))),
        [BASE]
    );
    assert_eq!(
        paths(&collect(|errors| update::check(&canary, &set("a", json!({})), errors))),
        [BASE],
        "a base cannot be added either"
    );
    assert_eq!(collect(|errors| update::check(&canary, &canary, errors)), []);
}

#[rstest]
#[case::no_selector(json!({"selector": null}), &["spec.selector"])]
#[case::empty_selector(json!({"selector": {"matchLabels": null}}), &["spec.selector"])]
#[case::wrong_selector(
    json!({"selector": {"matchLabels": null, "matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}),
    &["spec.selector.matchExpressions[0].operator"]
)]
#[case::empty_namespace_selector(json!({"namespaceSelector": {}}), &["spec.namespaceSelector"])]
#[case::wrong_namespace_selector(json!({"namespaceSelector": {"matchLabels": {"a": "-"}}}), &["spec.namespaceSelector.matchLabels"])]
#[case::namespace_selector(json!({"namespaceSelector": {"matchLabels": {"a": "b"}}}), &[])]
#[case::no_containers(json!({"containers": [], "initContainers": null}), &["spec"])]
#[case::only_init_containers(json!({"containers": [], "initContainers": [container("i", json!({}))]}), &[])]
#[case::without_containers_volumes_are_not_looked_at(json!({"containers": [], "volumes": [{}]}), &["spec"])]
#[case::val4_native_with_rolling_update(
    json!({"updateStrategy": {"type": "RollingUpdate"}, "initContainers": [container("i", json!({"restartPolicy": "Always"}))]}),
    &["spec.updateStrategy"]
)]
#[case::val4_plain_with_rolling_update(
    json!({"updateStrategy": {"type": "RollingUpdate"}, "initContainers": [container("i", json!({}))]}),
    &[]
)]
#[case::val9_inject_policy(json!({"containers": [container("c", json!({"podInjectPolicy": "Nowhere"}))]}), &["spec.containers[0].podInjectPolicy"])]
#[case::val9_share_policy(
    json!({"containers": [container("c", json!({"shareVolumePolicy": {"type": "Enabled"}}))]}),
    &["spec.containers[0].shareVolumePolicy.type"]
)]
#[case::val9_init_containers_are_not_looked_at(
    json!({"initContainers": [container("i", json!({"podInjectPolicy": "Nowhere", "shareVolumePolicy": {"type": "x"}}))]}),
    &[]
)]
#[case::val10_not_enumerated(
    json!({"containers": [container("c", json!({"upgradeStrategy": {"upgradeType": "x"}, "shareVolumeDevicePolicy": {"type": "x"}}))],
           "patchPodMetadata": [{"annotations": {"a": "b"}, "patchPolicy": "x"}]}),
    &[]
)]
#[case::val12_the_pod_must_be_valid(
    json!({"containers": [container("c", json!({"volumeMounts": [{"name": "missing", "mountPath": "/a"}]}))]}),
    &["spec.containers[0].volumeMounts[0].name"]
)]
#[case::diff22_hot_upgrade_without_empty_image(
    json!({"containers": [container("c", json!({"upgradeStrategy": {"upgradeType": "HotUpgrade"}}))]}),
    &["spec.containers[0].upgradeStrategy.hotUpgradeEmptyImage"]
)]
#[case::diff22_native_sidecars_are_pairs_too(
    json!({"initContainers": [container("i", json!({"restartPolicy": "Always", "upgradeStrategy": {"upgradeType": "HotUpgrade"}}))]}),
    &["spec.initContainers[0].upgradeStrategy.hotUpgradeEmptyImage"]
)]
#[case::diff22_plain_init_containers_are_never_pairs(
    json!({"initContainers": [container("i", json!({"upgradeStrategy": {"upgradeType": "HotUpgrade"}}))]}),
    &[]
)]
#[case::val14_a_made_name_that_fits(json!({"containers": [hot(&"a".repeat(61), json!({}))]}), &[])]
#[case::val14_made_names_of_64_characters(json!({"containers": [hot(&"a".repeat(62), json!({}))]}), &["spec.containers[0].name"])]
#[case::val14_made_names_of_65_characters(json!({"containers": [hot(&"a".repeat(63), json!({}))]}), &["spec.containers[0].name"])]
#[case::val14_made_names_of_a_native_sidecar(
    json!({"initContainers": [hot(&"a".repeat(62), json!({"restartPolicy": "Always"}))]}),
    &["spec.initContainers[0].name"]
)]
#[case::val14_a_plain_init_container_keeps_its_name(json!({"initContainers": [hot(&"a".repeat(63), json!({}))]}), &[])]
#[case::val14_a_name_that_is_wrong_anyway_is_told_once(json!({"containers": [hot(&"a".repeat(64), json!({}))]}), &["spec.containers[0].name"])]
#[case::val14_both_halves_on_one_port_of_the_node(
    json!({"containers": [hot("c", json!({"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}]}))]}),
    &["spec.containers[0].ports[1].hostPort"]
)]
#[case::val14_a_cold_one_on_a_port_of_the_node(
    json!({"containers": [container("c", json!({"ports": [{"containerPort": 81, "hostPort": 81}]}))]}),
    &[]
)]
#[case::val14_a_half_and_a_container(
    json!({"containers": [hot("c", json!({})), container("c-2", json!({}))]}),
    &["spec.containers[1].name"]
)]
#[case::val14_a_half_and_an_init_container(
    json!({"containers": [hot("c", json!({}))], "initContainers": [container("c-1", json!({}))]}),
    &["spec.containers[0].name"]
)]
#[case::val14_a_name_written_twice_is_told_once(
    json!({"containers": [hot("c", json!({})), hot("c", json!({}))]}),
    &["spec.containers[1].name"]
)]
#[case::val6_no_revision_named(json!({"injectionStrategy": {"revision": {}}}), &["spec.injectionStrategy.revision"])]
#[case::val6_policy(
    json!({"injectionStrategy": {"revision": {"revisionName": "r", "policy": "always"}}}),
    &["spec.injectionStrategy.revision.policy"]
)]
#[case::val6_fine(json!({"injectionStrategy": {"revision": {"customVersion": "1", "policy": "Partial"}}}), &[])]
#[case::val13_no_annotations(json!({"patchPodMetadata": [{}, {"annotations": {}}]}), &["spec.patchPodMetadata[0].annotations", "spec.patchPodMetadata[1].annotations"])]
#[case::val13_annotation_key(json!({"patchPodMetadata": [{"annotations": {"bad key!": ""}}]}), &["spec.patchPodMetadata[0].annotations"])]
#[case::val13_key_twice(
    json!({"patchPodMetadata": [{"annotations": {"a": "1"}}, {"annotations": {"a": "2", "b": ""}, "patchPolicy": "Overwrite"}]}),
    &["spec.patchPodMetadata[1].annotations[a]"]
)]
fn val4_to_val13_spec(#[case] changes: Value, #[case] expected: &[&str]) {
    assert_eq!(paths(&validate(&with_spec(changes))), expected);
}

/// The annotation changes nothing else: a plain init container, and `NotUpdate`, are allowed without it.
#[rstest]
#[case::without_it(None, &["spec.updateStrategy"])]
#[case::asked_for(Some("true"), &[])]
#[case::refused(Some("false"), &["spec.updateStrategy"])]
#[case::another_word(Some("yes"), &["spec.updateStrategy", "metadata.annotations[pillion.dev/native-upgrade]"])]
fn val4_diff31_native_sidecars_with_rolling_update_need_the_annotation(
    #[case] annotation: Option<&str>,
    #[case] expected: &[&str],
) {
    let native = container("i", json!({"restartPolicy": "Always"}));
    let mut set = with_spec(json!({"updateStrategy": {"type": "RollingUpdate"}, "initContainers": [native]}));
    if let Some(value) = annotation {
        set.as_value_mut()["metadata"]["annotations"] = json!({"pillion.dev/native-upgrade": value});
    }
    assert_eq!(paths(&validate(&set)), expected);
}

fn term(weight: i64, selector: Value) -> Value {
    json!({"weight": weight, "matchSelector": selector})
}

#[rstest]
#[case::defaults(json!({}), &[])]
#[case::diff24_unknown_type(json!({"type": "Recreate", "partition": -1}), &["type"])]
#[case::not_update_skips_the_rest(json!({"type": "NotUpdate", "partition": -1, "maxUnavailable": "x", "selector": {}}), &[])]
#[case::numbers(json!({"partition": 3, "maxUnavailable": 0}), &[])]
#[case::percentages(json!({"partition": "0%", "maxUnavailable": "150%"}), &[])]
#[case::negative(json!({"partition": -1, "maxUnavailable": -3}), &["partition", "maxUnavailable"])]
#[case::no_percentages(json!({"partition": "abc", "maxUnavailable": "1.5%"}), &["partition", "maxUnavailable"])]
#[case::selector(json!({"selector": {"matchLabels": {"a": "b"}}}), &[])]
#[case::selector_and_zero(json!({"selector": {"matchLabels": {"a": "b"}}, "partition": 0}), &[])]
#[case::selector_and_partition(json!({"selector": {"matchLabels": {"a": "b"}}, "partition": 1}), &[""])]
#[case::selector_and_zero_percent(json!({"selector": {"matchLabels": {"a": "b"}}, "partition": "0%"}), &[""])]
#[case::empty_selector(json!({"selector": {}}), &["selector"])]
#[case::both_priorities(
    json!({"priorityStrategy": {"orderPriority": [{"orderedKey": "a"}], "weightPriority": [term(1, json!({"matchLabels": {"a": "b"}}))]}}),
    &["priorityStrategy"]
)]
#[case::weights(
    json!({"priorityStrategy": {"weightPriority": [
        term(0, json!({"matchLabels": {"a": "b"}})), term(100, json!({"matchLabels": {"a": "b"}})),
        term(-1, json!({"matchLabels": {"a": "b"}})), term(101, json!({})), term(1, json!({"matchLabels": {"a b": "c"}})),
    ]}}),
    &["priorityStrategy.weightPriority[2].weight", "priorityStrategy.weightPriority[3].weight",
      "priorityStrategy.weightPriority[3].matchSelector", "priorityStrategy.weightPriority[4].matchSelector.matchLabels"]
)]
#[case::order_without_key(json!({"priorityStrategy": {"orderPriority": [{"orderedKey": ""}]}}), &["priorityStrategy.orderPriority[0].orderedKey"])]
#[case::scatter(json!({"scatterStrategy": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]}), &[])]
#[case::scatter_twice(
    json!({"scatterStrategy": [{"key": "a", "value": "1"}, {"key": "a", "value": "1"}, {"key": "", "value": "1"}]}),
    &["scatterStrategy[1]", "scatterStrategy[2].key"]
)]
fn val7_update_strategy(#[case] mut strategy: Value, #[case] expected: &[&str]) {
    if strategy.get("type").is_none() {
        strategy["type"] = json!("RollingUpdate");
    }
    let errors = validate(&with_spec(json!({"updateStrategy": strategy})));
    let prefix = "spec.updateStrategy";
    let below: Vec<_> = paths(&errors)
        .iter()
        .map(|path| path.strip_prefix(prefix).unwrap().trim_start_matches('.').to_owned())
        .collect();
    assert_eq!(below, expected);
}

fn policy(fields: Value) -> Value {
    let mut policy = json!({
        "targetContainersMode": "sum", "targetContainersNameRegex": ".*",
        "resourcesExpr": {"limits": {"cpu": "cpu*50%"}},
    });
    super::merge(&mut policy, fields);
    json!({"resourcesPolicy": policy})
}

#[rstest]
#[case::fine(json!({}), &[])]
#[case::empty_regex(json!({"targetContainersNameRegex": ""}), &["targetContainersNameRegex"])]
#[case::wrong_regex(json!({"targetContainersNameRegex": "[a"}), &["targetContainersNameRegex"])]
#[case::unsupported_regex(json!({"targetContainersNameRegex": "\\pL"}), &["targetContainersNameRegex"])]
#[case::neither_half(json!({"resourcesExpr": {"limits": null}}), &["resourcesExpr"])]
#[case::an_empty_half_is_enough(json!({"resourcesExpr": {"limits": {"cpu": null}}}), &[])]
#[case::empty_expressions_are_skipped(json!({"resourcesExpr": {"limits": {"cpu": "", "memory": ""}}}), &[])]
#[case::wrong_expression(json!({"resourcesExpr": {"limits": {"cpu": "cpu*"}, "requests": {"memory": "(memory"}}}),
    &["resourcesExpr.limits.cpu", "resourcesExpr.requests.memory"])]
#[case::diff6_quantity_times_quantity(json!({"resourcesExpr": {"limits": {"cpu": "cpu*cpu"}}}), &["resourcesExpr.limits.cpu"])]
#[case::diff6_division_by_a_quantity(json!({"resourcesExpr": {"limits": {"cpu": "1/cpu"}}}), &["resourcesExpr.limits.cpu"])]
#[case::diff6_what_depends_on_the_value(json!({"resourcesExpr": {"limits": {"cpu": "cpu-2"}}}), &[])]
#[case::diff8_variable_of_another_slot(json!({"resourcesExpr": {"limits": {"cpu": "memory"}}}), &["resourcesExpr.limits.cpu"])]
#[case::diff8_variables_have_no_case(json!({"resourcesExpr": {"limits": {"memory": "MEMORY"}}}), &[])]
fn val11_resources_policy(#[case] fields: Value, #[case] expected: &[&str]) {
    for (list, fields) in [
        ("containers", policy(fields.clone())),
        ("initContainers", {
            let mut native = policy(fields);
            native["restartPolicy"] = json!("Always");
            native
        }),
    ] {
        let errors = validate(&with_spec(json!({list: [container("c", fields)]})));
        let prefix = format!("spec.{list}[0].resourcesPolicy");
        let below: Vec<_> = paths(&errors)
            .iter()
            .map(|path| path.strip_prefix(&prefix).unwrap().trim_start_matches('.').to_owned())
            .collect();
        assert_eq!(below, expected, "{list}");
    }
}

#[test]
fn val11_resources_policy_excludes_resources_and_plain_init_containers() {
    let mut both = policy(json!({"targetContainersNameRegex": ""}));
    both["resources"] = json!({"requests": {"cpu": "1"}});
    let errors = validate(&with_spec(json!({"containers": [container("c", both)]})));
    assert_eq!(paths(&errors), ["spec.containers[0].resourcesPolicy"], "the rest is not looked at");
    let mut claims = policy(json!({}));
    claims["resources"] = json!({"limits": {}, "requests": {}});
    assert_eq!(validate(&with_spec(json!({"containers": [container("c", claims)]}))), []);
    let errors = validate(&with_spec(json!({"initContainers": [container("i", policy(json!({})))]})));
    assert_eq!(paths(&errors), ["spec.initContainers[0].resourcesPolicy"]);
}

#[test]
fn val11_an_unknown_mode_is_the_crds_matter() {
    let unknown = with_spec(json!({"containers": [container("c", policy(json!({"targetContainersMode": "avg"})))]}));
    assert_eq!(validate(&unknown), []);
    assert_eq!(paths(&validate_manifest(&unknown)), ["spec.containers[0].resourcesPolicy.targetContainersMode"]);
}

#[rstest]
#[case::removed(json!([container("logger", json!({}))]), &[])]
#[case::added(json!([container("logger", json!({})), container("new", json!({}))]), &["spec.containers[1].name"])]
#[case::renamed(json!([container("log", json!({}))]), &["spec.containers[0].name"])]
#[case::upgrade_type(
    json!([container("hot", json!({"upgradeStrategy": {"upgradeType": "ColdUpgrade"}}))]),
    &["spec.containers[0].upgradeStrategy.upgradeType"]
)]
#[case::upgrade_type_that_was_not_set(json!([container("old", json!({"upgradeStrategy": {"upgradeType": "HotUpgrade"}}))]), &[])]
fn val30_updates(#[case] containers: Value, #[case] expected: &[&str]) {
    let hot = json!({"upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e"}});
    let mut old = with_spec(json!({"containers": [
        container("logger", json!({})), container("hot", hot), container("old", json!({})),
    ]}));
    old.as_value_mut()["spec"]["containers"][2]["upgradeStrategy"] = json!({});
    let new = with_spec(json!({"containers": containers, "initContainers": [container("free", json!({}))]}));
    assert_eq!(paths(&collect(|errors| update::check(&new, &old, errors))), expected);
}

#[rstest]
#[case::unknown("Sometimes", container("c", json!({})), &["metadata.annotations[pillion.dev/native]"])]
#[case::hot_upgrade("Always", hot("c", json!({})), &["metadata.annotations[pillion.dev/native]"])]
#[case::off_with_hot_upgrade("Off", hot("c", json!({})), &[])]
#[case::ending_pods("EndingPods", container("c", json!({})), &[])]
#[case::rolling_update("Always", container("c", json!({})), &[])]
fn nat1_the_annotation_is_checked(#[case] annotation: &str, #[case] sidecar: Value, #[case] expected: &[&str]) {
    let annotated = set(
        "a",
        json!({
            "metadata": {"annotations": {"pillion.dev/native": annotation}},
            "spec": {"containers": [sidecar]},
        }),
    );
    assert_eq!(paths(&validate_manifest(&annotated)), expected);
}
