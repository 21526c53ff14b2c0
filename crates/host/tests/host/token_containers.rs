//! Pods that give their token to some of their containers, through the built module (docs/spec/token-containers.md).

use pillion_host::ValidationResponse;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::identity::admit_pod;

const TOKEN_CONTAINERS: &str = "pillion.dev/token-containers";
const PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Returns a Pod of three containers as the API server sends it, with these annotations.
fn pod(annotations: &Value) -> Value {
    let mount = json!({"name": "kube-api-access-x7k2p", "readOnly": true, "mountPath": PLACE});
    let container = |name: &str| json!({"name": name, "image": "i:1", "volumeMounts": [mount]});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "web", "annotations": annotations},
        "spec": {
            "serviceAccountName": "shop", "serviceAccount": "shop",
            "initContainers": [container("setup")], "containers": [container("app"), container("proxy")],
            "volumes": [{"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ]}}],
        },
    })
}

/// Returns the answer for a Pod in a namespace with these annotations.
fn admit(pod: &Value, namespace: &Value, rules: &Value, role: &str) -> ValidationResponse {
    let settings = json!({"role": role, "serviceAccounts": {"tokenContainers": rules}});
    let objects =
        [json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web", "annotations": namespace}})];
    admit_pod(pod, &settings, objects)
}

/// Returns the containers with a mount in the place of the token.
fn holders(pod: &Value) -> Vec<&str> {
    let lists = ["initContainers", "containers"].map(|list| pod["spec"][list].as_array().unwrap());
    let holds = |container: &&Value| {
        container["volumeMounts"]
            .as_array()
            .is_some_and(|mounts| mounts.iter().any(|mount| mount["mountPath"] == PLACE))
    };
    lists.into_iter().flatten().filter(holds).map(|container| container["name"].as_str().unwrap()).collect()
}

#[rstest]
#[case::the_pod(json!({TOKEN_CONTAINERS: "app"}), json!({}), json!({}), &["app"])]
#[case::an_init_container(json!({TOKEN_CONTAINERS: "app, setup"}), json!({}), json!({}), &["setup", "app"])]
#[case::nobody(json!({TOKEN_CONTAINERS: ""}), json!({}), json!({}), &[])]
#[case::the_namespace(json!({}), json!({TOKEN_CONTAINERS: "proxy"}), json!({"namespaces": true}), &["proxy"])]
#[case::the_settings(json!({}), json!({}), json!({"otherwise": ["s*"]}), &["setup"])]
fn tcn4_the_others_get_no_token_and_the_twin_agrees(
    #[case] annotations: Value,
    #[case] namespace: Value,
    #[case] rules: Value,
    #[case] expected: &[&str],
) {
    let answer = admit(&pod(&annotations), &namespace, &rules, "Inject");
    let made = answer.mutated_object.unwrap();
    assert_eq!(holders(&made), expected);
    assert_eq!(made["spec"]["automountServiceAccountToken"], false);
    let mut listed = expected.to_vec();
    listed.sort_unstable();
    assert_eq!(answer.audit_annotations.unwrap()["token-containers"], listed.join(","));
    let twin = admit(&made, &namespace, &rules, "Assert");
    assert!(twin.accepted && twin.mutated_object.is_none(), "{:?}", twin.message);
    let again = admit(&made, &namespace, &rules, "Inject");
    assert!(again.accepted && again.mutated_object.is_none(), "IDP-6: {again:?}");
}

#[rstest]
#[case::nobody_asks(json!({}), json!({}), json!({}))]
#[case::the_namespace_is_not_asked(json!({}), json!({TOKEN_CONTAINERS: "app"}), json!({}))]
#[case::all(json!({TOKEN_CONTAINERS: "*"}), json!({TOKEN_CONTAINERS: "app"}), json!({"namespaces": true, "otherwise": []}))]
fn tcn1_tcn2_other_pods_stay_as_they_are(#[case] annotations: Value, #[case] namespace: Value, #[case] rules: Value) {
    for role in ["Inject", "Assert"] {
        let answer = admit(&pod(&annotations), &namespace, &rules, role);
        assert!(answer.accepted && answer.mutated_object.is_none(), "{answer:?}");
        assert!(answer.audit_annotations.is_none_or(|all| all.is_empty()));
    }
}

/// Attacks on the token of the named containers, by a Pod and by a webhook after the policy. The policy refuses the first,
/// and the twin both.
#[rstest]
#[case::a_volume_of_its_own(
    json!([{"name": "mine", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]),
    "mine"
)]
#[case::for_the_api_server_by_its_name(
    json!([{"name": "mine", "projected": {"sources": [
        {"serviceAccountToken": {"path": "token", "audience": "https://kubernetes.default.svc.cluster.local"}}
    ]}}]),
    "mine"
)]
#[case::a_name_that_the_api_server_adopts(
    json!([{"name": "kube-api-access-mine", "projected": {"sources": [
        {"serviceAccountToken": {"path": "token"}}, {"secret": {"name": "mine"}}
    ]}}]),
    "kube-api-access-mine"
)]
#[case::a_certificate(
    json!([{"name": "mine", "projected": {"sources": [{"podCertificate": {"signerName": "kubernetes.io/kube-apiserver-client-pod"}}]}}]),
    "mine"
)]
#[case::a_driver(json!([{"name": "mine", "csi": {"driver": "tokens.example"}}]), "mine")]
#[case::the_volume_of_the_others(json!([]), "sidecarset-sa-1c68cf2e0a0e4b3d")]
fn tcn5_another_container_does_not_get_the_token(#[case] volumes: Value, #[case] mounted: &str) {
    let annotations = json!({TOKEN_CONTAINERS: "app"});
    let made = admit(&pod(&annotations), &json!({}), &json!({}), "Inject").mutated_object.unwrap();
    let own = made["spec"]["volumes"][0]["name"].as_str().unwrap().to_owned();
    let mounted = if mounted.starts_with("sidecarset-sa-") { &own } else { mounted };
    let steal = |mut pod: Value| {
        pod["spec"]["volumes"].as_array_mut().unwrap().extend(volumes.as_array().unwrap().clone());
        pod["spec"]["containers"][1]["volumeMounts"] = json!([{"name": mounted, "mountPath": "/stolen"}]);
        pod
    };
    let late = admit(&steal(made), &json!({}), &json!({}), "Assert");
    assert!(!late.accepted);
    let early = admit(&steal(pod(&annotations)), &json!({}), &json!({}), "Inject");
    // Pillion's volume is not there yet, so the API server refuses the mount.
    assert!(!early.accepted || mounted == own, "{early:?}");
    if let Some(pod) = early.mutated_object {
        assert!(!admit(&pod, &json!({}), &json!({}), "Assert").accepted);
    }
}
