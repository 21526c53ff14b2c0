//! Which containers of any Pod get its token (TCN-1 to TCN-8): the Pod, its Namespace and the settings, with SidecarSets
//! and without, by the injecting policy and by its twin.

use pillion_identity::glob::Glob;
use pillion_identity::names;
use pillion_identity::rules::Exposure as Setting;
use pillion_identity::token_container_rules::TokenContainerRules;
use pillion_kubernetes::lookup::Failure;

use super::*;
use crate::audit;
use crate::settings::Role;

/// A cluster with every account, and the Namespace `web` with this annotation.
struct Annotated(Result<Option<&'static str>, Failure>);

impl Lookup for Annotated {
    fn get(&self, object: &ObjectRef) -> Answer {
        match object.kind {
            "Namespace" => {
                let annotations = self.0?.map(|text| json!({TOKEN_CONTAINERS: text}));
                Ok(Some(json!({"metadata": {"name": object.name, "annotations": annotations}})))
            }
            _ => Cluster.get(object),
        }
    }
}

/// Returns a Pod with the containers `app` and `proxy`, as the API server sends it, with this annotation.
fn with_token(annotation: Option<&str>) -> Value {
    let mount = json!({"name": "kube-api-access-x7k2p", "readOnly": true, "mountPath": names::MOUNT_PATH});
    let container = |name: &str| json!({"name": name, "image": "i:1", "volumeMounts": [mount]});
    let mut pod = pod(json!({
        "serviceAccountName": "shop", "serviceAccount": "shop",
        "containers": [container("app"), container("proxy")],
        "volumes": [{"name": "kube-api-access-x7k2p", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
    }));
    if let Some(text) = annotation {
        pod["metadata"]["annotations"] = json!({TOKEN_CONTAINERS: text});
    }
    pod
}

fn settings(namespaces: bool, otherwise: Option<&[&str]>) -> Settings {
    let globs = |list: &[&str]| list.iter().map(|glob| glob.parse::<Glob>().unwrap()).collect();
    let token_containers = TokenContainerRules { namespaces, otherwise: otherwise.map(globs) };
    Settings { service_accounts: Rules { token_containers, ..Rules::default() }, ..Settings::default() }
}

fn answer(pod: &Value, sets: &[SidecarSet], settings: &Settings, lookup: &dyn Lookup) -> Outcome {
    let context = Context { settings, sidecar_sets: sets, lookup, now: Timestamp(0) };
    admit(PodRequest { uid: "u", namespace: "web", object: pod }, context)
}

/// Returns the names of the containers that mount something at the token directory.
fn holders(pod: &Value) -> Vec<&str> {
    let holds = |container: &&Value| {
        json::items(container, &["volumeMounts"]).iter().any(|mount| mount["mountPath"] == names::MOUNT_PATH)
    };
    tokens::containers(pod).filter(holds).map(pod::name).collect()
}

/// Returns the answer of the twin about a Pod that the injecting policy has made.
fn asserted(pod: &Value, sets: &[SidecarSet], settings: &Settings, lookup: &dyn Lookup) -> Verdict {
    answer(pod, sets, &Settings { role: Role::Assert, ..settings.clone() }, lookup).verdict
}

#[rstest]
#[case::nobody_says_anything(None, Ok(None), true, None, &["app", "proxy"])]
#[case::the_pod(Some("app"), Err(Failure::Timeout), true, None, &["app"])]
#[case::the_pod_before_its_namespace(Some("proxy"), Ok(Some("app")), true, Some(&[][..]), &["proxy"])]
#[case::the_pod_wants_all(Some("*"), Ok(Some("app")), true, Some(&[][..]), &["app", "proxy"])]
#[case::the_namespace(None, Ok(Some("app")), true, None, &["app"])]
#[case::the_namespace_before_the_settings(None, Ok(Some("proxy")), true, Some(&["app"][..]), &["proxy"])]
#[case::the_namespace_is_not_asked(None, Err(Failure::Timeout), false, None, &["app", "proxy"])]
#[case::the_namespace_has_none(None, Ok(None), true, Some(&["ap*"][..]), &["app"])]
#[case::the_settings_give_nobody(None, Ok(None), false, Some(&[][..]), &[])]
fn tcn1_tcn2_the_nearest_says_who_gets_the_token(
    #[case] of_pod: Option<&str>,
    #[case] of_namespace: Result<Option<&'static str>, Failure>,
    #[case] namespaces: bool,
    #[case] otherwise: Option<&[&str]>,
    #[case] expected: &[&str],
) {
    let (settings, lookup) = (settings(namespaces, otherwise), Annotated(of_namespace));
    for sets in [&[][..], &[set(json!({}))]] {
        let before = with_token(of_pod);
        let outcome = answer(&before, sets, &settings, &lookup);
        let after = match outcome.verdict {
            Verdict::Unchanged => before,
            Verdict::Mutated(after) => after,
            Verdict::Refused(refusal) => panic!("{}", refusal.message()),
        };
        assert_eq!(holders(&after), expected);
        let is_narrowed = expected.len() < 2;
        assert_eq!(outcome.audit.contains_key(audit::TOKEN_CONTAINERS), is_narrowed, "TCN-7");
        assert_eq!(asserted(&after, sets, &settings, &lookup), Verdict::Unchanged, "TOK-10");
        let again = answer(&after, sets, &settings, &lookup).verdict;
        assert!(again == Verdict::Unchanged || again == Verdict::Mutated(after), "IDP-6: {again:?}");
    }
}

#[rstest]
#[case::not_a_name(
    Some("app,App"),
    Ok(None),
    "403 metadata.annotations[pillion.dev/token-containers]: the annotation \
    pillion.dev/token-containers of the Pod has \"App\", which no container can be called; write names of containers, separated \
    by commas, or \"*\" for all of them"
)]
#[case::a_glob(
    Some("app-*"),
    Ok(None),
    "403 metadata.annotations[pillion.dev/token-containers]: the annotation \
    pillion.dev/token-containers of the Pod has \"app-*\", which no container can be called; write names of containers, \
    separated by commas, or \"*\" for all of them"
)]
#[case::of_the_namespace(
    None,
    Ok(Some("a b")),
    "403 metadata.annotations[pillion.dev/token-containers]: the annotation \
    pillion.dev/token-containers of the Namespace has \"a b\", which no container can be called; write names of containers, \
    separated by commas, or \"*\" for all of them"
)]
#[case::unreadable(
    None,
    Err(Failure::Timeout),
    "503 metadata.annotations[pillion.dev/token-containers]: Namespace \"web\" \
    could not be read: no answer in time; try again"
)]
fn tcn3_what_cannot_be_understood_is_refused(
    #[case] of_pod: Option<&str>,
    #[case] of_namespace: Result<Option<&'static str>, Failure>,
    #[case] message: &str,
) {
    let lookup = Annotated(of_namespace);
    for role in [Role::Inject, Role::Assert] {
        let settings = Settings { role, ..settings(true, None) };
        let Verdict::Refused(refusal) = answer(&with_token(of_pod), &[], &settings, &lookup).verdict else {
            panic!("accepted")
        };
        assert_eq!(format!("{} {}", refusal.code().as_u16(), refusal.message()), message);
    }
}

