//! What matching needs to know of a `SidecarSet`; everything else stays closed until it matches.

use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::json;
use pillion_kubernetes::selector::{Op, Selector};
use serde_json::Value;

use crate::names;
use crate::sidecar_set::SidecarSet;
use crate::sidecar_set::prepare;

/// Where a `SidecarSet` is looked for (P-4).
#[derive(Clone, Debug)]
pub enum Scope<'a> {
    /// In every namespace.
    Cluster,
    /// In the namespaces that its namespace selector names by `kubernetes.io/metadata.name`.
    Namespaces(Vec<&'a str>),
}

/// The namespace selector.
#[derive(Clone, Debug)]
pub enum Namespaces<'a> {
    /// None: every namespace.
    All,
    /// One that cannot be parsed: no namespace (P-6).
    None,
    /// Those whose labels match.
    Matching(Selector<'a>),
}

/// The source of the full `SidecarSet`.
#[derive(Clone, Copy, Debug)]
enum Body<'a> {
    /// A manifest of the settings.
    Manifest(&'a SidecarSet),
}

/// A `SidecarSet`, ready to be matched. Nothing after matching knows where it came from.
#[derive(Clone, Debug)]
pub struct CompiledSet<'a> {
    /// Its name.
    pub name: &'a str,
    /// Where it is looked for.
    pub scope: Scope<'a>,
    /// Which namespaces it selects.
    pub namespaces: Namespaces<'a>,
    /// Which Pods it selects; the errors of a selector that cannot be parsed.
    pub selector: Result<Selector<'a>, Vec<FieldError>>,
    /// `injectionStrategy.paused`: it matches nothing (P-6).
    pub paused: bool,
    /// The base's name, where it is a canary.
    pub canary_of: Option<&'a str>,
    body: Body<'a>,
}

impl<'a> CompiledSet<'a> {
    /// Compiles a manifest of the settings.
    pub fn of_manifest(set: &'a SidecarSet) -> Self {
        let namespaces = match set.spec(&["namespaceSelector"]) {
            None => Namespaces::All,
            Some(selector) => Selector::parse_or_nothing(selector).map_or(Namespaces::None, Namespaces::Matching),
        };
        let selector = set.spec(&["selector"]).map_or_else(|| Ok(Selector::default()), Selector::parse);
        Self {
            name: set.name(),
            scope: set.spec(&["namespaceSelector"]).map_or(Scope::Cluster, Scope::of),
            namespaces,
            selector,
            paused: json::flag(set.as_value(), &["spec", "injectionStrategy", "paused"]),
            canary_of: set.canary_of(),
            body: Body::Manifest(set),
        }
    }

    /// The full `SidecarSet`, defaulted and hashed.
    pub fn open(&self) -> SidecarSet {
        match self.body {
            Body::Manifest(set) => prepare::prepared(set),
        }
    }

    /// Whether it is looked for in this namespace by name, and not just in every one.
    pub fn is_bound_to(&self, namespace: &str) -> bool {
        matches!(&self.scope, Scope::Namespaces(names) if names.contains(&namespace))
    }

    /// Whether it is looked for in this namespace at all (P-4).
    pub fn is_candidate(&self, namespace: &str) -> bool {
        matches!(self.scope, Scope::Cluster) || self.is_bound_to(namespace)
    }
}

impl<'a> Scope<'a> {
    /// The value of `kubernetes.io/metadata.name` in `matchLabels`, else the values of the first `In` expression on
    /// that key, else the whole cluster (P-4). Read from the JSON, not from the parsed selector: the reference's index
    /// does not validate.
    pub fn of(selector: &'a Value) -> Self {
        if let Some(name) = json::at(selector, &["matchLabels", names::NAMESPACE_NAME_LABEL]).and_then(Value::as_str) {
            return Self::Namespaces(vec![name]);
        }
        let named = json::items(selector, &["matchExpressions"]).iter().find(|expression| {
            json::text(expression, &["key"]) == names::NAMESPACE_NAME_LABEL
                && Op::of(json::text(expression, &["operator"])) == Some(Op::In)
        });
        match named {
            Some(expression) => {
                Self::Namespaces(json::items(expression, &["values"]).iter().filter_map(Value::as_str).collect())
            }
            None => Self::Cluster,
        }
    }
}
