//! The metadata of a policy, stored in a custom section of its module.
//!
//! The section holds JSON; authors write `metadata.yml`. Kubewarden's hosts read from it which requests to send to the
//! policy, which kinds the policy may read, and which protocol it speaks.

mod validate;

use std::collections::{BTreeMap, BTreeSet};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::grants::{self, ContextAwareResource};
use crate::wasm::{self, WasmError};

/// The name of the custom section.
pub const SECTION: &str = "io.kubewarden.metadata";
/// The annotation that holds the usage text of the policy.
const USAGE: &str = "io.kubewarden.policy.usage";

/// Why a module has no usable metadata.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The bytes are not a module.
    #[error(transparent)]
    Module(#[from] WasmError),
    /// The section does not hold metadata.
    #[error("the module's section \"{SECTION}\" is broken: {0}")]
    Section(serde_json::Error),
    /// The `metadata.yml` cannot be parsed. The text contains the line and a caret under the error.
    #[error("{0}")]
    Syntax(String),
    /// The metadata has invalid values: one line for each field.
    #[error("{}", .0.join("\n"))]
    Invalid(Vec<String>),
    /// This host cannot run a module of this kind.
    #[error("executionMode: Unsupported value: \"{0}\": only waPC modules run here, use kwctl for the others")]
    Mode(ExecutionMode),
    /// The policy requires a newer Kubewarden than the one that this host matches.
    #[error(
        "minimumKubewardenVersion: the policy needs Kubewarden {wanted}, this host is like {}.{}",
        KUBEWARDEN.0,
        KUBEWARDEN.1
    )]
    NeedsNewer {
        /// The oldest release that the policy works with.
        wanted: String,
    },
}

/// The Kubewarden release whose policy server this host matches: major and minor number.
const KUBEWARDEN: (u64, u64) = (1, 36);

/// A rule that selects requests for the policy, as in a webhook configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// API groups: `""` for the core group, `*` for all.
    pub api_groups: Vec<String>,
    /// API versions: `v1`, `*`, ...
    pub api_versions: Vec<String>,
    /// Resources in the plural: `pods`, `pods/status`, `*`, ...
    pub resources: Vec<String>,
    /// The operations on them.
    pub operations: Vec<Action>,
}

/// An operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Action {
    /// The object is created.
    Create,
    /// The object is updated.
    Update,
    /// The object is deleted.
    Delete,
    /// A client connects to it.
    Connect,
    /// Any operation.
    #[serde(rename = "*")]
    All,
}

/// The kind of module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExecutionMode {
    /// A waPC guest, the only kind that this host runs.
    #[default]
    KubewardenWapc,
    /// Rego for Open Policy Agent.
    Opa,
    /// Rego for Gatekeeper.
    Gatekeeper,
    /// A program that the host starts for every request.
    Wasi,
}

impl std::fmt::Display for ExecutionMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::KubewardenWapc => "kubewarden-wapc",
            Self::Opa => "opa",
            Self::Gatekeeper => "gatekeeper",
            Self::Wasi => "wasi",
        })
    }
}

/// The input that a policy decides on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyType {
    /// Kubernetes admission requests.
    #[default]
    Kubernetes,
    /// Any JSON.
    Raw,
}

/// The metadata of a policy. The fields have the same order as in the section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The protocol that the policy speaks, `v1`. The module itself reports it.
    #[serde(default)]
    pub protocol_version: Option<String>,
    /// The requests to send to the policy.
    pub rules: Vec<Rule>,
    /// Annotations for readers and catalogues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Whether the policy changes objects.
    pub mutating: bool,
    /// Whether the audit scanner should send it the objects that the cluster already holds.
    #[serde(default = "yes")]
    pub background_audit: bool,
    /// The kind of module.
    #[serde(default)]
    pub execution_mode: ExecutionMode,
    /// The input that the policy decides on.
    #[serde(default)]
    pub policy_type: PolicyType,
    /// The kinds that the policy reads while it decides.
    #[serde(default)]
    pub context_aware_resources: BTreeSet<ContextAwareResource>,
    /// The host capabilities that the policy uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_capabilities: Option<BTreeSet<String>>,
    /// The oldest Kubewarden release that the policy supports, a semantic version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_kubewarden_version: Option<String>,
}

fn syntax(error: &serde_saphyr::Error) -> MetadataError {
    MetadataError::Syntax(error.to_string())
}

const fn yes() -> bool {
    true
}

/// The keys of a `metadata.yml`.
const KEYS: [&str; 10] = [
    "protocolVersion",
    "rules",
    "annotations",
    "mutating",
    "backgroundAudit",
    "executionMode",
    "policyType",
    "contextAwareResources",
    "hostCapabilities",
    "minimumKubewardenVersion",
];

