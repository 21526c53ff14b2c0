//! The Secrets that a Pod uses, in any field that can name one.

use std::collections::BTreeSet;

use pillion_kubernetes::json;
use serde_json::Value;

/// The lists of containers in a Pod's `spec`.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// The fields of a volume that can name a Secret.
const VOLUMES: [&[&str]; 10] = [
    &["secret", "secretName"],
    &["azureFile", "secretName"],
    &["cephfs", "secretRef", "name"],
    &["cinder", "secretRef", "name"],
    &["flexVolume", "secretRef", "name"],
    &["rbd", "secretRef", "name"],
    &["scaleIO", "secretRef", "name"],
    &["iscsi", "secretRef", "name"],
    &["storageos", "secretRef", "name"],
    &["csi", "nodePublishSecretRef", "name"],
];

/// Adds the names of the Secrets that a Pod uses in volumes, in environment variables and to pull images.
pub fn add(pod: &Value, names: &mut BTreeSet<String>) {
    let mut add = |name: &str| {
        if !name.is_empty() {
            names.insert(name.to_owned());
        }
    };
    for pull in json::items(pod, &["spec", "imagePullSecrets"]) {
        add(json::text(pull, &["name"]));
    }
    for container in CONTAINERS.iter().flat_map(|list| json::items(pod, &["spec", list])) {
        for source in json::items(container, &["envFrom"]) {
            add(json::text(source, &["secretRef", "name"]));
        }
        for variable in json::items(container, &["env"]) {
            add(json::text(variable, &["valueFrom", "secretKeyRef", "name"]));
        }
    }
    for volume in json::items(pod, &["spec", "volumes"]) {
        for path in VOLUMES {
            add(json::text(volume, path));
        }
        for source in json::items(volume, &["projected", "sources"]) {
            add(json::text(source, &["secret", "name"]));
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::pull(json!({"imagePullSecrets": [{"name": "s"}]}))]
    #[case::variables(json!({"containers": [{"envFrom": [{"configMapRef": {"name": "x"}}, {"secretRef": {"name": "s"}}]}]}))]
    #[case::variable(json!({"initContainers": [{"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]}]}))]
    #[case::ephemeral(json!({"ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}))]
    #[case::volume(json!({"volumes": [{"name": "a", "secret": {"secretName": "s"}}]}))]
    #[case::projected(json!({"volumes": [{"projected": {"sources": [{"serviceAccountToken": {}}, {"secret": {"name": "s"}}]}}]}))]
    #[case::azure_file(json!({"volumes": [{"azureFile": {"secretName": "s"}}]}))]
    #[case::cephfs(json!({"volumes": [{"cephfs": {"secretRef": {"name": "s"}}}]}))]
    #[case::cinder(json!({"volumes": [{"cinder": {"secretRef": {"name": "s"}}}]}))]
    #[case::flex(json!({"volumes": [{"flexVolume": {"secretRef": {"name": "s"}}}]}))]
    #[case::rbd(json!({"volumes": [{"rbd": {"secretRef": {"name": "s"}}}]}))]
    #[case::scale_io(json!({"volumes": [{"scaleIO": {"secretRef": {"name": "s"}}}]}))]
    #[case::iscsi(json!({"volumes": [{"iscsi": {"secretRef": {"name": "s"}}}]}))]
    #[case::storageos(json!({"volumes": [{"storageos": {"secretRef": {"name": "s"}}}]}))]
    #[case::csi(json!({"volumes": [{"csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}}]}))]
    fn cln2_a_pod_uses_what_it_names_anywhere(#[case] spec: Value) {
        let mut names = BTreeSet::new();
        add(&json!({"spec": spec}), &mut names);
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["s"]);
    }

    #[test]
    fn cln2_a_pod_that_names_none_uses_none() {
        let mut names = BTreeSet::new();
        add(
            &json!({"spec": {"containers": [{"name": "a"}], "volumes": [{"emptyDir": {}}, {"projected": {}}]}}),
            &mut names,
        );
        assert!(names.is_empty());
    }
}
