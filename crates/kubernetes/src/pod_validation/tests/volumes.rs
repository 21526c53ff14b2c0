use rstest::rstest;
use serde_json::{Value, json};

use super::{assert_paths, container, of_volume, paths, under};

#[rstest]
#[case(json!([{"emptyDir": {}}]), "[0].name")]
#[case(json!([{"name": "A", "emptyDir": {}}]), "[0].name")]
#[case(json!([{"name": "a.b", "emptyDir": {}}]), "[0].name")]
#[case(json!([{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]), "[1].name")]
#[case(json!([{"name": "a", "hostPath": {}}, {"name": "a", "emptyDir": {}}]), "[0].hostPath.path")]
#[case(json!([{"name": "a"}]), "[0]")]
#[case(json!([{"name": "a", "future": {}}]), "[0]")]
#[case(json!([{"name": "a", "emptyDir": {}, "hostPath": {}, "secret": {}}]), "[0].hostPath [0].secret")]
#[case(json!([{"name": "a", "secret": {}, "hostPath": {"path": "/x"}}]), "[0].secret")]
#[case(
    json!([{"name": "a", "emptyDir": {}, "downwardAPI": {}, "cephfs": {}, "gcePersistentDisk": {}}]),
    "[0].cephFS [0].downwarAPI [0].gcePersistentDisk"
)]
fn val12_volumes(#[case] volumes: Value, #[case] expected: &str) {
    let found = paths(&[], &[container("c")], volumes.as_array().unwrap());
    assert_paths(&found, &under("spec.volumes", expected), &volumes);
}

#[rstest]
#[case(json!({"emptyDir": {"medium": "x", "sizeLimit": "1Gi"}}), "")]
#[case(json!({"emptyDir": {"sizeLimit": "-1"}}), "emptyDir.sizeLimit")]
#[case(json!({"hostPath": {"path": "a", "type": "Socket"}}), "")]
#[case(json!({"hostPath": {"path": "/a..b"}}), "")]
#[case(json!({"hostPath": {"path": "/a/../b", "type": "x"}}), "hostPath.path hostPath.type")]
#[case(json!({"hostPath": {"type": "x"}}), "hostPath.path")]
#[case(json!({"persistentVolumeClaim": {"claimName": "Any Thing"}}), "")]
#[case(json!({"persistentVolumeClaim": {}}), "persistentVolumeClaim.claimName")]
#[case(json!({"csi": {"driver": "Ex.com"}}), "")]
#[case(json!({"csi": {}}), "csi.driver")]
#[case(json!({"csi": {"driver": "a_b"}}), "csi.driver")]
#[case(json!({"csi": {"driver": "a".repeat(64)}}), "csi.driver")]
#[case(json!({"csi": {"driver": "d", "nodePublishSecretRef": {}}}), "csi.nodePublishSecretRef.name")]
#[case(json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "A"}}}), "csi.name")]
#[case(json!({"image": {"pullPolicy": "Always"}}), "")]
#[case(json!({"image": {"reference": "r"}}), "image.pullPolicy")]
#[case(json!({"image": {"reference": "r", "pullPolicy": "x"}}), "image.pullPolicy")]
#[case(json!({"secret": {"secretName": "Any Thing", "defaultMode": 511}}), "")]
#[case(json!({"secret": {"defaultMode": 512}}), "secret.defaultMode secret.secretName")]
#[case(json!({"configMap": {"defaultMode": -1}}), "configMap.defaultMode configMap.name")]
#[case(json!({"configMap": {"name": "c", "items": [{"key": "k/k", "path": "a/b", "mode": 0}]}}), "")]
#[case(
    json!({"configMap": {"name": "c", "items": [{"mode": 512}]}}),
    "configMap.items[0].key configMap.items[0].mode configMap.items[0].path"
)]
fn val12_common_sources(#[case] source: Value, #[case] expected: &str) {
    assert_paths(&of_volume(&source), expected, &source);
}

#[rstest]
#[case("a/b", true)]
#[case("a..b", true)]
#[case("a/..b", true)]
#[case("/a", false)]
#[case("..", false)]
#[case("a/..", false)]
#[case("../a", false)]
#[case("..a", false)]
#[case("...", false)]
fn val12_paths_of_files(#[case] path: &str, #[case] fine: bool) {
    let source = json!({"secret": {"secretName": "s", "items": [{"key": "k", "path": path}]}});
    assert_paths(&of_volume(&source), if fine { "" } else { "secret.items[0].path" }, &source);
}