impl Metadata {
    /// Reads a `metadata.yml`. Also returns the unknown keys, which Kubewarden ignores.
    ///
    /// # Errors
    /// [`MetadataError::Syntax`] if the text is not metadata.
    pub fn from_yaml(text: &str) -> Result<(Self, Vec<String>), MetadataError> {
        // kwctl reads `yes` as a string, too.
        let options = serde_saphyr::options! { strict_booleans: true };
        let all: BTreeMap<String, Option<IgnoredAny>> =
            serde_saphyr::from_str_with_options(text, options.clone()).map_err(|error| syntax(&error))?;
        let metadata = serde_saphyr::from_str_with_options(text, options).map_err(|error| syntax(&error))?;
        for key in ["rules", "contextAwareResources"] {
            if all.get(key).is_some_and(Option::is_none) {
                return Err(MetadataError::Syntax(format!("{key}: must not be null")));
            }
        }
        let unknown = all.into_keys().filter(|key| !KEYS.contains(&key.as_str())).collect();
        Ok((metadata, unknown))
    }

    /// Reads the metadata of a module; `None` if it has none.
    ///
    /// # Errors
    /// [`MetadataError`] if the bytes are not a module, or the section does not hold metadata.
    pub fn of_module(module: &[u8]) -> Result<Option<Self>, MetadataError> {
        wasm::custom_section(module, SECTION)?
            .map(|section| serde_json::from_slice(section).map_err(MetadataError::Section))
            .transpose()
    }

    /// Adds the usage text of the policy, usually its README.
    pub fn set_usage(&mut self, text: &str) {
        self.annotations.get_or_insert_default().insert(USAGE.to_owned(), text.to_owned());
    }

    /// Checks the metadata and reports every problem.
    ///
    /// # Errors
    /// [`MetadataError::Invalid`] with a line for each field: its path, the problem, the remedy.
    pub fn validate(&self) -> Result<(), MetadataError> {
        let problems = validate::problems(self);
        if problems.is_empty() { Ok(()) } else { Err(MetadataError::Invalid(problems)) }
    }

    /// Checks that the module is of a kind that this host runs.
    ///
    /// # Errors
    /// [`MetadataError::Mode`] if it is not a waPC guest.
    pub fn has_known_mode(&self) -> Result<(), MetadataError> {
        match self.execution_mode {
            ExecutionMode::KubewardenWapc => Ok(()),
            mode => Err(MetadataError::Mode(mode)),
        }
    }

    /// Checks that this host can run a module with this metadata.
    ///
    /// # Errors
    /// [`MetadataError::Mode`] if it is not a waPC guest, [`MetadataError::NeedsNewer`] if it needs a newer Kubewarden.
    /// Patch releases are not compared.
    pub fn runs_here(&self) -> Result<(), MetadataError> {
        self.has_known_mode()?;
        match self.minimum_kubewarden_version.as_deref() {
            Some(version) if validate::minor_version(version).is_some_and(|wanted| wanted > KUBEWARDEN) => {
                Err(MetadataError::NeedsNewer { wanted: version.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Returns the module with this metadata in place of its own.
    ///
    /// # Errors
    /// [`MetadataError::Module`] if the bytes are not a module.
    pub fn write_into(&self, module: &[u8]) -> Result<Vec<u8>, MetadataError> {
        let json = serde_json::to_vec(self).map_err(MetadataError::Section)?;
        Ok(wasm::with_custom_section(module, SECTION, &json)?)
    }

    /// Compares the host capabilities that the module's constant data mentions with those that the metadata declares.
    ///
    /// The result is a guess: a module names the calls it makes in its constant data, but compilers may put any text
    /// there.
    ///
    /// # Errors
    /// [`MetadataError::Module`] if the bytes are not a module.
    pub fn capability_mismatch(&self, module: &[u8]) -> Result<CapabilityMismatch, MetadataError> {
        let declared = self.host_capabilities.clone().unwrap_or_default();
        let mut found = BTreeSet::new();
        for capability in grants::known_capabilities() {
            if let Some((namespace, operation)) = capability.split_once('/')
                && wasm::data_holds(module, namespace)?
                && wasm::data_holds(module, operation)?
            {
                found.insert((*capability).to_owned());
            }
        }
        // The text `oci_manifest_config` contains `oci_manifest`, so finding the latter does not prove that the module
        // uses it.
        let part_of_another = |capability: &String| {
            declared.iter().any(|other| other != capability && other.starts_with(capability.as_str()))
        };
        Ok(CapabilityMismatch {
            undeclared: found.difference(&declared).filter(|name| !part_of_another(name)).cloned().collect(),
            unused: declared.difference(&found).cloned().collect(),
        })
    }
}

/// Apparent differences between metadata and module in their host capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapabilityMismatch {
    /// Capabilities that only the module names.
    pub undeclared: Vec<String>,
    /// Capabilities that only the metadata names.
    pub unused: Vec<String>,
}

#[cfg(test)]
mod tests;
