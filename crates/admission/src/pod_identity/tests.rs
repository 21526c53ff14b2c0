#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use pillion_identity::decision::{Grant, Token};
use pillion_inject::matching::{self, Query, Selection, Sources};
use pillion_kubernetes::lookup::{Answer, ObjectRef};
use pillion_kubernetes::outcome::Code;
use pillion_kubernetes::outcome::{Outcome, Verdict};
use pillion_kubernetes::time::Timestamp;
use pillion_samples::lookups::FakeObjects;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::gates::Gates;
use pillion_sidecarset::native::NativeSidecars;
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;
use rstest::rstest;
use serde_json::json;

mod arrivals;
mod exposure;
mod token_containers;

use super::*;
use crate::pod::{Context, PodRequest, admit};
use crate::settings::Settings;

/// A cluster in which every account exists.
struct Cluster;

impl Lookup for Cluster {
    fn get(&self, object: &ObjectRef) -> Answer {
        match object.kind {
            "ServiceAccount" => Ok(Some(json!({"metadata": {"name": object.name}}))),
            _ => Ok(None),
        }
    }
}

fn set(fields: Value) -> SidecarSet {
    let mut object = json!({
        "metadata": {"name": "logs"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "agent", "image": "agent:1"}]},
    });
    object["spec"].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    SidecarSet::from_decoded(object)
}

fn pod(spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": "p", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    });
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

fn admitted(
    pod: &Value,
    set: &SidecarSet,
    revisions: &[ControllerRevision],
    gate: bool,
    lookup: &dyn Lookup,
) -> Outcome {
    let settings = Settings {
        controller_revisions: revisions.to_vec(),
        gates: Gates { service_account_injection: gate, ..Gates::default() },
        ..Settings::default()
    };
    let sidecar_sets = std::slice::from_ref(set);
    let context = Context { settings: &settings, sidecar_sets, lookup, now: Timestamp(0) };
    admit(PodRequest { uid: "u", namespace: "web", object: pod }, context)
}

fn injected(outcome: Outcome) -> Value {
    let Verdict::Mutated(pod) = outcome.verdict else { panic!("{outcome:?}") };
    pod
}

fn messages(reasons: Vec<Reason>) -> Vec<String> {
    reasons.iter().map(|reason| format!("{} {reason}", reason.code.as_u16())).collect()
}

/// IDV-1: identity fields are ignored with a warning, and nothing is looked up.
#[rstest]
#[case::account(json!({"serviceAccountName": "x"}), true)]
#[case::mode(json!({"serviceAccountMode": "Isolate"}), true)]
#[case::not_even_understood(json!({"serviceAccountName": 7}), true)]
#[case::nothing(json!({}), false)]
#[case::null(json!({"serviceAccountName": null}), false)]
fn idv1_without_the_gate_a_warning_says_so(#[case] fields: Value, #[case] warns: bool) {
    let outcome = admitted(&pod(json!({})), &set(fields), &[], false, &FakeObjects::new());
    let warning = "SidecarSet \"logs\" is injected without its ServiceAccount: the feature gate \
                   SidecarSetServiceAccountInjection is off";
    assert_eq!(outcome.warnings, if warns { vec![warning] } else { vec![] });
    let pod = injected(outcome);
    assert_eq!(pod["spec"]["containers"].as_array().unwrap().len(), 2);
    assert_eq!((&pod["spec"]["serviceAccountName"], &pod["spec"]["volumes"]), (&Value::Null, &Value::Null));
}

/// With the gate, sets that were never validated are refused if they are invalid.
#[rstest]
#[case::type_of_a_field(
    json!({"serviceAccountName": 7}),
    "403 SidecarSet \"logs\": spec.serviceAccountName: Invalid value: must be a string, found a number; correct the SidecarSet"
)]
#[case::idv2_default(
    json!({"serviceAccountName": "default"}),
    "403 SidecarSet \"logs\": spec.serviceAccountName: every Pod has \"default\"; name an account of the sidecar's own; correct the SidecarSet"
)]
#[case::idv8_mode(
    json!({"serviceAccountMode": "x"}),
    "403 SidecarSet \"logs\": spec.serviceAccountMode: Unsupported value: supported values: \"SidecarsOnly\", \"Isolate\", \"Pod\"; correct the SidecarSet"
)]
fn sets_that_cannot_be_understood_are_refused(#[case] fields: Value, #[case] message: &str) {
    let reasons = Identities::collect(&[set(fields)], true).unwrap_err();
    assert_eq!(messages(reasons), [message]);
}

