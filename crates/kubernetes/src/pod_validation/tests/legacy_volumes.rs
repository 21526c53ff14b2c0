use rstest::rstest;
use serde_json::{Value, json};

use super::{assert_paths, of_volume};

#[rstest]
#[case(json!({"gitRepo": {"repository": "r", "directory": "a/b"}}), "")]
#[case(json!({"gitRepo": {"directory": "../a"}}), "gitRepo.directory gitRepo.repository")]
#[case(json!({"gcePersistentDisk": {"pdName": "d", "partition": 255}}), "")]
#[case(json!({"gcePersistentDisk": {"partition": 256}}), "persistentDisk.partition persistentDisk.pdName")]
#[case(json!({"awsElasticBlockStore": {"partition": -1}}), "awsElasticBlockStore.partition awsElasticBlockStore.volumeID")]
#[case(json!({"nfs": {"server": "s", "path": "/p"}}), "")]
#[case(json!({"nfs": {"path": "p"}}), "nfs.path nfs.server")]
#[case(json!({"glusterfs": {}}), "glusterfs.endpoints glusterfs.path")]
#[case(json!({"flocker": {"datasetName": "d"}}), "")]
#[case(json!({"flocker": {}}), "flocker")]
#[case(json!({"flocker": {"datasetName": "a/b", "datasetUUID": "u"}}), "flocker flocker.datasetName")]
#[case(json!({"rbd": {"monitors": ["m"], "image": "i"}}), "")]
#[case(json!({"rbd": {"monitors": []}}), "rbd.image rbd.monitors")]
#[case(json!({"cinder": {"secretRef": {}}}), "cinder.secretRef.name cinder.volumeID")]
#[case(json!({"cephfs": {}}), "cephfs.monitors")]
#[case(json!({"fc": {"wwids": ["w"]}}), "")]
#[case(json!({"fc": {"targetWWNs": ["w"], "lun": 0}}), "")]
#[case(json!({"fc": {}}), "fc.targetWWNs")]
#[case(json!({"fc": {"targetWWNs": ["w"], "wwids": ["w"]}}), "fc.lun fc.targetWWNs")]
#[case(json!({"fc": {"targetWWNs": ["w"], "lun": 256}}), "fc.lun")]
#[case(json!({"flexVolume": {"driver": "d", "options": {"a.k8s.iox/b": "c", "ak8s.io": "d"}}}), "")]
#[case(json!({"flexVolume": {"options": {"x.K8S.io/a": "c"}}}), "flexVolume.driver flexVolume.options[x.K8S.io/a]")]
#[case(json!({"azureFile": {}}), "azureFile.secretName azureFile.shareName")]
#[case(json!({"vsphereVolume": {}}), "vsphereVolume.volumePath")]
#[case(json!({"photonPersistentDisk": {}}), "photonPersistentDisk.pdID")]
#[case(json!({"portworxVolume": {}}), "portworxVolume.volumeID")]
#[case(json!({"azureDisk": {"diskName": "d", "diskURI": "any"}}), "")]
#[case(json!({"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/x", "kind": "Managed"}}), "")]
#[case(json!({"azureDisk": {"diskName": "d", "diskURI": "https://x", "kind": "Managed"}}), "azureDisk.diskURI")]
#[case(json!({"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/x", "kind": "Shared"}}), "azureDisk.diskURI")]
#[case(json!({"azureDisk": {"cachingMode": "x"}}), "azureDisk.cachingMode azureDisk.diskName azureDisk.diskURI")]
#[case(json!({"storageos": {}}), "storageos.volumeName")]
#[case(
    json!({"storageos": {"volumeName": "A", "volumeNamespace": "B", "secretRef": {}}}),
    "storageos.secretRef.name storageos.volumeName storageos.volumeNamespace"
)]
#[case(json!({"scaleIO": {}}), "scaleIO.gateway scaleIO.system scaleIO.volumeName")]
#[case(json!({"quobyte": {"registry": "h:1,[::1]:2", "volume": "v"}}), "")]
#[case(json!({"quobyte": {}}), "quobyte.registry quobyte.volume")]
#[case(json!({"quobyte": {"registry": "h:1", "volume": "v", "tenant": "t".repeat(65)}}), "quobyte.tenant")]
fn val12_sources_that_are_rare(#[case] source: Value, #[case] expected: &str) {
    assert_paths(&of_volume(&source), expected, &source);
}

#[rstest]
#[case("h:", true)]
#[case(":1", true)]
#[case("h", false)]
#[case("h:1,", false)]
#[case("::1:2", false)]
#[case("[::1]", false)]
#[case("[a]b:1", false)]
#[case("[a:1", false)]
#[case("[a]:[1", false)]
#[case("a]b:1", false)]
fn val12_registries_are_hosts_with_ports(#[case] registry: &str, #[case] fine: bool) {
    let source = json!({"quobyte": {"registry": registry, "volume": "v"}});
    assert_paths(&of_volume(&source), if fine { "" } else { "quobyte.registry" }, &source);
}

#[rstest]
#[case("iqn.2015-02.example.com:test", true)]
#[case("iqn.2015-02.a:b:c", true)]
#[case("iqn-x iqn.2015-02.a:b", true)]
#[case("eui.0123456789ABCDEF", true)]
#[case("eui-0123456789ABCDEF", true)]
#[case("naa.0123456789abcdef0123456789abcdef", true)]
#[case("iqn.2015-02.example.com", false)]
#[case("iqn.15-02.a:b", false)]
#[case("iqn.2015-02.:b", false)]
#[case("iqn.2015-02.a_b:c", false)]
#[case("iqn.2015-02.a:", false)]
#[case("iqn.2015-02.a:b c", false)]
#[case("iqn.2015-02.a:b,c", false)]
#[case("eui.0123456789ABCDE", false)]
#[case("eui\n0123456789ABCDEF", false)]
#[case("naa.0123", false)]
#[case("foo", false)]
fn val12_iscsi_names(#[case] name: &str, #[case] fine: bool) {
    let target = json!({"iscsi": {"targetPortal": "p", "iqn": name, "lun": 0}});
    assert_paths(&of_volume(&target), if fine { "" } else { "iscsi.iqn" }, &target);
    let own = json!({"iscsi": {"targetPortal": "p", "iqn": "iqn.2015-02.a:b", "lun": 0, "initiatorName": name}});
    assert_paths(&of_volume(&own), if fine { "" } else { "iscsi.initiatorname" }, &own);
}

#[rstest]
#[case(json!({}), "iscsi.iqn iscsi.targetPortal")]
#[case(json!({"targetPortal": "p", "iqn": "iqn.2015-02.a:b", "lun": 256}), "iscsi.lun")]
#[case(json!({"targetPortal": "p", "iqn": "iqn.2015-02.a:b", "chapAuthSession": true}), "iscsi.secretRef")]
#[case(json!({"targetPortal": "p", "iqn": "iqn.2015-02.a:b", "chapAuthDiscovery": true, "secretRef": {}}), "")]
#[case(
    json!({"targetPortal": "p".repeat(63), "iqn": "iqn.2015-02.a:b", "initiatorName": "iqn.2015-02.a:b"}),
    "name"
)]
#[case(json!({"targetPortal": "p".repeat(62), "iqn": "iqn.2015-02.a:b", "initiatorName": "iqn.2015-02.a:b"}), "")]
fn val12_iscsi(#[case] iscsi: Value, #[case] expected: &str) {
    assert_paths(&of_volume(&json!({"iscsi": iscsi})), expected, &iscsi);
}
