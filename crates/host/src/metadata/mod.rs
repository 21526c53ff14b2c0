//! What a policy says about itself, in a custom section of its module.
//!
//! The section holds JSON; `metadata.yml` is what people write. Kubewarden's hosts read which requests a policy wants
//! to see, what it may read, and which protocol it speaks.

mod validate;

use std::collections::{BTreeMap, BTreeSet};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::grants::{self, ContextAwareResource};
use crate::wasm::{self, WasmError};

/// The name of the custom section.
pub const SECTION: &str = "io.kubewarden.metadata";
/// The annotation that holds the text on how to use the policy.
const USAGE: &str = "io.kubewarden.policy.usage";

/// Why a module has no metadata that can be used.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The bytes are no module.
    #[error(transparent)]
    Module(#[from] WasmError),
    /// The section holds something else.
    #[error("the module's section \"{SECTION}\" is broken: {0}")]
    Section(serde_json::Error),
    /// What people wrote is no metadata. The text has the line and a caret under it.
    #[error("{0}")]
    Syntax(String),
    /// It is, but says what it cannot say: one line for each field.
    #[error("{}", .0.join("\n"))]
    Invalid(Vec<String>),
    /// The module is of a kind that this host does not run.
    #[error("executionMode: Unsupported value: \"{0}\": only waPC modules run here, use kwctl for the others")]
    Mode(ExecutionMode),
    /// The policy asks for a newer Kubewarden than this host is like.
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

/// The release of Kubewarden whose policy server this host is like: major and minor number.
const KUBEWARDEN: (u64, u64) = (1, 36);

/// The requests that a policy wants to see, as a webhook configuration says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// `""` for the core group, `*` for all.
    pub api_groups: Vec<String>,
    /// `v1`, `*`, ...
    pub api_versions: Vec<String>,
    /// In the plural: `pods`, `pods/status`, `*`, ...
    pub resources: Vec<String>,
    /// What is done to them.
    pub operations: Vec<Action>,
}

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Action {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It is removed.
    Delete,
    /// Something connects to it.
    Connect,
    /// Any of them.
    #[serde(rename = "*")]
    All,
}

/// What kind of module a policy is.
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
    /// A program that is started for every request.
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

/// What a policy decides on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyType {
    /// Kubernetes admission requests.
    #[default]
    Kubernetes,
    /// Any JSON.
    Raw,
}

/// The metadata of a policy. The order of the fields is that of the section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The protocol that the policy speaks, `v1`; the module itself says it.
    #[serde(default)]
    pub protocol_version: Option<String>,
    /// The requests that it wants to see.
    pub rules: Vec<Rule>,
    /// What there is to say for people and catalogues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Whether it changes objects.
    pub mutating: bool,
    /// Whether the audit scanner should show it what the cluster already holds.
    #[serde(default = "yes")]
    pub background_audit: bool,
    /// What kind of module it is.
    #[serde(default)]
    pub execution_mode: ExecutionMode,
    /// What it decides on.
    #[serde(default)]
    pub policy_type: PolicyType,
    /// The kinds that it reads while it decides.
    #[serde(default)]
    pub context_aware_resources: BTreeSet<ContextAwareResource>,
    /// The host capabilities that it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_capabilities: Option<BTreeSet<String>>,
    /// The oldest Kubewarden that it works with, a semantic version.
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
    /// Reads a `metadata.yml`; the keys that nobody knows are returned beside it, since Kubewarden ignores them.
    ///
    /// # Errors
    /// [`MetadataError::Syntax`] where it is no metadata.
    pub fn from_yaml(text: &str) -> Result<(Self, Vec<String>), MetadataError> {
        // `yes` is a text for kwctl too.
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

    /// Reads the metadata of a module, where it has some.
    ///
    /// # Errors
    /// [`MetadataError`] where the bytes are no module, or the section holds something else.
    pub fn of_module(module: &[u8]) -> Result<Option<Self>, MetadataError> {
        wasm::custom_section(module, SECTION)?
            .map(|section| serde_json::from_slice(section).map_err(MetadataError::Section))
            .transpose()
    }

    /// Adds the text on how to use the policy, usually its README.
    pub fn set_usage(&mut self, text: &str) {
        self.annotations.get_or_insert_default().insert(USAGE.to_owned(), text.to_owned());
    }

    /// Finds what is wrong, all of it.
    ///
    /// # Errors
    /// [`MetadataError::Invalid`] with a line for each field: its path, what is wrong, what to do.
    pub fn validate(&self) -> Result<(), MetadataError> {
        let problems = validate::problems(self);
        if problems.is_empty() { Ok(()) } else { Err(MetadataError::Invalid(problems)) }
    }

    /// Whether a module with this metadata is of a kind that this host knows.
    ///
    /// # Errors
    /// [`MetadataError::Mode`] where it is no waPC guest.
    pub fn has_known_mode(&self) -> Result<(), MetadataError> {
        match self.execution_mode {
            ExecutionMode::KubewardenWapc => Ok(()),
            mode => Err(MetadataError::Mode(mode)),
        }
    }

    /// Whether a module with this metadata can be run by this host.
    ///
    /// # Errors
    /// [`MetadataError::Mode`] where it is no waPC guest, [`MetadataError::NeedsNewer`] where it needs a newer
    /// Kubewarden; patch releases do not count.
    pub fn runs_here(&self) -> Result<(), MetadataError> {
        self.has_known_mode()?;
        match self.minimum_kubewarden_version.as_deref() {
            Some(version) if validate::minor_version(version).is_some_and(|wanted| wanted > KUBEWARDEN) => {
                Err(MetadataError::NeedsNewer { wanted: version.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// The module with this metadata, in the place of what it had.
    ///
    /// # Errors
    /// [`MetadataError::Module`] where the bytes are no module.
    pub fn write_into(&self, module: &[u8]) -> Result<Vec<u8>, MetadataError> {
        let json = serde_json::to_vec(self).map_err(MetadataError::Section)?;
        Ok(wasm::with_custom_section(module, SECTION, &json)?)
    }

    /// Host capabilities that the module's texts speak of and the metadata does not, and the other way round.
    ///
    /// A guess: a module names what it calls in its constant data, and compilers may put any text there.
    ///
    /// # Errors
    /// [`MetadataError::Module`] where the bytes are no module.
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
        // `oci_manifest` stands in `oci_manifest_config` too: no reason to say that it is missing.
        let part_of_another = |capability: &String| {
            declared.iter().any(|other| other != capability && other.starts_with(capability.as_str()))
        };
        Ok(CapabilityMismatch {
            undeclared: found.difference(&declared).filter(|name| !part_of_another(name)).cloned().collect(),
            unused: declared.difference(&found).cloned().collect(),
        })
    }
}

/// Where metadata and module seem to disagree about host capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapabilityMismatch {
    /// The module names them, the metadata does not.
    pub undeclared: Vec<String>,
    /// The metadata names them, the module does not.
    pub unused: Vec<String>,
}

#[cfg(test)]
mod tests;
