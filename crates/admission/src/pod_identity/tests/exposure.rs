//! Attacks on tokens by what a Pod lets its containers see or replace (TOK-9, TOK-16).

use pillion_identity::rules::Exposure as Setting;
use pillion_sidecarset::sidecar_set::origin::Origin;

use super::*;
use crate::settings::Role;

/// Returns the answer with `serviceAccounts.exposure`.
fn judged(pod: &Value, sets: &[SidecarSet], exposure: Setting, role: Role) -> Outcome {
    let settings = Settings {
        gates: Gates { service_account_injection: true, ..Gates::default() },
        service_accounts: Rules { exposure, ..Rules::default() },
        role,
        ..Settings::default()
    };
    let context = Context { settings: &settings, sidecar_sets: sets, lookup: &Cluster, now: Timestamp(0) };
    admit(PodRequest { uid: "u", namespace: "web", object: pod }, context)
}

fn refusal(outcome: &Outcome) -> String {
    match &outcome.verdict {
        Verdict::Refused(refusal) => format!("{} {}", refusal.code().as_u16(), refusal.message()),
        verdict => format!("not refused: {verdict:?}"),
    }
}

/// The SidecarSet `logs`, whose container `agent` has an identity and a volume `config`.
fn holder() -> SidecarSet {
    set(json!({
        "serviceAccountName": "x",
        "containers": [{"name": "agent", "image": "agent:1", "volumeMounts": [{"name": "config", "mountPath": "/etc/agent"}]}],
        "volumes": [{"name": "config", "configMap": {"name": "agent"}}],
    }))
}

/// A SidecarSet of this name, with one container that has these fields.
fn beside(name: &str, container: Value, fields: Value) -> SidecarSet {
    let mut sidecar = json!({"name": name, "image": "i:1"});
    sidecar.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    let mut object = set(fields).into_value();
    object["metadata"]["name"] = json!(name);
    object["spec"]["containers"] = json!([sidecar]);
    SidecarSet::from_decoded(object)
}

fn privileged() -> Value {
    json!({"securityContext": {"privileged": true}})
}

/// `pod` with these fields in its spec.
fn with(mut pod: Value, spec: &Value) -> Value {
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

const PROCESSES: &str = "403 SidecarSet \"logs\": spec.shareProcessNamespace: lets every container of the Pod read the token of \
                         this SidecarSet through /proc; remove it from the Pod, or set serviceAccounts.exposure to Warn";
const HOST: &str = "403 SidecarSet \"logs\": spec.hostPID: lets every container of the Pod read the token of this SidecarSet \
                    through /proc; remove it from the Pod, or set serviceAccounts.exposure to Warn";

fn container(field: &str, does: &str) -> String {
    format!(
        "403 SidecarSet \"logs\": spec.{field}.securityContext: container {does} and can read the token of this SidecarSet; remove \
         that from the container, or set serviceAccounts.exposure to Warn"
    )
}

/// Fields that the author of a Pod writes. The twin refuses them, too, if a later webhook wrote them.
#[rstest]
#[case::shared_processes(json!({"shareProcessNamespace": true}), PROCESSES)]
#[case::the_nodes_processes(json!({"hostPID": true, "shareProcessNamespace": false}), HOST)]
#[case::a_privileged_app(
    json!({"containers": [{"name": "app", "image": "app:1", "securityContext": {"privileged": true}}]}),
    &container("containers[0]", "\"app\" is privileged")
)]
#[case::a_privileged_init_container(
    json!({"initContainers": [{"name": "setup", "image": "s:1", "securityContext": {"privileged": true}}]}),
    &container("initContainers[0]", "\"setup\" is privileged")
)]
#[case::one_that_mounts(
    json!({"containers": [{"name": "app", "image": "app:1", "securityContext": {"capabilities": {"add": ["NET_RAW", "SYS_ADMIN"]}}}]}),
    &container("containers[0]", "\"app\" has the capability SYS_ADMIN")
)]
#[case::one_that_traces_in_another_spelling(
    json!({"containers": [{"name": "app", "image": "app:1", "securityContext": {"capabilities": {"add": ["cap_sys_ptrace"]}}}]}),
    &container("containers[0]", "\"app\" has the capability SYS_PTRACE")
)]
#[case::one_that_may_do_all(
    json!({"containers": [{"name": "app", "image": "app:1", "securityContext": {"capabilities": {"add": ["all"]}}}]}),
    &container("containers[0]", "\"app\" has the capability ALL")
)]
fn tok16_what_sees_tokens_is_refused(
    #[case] spec: Value,
    #[case] message: &str,
    #[values("SidecarsOnly", "Isolate")] mode: &str,
) {
    let mut object = holder().into_value();
    object["spec"]["serviceAccountMode"] = json!(mode);
    object["spec"]["containers"][0]["podInjectPolicy"] = json!("AfterAppContainer");
    let sets = [SidecarSet::from_decoded(object)];
    let attack = with(pod(json!({})), &spec);
    assert_eq!(refusal(&judged(&attack, &sets, Setting::Deny, Role::Inject)), message);
    let warned = judged(&attack, &sets, Setting::Warn, Role::Inject);
    assert!(warned.warnings.iter().any(|warning| warning.contains("read the tokens")), "{warned:?}");
    assert!(matches!(warned.verdict, Verdict::Mutated(_)), "the default warns");

    // Accepted first, and changed by a later webhook.
    let mut later = injected(judged(&pod(json!({})), &sets, Setting::Deny, Role::Inject));
    assert_eq!(judged(&later, &sets, Setting::Deny, Role::Assert).verdict, Verdict::Unchanged);
    for (key, value) in spec.as_object().unwrap() {
        match value.as_array() {
            Some(list) => {
                let context = list[0]["securityContext"].clone();
                if key == "initContainers" {
                    later["spec"][key] = value.clone();
                } else {
                    later["spec"][key][0]["securityContext"] = context;
                }
            }
            None => later["spec"][key] = value.clone(),
        }
    }
    assert_eq!(refusal(&judged(&later, &sets, Setting::Deny, Role::Assert)), message);
    assert_eq!(judged(&later, &sets, Setting::Warn, Role::Assert).verdict, Verdict::Unchanged);
}

