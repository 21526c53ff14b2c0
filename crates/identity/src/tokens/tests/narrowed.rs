//! Pods that give the token of their own account to some of their containers (TCN-4, TCN-5).

use pillion_kubernetes::lookup::NoObjects;

use super::*;
use crate::token_containers::TokenContainers;

const OWN: &str = "sidecarset-sa-9c4a8fcf2bc6bd8a";

/// Returns the Pod of the other tests under an account of its own, with this annotation.
fn annotated(names: &str) -> Value {
    let mut pod = pod();
    pod["spec"]["serviceAccountName"] = json!("web");
    pod["spec"]["serviceAccount"] = json!("web");
    pod["metadata"]["annotations"] = json!({"pillion.dev/token-containers": names});
    pod
}

fn wanted(pod: &Value, rules: &Rules) -> Option<TokenContainers> {
    TokenContainers::of_pod(pod, "shop", rules, &NoObjects).unwrap()
}

/// Returns the decision about a Pod without sidecars that have an identity.
fn decided(pod: &Value) -> Decision {
    decided_with(Decision::default(), pod, &Rules::default())
}

fn decided_with(decision: Decision, pod: &Value, rules: &Rules) -> Decision {
    narrow(decision, pod, &wanted(pod, rules).unwrap(), &agent(), rules)
}

fn settled(pod: &Value) -> Result<Settled, Vec<Reason>> {
    settle(pod, &decided(pod), &agent())
}

fn twin(pod: &Value) -> Vec<String> {
    judged(pod, &decided(pod), &agent())
}

#[rstest]
#[case::one("app", &["app"])]
#[case::with_spaces(" app , setup", &["app", "setup"])]
#[case::a_sidecar_without_an_identity("agent", &["agent"])]
#[case::nobody("", &[])]
#[case::a_name_that_comes_later("late", &[])]
fn tcn4_only_the_named_containers_get_the_token(#[case] names: &str, #[case] holders: &[&str]) {
    let Settled { pod, warnings } = settled(&annotated(names)).unwrap();
    let holders: Vec<_> = holders.iter().map(|name| (*name, "web")).collect();
    for automounts in [true, false] {
        assert_eq!(identities(&pod, automounts), pairs(&holders));
    }
    assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
    assert_eq!(warnings, [""; 0]);
    assert_eq!(twin(&pod), [""; 0], "TOK-10");
    assert_eq!(settled(&pod).unwrap().pod, pod, "IDP-6");
}

#[test]
fn tcn4_the_token_is_in_a_volume_of_its_own() {
    let pod = settled(&annotated("app")).unwrap().pod;
    let volumes: Vec<_> = pod["spec"]["volumes"].as_array().unwrap().iter().map(pod::name).collect();
    assert_eq!(volumes, ["data", &names::own_token_volume("web")]);
    assert_ne!(names::own_token_volume("web"), names::token_volume("web"), "{OWN}");
    assert_eq!(pod["spec"]["volumes"][1]["projected"]["sources"].as_array().unwrap().len(), 3);
}

/// The annotation of a Pod gives the token, as its author could. What others say of all Pods only takes it away.
#[rstest]
#[case::the_pod(Some("app"), &[("app", "web")])]
#[case::the_settings(None, &[])]
fn tcn4_automounting_may_be_off(#[case] annotation: Option<&str>, #[case] holders: &[(&str, &str)]) {
    let mut before = annotated(annotation.unwrap_or_default());
    if annotation.is_none() {
        before["metadata"] = json!({});
    }
    let spec = before["spec"].as_object_mut().unwrap();
    spec["volumes"].as_array_mut().unwrap().retain(|volume| pod::name(volume) != AUTOMOUNT);
    spec.insert("automountServiceAccountToken".to_owned(), json!(false));
    spec.insert("initContainers".to_owned(), json!([]));
    spec["containers"][0].as_object_mut().unwrap().remove("volumeMounts");
    let mut rules = Rules::default();
    rules.token_containers.otherwise = Some(vec!["app".parse().unwrap()]);
    let decision = |pod: &Value| decided_with(Decision::default(), pod, &rules);
    let once = settle(&before, &decision(&before), &agent()).unwrap().pod;
    assert_eq!(identities(&once, true), pairs(holders));
    assert_eq!(settle(&once, &decision(&once), &agent()).unwrap().pod, once, "IDP-6");
    assert_eq!(judged(&once, &decision(&once), &agent()), [""; 0]);
}

