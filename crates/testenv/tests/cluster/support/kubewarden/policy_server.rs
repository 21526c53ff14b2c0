//! Kubewarden's own policy server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pillion_testenv::{Cluster, free_port, installed};
use pillion_testkit::module::{self, workspace};
use serde_json::{Map, Value, json};

use super::{ACCOUNT, NAMESPACE, Server, name_of};
use crate::support::deployments::{kubeconfig, ready_at};
use crate::support::program;

/// The name of the program, and of its process.
pub const PROGRAM: &str = "policy-server";
/// The fields of a policy that the server's configuration has under the same name.
const SAME: [&str; 4] = ["settings", "contextAwareResources", "message", "timeoutEvalSeconds"];

/// Returns the path of the policy server, if this machine has one.
pub fn find() -> Option<PathBuf> {
    installed(PROGRAM)
}

/// Starts the server with these policies and the rights of its ServiceAccount, as Kubewarden's controller configures it.
/// The module is that of this build.
pub(super) async fn start(cluster: &Cluster, program: &Path, policies: &[Value]) -> Server {
    let folder = cluster.folder().join(PROGRAM);
    fs::create_dir(&folder).unwrap();
    let module = folder.join("policy.wasm");
    annotate(&module);
    let policies: Map<String, Value> =
        policies.iter().map(|policy| (name_of(policy), configuration(&policy["spec"], &module))).collect();
    let (certificate, key) = cluster.server_certificate(&["127.0.0.1"]).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (port, health) = (free_port().unwrap(), free_port().unwrap());
    let arguments = [
        format!("KUBECONFIG={}", kubeconfig(cluster, NAMESPACE, ACCOUNT).await.display()),
        program.display().to_string(),
        "--addr=127.0.0.1".to_owned(),
        format!("--port={port}"),
        format!("--readiness-probe-port={health}"),
        format!("--policies={}", file("policies.yml", &Value::from(policies).to_string())),
        format!("--cert-file={}", file("tls.crt", &certificate)),
        format!("--key-file={}", file("tls.key", &key)),
        format!("--policies-download-dir={}", folder.display()),
        format!("--sigstore-cache-dir={}", folder.join("sigstore").display()),
        "--log-no-color".to_owned(),
    ];
    cluster.start_program(PROGRAM, Path::new("/usr/bin/env"), &arguments).await.unwrap();
    ready_at(cluster, PROGRAM, health, "/readiness").await;
    let path = |policy: &Value| format!("/validate/{}", name_of(policy));
    Server { url: format!("https://127.0.0.1:{port}"), authority: cluster.authority_certificate(), path }
}

/// Writes the module of this build with its metadata, without which the server does not take it.
fn annotate(output: &Path) {
    let status = Command::new(program())
        .arg("annotate")
        .arg("--metadata-path")
        .arg(workspace().join("metadata.yml"))
        .arg("--output-path")
        .arg(output)
        .arg(module::path())
        .status();
    assert!(status.unwrap().success());
}

/// Returns the configuration of a policy, which has these fields in its spec.
fn configuration(spec: &Value, module: &Path) -> Value {
    let mut all = json!({
        "module": format!("file://{}", module.display()),
        "policyMode": spec.get("mode").cloned().unwrap_or_else(|| "protect".into()),
        "allowedToMutate": spec["mutating"],
        "hostCapabilities": ["*"],
    });
    for field in SAME {
        if let Some(value) = spec.get(field) {
            all[field] = value.clone();
        }
    }
    all
}