#[test]
fn tcn3_e18_many_names_are_refused() {
    let names: Vec<String> = (0..65).map(|number| format!("c{number}")).collect();
    let outcome = answer(&with_token(Some(&names.join(","))), &[], &Settings::default(), &FakeObjects::new());
    let Verdict::Refused(refusal) = outcome.verdict else { panic!("accepted") };
    assert!(refusal.message().contains("has 65 names; at most 64 are read"), "{}", refusal.message());
}

#[test]
fn tcn3_a_name_without_a_container_is_told_once() {
    let before = with_token(Some("app, ap"));
    let outcome = answer(&before, &[], &Settings::default(), &FakeObjects::new());
    let warning = "the annotation pillion.dev/token-containers of the Pod has \"ap\", and no container has this name";
    assert_eq!(outcome.warnings, [warning]);
    let after = injected(outcome);
    let twin = Settings { role: Role::Assert, ..Settings::default() };
    assert_eq!(answer(&after, &[], &twin, &FakeObjects::new()), Verdict::Unchanged.into());
}

/// SET-6: no twin asserts anything in these namespaces.
#[test]
fn tcn2_protected_namespaces_stay_as_they_are() {
    let settings = settings(true, Some(&[]));
    let context = Context { settings: &settings, sidecar_sets: &[], lookup: &FakeObjects::new(), now: Timestamp(0) };
    let pod = with_token(Some("app"));
    let outcome = admit(PodRequest { uid: "u", namespace: "kube-system", object: &pod }, context);
    assert_eq!(outcome.verdict, Verdict::Unchanged);
    let warning = "the annotation pillion.dev/token-containers has no effect: the namespace \"kube-system\" is protected \
                   (serviceAccounts.protectedNamespaces)";
    assert_eq!(outcome.warnings, [warning]);
}

/// Sidecars that were injected without an identity lose the token, too, and those with one keep theirs.
#[rstest]
#[case::plain(json!({}), &["app"])]
#[case::isolated(json!({"serviceAccountName": "x", "serviceAccountMode": "Isolate"}), &["agent", "app"])]
#[case::sharing(json!({"serviceAccountName": "shop"}), &["agent", "app"])]
fn tcn4_sidecars_of_sidecar_sets_are_other_containers(#[case] fields: Value, #[case] expected: &[&str]) {
    let sets = [set(fields)];
    let gates = Gates { service_account_injection: true, ..Gates::default() };
    let settings = Settings { gates, ..Settings::default() };
    let after = injected(answer(&with_token(Some("app")), &sets, &settings, &Cluster));
    assert_eq!(holders(&after), expected);
    assert_eq!(after["spec"]["serviceAccountName"], "shop");
    assert_eq!(asserted(&after, &sets, &settings, &Cluster), Verdict::Unchanged);
    let again = answer(&after, &sets, &settings, &Cluster).verdict;
    assert!(again == Verdict::Unchanged || again == Verdict::Mutated(after), "{again:?}");
}

