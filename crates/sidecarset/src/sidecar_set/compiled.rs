//! The parts of a `SidecarSet` that matching needs. The rest is not prepared until the set matches.

use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::json::{self, Object, Part};
use pillion_kubernetes::selector::{Op, Selector};
use serde_json::Value;

use crate::names;
use crate::sidecar_set::origin::Origin;
use crate::sidecar_set::{SidecarSet, prepare};

/// The part of a manifest of either version that tells its name and whether it may match a Pod.
pub const HEAD: Part = Part::Members(&[
    ("apiVersion", Part::Whole),
    ("kind", Part::Whole),
    ("metadata", Part::Members(&[("name", Part::Whole)])),
    (
        "spec",
        Part::Members(&[
            ("injectionStrategy", Part::Whole),
            ("namespace", Part::Whole),
            ("namespaceSelector", Part::Whole),
            ("selector", Part::Whole),
        ]),
    ),
]);

/// The namespaces in which a `SidecarSet` is a candidate (MATCH-4).
#[derive(Clone, Debug)]
pub enum Scope<'a> {
    /// Every namespace.
    Cluster,
    /// The namespaces that its namespace selector names by `kubernetes.io/metadata.name`.
    Namespaces(Vec<&'a str>),
}

/// The parsed namespace selector.
#[derive(Clone, Debug)]
pub enum Namespaces<'a> {
    /// No selector: every namespace.
    All,
    /// An invalid selector: no namespace (MATCH-6).
    None,
    /// A valid selector: the namespaces with matching labels.
    Matching(Selector<'a>),
}

/// A `SidecarSet` that is ready for matching.
#[derive(Clone, Debug)]
pub struct CompiledSet<'a> {
    /// The name of the set.
    pub name: &'a str,
    /// The namespaces in which the set is a candidate.
    pub scope: Scope<'a>,
    /// The namespaces that the set selects.
    pub namespaces: Namespaces<'a>,
    /// The Pods that the set selects, or the errors of an invalid selector.
    pub selector: Result<Selector<'a>, Vec<FieldError>>,
    /// `injectionStrategy.paused`: a paused set matches nothing (MATCH-6).
    pub paused: bool,
    /// The name of the base, if the set is a canary.
    pub canary_of: Option<&'a str>,
    /// Whether the set comes from the settings or from the cluster.
    pub origin: Origin,
    set: &'a SidecarSet,
}

impl<'a> CompiledSet<'a> {
    /// Compiles a manifest from the settings.
    pub fn new(set: &'a SidecarSet) -> Self {
        let namespaces = match set.spec(&["namespaceSelector"]) {
            None => Namespaces::All,
            Some(selector) => Selector::parse_or_nothing(selector).map_or(Namespaces::None, Namespaces::Matching),
        };
        let selector = set.spec(&["selector"]).map_or_else(|| Ok(Selector::default()), Selector::parse);
        Self {
            name: set.name(),
            scope: set.spec(&["namespaceSelector"]).map_or(Scope::Cluster, Scope::from_selector),
            namespaces,
            selector,
            paused: json::flag(set.as_value(), &["spec", "injectionStrategy", "paused"]),
            canary_of: set.canary_of(),
            origin: set.origin(),
            set,
        }
    }

    /// Whether the set was written in the policy's settings.
    pub fn is_of_settings(&self) -> bool {
        self.origin == Origin::Settings
    }

    /// Returns the `SidecarSet` that was compiled, which may be a head ([`HEAD`]).
    pub const fn manifest(&self) -> &'a SidecarSet {
        self.set
    }

    /// Returns the full `SidecarSet`, defaulted and hashed.
    pub fn open(&self) -> SidecarSet {
        prepare::prepared(self.set)
    }

    /// Whether the scope names this namespace explicitly.
    pub fn is_bound_to(&self, namespace: &str) -> bool {
        matches!(&self.scope, Scope::Namespaces(names) if names.contains(&namespace))
    }

    /// Whether the set is a candidate in this namespace (MATCH-4).
    pub fn is_candidate(&self, namespace: &str) -> bool {
        matches!(self.scope, Scope::Cluster) || self.is_bound_to(namespace)
    }

    /// Whether the set matches a Pod in this namespace with these labels, if the labels of the Namespace fit. A set
    /// whose selector cannot be parsed may match, so that admission reports the error.
    pub fn may_match(&self, namespace: &str, labels: Option<&Object>) -> bool {
        let is_others = || self.selector.as_ref().is_ok_and(|selector| !selector.selects(labels));
        !self.paused && self.is_candidate(namespace) && !is_others()
    }
}

impl<'a> Scope<'a> {
    /// Returns the value of `kubernetes.io/metadata.name` in `matchLabels`, else the values of the first `In`
    /// expression on that key, else the whole cluster (MATCH-4). Reads the JSON instead of the parsed selector, because
    /// the reference's index does not validate.
    pub fn from_selector(selector: &'a Value) -> Self {
        if let Some(name) = json::at(selector, &["matchLabels", names::NAMESPACE_NAME_LABEL]).and_then(Value::as_str) {
            return Self::Namespaces(vec![name]);
        }
        let named = json::items(selector, &["matchExpressions"]).iter().find(|expression| {
            json::text(expression, &["key"]) == names::NAMESPACE_NAME_LABEL
                && Op::parse(json::text(expression, &["operator"])) == Some(Op::In)
        });
        match named {
            Some(expression) => {
                Self::Namespaces(json::items(expression, &["values"]).iter().filter_map(Value::as_str).collect())
            }
            None => Self::Cluster,
        }
    }
}
