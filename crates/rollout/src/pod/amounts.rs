//! Cpu and memory of the containers of a Pod, as its spec has them (ROLL-70).

use pillion_json::go as go_json;
use pillion_kubernetes::nullable;
use pillion_sidecarset::hash::sha256;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar::List;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::resize::Resources;

/// Cpu and memory of the containers and native sidecars of a Pod. Many Pods have the same ones and may share them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amounts(Vec<OfContainer>);

/// Cpu and memory of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OfContainer {
    /// The list that it is in.
    pub(crate) list: List,
    /// Its name.
    pub(crate) name: String,
    /// Whether a SidecarSet has injected it.
    pub(crate) is_injected: bool,
    /// Whether the kubelet restarts it when its cpu or memory changes.
    pub(crate) restarts: bool,
    /// Its `resources`.
    pub(crate) resources: Option<Resources>,
}

impl FromIterator<OfContainer> for Amounts {
    fn from_iter<I: IntoIterator<Item = OfContainer>>(containers: I) -> Self {
        Self(containers.into_iter().collect())
    }
}

impl Amounts {
    /// Returns those of each container.
    pub(crate) fn containers(&self) -> impl Iterator<Item = &OfContainer> {
        self.0.iter()
    }

    /// Returns a digest of the amounts of the containers that the Pod brings itself.
    pub(crate) fn digest_of_own(&self) -> String {
        let own = self.0.iter().filter(|container| !container.is_injected);
        let own: Vec<Value> = own.map(|container| json!([container.list.key(), container.to_json()])).collect();
        let mut digest = sha256(go_json::to_string_sorted(&json!(own)).as_bytes());
        digest.truncate(16);
        digest
    }

    /// Returns a Pod with these containers, and nothing else.
    pub(crate) fn to_pod(&self) -> Value {
        let of = |list: List| {
            let containers = self.0.iter().filter(|container| container.list == list);
            containers.map(OfContainer::to_json).collect::<Vec<_>>()
        };
        let [init_containers, containers] = List::ALL.map(of);
        json!({"spec": {"initContainers": init_containers, "containers": containers}})
    }
}

impl OfContainer {
    fn to_json(&self) -> Value {
        let mut container = json!({"name": self.name});
        if let Some(container) = container.as_object_mut() {
            if self.list == List::Init {
                container.insert("restartPolicy".to_owned(), "Always".into());
            }
            if self.is_injected {
                let variable = json!({"name": names::ENV_IS_INJECTED, "value": "true"});
                container.insert("env".to_owned(), json!([variable]));
            }
            if let Some(resources) = &self.resources {
                container.insert("resources".to_owned(), json!(resources));
            }
        }
        container
    }
}

/// An environment variable.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Variable {
    #[serde(deserialize_with = "nullable::or_default")]
    name: String,
    #[serde(deserialize_with = "nullable::or_default")]
    value: String,
}

/// An item of `resizePolicy`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResizePolicy {
    #[serde(deserialize_with = "nullable::or_default")]
    restart_policy: String,
}

/// Reads whether the variables of a container say that a SidecarSet has injected it. The first one counts (INJ-15).
pub(super) fn is_injected<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let variables: Vec<Variable> = nullable::or_default(deserializer)?;
    let found = variables.iter().find(|variable| variable.name == names::ENV_IS_INJECTED);
    Ok(found.is_some_and(|variable| variable.value == "true"))
}

/// Reads whether a change of cpu or memory restarts a container.
pub(super) fn restarts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let policies: Vec<ResizePolicy> = nullable::or_default(deserializer)?;
    Ok(policies.iter().any(|policy| policy.restart_policy == "RestartContainer"))
}
