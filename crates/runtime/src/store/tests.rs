use rstest::rstest;
use serde_json::{Value, json};

use super::subject::{PodObject, WorkloadObject};
use super::*;

fn pod(value: Value) -> Arc<Subject> {
    Subject::of_pod(&serde_json::from_value::<PodObject>(value).expect("a Pod"), None)
}

fn workload(value: Value) -> Option<Subject> {
    Subject::of_workload("Deployment", serde_json::from_value::<WorkloadObject>(value).expect("a workload"))
}

#[test]
fn of_a_pod_what_decides_about_identities_is_kept() {
    let seen = pod(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "uid": "1", "labels": {"app": "web"}, "annotations": {"a": "b"}},
        "spec": {
            "serviceAccountName": "default", "containers": [{"name": "app", "image": "app"}],
            "volumes": [
                {"name": "a", "secret": {"secretName": "sidecarset-token-b"}},
                {"name": "b", "projected": {"sources": [
                    {"secret": {"name": "sidecarset-token-a"}}, {"secret": {"name": "other"}},
                    {"serviceAccountToken": {"path": "token"}}
                ]}},
                {"name": "c", "emptyDir": {}}, {"name": "d", "projected": {"sources": null}}
            ]
        },
        "status": {"phase": "Succeeded", "podIP": "10.0.0.1"}
    }));
    assert_eq!(seen.token_secrets, ["sidecarset-token-a", "sidecarset-token-b"]);
    assert!(seen.is_finished);
    let kept = seen.pod.value();
    assert_eq!(kept["metadata"], json!({"namespace": "shop", "labels": {"app": "web"}}));
    assert_eq!(kept["spec"]["serviceAccountName"], json!("default"));
    // A volume with a token counts even if no container mounts it (E20); the others are left out.
    let volumes: Vec<&Value> = kept["spec"]["volumes"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(volumes, ["b"]);
    assert_eq!(kept["spec"]["containers"], json!([]));
}

#[test]
fn tok0_a_container_with_a_further_token_is_seen() {
    let volume =
        |name: &str, token: Value| json!({"name": name, "projected": {"sources": [{"serviceAccountToken": token}]}});
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    let automount = mount("kube-api-access-x", "/var/run/secrets/kubernetes.io/serviceaccount");
    let of = |mounts: Value, further: Value| {
        let container = json!({"name": "app", "image": "app", "volumeMounts": mounts});
        let volumes =
            [volume("kube-api-access-x", json!({"path": "token"})), json!({"name": "a", "emptyDir": {}}), further];
        pod(json!({"metadata": {"name": "web"}, "spec": {"containers": [container], "volumes": volumes}})).pod.value()["spec"]
            .clone()
    };
    assert_eq!(of(json!([automount]), json!({"name": "vault", "emptyDir": {}})).get("containers"), None);
    for vault in [
        volume("vault", json!({"path": "token"})),
        json!({"name": "vault", "projected": {"sources": [{"podCertificate": {"signerName": "a/b"}}]}}),
        json!({"name": "vault", "csi": {"driver": "vault.example"}}),
    ] {
        for mounts in [json!([automount, mount("vault", "/vault")]), json!([automount])] {
            let seen = of(mounts, vault.clone());
            assert_eq!(seen["containers"][0]["name"], "app");
            assert_eq!(seen["volumes"][1]["name"], "vault");
            assert!(pillion_sidecarset::pod::Pod::decode(&json!({"spec": seen})).is_ok());
        }
    }
}

#[rstest]
#[case::status("/status", json!({"phase": "Failed"}))]
#[case::uid("/metadata/uid", json!("2"))]
#[case::labels("/metadata/labels", json!({"app": "other"}))]
#[case::annotation("/metadata/annotations", json!({"kruise.io/sidecarset-hash": "{\"logs\":{\"hash\":\"2\"}}"}))]
#[case::account("/spec/serviceAccountName", json!("other"))]
#[case::automount("/spec/automountServiceAccountToken", json!(false))]
#[case::volume("/spec/volumes/0", json!({"name": "a", "secret": {"secretName": "sidecarset-token-c"}}))]
#[case::source("/spec/volumes/1", json!({"name": "b", "projected": {"sources": [{"secret": {"name": "sidecarset-token-d"}}]}}))]
#[case::token("/spec/volumes/1", json!({"name": "b", "projected": {"sources": [{"podCertificate": {"signerName": "a/b"}}]}}))]
#[case::driver("/spec/volumes/0", json!({"name": "a", "csi": {"driver": "vault.example"}}))]
#[case::mount("/spec/containers/0/volumeMounts", json!([{"name": "b", "mountPath": "/b"}]))]
#[case::init_container("/spec/initContainers", json!([{"name": "i", "volumeMounts": [{"name": "b", "mountPath": "/b"}]}]))]
#[case::nothing("/spec/nodeName", json!("n"))]
fn an_earlier_version_of_a_pod_changes_no_result(#[case] path: &str, #[case] value: Value) {
    let old = json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "1", "labels": {"app": "web"},
            "annotations": {"kruise.io/sidecarset-hash": "{\"logs\":{\"hash\":\"1\"}}"}
        },
        "spec": {
            "serviceAccountName": "default", "containers": [{"name": "app", "image": "app"}],
            "volumes": [
                {"name": "a", "secret": {"secretName": "sidecarset-token-b"}},
                {"name": "b", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
            ]
        },
        "status": {"phase": "Running"}
    });
    let mut new = old.clone();
    let (parent, key) = path.rsplit_once('/').unwrap();
    match new.pointer_mut(parent).unwrap() {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        parent => parent[key] = value,
    }
    let earlier = pod(old);
    let seen = Subject::of_pod(&serde_json::from_value(new.clone()).unwrap(), Some(&earlier));
    assert_eq!(seen, pod(new));
}

#[test]
fn mrg6_a_workload_that_belongs_to_another_is_left_out() {
    let of = |owners: Value| {
        workload(json!({
            "metadata": {"name": "web", "namespace": "shop", "ownerReferences": owners},
            "spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}}
        }))
    };
    let owner = |controller: bool| json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1", "controller": controller}]);
    assert!(of(json!([])).is_some());
    assert!(of(owner(false)).is_some());
    assert!(of(owner(true)).is_none());
}

#[test]
fn mrg6_a_cron_job_is_asked_for_the_template_of_its_jobs() {
    let template = json!({"metadata": {"labels": {"app": "nightly"}}, "spec": {"serviceAccountName": "own"}});
    let seen = workload(json!({
        "metadata": {"name": "nightly", "namespace": "shop"},
        "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": template}}}
    }));
    let pod = seen.map(|seen| seen.pod).unwrap_or_default().value();
    assert_eq!(pod["metadata"]["labels"], json!({"app": "nightly"}));
    assert_eq!(pod["spec"]["serviceAccountName"], "own");
}