/// E4: the account that a Pod gets for its sidecars is not for the app, whatever the Pod says.
#[test]
fn tcn4_e4_the_account_of_the_sidecars_is_not_for_the_app() {
    let sets = [set(json!({"serviceAccountName": "x"}))];
    let gates = Gates { service_account_injection: true, ..Gates::default() };
    let settings = Settings { gates, ..Settings::default() };
    let mut before = with_token(Some("app"));
    before["spec"]["serviceAccountName"] = json!("default");
    before["spec"]["serviceAccount"] = json!("default");
    let outcome = answer(&before, &sets, &settings, &Cluster);
    let warning = "the annotation pillion.dev/token-containers of the Pod has no effect: the Pod has the ServiceAccount \
                   \"x\" for its sidecars";
    assert_eq!(outcome.warnings, [warning]);
    let after = injected(outcome);
    assert_eq!(holders(&after), ["agent"]);
    let again = answer(&after, &sets, &settings, &Cluster).verdict;
    assert!(again == Verdict::Unchanged || again == Verdict::Mutated(after.clone()), "{again:?}");
    // A webhook that copies the sidecar's volume into the app is found.
    let mut stolen = after;
    let mounts = stolen["spec"]["containers"][0]["volumeMounts"].clone();
    for container in stolen["spec"]["containers"].as_array_mut().unwrap() {
        container["volumeMounts"] = mounts.clone();
    }
    assert!(matches!(asserted(&stolen, &sets, &settings, &Cluster), Verdict::Refused(_)));
}

/// TCN-6, TOK-16: what the kernel lets a container see.
#[rstest]
#[case::processes(json!({"shareProcessNamespace": true}), "spec.shareProcessNamespace: lets every container \
    of the Pod read the token of \"shop\" through /proc, but the annotation pillion.dev/token-containers of the Pod gives it to \
    \"app\"")]
#[case::a_privileged_container(json!({"initContainers": [
    {"name": "setup", "image": "s:1", "securityContext": {"privileged": true}}
]}), "spec.initContainers[0].securityContext: container \"setup\" is privileged and can read the token of \"shop\", but the \
    annotation pillion.dev/token-containers of the Pod gives it to \"app\"")]
fn tcn6_who_can_read_it_all_the_same_is_told_or_refused(#[case] spec: Value, #[case] message: &str) {
    let mut before = with_token(Some("app"));
    before["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let warned = answer(&before, &[], &Settings::default(), &FakeObjects::new());
    let (field, problem) = message.split_once(": ").unwrap();
    let warning = if problem.starts_with("container") { problem.to_owned() } else { format!("{field} {problem}") };
    assert_eq!(warned.warnings, [warning]);
    let deny = Rules { exposure: Setting::Deny, ..Rules::default() };
    for (role, pod) in [(Role::Inject, before), (Role::Assert, injected(warned))] {
        let settings = Settings { service_accounts: deny.clone(), role, ..Settings::default() };
        let Verdict::Refused(refusal) = answer(&pod, &[], &settings, &FakeObjects::new()).verdict else {
            panic!("accepted")
        };
        let remedy = "remove it from the Pod, or set serviceAccounts.exposure to Warn";
        assert_eq!(refusal.message(), format!("{message}; {remedy}"));
    }
}

/// A SidecarSet that was stored without validation does not decide about the Pod's token.
#[test]
fn tcn8_no_sidecar_set_writes_the_annotation() {
    for value in ["*", "agent"] {
        let patch = json!([{"annotations": {TOKEN_CONTAINERS: value}, "patchPolicy": "Overwrite"}]);
        let sets = [set(json!({"patchPodMetadata": patch}))];
        let outcome = answer(&with_token(Some("app")), &sets, &Settings::default(), &FakeObjects::new());
        let Verdict::Refused(refusal) = outcome.verdict else { panic!("accepted") };
        assert_eq!(
            refusal.message(),
            "SidecarSet \"logs\": spec.patchPodMetadata[0].annotations[pillion.dev/token-containers]: no SidecarSet decides which \
             containers of a Pod get its token; remove the annotation from the SidecarSet"
        );
    }
}

/// INJ-15: a sidecar that shares the volumes of the app gets neither its token nor Pillion's volume.
#[test]
fn tcn5_a_sidecar_that_shares_volumes_does_not_get_the_token() {
    let sets = [set(json!({"containers": [
        {"name": "agent", "image": "agent:1", "shareVolumePolicy": {"type": "enabled"}}
    ]}))];
    let after = injected(answer(&with_token(Some("app")), &sets, &Settings::default(), &FakeObjects::new()));
    assert_eq!(holders(&after), ["app"]);
    let again = answer(&after, &sets, &Settings::default(), &FakeObjects::new()).verdict;
    assert!(again == Verdict::Unchanged || again == Verdict::Mutated(after), "{again:?}");
}