/// The owner of the only token sees nothing that is not its own, and a Pod without a token has nothing to see.
#[rstest]
#[case::the_owner(vec![beside("logs", privileged(), json!({"serviceAccountName": "x"}))], json!({}))]
#[case::two_owners_of_one_account(vec![
    beside("logs", privileged(), json!({"serviceAccountName": "x"})),
    beside("more", json!({}), json!({"serviceAccountName": "x"})),
], json!({}))]
#[case::no_identity(vec![beside("logs", privileged(), json!({}))], json!({"hostPID": true, "shareProcessNamespace": true}))]
#[case::an_identity_that_is_not_given(vec![holder()], json!({"hostPID": true, "serviceAccountName": "web", "serviceAccount": "web"}))]
#[case::harmless_capabilities(vec![holder()], json!({"hostNetwork": true, "containers": [{
    "name": "app", "image": "app:1", "securityContext": {"privileged": false, "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}}
}]}))]
fn tok16_others_are_injected(#[case] sets: Vec<SidecarSet>, #[case] spec: Value) {
    let outcome = judged(&with(pod(json!({})), &spec), &sets, Setting::Deny, Role::Inject);
    let pod = injected(outcome);
    assert_eq!(judged(&pod, &sets, Setting::Deny, Role::Assert).verdict, Verdict::Unchanged);
}

/// A container of another SidecarSet counts like one of the app, unless the two trust each other.
#[rstest]
#[case::of_the_cluster(&[], &[], Origin::Cluster, Origin::Cluster, Some(
    "add \"logs\" to spec.serviceAccountPartners of SidecarSet \"spy\" and \"spy\" to spec.serviceAccountPartners of SidecarSet \"logs\""
))]
#[case::that_names_the_holder(&[], &["logs"], Origin::Cluster, Origin::Cluster, Some(
    "add \"spy\" to spec.serviceAccountPartners of SidecarSet \"logs\""
))]
#[case::of_the_cluster_beside_one_of_the_settings(&[], &["logs"], Origin::Settings, Origin::Cluster, Some(
    "add \"spy\" to spec.serviceAccountPartners of SidecarSet \"logs\" in the policy's settings"
))]
#[case::that_names_and_is_named(&["spy"], &["logs"], Origin::Cluster, Origin::Cluster, None)]
#[case::of_the_same_settings(&[], &[], Origin::Settings, Origin::Settings, None)]
fn tok16_a_sidecar_of_another_set_counts_unless_both_trust_each_other(
    #[case] of_holder: &[&str],
    #[case] of_spy: &[&str],
    #[case] holder_is: Origin,
    #[case] spy_is: Origin,
    #[case] remedy: Option<&str>,
    #[values(json!({}), json!({"serviceAccountName": "y", "serviceAccountMode": "Isolate"}))] mut of_the_spy: Value,
) {
    let mut object = holder().into_value();
    object["spec"]["serviceAccountPartners"] = json!(of_holder);
    of_the_spy["serviceAccountPartners"] = json!(of_spy);
    let sets = [
        SidecarSet::from_decoded(object).with_origin(holder_is),
        beside("spy", privileged(), of_the_spy).with_origin(spy_is),
    ];
    let outcome = judged(&pod(json!({})), &sets, Setting::Deny, Role::Inject);
    let warnings = judged(&pod(json!({})), &sets, Setting::Warn, Role::Inject).warnings;
    let warning = "container \"spy\" is privileged and can read the tokens of the Pod's sidecars".to_owned();
    match remedy {
        None => {
            assert!(matches!(outcome.verdict, Verdict::Mutated(_)), "{outcome:?}");
            assert!(!warnings.contains(&warning));
        }
        Some(remedy) => {
            let refused = refusal(&outcome);
            let start = "403 SidecarSet \"logs\": spec.containers[";
            let end = format!(
                "].securityContext: container \"spy\" of SidecarSet \"spy\" is privileged and can read the token of this SidecarSet; \
                 let the two match different Pods, or, if it may have the token, {remedy}"
            );
            assert!(refused.starts_with(start) && refused.ends_with(&end), "{refused}");
            assert!(warnings.contains(&warning));
        }
    }
}

