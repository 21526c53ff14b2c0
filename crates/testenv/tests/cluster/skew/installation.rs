//! The objects of an installation, part by part, as the command line of each version renders them.

use std::process::Command;

use kube::Client;
use pillion_testenv::{Cluster, apply};
use serde_json::Value;

use super::{SETTINGS, Version};

/// The kinds of the first step: the definition, and what gives rights.
const FIRST: [&str; 7] = [
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
];

/// A part of an installation that is updated by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    DefinitionAndRoles,
    Server,
    Controllers,
}

impl Part {
    /// The parts in the order in which they are updated.
    pub const ALL: [Self; 3] = [Self::DefinitionAndRoles, Self::Server, Self::Controllers];

    /// Returns how docs/support.md begins the step of this part.
    pub const fn step(self) -> &'static str {
        match self {
            Self::DefinitionAndRoles => "the SidecarSet definition, and the roles,",
            Self::Server => "the policies, or the server:",
            Self::Controllers => "the controllers,",
        }
    }

    /// Applies the objects of the part in a version.
    pub async fn apply(self, cluster: &Cluster, client: &Client, version: &Version) {
        for object in self.objects(cluster, version) {
            let name = object["metadata"]["name"].clone();
            if let Err(error) = apply(client, &object.to_string(), "manifests").await {
                panic!("{} {name} of {}: {error}", object["kind"], version.tag);
            }
        }
    }

    fn objects(self, cluster: &Cluster, version: &Version) -> Vec<Value> {
        let server = || version.manifest(cluster, &["standalone"]);
        let controllers = || version.manifest(cluster, &["controller", "--controllers", "*,sidecarset-rollout"]);
        let comes_first = |object: &Value| FIRST.iter().any(|kind| object["kind"] == *kind);
        match self {
            Self::DefinitionAndRoles => server().into_iter().chain(controllers()).filter(comes_first).collect(),
            Self::Server => server().into_iter().filter(|object| !comes_first(object)).collect(),
            Self::Controllers => controllers().into_iter().filter(|object| !comes_first(object)).collect(),
        }
    }
}

impl Version {
    fn manifest(&self, cluster: &Cluster, command: &[&str]) -> Vec<Value> {
        let settings = cluster.folder().join("skew.settings.yaml");
        std::fs::write(&settings, SETTINGS).unwrap();
        let mut run = Command::new(&self.program);
        run.arg("manifest").args(command).arg("--settings").arg(&settings);
        run.args(["--image", &format!("registry.example.com/pillion:{}", self.tag)]);
        let output = run.output().unwrap();
        assert!(output.status.success(), "{}: {}", self.tag, String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let documents = pillion_yaml::documents(&text).into_iter().map(|read| read.unwrap().value);
        documents.filter(|document| !document.is_null()).collect()
    }
}