#[rstest]
#[case(json!({"path": "p", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}), "")]
#[case(json!({"path": "p", "fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}), "fieldRef.fieldPath")]
#[case(json!({"path": "p", "fieldRef": {"apiVersion": "v1", "fieldPath": "spec.host"}}), "fieldRef.fieldPath")]
#[case(json!({"path": "p", "resourceFieldRef": {"containerName": "any", "resource": "limits.cpu"}}), "")]
#[case(json!({"path": "p", "resourceFieldRef": {"resource": "x"}}), "resourceFieldRef.containerName")]
#[case(json!({"path": "p", "resourceFieldRef": {"containerName": "any", "resource": "x"}}), "resourceFieldRef.resource")]
#[case(json!({"path": "p", "mode": 512}), ". mode")]
#[case(json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}), "path")]
#[case(json!({"path": "/p", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}), "path")]
#[case(
    json!({"path": "p", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}, "resourceFieldRef": {}}),
    "."
)]
fn val12_downward_api_files(#[case] file: Value, #[case] expected: &str) {
    assert_paths(&of_volume(&json!({"downwardAPI": {"items": [file]}})), &under("downwardAPI", expected), &file);
    let projected = json!({"projected": {"sources": [{"downwardAPI": {"items": [file]}}]}});
    assert_paths(&of_volume(&projected), &under("projected.sources[0].downwardAPI", expected), &file);
}

#[rstest]
#[case(json!([]), "")]
#[case(json!([{}]), "")]
#[case(json!([{"secret": {"name": "s"}}, {"configMap": {}}]), "sources[1].configMap.name")]
#[case(json!([{"secret": {"name": "s"}, "configMap": {"name": "c"}}]), "sources[0]")]
#[case(json!([{"serviceAccountToken": {"path": "t", "expirationSeconds": 600}}]), "")]
#[case(json!([{"serviceAccountToken": {"path": "t"}}]), "sources[0].serviceAccountToken.expirationSeconds")]
#[case(
    json!([{"serviceAccountToken": {"path": "t", "expirationSeconds": 4_294_967_297_i64}}]),
    "sources[0].serviceAccountToken.expirationSeconds"
)]
#[case(json!([{"serviceAccountToken": {"expirationSeconds": 600}}]), "path")]
#[case(json!([{"serviceAccountToken": {"path": "../t", "expirationSeconds": 600}}]), "path")]
#[case(
    json!([
        {"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}},
        {"configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
    ]),
    "."
)]
// The path of a token may equal another path.
#[case(
    json!([
        {"serviceAccountToken": {"path": "p", "expirationSeconds": 600}},
        {"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}},
    ]),
    ""
)]
#[case(json!([{"clusterTrustBundle": {"name": "a:b:c", "path": "p"}}]), "")]
#[case(json!([{"clusterTrustBundle": {"name": "a/b:c", "path": "p"}}]), "sources[0].clusterTrustBundle.name")]
#[case(json!([{"clusterTrustBundle": {"name": ":c", "path": "p"}}]), "sources[0].clusterTrustBundle.name")]
#[case(json!([{"clusterTrustBundle": {"name": "", "path": "p"}}]), "sources[0].clusterTrustBundle.name")]
#[case(
    json!([{"clusterTrustBundle": {"name": "a", "labelSelector": {}, "path": "p"}}]),
    "sources[0].clusterTrustBundle.labelSelector"
)]
#[case(
    json!([{"clusterTrustBundle": {"name": "a", "signerName": "a.b/c", "path": "p"}}]),
    "sources[0].clusterTrustBundle"
)]
#[case(json!([{"clusterTrustBundle": {}}]), "sources[0].clusterTrustBundle sources[0].clusterTrustBundle.path")]
#[case(json!([{"clusterTrustBundle": {"signerName": "a.b/c.d", "path": "p"}}]), "")]
#[case(json!([{"clusterTrustBundle": {"signerName": "a/b", "path": "p"}}]), "sources[0].clusterTrustBundle.signerName")]
#[case(json!([{"clusterTrustBundle": {"signerName": "a.b/c/d", "path": "p"}}]), "sources[0].clusterTrustBundle.signerName")]
#[case(
    json!([{"clusterTrustBundle": {"signerName": "a.b/c", "path": "p", "labelSelector": {
        "matchExpressions": [{"key": "k", "operator": "In"}],
    }}}]),
    "sources[0].clusterTrustBundle.labelSelector.matchExpressions[0].values"
)]
fn val12_projected_sources(#[case] sources: Value, #[case] expected: &str) {
    let found = of_volume(&json!({"projected": {"sources": sources}}));
    assert_paths(&found, &under("projected", expected), &sources);
}

/// Returns an ephemeral volume whose template has the required fields and those of `spec`.
fn ephemeral(metadata: &Value, spec: &Value) -> Value {
    let mut full = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"ephemeral": {"volumeClaimTemplate": {"metadata": metadata, "spec": full}}})
}

