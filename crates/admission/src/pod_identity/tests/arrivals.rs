//! Attacks with Pods that arrive with what only Pillion writes (TOK-17, E20).

use pillion_identity::rules::Otherwise;

use super::*;
use crate::settings::Role;

/// A cluster with these accounts and without any Namespace.
struct With(&'static [&'static str]);

impl Lookup for With {
    fn get(&self, object: &ObjectRef) -> Answer {
        let is_there = object.kind == "ServiceAccount" && self.0.contains(&object.name.as_str());
        Ok(is_there.then(|| json!({"metadata": {"name": object.name}})))
    }
}

struct World {
    gate: bool,
    accounts: &'static [&'static str],
}

const WORLD: World = World { gate: true, accounts: &["default", "web", "x", "y"] };

fn judged(pod: &Value, sets: &[SidecarSet], role: Role, world: &World) -> Outcome {
    let settings = Settings {
        gates: Gates { service_account_injection: world.gate, ..Gates::default() },
        service_accounts: Rules { on_missing: Otherwise::Skip, ..Rules::default() },
        role,
        ..Settings::default()
    };
    let lookup = With(world.accounts);
    let context = Context { settings: &settings, sidecar_sets: sets, lookup: &lookup, now: Timestamp(0) };
    admit(PodRequest { uid: "u", namespace: "web", object: pod }, context)
}

fn refused(outcome: &Outcome) -> String {
    match &outcome.verdict {
        Verdict::Refused(refusal) => refusal.message(),
        verdict => panic!("accepted: {verdict:?}"),
    }
}

fn holder(mode: &str) -> Value {
    set(json!({"serviceAccountName": "x", "serviceAccountMode": mode})).into_value()
}

/// A Pod that Pillion has injected, to be pasted: with the sidecar, its volume, and all records.
fn pasted(mode: &str) -> Value {
    let sets = [SidecarSet::from_decoded(holder(mode))];
    let pod = injected(judged(&pod(json!({})), &sets, Role::Inject, &WORLD));
    assert_eq!(judged(&pod, &sets, Role::Assert, &WORLD).verdict, Verdict::Unchanged, "where it belongs, it is right");
    pod
}

type Edit = fn(&mut Value);

/// The SidecarSet is there, with this change.
#[expect(clippy::unnecessary_wraps, reason = "the closures of the cases become functions here")]
fn matched(edit: Edit) -> Option<Edit> {
    Some(edit)
}

/// Nothing in the Pod makes its volume right where the SidecarSets do not ask for it.
#[rstest]
#[case::nothing_matches_here(|_: &mut Value| (), None, WORLD)]
#[case::other_labels(|pod: &mut Value| pod["metadata"]["labels"] = json!({"app": "other"}), matched(|_: &mut Value| ()), WORLD)]
#[case::another_namespace(
    |_: &mut Value| (),
    matched(|set: &mut Value| set["spec"]["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": "shop"}})),
    WORLD
)]
#[case::paused(
    |_: &mut Value| (), matched(|set: &mut Value| set["spec"]["injectionStrategy"] = json!({"paused": true})), WORLD
)]
#[case::the_identity_was_given_up(
    |_: &mut Value| (),
    matched(|set: &mut Value| drop(set["spec"].as_object_mut().unwrap().remove("serviceAccountName"))),
    WORLD
)]
#[case::another_account(
    |_: &mut Value| (), matched(|set: &mut Value| set["spec"]["serviceAccountName"] = json!("y")), WORLD
)]
#[case::the_account_is_gone(|_: &mut Value| (), matched(|_: &mut Value| ()), World { accounts: &["default", "web"], ..WORLD })]
#[case::the_gate_is_off(|_: &mut Value| (), matched(|_: &mut Value| ()), World { gate: false, ..WORLD })]
#[case::the_gate_is_off_and_nothing_matches(|_: &mut Value| (), None, World { gate: false, ..WORLD })]
#[case::the_volume_alone(
    |pod: &mut Value| pod["spec"]["containers"] = json!([{"name": "app", "image": "app:1"}]), None, WORLD
)]
#[case::the_volume_in_the_hands_of_the_app(
    |pod: &mut Value| pod["spec"]["containers"][1]["volumeMounts"] = pod["spec"]["containers"][0]["volumeMounts"].clone(),
    matched(|_: &mut Value| ()),
    WORLD
)]
fn tok17_e20_a_pasted_identity_is_refused(
    #[case] edit: impl Fn(&mut Value),
    #[case] edit_set: Option<Edit>,
    #[case] world: World,
    #[values("SidecarsOnly", "Isolate")] mode: &str,
    #[values(Role::Inject, Role::Assert)] role: Role,
) {
    let mut attack = pasted(mode);
    edit(&mut attack);
    let sets: Vec<SidecarSet> = edit_set
        .map(|edit| {
            let mut set = holder(mode);
            edit(&mut set);
            SidecarSet::from_decoded(set)
        })
        .into_iter()
        .collect();
    let message = refused(&judged(&attack, &sets, role, &world));
    assert!(message.contains("sidecarset-sa-") || message.contains("which is for sidecars alone"), "{message}");
}

