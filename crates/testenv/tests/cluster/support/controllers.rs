//! `pillion controller` outside the cluster, with the rights that `pillion manifest controller` renders.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pillion_install::rendering::controller;
use pillion_install::rendering::document::to_yaml;
use pillion_install::rendering::options::Controller;
use pillion_testenv::{Cluster, apply};
use serde_json::Value;

use super::options;

/// The namespace of the installation.
pub const NAMESPACE: &str = "pillion-system";
/// The ServiceAccount of most controllers.
pub const ACCOUNT: &str = "pillion-controller";

/// Controllers as local processes with exactly the rendered rights.
pub struct Controllers<'a> {
    pub cluster: &'a Cluster,
    command: Vec<String>,
}

impl<'a> Controllers<'a> {
    /// Applies the manifests for these settings and flags of `pillion manifest controller`. The controllers are those of
    /// the first Deployment.
    pub async fn install(cluster: &'a Cluster, program: &Path, settings: &Value, flags: &[&str]) -> Self {
        let documents = controller::render(settings, &options::<Controller>(flags)).unwrap().documents;
        let is_elsewhere =
            |kind: &str| matches!(kind, "Namespace" | "Deployment" | "PodDisruptionBudget" | "NetworkPolicy");
        let here = documents.iter().filter(|document| !is_elsewhere(document.object["kind"].as_str().unwrap()));
        apply(&cluster.admin().await.unwrap(), &to_yaml(here).unwrap(), "manifests").await.unwrap();

        let deployment = documents.iter().find(|document| document.object["kind"] == "Deployment").unwrap();
        let template = &deployment.object["spec"]["template"]["spec"];
        let account = template["serviceAccountName"].as_str().unwrap();
        let identity = cluster.as_service_account(NAMESPACE, account).await.unwrap();
        let kubeconfig = cluster.folder().join("controller.kubeconfig");
        fs::write(&kubeconfig, identity.kubeconfig()).unwrap();
        fs::set_permissions(&kubeconfig, fs::Permissions::from_mode(0o600)).unwrap();
        let file = cluster.folder().join("controller.settings");
        fs::write(&file, settings.to_string()).unwrap();
        let rendered = template["containers"][0]["args"].as_array().unwrap();
        let is_ours = |flag: &&str| !flag.starts_with("--settings=") && !flag.starts_with("--health-listen=");
        let rendered = rendered.iter().map(|flag| flag.as_str().unwrap()).filter(is_ours).map(str::to_owned);
        let mut command = vec![format!("KUBECONFIG={}", kubeconfig.display()), program.display().to_string()];
        command.extend(rendered);
        command.push(format!("--settings={}", file.display()));
        Self { cluster, command }
    }

    /// Starts a replica that serves its health checks on this port.
    pub async fn start(&self, replica: &str, health: u16) {
        let mut arguments = vec![format!("POD_NAME={replica}")];
        arguments.extend(self.command.iter().cloned());
        arguments.push(format!("--health-listen=127.0.0.1:{health}"));
        self.cluster.start_program(replica, Path::new("/usr/bin/env"), &arguments).await.unwrap();
    }
}