/// A container that has something else in that place keeps it, as without Pillion.
#[test]
fn tcn4_a_container_may_have_its_own_token_in_its_place() {
    let mut before = annotated("app");
    before["spec"]["volumes"].as_array_mut().unwrap().push(projected("mine", ""));
    before["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "mine", "mountPath": names::MOUNT_PATH}, {"name": "data", "mountPath": "/data"}]);
    let pod = settled(&before).unwrap().pod;
    assert_eq!(identities(&pod, true), pairs(&[("app", "web")]));
    assert_eq!(pod["spec"]["containers"][0], before["spec"]["containers"][0]);
    assert_eq!(twin(&pod), [""; 0]);
}

/// Sidecars with an identity of their own keep it beside, and those that share the Pod's get it the same way.
#[rstest]
#[case::isolated(isolate(), &[("agent", "x"), ("app", "web")])]
#[case::sharing(Decision { automounted: vec!["logs".to_owned()], ..Decision::default() }, &[("agent", "web"), ("app", "web")])]
fn tcn4_sidecars_keep_their_identities(#[case] decision: Decision, #[case] holders: &[(&str, &str)]) {
    let before = annotated("app");
    let narrowed = |pod: &Value| decided_with(decision.clone(), pod, &Rules::default());
    let once = settle(&before, &narrowed(&before), &agent()).unwrap().pod;
    assert_eq!(identities(&once, true), pairs(holders));
    assert_eq!(settle(&once, &narrowed(&once), &agent()).unwrap().pod, once, "IDP-6");
    assert_eq!(judged(&once, &narrowed(&once), &agent()), [""; 0], "TOK-10");
}

/// E4: an account that the Pod has for its sidecars is given to nobody else, on the first admission and on later ones.
#[test]
fn tcn4_e4_the_account_of_sidecars_is_given_to_nobody_else() {
    let mut before = annotated("app");
    before["spec"]["serviceAccountName"] = json!("default");
    assert_eq!(decided_with(swap(), &before, &Rules::default()), swap());
    let once = settle(&before, &swap(), &agent()).unwrap().pod;
    let again = Decision { account: None, hides_token: false, ..swap() };
    assert_eq!(decided_with(again.clone(), &once, &Rules::default()), again);
    let mut merged = annotated("app");
    merged["spec"]["serviceAccountName"] = json!(names::merged(&["a", "b"]));
    assert_eq!(decided_with(again.clone(), &merged, &Rules::default()), again);
}

fn projected(name: &str, audience: &str) -> Value {
    let mut token = json!({"path": "token"});
    if !audience.is_empty() {
        token["audience"] = json!(audience);
    }
    json!({"name": name, "projected": {"sources": [{"serviceAccountToken": token}]}})
}

/// A token for another audience is of no use at the API server: a mesh's proxy needs it.
#[rstest]
#[case::the_api_servers(projected("v", ""), true)]
#[case::the_api_servers_by_name(projected("v", "https://kubernetes.default.svc"), true)]
#[case::a_mesh(projected("v", "istio-ca"), false)]
#[case::both(
    json!({"name": "v", "projected": {"sources": [
        {"serviceAccountToken": {"path": "a", "audience": "istio-ca"}}, {"serviceAccountToken": {"path": "b"}}
    ]}}),
    true
)]
#[case::a_certificate_for_the_api_server(
    json!({"name": "v", "projected": {"sources": [{"podCertificate": {"signerName": "kubernetes.io/kube-apiserver-client-pod"}}]}}),
    true
)]
#[case::a_certificate_of_a_mesh(
    json!({"name": "v", "projected": {"sources": [{"podCertificate": {"signerName": "mesh.example/pod"}}]}}),
    false
)]
#[case::an_unknown_driver(json!({"name": "v", "csi": {"driver": "secrets-store.csi.k8s.io"}}), true)]
#[case::a_known_driver(json!({"name": "v", "csi": {"driver": "nfs.csi.k8s.io"}}), false)]
#[case::adopted(json!({"name": "kube-api-access-mine", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}), true)]
fn tcn5_no_other_container_gets_it_through_another_volume(#[case] volume: Value, #[case] refused: bool) {
    let volume_name = pod::name(&volume).to_owned();
    let mut before = annotated("app");
    before["spec"]["volumes"].as_array_mut().unwrap().push(volume);
    let mount = json!({"name": volume_name, "mountPath": "/elsewhere"});
    before["spec"]["initContainers"][0]["volumeMounts"].as_array_mut().unwrap().push(mount.clone());
    assert_eq!(settled(&before).is_err(), refused);
    // The container that may hold the token may hold it twice.
    let mut holder = annotated("app, setup");
    holder["spec"] = before["spec"].clone();
    assert!(settled(&holder).is_ok());
    // A webhook that adds it later does not get past the twin.
    let mut later = settled(&annotated("app")).unwrap().pod;
    let volume = before["spec"]["volumes"].as_array().unwrap().last().unwrap().clone();
    later["spec"]["volumes"].as_array_mut().unwrap().push(volume);
    later["spec"]["containers"][1]["volumeMounts"] = json!([mount]);
    assert_eq!(!twin(&later).is_empty(), refused);
}

