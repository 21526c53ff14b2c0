//! Which containers of a Pod are to get the token of its ServiceAccount (TCN-1 to TCN-3).

use std::collections::BTreeSet;
use std::fmt;

use pillion_kubernetes::field::{FieldPath, shortened};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{self, Lookup};
use pillion_kubernetes::name_validation;
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::names::TOKEN_CONTAINERS;
use serde_json::Value;

use crate::glob::Glob;
use crate::rules::Rules;

/// The text of an annotation with which every container gets the token, as without Pillion.
const ALL: &str = "*";
/// The maximum number of names in an annotation.
const NAMES_MAX: usize = 64;

/// Who says which containers get the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The annotation of the Pod.
    Pod,
    /// The annotation of its Namespace.
    Namespace,
    /// The setting `serviceAccounts.tokenContainers.otherwise`.
    Settings,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod => write!(f, "the annotation {TOKEN_CONTAINERS} of the Pod"),
            Self::Namespace => write!(f, "the annotation {TOKEN_CONTAINERS} of the Namespace"),
            Self::Settings => f.write_str("the setting serviceAccounts.tokenContainers"),
        }
    }
}

/// The names of containers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    /// Of an annotation. Users write it, so a name is compared in one step (E18).
    Listed(BTreeSet<String>),
    /// Of the settings.
    Globs(Vec<Glob>),
}

/// The containers of a Pod that are to get the token of its ServiceAccount. The others are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenContainers {
    /// Who says so.
    pub by: By,
    names: Names,
}

impl TokenContainers {
    /// Returns which containers of a new Pod in this namespace get the token; `None` if all do. The annotation of the Pod
    /// counts before that of the Namespace, and this before the setting. In a protected namespace, none of them counts.
    ///
    /// # Errors
    /// An annotation has something else than names, or the Namespace could not be read.
    pub fn of_pod(pod: &Value, namespace: &str, rules: &Rules, lookup: &dyn Lookup) -> Result<Option<Self>, Reason> {
        if rules.protects(namespace) {
            return Ok(None);
        }
        let own = annotation(pod);
        if own.is_none() && rules.token_containers.namespaces {
            let object = lookup::namespace(namespace, lookup).map_err(|failure| {
                let what = format!("Namespace \"{namespace}\"");
                Reason::unreadable(&field(), &what, &failure, ("v1", "Namespace"))
            })?;
            if let Some(text) = object.as_ref().and_then(annotation) {
                return Self::of_annotation(text, By::Namespace);
            }
        }
        if let Some(text) = own {
            return Self::of_annotation(text, By::Pod);
        }
        let globs = rules.token_containers.otherwise.clone();
        Ok(globs.map(|globs| Self { by: By::Settings, names: Names::Globs(globs) }))
    }

    fn of_annotation(text: &str, by: By) -> Result<Option<Self>, Reason> {
        if text.trim() == ALL {
            return Ok(None);
        }
        let refused = |problem: String| {
            let remedy = "write names of containers, separated by commas, or \"*\" for all of them";
            Reason::forbidden(field(), format!("{by} {problem}"), remedy)
        };
        let names: BTreeSet<&str> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if names.len() > NAMES_MAX {
            return Err(refused(format!("has {} names; at most {NAMES_MAX} are read", names.len())));
        }
        if let Some(name) = names.iter().find(|name| name_validation::dns_label(name).is_some()) {
            return Err(refused(format!("has {:?}, which no container can be called", shortened(name))));
        }
        Ok(Some(Self { by, names: Names::Listed(names.into_iter().map(str::to_owned).collect()) }))
    }

    /// Whether the container of this name gets the token.
    pub fn include(&self, container: &str) -> bool {
        match &self.names {
            Names::Listed(names) => names.contains(container),
            Names::Globs(globs) => globs.iter().any(|glob| glob.matches(container)),
        }
    }

    /// Returns the names in the annotation of the Pod that none of its containers has.
    pub fn without_container(&self, containers: &BTreeSet<&str>) -> Vec<&str> {
        match (&self.names, self.by) {
            (Names::Listed(names), By::Pod) => {
                names.iter().map(String::as_str).filter(|name| !containers.contains(name)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Whether a Pod has the annotation.
pub fn is_annotated(pod: &Value) -> bool {
    annotation(pod).is_some()
}

/// Returns the annotation of a Pod or a Namespace.
fn annotation(object: &Value) -> Option<&str> {
    json::at(object, &["metadata", "annotations", TOKEN_CONTAINERS]).and_then(Value::as_str)
}

/// Returns the path of the annotation.
fn field() -> String {
    FieldPath::new("metadata.annotations").key(TOKEN_CONTAINERS).to_string()
}
