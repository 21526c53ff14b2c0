//! Changes of settings and certificates under load.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pillion_host::paths;
use pillion_server::client::{Client, Protocol, TlsServer};
use pillion_server::{ServedSettings, SettingsFile};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{Authority, Setup, added_images, ask, counted, pod_review, policy, settings_with, web};

/// Sends requests until stopped, over connections of 20 requests. Every request must be answered.
fn load(target: TlsServer, stop: Arc<AtomicBool>, answered: Arc<AtomicUsize>) -> JoinHandle<Vec<String>> {
    tokio::spawn(async move {
        let mut images = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let mut client = Client::connect(&target, Protocol::Http2).await.unwrap();
            for _ in 0..20 {
                let response = ask(&mut client, paths::MUTATE, &pod_review("u", &web())).await;
                assert_eq!(response["allowed"], json!(true), "{response}");
                images.extend(added_images(&response));
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }
        images
    })
}

async fn more(answered: &AtomicUsize) {
    let before = answered.load(Ordering::Relaxed);
    while answered.load(Ordering::Relaxed) < before + 40 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_change_under_load_without_a_lost_request() {
    let server = Setup::default().start().await;
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let loads = [(), ()].map(|()| load(server.target(), Arc::clone(&stop), Arc::clone(&answered)));
    more(&answered).await;
    let newer = ServedSettings::check(&policy(), settings_with("log-agent", "agent:2")).unwrap();
    server.settings.send_replace(Arc::new(newer));
    more(&answered).await;
    stop.store(true, Ordering::Relaxed);
    for load in loads {
        let images = load.await.unwrap();
        let turned = images.iter().position(|image| image == "agent:2").unwrap();
        let (before, after) = images.split_at(turned);
        assert!(turned > 0 && before.iter().all(|image| image == "agent:1"), "{images:?}");
        assert!(after.iter().all(|image| image == "agent:2"), "{images:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_change_under_load_without_a_lost_request() {
    let server = Setup::default().start().await;
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load = load(server.target(), Arc::clone(&stop), Arc::clone(&answered));
    let mut long = server.client().await;
    for _ in 0..3 {
        more(&answered).await;
        server.certificates.send_replace(server.authority.certificate());
        let response = ask(&mut long, paths::MUTATE, &pod_review("u", &web())).await;
        assert_eq!(response["allowed"], json!(true), "connections that are open go on");
    }
    more(&answered).await;
    stop.store(true, Ordering::Relaxed);
    assert!(load.await.unwrap().len() >= 160);
    // New connections get the new certificate, which clients of the old authority do not trust.
    let other = Authority::new();
    server.certificates.send_replace(other.certificate());
    assert!(Client::connect(&server.target(), Protocol::Http2).await.is_err());
    let target = TlsServer { roots: other.roots(), ..server.target() };
    assert!(Client::connect(&target, Protocol::Http2).await.is_ok());
}

fn parse(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

fn file(path: &Path) -> SettingsFile {
    SettingsFile::new(path, parse, policy())
}

#[test]
fn a_file_that_cannot_be_served_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.json");
    let load = |content: &str| {
        fs::write(&path, content).unwrap();
        file(&path).load().unwrap_err().to_string()
    };
    let start = format!("{}: ", path.display());
    assert!(load("{").starts_with("EOF"), "what the parser says");
    assert_eq!(load("[]"), format!("{start}the settings are no object"));
    let unknown = load(r#"{"sidecarSet": []}"#);
    assert!(unknown.contains("sidecarSet"), "{unknown}");
    let role = load(r#"{"role": "Assert"}"#);
    assert!(role.contains("leave it out"), "{role}");
    fs::remove_file(&path).unwrap();
    assert!(file(&path).load().unwrap_err().to_string().contains("No such file"));
}

/// Returns more SidecarSets than one bundle may have. The last one matches Pods with `app: web`.
fn many() -> Vec<Value> {
    let mut manifests: Vec<Value> = (0..2_000)
        .map(|index| {
            let name = format!("set-{index:04}");
            let mut settings = settings_with(&name, "agent:1");
            settings["sidecarSets"][0]["spec"]["selector"]["matchLabels"]["app"] = name.into();
            settings["sidecarSets"][0].take()
        })
        .collect();
    manifests.push(settings_with("log-agent", "agent:1")["sidecarSets"][0].take());
    manifests
}

/// Creates a SidecarSet in the cluster.
fn sidecar_set_review(manifest: &Value) -> Value {
    let group = "apps.kruise.io";
    let mut review = pod_review("u", &web());
    let request = &mut review["request"];
    request["name"] = manifest["metadata"]["name"].clone();
    request["namespace"] = Value::Null;
    request["kind"] = json!({"group": group, "version": "v1beta1", "kind": "SidecarSet"});
    request["resource"] = json!({"group": group, "version": "v1beta1", "resource": "sidecarsets"});
    request["object"] = manifest.clone();
    review
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sidecar_sets_act_as_few_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.json");
    let load = |manifests: &[Value]| {
        fs::write(&path, json!({"systemNamespace": "kruise-system", "sidecarSets": manifests}).to_string()).unwrap();
        file(&path).load()
    };
    let manifests = many();
    let server = Setup::default().start().await;
    server.settings.send_replace(Arc::new(load(&manifests).unwrap()));
    let mut client = server.client().await;
    assert_eq!(added_images(&ask(&mut client, paths::MUTATE, &pod_review("u", &web())).await), ["agent:1"]);
    let far = pod_review("u", &json!({"app": "set-0003"}));
    assert_eq!(added_images(&ask(&mut client, paths::MUTATE, &far).await), ["agent:1"]);
    let none = pod_review("u", &json!({"app": "none"}));
    assert_eq!(added_images(&ask(&mut client, paths::MUTATE, &none).await), [""; 0]);

    // A SidecarSet of the cluster is compared with those of the settings.
    let mut rival = manifests[1_234].clone();
    rival["metadata"]["name"] = "rival".into();
    let refused = ask(&mut client, paths::MUTATE, &sidecar_set_review(&rival)).await;
    let message = refused["status"]["message"].as_str().unwrap_or_default();
    assert!(refused["allowed"] == json!(false) && message.contains("set-1234"), "{refused}");

    // Errors name the place in the settings.
    for (change, expected) in [
        (json!({"metadata": {"name": "set-0007"}}), "sidecarSets[1500].metadata.name: Duplicate value"),
        (json!({"metadata": {"name": "set-1500"}, "spec": {"containers": 1}}), "sidecarSets[1500].spec.containers"),
    ] {
        let mut broken = manifests.clone();
        broken[1_500]["metadata"] = change["metadata"].clone();
        if let Some(spec) = change.get("spec") {
            broken[1_500]["spec"] = spec.clone();
        }
        let told = load(&broken).unwrap_err().to_string();
        assert!(told.contains(expected), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_read_again_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    // Like a mounted ConfigMap: a symbolic link is swapped.
    let (one, two) = (folder.path().join("1"), folder.path().join("2"));
    let link = folder.path().join("settings.json");
    let image = |image: &str| settings_with("log-agent", image).to_string();
    fs::write(&one, image("agent:1")).unwrap();
    std::os::unix::fs::symlink(&one, &link).unwrap();
    let server = Setup::default().start().await;
    let mut file = file(&link);
    server.settings.send_replace(Arc::new(file.load().unwrap()));
    let watching = file.watch(Duration::from_millis(20), server.settings.clone(), Arc::clone(&server.metrics));
    let mut client = server.client().await;
    let mut images = async || added_images(&ask(&mut client, paths::MUTATE, &pod_review("u", &web())).await);
    let counted = async |line: &str| counted(&server, line).await;
    assert_eq!(images().await, ["agent:1"]);

    // A broken file: the settings stay in use.
    fs::write(&one, "{").unwrap();
    counted(r#"pillion_settings_reloads_total{result="rejected"} 1"#).await;
    assert_eq!(images().await, ["agent:1"]);

    // A missing file: the settings stay in use, and the problem is counted once however often the file is checked.
    fs::remove_file(&link).unwrap();
    counted(r#"pillion_settings_reloads_total{result="rejected"} 2"#).await;
    // Nothing tells of a check that counts nothing: this is the time of some checks.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(server.metrics.text().contains(r#"pillion_settings_reloads_total{result="rejected"} 2"#));

    // Readable again, with the content of before: these settings are the file's.
    fs::write(&one, image("agent:1")).unwrap();
    std::os::unix::fs::symlink(&one, &link).unwrap();
    counted(r#"pillion_settings_reloads_total{result="loaded"} 1"#).await;
    fs::remove_file(&link).unwrap();
    counted("pillion_settings_current 0").await;
    std::os::unix::fs::symlink(&one, &link).unwrap();
    counted("pillion_settings_current 1").await;
    fs::remove_file(&link).unwrap();

    fs::write(&two, image("agent:2")).unwrap();
    std::os::unix::fs::symlink(&two, &link).unwrap();
    counted(r#"pillion_settings_reloads_total{result="loaded"} 3"#).await;
    assert_eq!(images().await, ["agent:2"]);
    watching.abort();
}