#[test]
fn m_holds_the_sets_that_name_an_account() {
    let mut other = set(json!({"serviceAccountMode": "Isolate"})).into_value();
    other["metadata"]["name"] = json!("other");
    let sets =
        [SidecarSet::from_decoded(other), set(json!({"serviceAccountName": "x", "serviceAccountMode": "Isolate"}))];
    let identities = Identities::collect(&sets, true).unwrap();
    assert_eq!(identities.warnings, [""; 0]);
    let asking: Vec<_> = identities.asking.iter().map(|set| (set.sidecar_set.as_str(), set.account.as_str())).collect();
    assert_eq!(asking, [("logs", "x")]);
}

/// IDC-9: a stored revision has no identity; the fields are those of the current set.
#[rstest]
#[case::added(json!({"serviceAccountName": "x"}), json!({}), Some("x"))]
#[case::changed(json!({"serviceAccountName": "x"}), json!({"serviceAccountName": "old"}), Some("x"))]
#[case::given_up(json!({}), json!({"serviceAccountName": "old"}), None)]
fn idc9_identity_is_read_live(#[case] live: Value, #[case] stored: Value, #[case] account: Option<&str>) {
    let mut fields = live;
    fields["injectionStrategy"] = json!({"revision": {"revisionName": "logs-1"}});
    let mut spec = json!({"containers": [{"name": "agent", "image": "agent:0"}]});
    spec.as_object_mut().unwrap().extend(stored.as_object().unwrap().clone());
    let revision = ControllerRevision::decode(json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {"name": "logs-1", "labels": {"kruise.io/sidecarset-name": "logs"}}, "data": {"spec": spec},
    }))
    .unwrap();
    let pod = injected(admitted(&pod(json!({})), &set(fields), &[revision], true, &Cluster));
    assert_eq!(
        pod["spec"]["containers"].as_array().unwrap().iter().find(|c| c["name"] == "agent").unwrap()["image"],
        "agent:0"
    );
    assert_eq!(pod["spec"]["serviceAccountName"].as_str(), account);
}

/// IDC-9: so are the tokens for other audiences.
#[test]
fn idc9_aud1_a_revision_is_injected_with_the_tokens_that_the_set_has_now() {
    let revision = ControllerRevision::decode(json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {"name": "logs-1", "labels": {"kruise.io/sidecarset-name": "logs"}},
        "data": {"spec": {
            "containers": [{"name": "agent", "image": "agent:0"}],
            "serviceAccountTokens": [{"audience": "old", "path": "old"}],
        }},
    }))
    .unwrap();
    let audiences = |tokens: Value| {
        let set = set(json!({
            "serviceAccountName": "x", "serviceAccountTokens": tokens,
            "injectionStrategy": {"revision": {"revisionName": "logs-1"}},
        }));
        let (sets, reasons) = selected(&set, std::slice::from_ref(&revision));
        assert_eq!(messages(reasons), [""; 0]);
        let identities = Identities::collect(&sets, true).unwrap();
        assert_eq!(sets[0].containers()[0]["image"], "agent:0");
        identities.asking[0].declared.tokens.iter().map(|token| token.audience.clone()).collect::<Vec<_>>()
    };
    assert_eq!(audiences(json!([{"audience": "vault", "path": "vault"}])), ["vault"]);
    assert_eq!(audiences(Value::Null), [""; 0]);
}

/// Returns the SidecarSet as it is injected into a Pod.
fn selected(set: &SidecarSet, revisions: &[ControllerRevision]) -> (Vec<SidecarSet>, Vec<Reason>) {
    let sources = Sources {
        revisions,
        system_namespace: "kruise-system",
        lookup: &Cluster,
        native_sidecars: NativeSidecars::Off,
    };
    let object = pod(json!({}));
    let query = Query { pod: pod::Pod::decode(&object).unwrap(), namespace: "web", uid: "u" };
    let Selection { sets, reasons, .. } = matching::select(&[CompiledSet::new(set)], query, sources);
    (sets, reasons)
}

/// SAP-9, E9: nothing is added to a Pod that a kubelet already runs, whatever the value of the annotation.
#[rstest]
#[case::hash(json!("0123"), true)]
#[case::empty(json!(""), true)]
#[case::null(json!(null), false)]
fn sap9_mirror_pods(#[case] annotation: Value, #[case] is: bool) {
    let mut mirror = pod(json!({}));
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": annotation});
    assert_eq!(is_mirror(&mirror), is);
    if is {
        let outcome = admitted(&mirror, &set(json!({"serviceAccountName": "x"})), &[], true, &FakeObjects::new());
        assert_eq!(outcome, Verdict::Unchanged.into());
    }
    assert!(!is_mirror(&pod(json!({}))));
}