/// The volume of a mode that the SidecarSet no longer has.
#[rstest]
#[case::isolated_before("Isolate", "SidecarsOnly")]
#[case::by_the_kubelet_before("SidecarsOnly", "Isolate")]
fn tok17_the_volume_of_another_mode_is_refused(
    #[case] before: &str,
    #[case] now: &str,
    #[values(Role::Inject, Role::Assert)] role: Role,
) {
    let message = refused(&judged(&pasted(before), &[SidecarSet::from_decoded(holder(now))], role, &WORLD));
    assert!(
        message.contains("is not the one that holds the token of \"x\"") || message.contains("lacks the token"),
        "{message}"
    );
}

/// With the volume alone, the policy brings the sidecar, and the twin refuses a Pod from which it was taken.
#[rstest]
#[case::by_the_kubelet("SidecarsOnly")]
#[case::isolated("Isolate")]
fn tok17_a_volume_without_its_sidecar(#[case] mode: &str) {
    let mut attack = pasted(mode);
    attack["spec"]["containers"] = json!([{"name": "app", "image": "app:1"}]);
    let sets = [SidecarSet::from_decoded(holder(mode))];
    let message = refused(&judged(&attack, &sets, Role::Assert, &WORLD));
    assert!(message.contains("no sidecar mounts the volume \"sidecarset-sa-"), "{message}");
    let whole = injected(judged(&attack, &sets, Role::Inject, &WORLD));
    assert_eq!(judged(&whole, &sets, Role::Assert, &WORLD).verdict, Verdict::Unchanged);
}

/// A container with the name of the sidecar, its volume and pasted records becomes the sidecar.
#[rstest]
#[case::another_image(json!({"image": "evil:1"}))]
#[case::another_command(json!({"command": ["sh"]}))]
fn tok17_a_forged_sidecar_is_replaced(#[case] change: Value) {
    let honest = pasted("SidecarsOnly");
    let mut attack = honest.clone();
    let agent = attack["spec"]["containers"][0].as_object_mut().unwrap();
    assert_eq!(agent["name"], "agent");
    agent.extend(change.as_object().unwrap().clone());
    let sets = [SidecarSet::from_decoded(holder("SidecarsOnly"))];
    assert_eq!(injected(judged(&attack, &sets, Role::Inject, &WORLD))["spec"], honest["spec"]);
}

const SECRET: &str = "sidecarset-token-0123456789abcdef";

/// A Pod that waits for a Secret which the controller writes later, once there is an identity in its namespace.
#[rstest]
#[case::that_need_not_be_there(json!({"volumes": [{"name": "wait", "secret": {"secretName": SECRET, "optional": true}}]}))]
#[case::among_others(json!({"volumes": [{"name": "wait", "projected": {"sources": [
    {"configMap": {"name": "c"}}, {"secret": {"name": SECRET, "optional": true}}
]}}]}))]
#[case::of_a_driver(json!({"volumes": [{"name": "wait", "csi": {"driver": "nfs.csi.k8s.io", "nodePublishSecretRef": {"name": SECRET}}}]}))]
#[case::of_a_claim_to_be_made(json!({"volumes": [{"name": "wait", "ephemeral": {"volumeClaimTemplate": {
    "metadata": {"annotations": {"example.com/secret": SECRET}}, "spec": {}
}}}]}))]
#[case::in_a_variable(json!({"containers": [{"name": "app", "image": "app:1", "env": [
    {"name": "T", "valueFrom": {"secretKeyRef": {"name": SECRET, "key": "token", "optional": true}}}
]}]}))]
#[case::in_all_variables(json!({"initContainers": [{"name": "setup", "image": "s:1", "envFrom": [
    {"secretRef": {"name": SECRET, "optional": true}}
]}]}))]
#[case::to_pull_images(json!({"imagePullSecrets": [{"name": SECRET}]}))]
#[case::under_pillions_name(json!({"volumes": [{"name": "sidecarset-sa-0123456789abcdef", "secret": {"secretName": "mine"}}]}))]
#[case::under_pillions_name_alone(json!({"volumes": [{"name": "sidecarset-sa-", "emptyDir": {}}]}))]
fn tok17_a_pod_does_not_wait_for_a_token(
    #[case] spec: Value,
    #[values(true, false)] gate: bool,
    #[values(Role::Inject, Role::Assert)] role: Role,
    #[values(true, false)] is_matched: bool,
) {
    let sets: Vec<SidecarSet> =
        is_matched.then(|| SidecarSet::from_decoded(holder("SidecarsOnly"))).into_iter().collect();
    let message = refused(&judged(&pod(spec), &sets, role, &World { gate, ..WORLD }));
    assert!(message.contains("of a sidecar") || message.contains("to a sidecar"), "{message}");
}
