//! The table of features in docs/support.md: a cluster as it is released is asked for each of them.

use std::collections::BTreeMap;
use std::fs;

use http::Request;
use kube::Client;
use pillion_kubernetes::version::KubernetesVersion;
use pillion_sidecarset::newer::{FEATURES, Feature};
use pillion_testenv::{Cluster, Options};
use pillion_testkit::module::workspace;
use serde_json::{Value, json};

use crate::support::minor;

/// The document with the table.
const DOCUMENT: &str = "docs/support.md";
/// The header of the table's first column.
const FIRST: &str = "feature of Kubernetes";
/// The column of the feature gate.
const GATE: usize = 1;
/// The variable with which the test writes the column of its version.
const RENEW: &str = "PILLION_RENEW";

/// How much of a feature a cluster has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Has {
    Yes,
    BehindItsGate,
    No,
}

impl Has {
    const fn cell(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::BehindItsGate => "gate",
            Self::No => "no",
        }
    }
}

/// Returns what the code believes of a version.
fn believed(feature: &Feature) -> Has {
    let version = KubernetesVersion(minor());
    match feature.by_default {
        Some(by_default) if version >= by_default => Has::Yes,
        _ if version >= feature.since => Has::BehindItsGate,
        _ => Has::No,
    }
}

/// Returns a Pod with a field of the feature, and the pointer of the field, by feature gate.
fn samples() -> BTreeMap<&'static str, (Value, &'static str)> {
    let pod = |container: Value, volumes: Value| {
        let mut app = json!({"name": "app", "image": "app:1"});
        json_patch::merge(&mut app, &container);
        json!({"containers": [app], "volumes": volumes})
    };
    let native = json!({
        "containers": [{"name": "app", "image": "app:1"}],
        "initContainers": [{"name": "init", "image": "app:1", "restartPolicy": "Always"}],
    });
    let rule = json!({"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}});
    let file = json!({"volumeName": "v", "path": "app.env", "key": "MODE", "optional": true});
    let certificate = json!({"signerName": "example.com/s", "keyType": "ED25519", "credentialBundlePath": "b.pem"});
    let empty = || json!([{"name": "v", "emptyDir": {}}]);
    let mount = json!({"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]});
    BTreeMap::from([
        ("SidecarContainers", (native, "/initContainers/0/restartPolicy")),
        (
            "ContainerRestartRules",
            (
                pod(json!({"restartPolicy": "Never", "restartPolicyRules": [rule]}), json!([])),
                "/containers/0/restartPolicyRules/0/action",
            ),
        ),
        (
            "EnvFiles",
            (
                pod(json!({"env": [{"name": "MODE", "valueFrom": {"fileKeyRef": file}}]}), empty()),
                "/containers/0/env/0/valueFrom/fileKeyRef/path",
            ),
        ),
        (
            "PodCertificateRequest",
            (
                pod(json!({}), json!([{"name": "v", "projected": {"sources": [{"podCertificate": certificate}]}}])),
                "/volumes/0/projected/sources/0/podCertificate/signerName",
            ),
        ),
        (
            "AtomicWriteVolumeUserFields",
            (
                pod(json!({}), json!([{"name": "v", "configMap": {"name": "c", "defaultUser": 1000}}])),
                "/volumes/0/configMap/defaultUser",
            ),
        ),
        (
            "EmptyDirVolumeMode",
            (pod(json!({}), json!([{"name": "v", "emptyDir": {"mode": 0o1777}}])), "/volumes/0/emptyDir/mode"),
        ),
        (
            "H2CContainerProbe",
            (
                pod(json!({"livenessProbe": {"httpGet": {"port": 80, "protocol": "HTTP2"}}}), json!([])),
                "/containers/0/livenessProbe/httpGet/protocol",
            ),
        ),
        (
            "GRPCContainerProbeTLS",
            (
                pod(json!({"livenessProbe": {"grpc": {"port": 80, "mode": "TLS"}}}), json!([])),
                "/containers/0/livenessProbe/grpc/mode",
            ),
        ),
        (
            "VolumeBindMountOptions",
            (pod(json!({"volumeMounts": [mount]}), empty()), "/containers/0/volumeMounts/0/bindMountOptions/0"),
        ),
    ])
}

/// Asks the API server whether it would store a field of a Pod.
async fn stores(client: &Client, namespace: &str, (spec, pointer): &(Value, &str)) -> Has {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec});
    let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All&fieldValidation=Strict");
    let request = Request::post(path).header("content-type", "application/json");
    match client.request::<Value>(request.body(pod.to_string().into_bytes()).unwrap()).await {
        Ok(stored) if stored["spec"].pointer(pointer) == spec.pointer(pointer) => Has::Yes,
        Ok(_) => Has::BehindItsGate,
        Err(kube::Error::Api(status)) if status.message.contains("unknown field") => Has::No,
        // Validation refuses what the gate would allow.
        Err(kube::Error::Api(status)) if status.code == 422 => Has::BehindItsGate,
        Err(error) => panic!("{pointer}: {error}"),
    }
}

/// Whether the API server has the subresource `resize` of Pods.
async fn resizes(client: &Client) -> Has {
    let request = Request::get("/api/v1").body(Vec::new()).unwrap();
    let resources: Value = client.request(request).await.unwrap();
    let has = resources["resources"].as_array().unwrap().iter().any(|resource| resource["name"] == "pods/resize");
    if has { Has::Yes } else { Has::No }
}

/// Returns the cells of each row of the table, by the text of the first, and the header.
fn rows(text: &str) -> (Vec<String>, BTreeMap<String, Vec<String>>) {
    let cells =
        |line: &str| -> Vec<String> { line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect() };
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&format!("| {FIRST} |")));
    let header = cells(lines.next().unwrap_or_else(|| panic!("{DOCUMENT} has no table that begins with \"{FIRST}\"")));
    let rows = lines.skip(1).take_while(|line| line.starts_with('|')).map(cells);
    (header, rows.map(|row| (row[0].clone(), row)).collect())
}