/// SAP-3: the field, else its alias.
#[rstest]
#[case::neither(json!({}), "")]
#[case::field(json!({"serviceAccountName": "a"}), "a")]
#[case::alias(json!({"serviceAccount": "b"}), "b")]
#[case::both(json!({"serviceAccountName": "a", "serviceAccount": "b"}), "a")]
#[case::empty_field(json!({"serviceAccountName": "", "serviceAccount": "b"}), "b")]
fn sap3_the_alias(#[case] spec: Value, #[case] name: &str) {
    assert_eq!(account(&pod(spec)), name);
}

#[test]
fn sap3_an_alias_alone_is_the_pods_own_account_and_both_change_together() {
    let with_account = set(json!({"serviceAccountName": "x"}));
    let outcome = admitted(&pod(json!({"serviceAccount": "own"})), &with_account, &[], true, &Cluster);
    assert_eq!(
        outcome.warnings,
        [
            "SidecarSet \"logs\" is injected without its ServiceAccount: the Pod has the ServiceAccount \"own\" of its own; mode Isolate gives the sidecars theirs beside it"
        ]
    );
    let pod = injected(admitted(&pod(json!({"serviceAccount": "default"})), &with_account, &[], true, &Cluster));
    assert_eq!((&pod["spec"]["serviceAccountName"], &pod["spec"]["serviceAccount"]), (&json!("x"), &json!("x")));
}

/// The audit event lists which sets get an identity and which do not.
#[rstest]
#[case::given("default", "injected-serviceaccounts", "logs/x", "skipped-serviceaccounts")]
#[case::kept("own", "skipped-serviceaccounts", "logs", "injected-serviceaccounts")]
fn idp5_identities_are_audited(#[case] account: &str, #[case] key: &str, #[case] value: &str, #[case] absent: &str) {
    let outcome = admitted(
        &pod(json!({"serviceAccountName": account})),
        &set(json!({"serviceAccountName": "x"})),
        &[],
        true,
        &Cluster,
    );
    assert_eq!(outcome.audit.get(key).map(String::as_str), Some(value));
    assert_eq!(outcome.audit.get(absent), None);
}

/// E6, E4: restrictions for a Pod without identities.
#[rstest]
#[case::ordinary(json!({"serviceAccountName": "own"}), &[])]
#[case::e6_merged(
    json!({"serviceAccountName": "sidecarset-merged-0123456789abcdef"}),
    &["403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-0123456789abcdef\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone"]
)]
#[case::e6_merged_by_alias(
    json!({"serviceAccount": "sidecarset-merged-0123456789abcdef"}),
    &["403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-0123456789abcdef\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone"]
)]
#[case::e4_secret(
    json!({
        "containers": [{"name": "app", "volumeMounts": [{"name": "t", "mountPath": "/t"}]}],
        "volumes": [{"name": "t", "secret": {"secretName": "sidecarset-token-0123456789abcdef"}}],
    }),
    &["403 spec: container \"app\" mounts the Secret \"sidecarset-token-0123456789abcdef\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token"]
)]
fn e4_e6_pods_without_an_identity(#[case] spec: Value, #[case] expected: &[&str]) {
    assert_eq!(messages(without(&pod(spec))), expected);
}

#[test]
fn e6_a_pod_that_no_set_matches_may_not_name_a_merged_account() {
    let elsewhere = set(json!({"serviceAccountName": "x", "selector": {"matchLabels": {"app": "db"}}}));
    let merged = pod(json!({"serviceAccountName": "sidecarset-merged-0123456789abcdef"}));
    for gate in [true, false] {
        let outcome = admitted(&merged, &elsewhere, &[], gate, &FakeObjects::new());
        assert!(
            matches!(&outcome.verdict, Verdict::Refused(refusal) if refusal.code() == Code::Forbidden),
            "{outcome:?}"
        );
    }
}