fn replacing(volume: Value) -> Value {
    pod(json!({"volumes": [{"name": "own", "emptyDir": {}}, volume]}))
}

const REPLACED: &str = "403 SidecarSet \"logs\": spec.volumes[1]: volume \"config\" of the Pod replaces the one that this SidecarSet \
                        uses, and what is in it decides what its containers do with the token; rename the volume of the Pod, or \
                        set serviceAccounts.exposure to Warn";

#[rstest]
#[case::another_source(json!({"name": "config", "emptyDir": {}}), REPLACED)]
#[case::another_object(json!({"name": "config", "configMap": {"name": "mine"}}), REPLACED)]
#[case::some_keys_under_other_names(
    json!({"name": "config", "configMap": {"name": "agent", "items": [{"key": "theirs", "path": "agent.conf"}]}}),
    REPLACED
)]
#[case::the_same_as_the_api_server_shows_it(json!({"name": "config", "configMap": {"name": "agent", "defaultMode": 420}}), "")]
fn tok16_a_volume_that_replaces_one_of_the_holder_is_refused(#[case] volume: Value, #[case] message: &str) {
    let sets = [holder()];
    let outcome = judged(&replacing(volume.clone()), &sets, Setting::Deny, Role::Inject);
    let mut later = injected(judged(
        &pod(json!({"volumes": [{"name": "own", "emptyDir": {}}]})),
        &sets,
        Setting::Deny,
        Role::Inject,
    ));
    later["spec"]["volumes"][1] = volume;
    let asserted = judged(&later, &sets, Setting::Deny, Role::Assert);
    if message.is_empty() {
        assert!(matches!(outcome.verdict, Verdict::Mutated(_)), "{outcome:?}");
        assert_eq!(asserted.verdict, Verdict::Unchanged);
    } else {
        assert_eq!([refusal(&outcome), refusal(&asserted)], [message, message]);
    }
}

/// Who can read the tokens of others, or fills a volume of a holder, must not be taken over through a volume either.
#[rstest]
#[case::of_one_that_sees_the_holder(privileged(), Some("eye"))]
#[case::of_one_that_does_not(json!({}), None)]
fn tok16_a_volume_that_replaces_one_of_a_partner(#[case] context: Value, #[case] about: Option<&str>) {
    let mut container = json!({"volumeMounts": [{"name": "rules", "mountPath": "/r"}]});
    container.as_object_mut().unwrap().extend(context.as_object().unwrap().clone());
    let eye = beside("eye", container, json!({"volumes": [{"name": "rules", "configMap": {"name": "eye"}}]}));
    let sets = [holder().with_origin(Origin::Settings), eye.with_origin(Origin::Settings)];
    let attack = replacing(json!({"name": "rules", "emptyDir": {}}));
    let outcome = judged(&attack, &sets, Setting::Deny, Role::Inject);
    match about {
        Some(set) => assert!(refusal(&outcome).starts_with(&format!("403 SidecarSet \"{set}\": spec.volumes[1]: "))),
        None => assert!(matches!(outcome.verdict, Verdict::Mutated(_)), "{outcome:?}"),
    }
}

#[test]
fn tok16_a_volume_of_a_partner_that_a_holder_uses_is_the_holders_too() {
    let mut object = holder().into_value();
    object["spec"]["containers"][0]["volumeMounts"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "rules", "mountPath": "/r"}));
    let partner = beside(
        "partner",
        json!({"volumeMounts": [{"name": "rules", "mountPath": "/r"}]}),
        json!({"volumes": [{"name": "rules", "configMap": {"name": "rules"}}]}),
    );
    let sets = [SidecarSet::from_decoded(object).with_origin(Origin::Settings), partner.with_origin(Origin::Settings)];
    let attack = replacing(json!({"name": "rules", "emptyDir": {}}));
    let refused = refusal(&judged(&attack, &sets, Setting::Deny, Role::Inject));
    assert!(refused.starts_with("403 SidecarSet \"logs\": spec.volumes[1]: "), "{refused}");
    // Two definitions of SidecarSets that trust each other are not the Pod's.
    let mut own = sets[0].clone().into_value();
    own["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": "rules", "emptyDir": {}}));
    let sets = [SidecarSet::from_decoded(own), sets[1].clone()];
    let outcome = judged(&pod(json!({})), &sets, Setting::Deny, Role::Inject);
    assert!(matches!(outcome.verdict, Verdict::Mutated(_)), "{outcome:?}");
}

/// E18: many of both sides end in a bounded number of reasons.
#[test]
fn e18_tok16_many_containers_see_many_tokens() {
    let container =
        |index: usize| json!({"name": format!("c{index}"), "image": "i", "securityContext": {"privileged": true}});
    let containers: Vec<Value> = (0..2_000).map(container).collect();
    let outcome = judged(&pod(json!({"containers": containers})), &[holder()], Setting::Deny, Role::Inject);
    let Verdict::Refused(refusal) = outcome.verdict else { panic!("accepted") };
    assert_eq!(refusal.reasons().count(), 1_000);
}
