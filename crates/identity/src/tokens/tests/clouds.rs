//! Tokens that other webhooks mount into sidecars (TOK-14).

use pillion_sidecarset::sidecar_set::SidecarSet;

use super::*;

/// A SidecarSet of the sidecar `agent`, with these members of the sidecar.
fn set(sidecar: Value) -> SidecarSet {
    let mut container = json!({"name": "agent"});
    container.as_object_mut().unwrap().extend(sidecar.as_object().unwrap().clone());
    SidecarSet::from_decoded(json!({"metadata": {"name": "logs"}, "spec": {"containers": [container]}}))
}

/// Returns an injected Pod with an account of its own, into whose containers a webhook has mounted a volume later.
fn mounted_into_all(volume: Value, path: &str) -> Value {
    let mut before = pod();
    before["spec"]["serviceAccountName"] = json!("web");
    let mut pod = settle(&before, &isolate(), &agent()).unwrap().pod;
    let mount = json!({"name": volume["name"], "readOnly": true, "mountPath": path});
    pod["spec"]["volumes"].as_array_mut().unwrap().insert(0, volume);
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array_mut().unwrap() {
            container["volumeMounts"].as_array_mut().unwrap().push(mount.clone());
        }
    }
    pod
}

fn projected(name: &str, audience: &str) -> Value {
    json!({"name": name, "projected": {"sources": [{"serviceAccountToken": {"audience": audience, "path": "token"}}]}})
}

const ON_EKS: &str = "/var/run/secrets/eks.amazonaws.com/serviceaccount";

#[rstest]
#[case::eks(
    projected("aws-iam-token", "sts.amazonaws.com"),
    ON_EKS,
    "the workload identity webhook of EKS mounted the volume \"aws-iam-token\", which holds a token of the Pod's own \
     ServiceAccount, into the sidecar \"agent\"; name the container in the annotation eks.amazonaws.com/skip-containers of \
     the Pod"
)]
#[case::eks_pod_identity(
    projected("eks-pod-identity-token", "pods.eks.amazonaws.com"),
    "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount",
    "the workload identity webhook of EKS mounted the volume \"eks-pod-identity-token\", which holds a token of the Pod's \
     own ServiceAccount, into the sidecar \"agent\"; name the container in the annotation \
     eks.amazonaws.com/skip-containers of the Pod"
)]
#[case::aks(
    projected("azure-workload-identity-reserved-0123456789abcdef0123456789abcde", "api://AzureADTokenExchange"),
    "/var/run/secrets/azure/wi",
    "the workload identity webhook of AKS mounted the volume \
     \"azure-workload-identity-reserved-0123456789abcdef0123456789abcde\", which holds a token of the Pod's own \
     ServiceAccount, into the sidecar \"agent\"; name the container in the annotation \
     azure.workload.identity/skip-containers of the Pod"
)]
#[case::aks_before(
    projected("azure-identity-token", "api://AzureADTokenExchange"),
    "/var/run/secrets/azure/tokens",
    "the workload identity webhook of AKS mounted the volume \"azure-identity-token\", which holds a token of the Pod's own \
     ServiceAccount, into the sidecar \"agent\"; name the container in the annotation \
     azure.workload.identity/skip-containers of the Pod"
)]
#[case::another(
    projected("vault-token", "vault"),
    "/var/run/vault",
    "another webhook mounted the volume \"vault-token\", which holds a token of the Pod's own ServiceAccount, into the \
     sidecar \"agent\"; let that webhook leave the container out, or leave the Pod out"
)]
fn tok14_the_twin_names_the_webhook_that_mounted_a_token(
    #[case] volume: Value,
    #[case] path: &str,
    #[case] message: &str,
) {
    let pod = mounted_into_all(volume, path);
    let (sets, owners) = ([set(json!({}))], agent());
    let in_effect = assert::InEffect { sets: &sets, owners: &owners };
    assert_eq!(judged_with(&pod, &isolate(), in_effect), [format!("SidecarSet \"logs\": spec.containers: {message}")]);
}