/// AUD-2: sets that were stored without validation, or under an older policy.
#[rstest]
#[case::a_path_elsewhere(
    json!({"serviceAccountName": "x", "serviceAccountTokens": [{"audience": "vault", "path": "../x"}]}), json!({}),
    "spec.serviceAccountTokens[0].path: Invalid value: must be the name of a file in the token directory: letters, digits, \"-\", \"_\" and \".\", without folders; correct the SidecarSet"
)]
#[case::no_list(
    json!({"serviceAccountName": "x", "serviceAccountTokens": {"vault": "vault"}}), json!({}),
    "spec.serviceAccountTokens: Invalid value: must be a list of tokens, found an object; correct the SidecarSet"
)]
#[case::in_an_annotation(
    json!({"serviceAccountName": "x"}),
    json!({"pillion.dev/service-account-tokens": "[{\"audience\": \"vault\", \"path\": \"token\"}]"}),
    "metadata.annotations[pillion.dev/service-account-tokens][0].path: Invalid value: is the name of a file that the token directory has already; choose another name; correct the SidecarSet"
)]
#[case::no_document(
    json!({"serviceAccountName": "x"}), json!({"pillion.dev/service-account-tokens": "vault"}),
    "metadata.annotations[pillion.dev/service-account-tokens]: Invalid value: must be a JSON list, as in spec.serviceAccountTokens; correct the SidecarSet"
)]
#[case::another_list_in_the_annotation(
    json!({"serviceAccountName": "x", "serviceAccountTokens": []}),
    json!({"pillion.dev/service-account-tokens": "[{\"audience\": \"vault\", \"path\": \"vault\"}]"}),
    "metadata.annotations[pillion.dev/service-account-tokens]: Invalid value: says something else than spec.serviceAccountTokens; keep one of the two; correct the SidecarSet"
)]
#[case::no_account(
    json!({"serviceAccountTokens": [{"audience": "vault", "path": "vault"}]}), json!({}),
    "spec.serviceAccountTokens: tokens belong to a ServiceAccount; set spec.serviceAccountName; correct the SidecarSet"
)]
#[case::not_allowed(
    json!({"serviceAccountName": "x", "serviceAccountTokens": [{"audience": "vault", "path": "vault"}]}), json!({}),
    "spec.serviceAccountName: the audience \"vault\" is not allowed; add it to serviceAccounts.allowedAudiences"
)]
fn aud2_stored_sets_with_an_invalid_list_refuse_their_pods(
    #[case] fields: Value,
    #[case] annotations: Value,
    #[case] message: &str,
    #[values("SidecarsOnly", "Isolate")] mode: &str,
) {
    let mut set = set(fields).as_value().clone();
    set["metadata"]["annotations"] = annotations;
    set["spec"]["serviceAccountMode"] = json!(mode);
    let outcome = admitted(&pod(json!({})), &SidecarSet::from_decoded(set), &[], true, &Cluster);
    let Verdict::Refused(refusal) = outcome.verdict else { panic!("{outcome:?}") };
    assert_eq!((refusal.code(), refusal.message()), (Code::Forbidden, format!("SidecarSet \"logs\": {message}")));
}

/// TOK-9: containers that can read a token without mounting it.
#[rstest]
#[case::nothing(json!({}), &[])]
#[case::processes(json!({"shareProcessNamespace": true}), &["spec.shareProcessNamespace lets every container of the Pod read the tokens of its sidecars through /proc"])]
#[case::host(json!({"hostPID": true, "shareProcessNamespace": false}), &["spec.hostPID lets every container of the Pod read the tokens of its sidecars through /proc"])]
#[case::privileged_app(
    json!({"containers": [{"name": "app", "securityContext": {"privileged": true}}]}),
    &["container \"app\" is privileged and can read the tokens of the Pod's sidecars"]
)]
#[case::privileged_init(
    json!({"initContainers": [{"name": "setup", "securityContext": {"privileged": true}}]}),
    &["container \"setup\" is privileged and can read the tokens of the Pod's sidecars"]
)]
#[case::capable_app(
    json!({"containers": [{"name": "app", "securityContext": {"capabilities": {"add": ["CAP_SYS_ADMIN"]}}}]}),
    &["container \"app\" has the capability SYS_ADMIN and can read the tokens of the Pod's sidecars"]
)]
#[case::privileged_sidecar(json!({"containers": [{"name": "agent", "securityContext": {"privileged": true}}]}), &[])]
#[case::unprivileged(json!({"containers": [{"name": "app", "securityContext": {"privileged": false}}]}), &[])]
fn tok9_tokens_that_others_can_read(#[case] spec: Value, #[case] warnings: &[&str]) {
    let owners: Owners = [("logs".to_owned(), vec!["agent".to_owned()])].into_iter().collect();
    let grant = Grant {
        sidecar_set: "logs".to_owned(),
        account: "x".to_owned(),
        token: Token::OfSecret,
        audiences: Vec::new(),
    };
    let decision = Decision { grants: vec![grant], ..Decision::default() };
    let exposed = |decision| Identities::default().exposure(&[], decision, &owners).warnings(&pod(spec.clone()));
    assert_eq!(exposed(&decision), warnings);
    assert_eq!(exposed(&Decision::default()), [""; 0], "without a token there is nothing to read");
}