/// Returns the text with another table.
fn with_table(text: &str, header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let rule = format!("|{}", " --- |".repeat(header.len()));
    let table = [line(header), rule].into_iter().chain(rows.iter().map(|row| line(row)));
    let is_first = |line: &str| line.starts_with(&format!("| {FIRST} |"));
    let before = text.lines().take_while(|line| !is_first(line)).map(str::to_owned);
    let after = text.lines().skip_while(|line| !is_first(line)).skip_while(|line| line.starts_with('|'));
    let mut lines: Vec<String> = before.chain(table).chain(after.map(str::to_owned)).collect();
    lines.push(String::new());
    lines.join("\n")
}

#[tokio::test]
async fn the_table_of_features_is_what_a_cluster_has() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let namespace = cluster.namespace("features").await.unwrap();
    let samples = samples();
    let mut found = Vec::new();
    for feature in FEATURES {
        let has = match samples.get(feature.gate) {
            Some(sample) => stores(&client, &namespace, sample).await,
            None if feature.gate == "InPlacePodVerticalScaling" => resizes(&client).await,
            None => panic!("there is no sample for {}", feature.gate),
        };
        found.push((feature, has));
    }

    let wrong: Vec<String> = found
        .iter()
        .filter(|(feature, has)| *has != believed(feature))
        .map(|(feature, has)| format!("{}: {has:?}, not {:?}", feature.name, believed(feature)))
        .collect();
    assert!(wrong.is_empty(), "Kubernetes 1.{}: {wrong:#?}", minor());

    let file = workspace().join(DOCUMENT);
    let text = fs::read_to_string(&file).unwrap();
    let (header, old) = rows(&text);
    let column = header.iter().position(|cell| *cell == format!("1.{}", minor()));
    let column = column.unwrap_or_else(|| panic!("the table in {DOCUMENT} has no column for 1.{}", minor()));
    let row = |(feature, has): &(&Feature, Has)| {
        let unknown = || vec!["?".to_owned(); header.len()];
        let mut row = old.get(feature.name).cloned().unwrap_or_else(unknown);
        row[0] = feature.name.to_owned();
        row[GATE] = format!("`{}`", feature.gate);
        row[column] = has.cell().to_owned();
        row[header.len() - 1] = feature.without.to_owned();
        row
    };
    let renewed = with_table(&text, &header, &found.iter().map(row).collect::<Vec<_>>());
    if std::env::var_os(RENEW).is_some() {
        fs::write(&file, renewed).unwrap();
    } else {
        assert_eq!(text, renewed, "{RENEW}=1 writes the column of this version into {DOCUMENT}");
    }
}