#[rstest]
#[case(json!({}), "")]
#[case(json!({"accessModes": []}), "accessModes")]
#[case(json!({"accessModes": ["x"]}), "accessModes")]
#[case(json!({"accessModes": ["ReadWriteOncePod"]}), "")]
#[case(json!({"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}), "accessModes")]
#[case(json!({"resources": {}}), "resources[storage]")]
#[case(json!({"resources": {"requests": {"storage": "0"}}}), "resources[storage]")]
#[case(json!({"resources": {"requests": {"storage": "100m", "cpu": "-1"}}}), "")]
#[case(json!({"storageClassName": ""}), "")]
#[case(json!({"storageClassName": "A"}), "storageClassName")]
#[case(json!({"volumeMode": "Block"}), "")]
#[case(json!({"volumeMode": ""}), "volumeMode")]
#[case(json!({"selector": {"matchLabels": {"a b": "c"}}}), "selector.matchLabels")]
#[case(
    json!({"selector": {"matchExpressions": [{"key": "", "operator": "Gt"}, {"key": "a", "operator": "In", "values": ["a b"]}]}}),
    "selector.matchExpressions[0].key selector.matchExpressions[0].operator selector.matchExpressions[1].values[0]"
)]
#[case(json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}}),
    "selector.matchExpressions[0].values")]
#[case(json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}}), "")]
#[case(json!({"dataSource": {"kind": "X", "name": "a"}}), "dataSource")]
#[case(json!({"dataSource": {"kind": "X", "name": "a", "apiGroup": "A"}}), "dataSource.apiGroup")]
#[case(json!({"dataSourceRef": {}}), "dataSourceRef dataSourceRef.kind dataSourceRef.name")]
#[case(json!({"dataSourceRef": {"kind": "X", "name": "a", "apiGroup": "g", "namespace": "a.b"}}), "dataSourceRef.namespace")]
#[case(
    json!({"dataSource": {"kind": "X", "name": "a", "apiGroup": "g"}, "dataSourceRef": {"kind": "X", "name": "a", "apiGroup": "g"}}),
    ""
)]
#[case(
    json!({"dataSource": {"kind": "X", "name": "a", "apiGroup": "g"}, "dataSourceRef": {"kind": "X", "name": "b", "apiGroup": "g"}}),
    "."
)]
#[case(
    json!({
        "dataSource": {"kind": "X", "name": "a", "apiGroup": "g"},
        "dataSourceRef": {"kind": "X", "name": "a", "apiGroup": "g", "namespace": "n"},
    }),
    "."
)]
fn val12_claims_of_ephemeral_volumes(#[case] spec: Value, #[case] expected: &str) {
    let found = of_volume(&ephemeral(&json!({}), &spec));
    assert_paths(&found, &under("ephemeral.volumeClaimTemplate.spec", expected), &spec);
}

#[rstest]
#[case(json!({"labels": {"a": "b"}, "annotations": {"Ex.com/A": "any thing"}}), "")]
#[case(json!({"labels": {"a": "b c"}, "annotations": {"a b": "c"}}), "annotations labels")]
#[case(json!({"annotations": {"a": "x".repeat(262_143)}}), "")]
#[case(json!({"annotations": {"a": "x".repeat(262_144)}}), "annotations")]
#[case(json!({"name": "", "generation": 0, "finalizers": []}), "")]
#[case(json!({"name": "n", "generation": 1, "finalizers": ["f"]}), "finalizers generation name")]
#[case(json!({"deletionGracePeriodSeconds": 0, "uid": "u"}), "deletionGracePeriodSeconds uID")]
fn val12_metadata_of_ephemeral_volumes(#[case] metadata: Value, #[case] expected: &str) {
    let found = of_volume(&ephemeral(&metadata, &json!({})));
    assert_paths(&found, &under("ephemeral.volumeClaimTemplate.metadata", expected), &json!("metadata"));
}

#[test]
fn val12_ephemeral_volumes_need_a_template_and_their_claim_is_theirs() {
    assert_eq!(of_volume(&json!({"ephemeral": {}})), ["ephemeral.volumeClaimTemplate"]);
    let mut volume = ephemeral(&json!({}), &json!({}));
    volume.as_object_mut().unwrap().insert("name".to_owned(), json!("e"));
    let claim = json!({"name": "v", "persistentVolumeClaim": {"claimName": "test-e"}});
    let found = paths(&[], &[container("c")], &[claim, volume]);
    assert_eq!(found, ["spec.volumes[0].persistentVolumeClaim.claimName"]);
}