/// SAP-8k: a volume of the Pod that the API server adopts gives the sidecar no token.
#[rstest]
#[case::none(json!([]), false)]
#[case::own(json!([{"name": "kube-api-access-own", "emptyDir": {}}]), true)]
#[case::another_audience(
    json!([{"name": "kube-api-access-own", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "audience": "vault"}}]}}]),
    true
)]
#[case::of_the_api_server(
    json!([{"name": "kube-api-access-x7k2p", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]),
    false
)]
#[case::the_first_counts(
    json!([
        {"name": "kube-api-access-x7k2p", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        {"name": "kube-api-access-own", "emptyDir": {}}
    ]),
    false
)]
fn sap8k_row_same_mounts_where_the_api_server_is_misled(#[case] volumes: Value, #[case] mounts: bool) {
    let same = pod(json!({"serviceAccountName": "x", "volumes": volumes}));
    let pod = injected(admitted(&same, &set(json!({"serviceAccountName": "x"})), &[], true, &Cluster));
    let names: Vec<&str> = json::items(&pod, &["spec", "volumes"]).iter().map(pod::name).collect();
    assert_eq!(names.contains(&names::token_volume("x").as_str()), mounts, "{names:?}");
}

/// Does what the webhook of EKS does: mounts a token of the Pod's account into every container, except those that the
/// annotation names.
fn on_eks(mut pod: Value) -> Value {
    let skipped = json::text(&pod, &["metadata", "annotations", "eks.amazonaws.com/skip-containers"]).to_owned();
    let token = json!({"serviceAccountToken": {"audience": "sts.amazonaws.com", "path": "token"}});
    let volume = json!({"name": "aws-iam-token", "projected": {"sources": [token]}});
    let path = "/var/run/secrets/eks.amazonaws.com/serviceaccount";
    let spec = pod["spec"].as_object_mut().unwrap();
    let volumes = json::list_mut(spec, "volumes").unwrap();
    if !volumes.contains(&volume) {
        volumes.insert(0, volume);
    }
    for container in spec["containers"].as_array_mut().unwrap() {
        if skipped.split(',').any(|name| name == pod::name(container)) {
            continue;
        }
        let mounts = json::list_mut(container.as_object_mut().unwrap(), "volumeMounts").unwrap();
        if !mounts.iter().any(|mount| mount["name"] == "aws-iam-token") {
            mounts.push(json!({"name": "aws-iam-token", "readOnly": true, "mountPath": path}));
        }
    }
    pod
}

fn twin(pod: &Value, set: &SidecarSet) -> Outcome {
    let gates = Gates { service_account_injection: true, ..Gates::default() };
    let settings = Settings { gates, role: crate::settings::Role::Assert, ..Settings::default() };
    let context =
        Context { settings: &settings, sidecar_sets: std::slice::from_ref(set), lookup: &Cluster, now: Timestamp(0) };
    admit(PodRequest { uid: "u", namespace: "web", object: pod }, context)
}

fn isolated(more: Value) -> SidecarSet {
    let mut fields = json!({"serviceAccountName": "x", "serviceAccountMode": "Isolate"});
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    set(fields)
}

#[test]
fn tok14_the_twin_names_the_way_out_of_the_webhook_of_eks() {
    let set = isolated(json!({}));
    let injected = injected(admitted(&pod(json!({"serviceAccountName": "web"})), &set, &[], true, &Cluster));
    assert_eq!(twin(&injected, &set).verdict, Verdict::Unchanged);
    let Verdict::Refused(refusal) = twin(&on_eks(injected), &set).verdict else { panic!("accepted") };
    assert_eq!(
        refusal.message(),
        "SidecarSet \"logs\": spec.containers: the workload identity webhook of EKS mounted the volume \"aws-iam-token\", \
         which holds a token of the Pod's own ServiceAccount, into the sidecar \"agent\"; name the container in the \
         annotation eks.amazonaws.com/skip-containers of the Pod"
    );
}