/// The webhook left the sidecar out, as its annotation asks.
#[test]
fn tok14_a_token_in_the_hands_of_the_app_alone_is_its_own() {
    let mut pod = mounted_into_all(projected("aws-iam-token", "sts.amazonaws.com"), ON_EKS);
    pod["spec"]["containers"][1]["volumeMounts"].as_array_mut().unwrap().pop();
    let (sets, owners) = ([set(json!({}))], agent());
    assert_eq!(judged_with(&pod, &isolate(), assert::InEffect { sets: &sets, owners: &owners }), [""; 0]);
}

/// The volume of the SidecarSet has a name that the Pod or a webhook uses, too.
#[rstest]
#[case::mounted(json!({"volumeMounts": [{"name": "aws-iam-token", "mountPath": "/own"}]}))]
#[case::for_a_variable(json!({"env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "aws-iam-token"}}}]}))]
fn tok14_a_volume_that_the_sidecar_set_uses_is_no_webhooks(#[case] sidecar: Value) {
    let pod = mounted_into_all(projected("aws-iam-token", "sts.amazonaws.com"), ON_EKS);
    let (sets, owners) = ([set(sidecar)], agent());
    assert_eq!(
        judged_with(&pod, &isolate(), assert::InEffect { sets: &sets, owners: &owners }),
        [
            "spec.containers: sidecar \"agent\" mounts the volume \"aws-iam-token\", which holds a token of the Pod's own \
          ServiceAccount; rename the volume; the SidecarSet has one of this name"
        ]
    );
}

/// Nothing else that the twin refuses goes unnoticed beside the webhook's volume.
#[rstest]
#[case::below_the_token(ON_EKS, |pod: &mut Value| {
    let mount = json!({"name": "data", "mountPath": format!("{}/x", names::MOUNT_PATH)});
    pod["spec"]["containers"][1]["volumeMounts"].as_array_mut().unwrap().push(mount);
}, "has the volume \"data\" in the place of its token")]
#[case::the_sidecars_token_in_the_app(ON_EKS, |pod: &mut Value| {
    let mount = json!({"name": names::token_volume("x"), "mountPath": "/stolen"});
    pod["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap().push(mount);
}, "container \"app\" mounts the volume \"sidecarset-sa-")]
#[case::lost(ON_EKS, |pod: &mut Value| {
    pod["spec"]["containers"][1]["volumeMounts"].as_array_mut().unwrap().remove(0);
}, "sidecar \"agent\" lacks the token of \"x\"")]
#[case::over_the_token(names::MOUNT_PATH, |_: &mut Value| {}, "has the volume \"aws-iam-token\" where its token belongs")]
#[case::above_the_token("/var/run/secrets", |_: &mut Value| {}, "has the volume \"aws-iam-token\" above the place")]
fn tok10_tok14_other_changes_are_refused_beside_it(
    #[case] path: &str,
    #[case] edit: fn(&mut Value),
    #[case] message: &str,
) {
    let mut pod = mounted_into_all(projected("aws-iam-token", "sts.amazonaws.com"), path);
    edit(&mut pod);
    let (sets, owners) = ([set(json!({}))], agent());
    let found = judged_with(&pod, &isolate(), assert::InEffect { sets: &sets, owners: &owners });
    assert!(found.iter().any(|text| text.contains(message)), "{found:#?}");
}

/// The account of the sidecar is set up for the cloud, and the Pod runs under it for the sidecar alone.
#[test]
fn tok14_e11_the_way_out_for_a_container_of_the_app() {
    let mut pod = swapped(|_: &mut Value| {});
    pod["spec"]["volumes"].as_array_mut().unwrap().push(projected("aws-iam-token", "sts.amazonaws.com"));
    let mount = json!({"name": "aws-iam-token", "mountPath": ON_EKS});
    pod["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap().push(mount);
    assert_eq!(
        regained(&pod, &again(), &agent()).iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["spec: container \"app\" mounts a token of \"x\", which is for sidecars alone; name the container in the \
          annotation eks.amazonaws.com/skip-containers of the Pod"]
    );
}