#[test]
fn tcn5_the_message_names_the_container_and_the_remedy() {
    let mut before = annotated("app");
    before["spec"]["volumes"].as_array_mut().unwrap().push(projected("mine", ""));
    before["spec"]["containers"][1]["volumeMounts"] = json!([{"name": "mine", "mountPath": "/elsewhere"}]);
    assert_eq!(
        messages(settled(&before)),
        [
            "spec: container \"agent\" mounts a token of \"web\", but the annotation pillion.dev/token-containers of the Pod \
          gives it to \"app\"; remove the volume from the container, or name the container in pillion.dev/token-containers"
        ]
    );
    before["spec"]["containers"][1].as_object_mut().unwrap().remove("volumeMounts");
    assert_eq!(
        messages(settled(&before)),
        [
            "spec: volume \"mine\" holds a token of \"web\", but the annotation pillion.dev/token-containers of the Pod gives \
          it to \"app\"; remove the volume"
        ]
    );
}

/// TOK-10: a Pod that has not passed the injecting policy, or that a webhook has changed back.
#[test]
fn tcn5_the_twin_refuses_what_the_policy_would_still_change() {
    let never = annotated("app");
    assert_eq!(
        twin(&never),
        [
            "spec: container \"app\" lacks the token of \"web\"; find the webhook that took it away, or the injecting policy \
             that did not run",
            "spec: container \"setup\" mounts a token of \"web\", but the annotation pillion.dev/token-containers of the Pod \
             gives it to \"app\"; remove the volume from the container, or name the container in \
             pillion.dev/token-containers"
        ]
    );
    let nobody = annotated("");
    assert_eq!(twin(&nobody).len(), 2, "{:?}", twin(&nobody));
    let mut back = settled(&annotated("app")).unwrap().pod;
    back["spec"]["automountServiceAccountToken"] = json!(true);
    assert!(!twin(&back).is_empty());
}

/// Without the annotation, the volume is a stranger's (TOK-17), and nobody may write it in another form.
#[test]
fn tcn5_nobody_else_writes_the_volume() {
    let pod = settled(&annotated("app")).unwrap().pod;
    assert_eq!(intruders(&pod).len(), 1);
    let mut changed = pod.clone();
    changed["spec"]["volumes"][1]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"] = json!(86400);
    assert!(settled(&changed).is_err());
    assert!(!twin(&changed).is_empty());
    let mut stolen = pod;
    stolen["spec"]["containers"][1]["volumeMounts"] =
        json!([{"name": names::own_token_volume("web"), "mountPath": "/t"}]);
    assert!(settled(&stolen).is_err());
    assert!(!twin(&stolen).is_empty());
}

/// AFT-3: the account is the Pod's own, so no guard of identities stands before its containers.
#[test]
fn tcn4_aft3_the_token_is_no_sidecars_identity() {
    let pod = settled(&annotated("app")).unwrap().pod;
    assert!(identity::identities(&pod, &Drivers::new()).is_empty());
}