/// A SidecarSet keeps the webhook's token out of its sidecars, whichever webhook comes first.
#[rstest]
#[case::the_clouds_comes_after(false)]
#[case::the_clouds_comes_first_and_is_called_again(true)]
fn tok14_a_sidecar_set_keeps_the_token_of_the_app_out(#[case] is_first: bool) {
    let annotations = json!({"eks.amazonaws.com/skip-containers": "agent"});
    let set = isolated(json!({"patchPodMetadata": [{"patchPolicy": "Overwrite", "annotations": annotations}]}));
    let mut before = pod(json!({"serviceAccountName": "web"}));
    if is_first {
        before = on_eks(before);
    }
    let after = on_eks(injected(admitted(&before, &set, &[], true, &Cluster)));
    let holders = |pod: &Value| -> Vec<String> {
        let mounts = |container: &&Value| container["volumeMounts"].to_string().contains("aws-iam-token");
        json::items(pod, &["spec", "containers"]).iter().filter(mounts).map(|it| pod::name(it).to_owned()).collect()
    };
    assert_eq!(holders(&after), ["app"]);
    assert_eq!(twin(&after, &set).verdict, Verdict::Unchanged);
    // With reinvocationPolicy: IfNeeded, Pillion is called again.
    let again = admitted(&after, &set, &[], true, &Cluster);
    assert_eq!((again.verdict, again.warnings), (Verdict::Unchanged, Vec::new()));
}

fn admitted_with(pod: &Value, set: &SidecarSet, webhooks: &[CloudWebhook]) -> Outcome {
    let settings = Settings {
        gates: Gates { service_account_injection: true, ..Gates::default() },
        service_accounts: Rules { skip_containers: webhooks.to_vec(), ..Rules::default() },
        ..Settings::default()
    };
    let sidecar_sets = std::slice::from_ref(set);
    let context = Context { settings: &settings, sidecar_sets, lookup: &Cluster, now: Timestamp(0) };
    admit(PodRequest { uid: "u", namespace: "web", object: pod }, context)
}

/// The annotations join what the user wrote, a second call adds nothing, and the cloud's webhook heeds them.
#[rstest]
#[case::nothing(json!({}), "agent-1,agent-2", "agent-1;agent-2")]
#[case::of_the_user(
    json!({"eks.amazonaws.com/skip-containers": "app", "azure.workload.identity/skip-containers": "agent-2; app"}),
    "agent-1,agent-2,app",
    "agent-1;agent-2; app"
)]
fn tok15_isolated_sidecars_are_left_out_if_asked(#[case] annotations: Value, #[case] eks: &str, #[case] aks: &str) {
    let hot = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    let set = isolated(json!({"containers": [{"name": "agent", "image": "agent:1", "upgradeStrategy": hot}]}));
    let mut before = pod(json!({"serviceAccountName": "web"}));
    before["metadata"]["annotations"] = annotations;
    let webhooks = [CloudWebhook::Eks, CloudWebhook::Aks];
    let once = injected(admitted_with(&before, &set, &webhooks));
    let written = |pod: &Value, webhook: CloudWebhook| pod["metadata"]["annotations"][webhook.annotation()].clone();
    assert_eq!(webhooks.map(|webhook| written(&once, webhook)), [eks, aks]);
    let without = injected(admitted_with(&before, &set, &[]));
    assert_eq!(without["spec"], once["spec"], "nothing else changes");
    assert_eq!(without["metadata"]["annotations"][HASH], once["metadata"]["annotations"][HASH]);
    assert_eq!(admitted_with(&once, &set, &webhooks).verdict, Verdict::Unchanged);
    let after = on_eks(once);
    assert_eq!(admitted_with(&after, &set, &webhooks).verdict, Verdict::Unchanged);
    assert_eq!(twin(&after, &set).verdict, Verdict::Unchanged);
}

const HASH: &str = "kruise.io/sidecarset-hash";

#[rstest]
#[case::sidecars_only(json!({"serviceAccountName": "x"}), "default")]
#[case::the_account_of_the_pod(json!({"serviceAccountName": "x", "serviceAccountMode": "Isolate"}), "x")]
#[case::no_account(json!({}), "web")]
fn tok15_a_pod_without_isolated_sidecars_gets_no_annotation(#[case] fields: Value, #[case] account: &str) {
    let set = set(fields);
    let before = pod(json!({"serviceAccountName": account}));
    let admitted = |webhooks: &[CloudWebhook]| injected(admitted_with(&before, &set, webhooks));
    assert_eq!(admitted(&[CloudWebhook::Eks, CloudWebhook::Aks]), admitted(&[]));
}
