//! Which of the `SidecarSet`s that match a Pod it leaves out (OPT-2 to OPT-4).

use std::collections::BTreeSet;
use std::fmt;

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json::Object;
use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::opt_out::{OPT_OUT, OptOut};
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;
use serde_json::Value;

use super::{Query, namespace_object};

/// The annotation of a Pod or a Namespace with the names of the `SidecarSet`s that it leaves out, separated by commas
/// (OPT-2).
pub const OPT_OUT_OF: &str = "pillion.dev/opt-out-of";

/// The object whose annotation leaves a `SidecarSet` out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The Pod.
    Pod,
    /// The Namespace of the Pod.
    Namespace,
}

/// A `SidecarSet` that matches a Pod, and that the Pod or its Namespace asks to leave out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptedOut {
    /// The name of the set.
    pub sidecar_set: String,
    /// Who asks.
    pub by: By,
    /// Whether the set allows it. If not, the Pod gets the set.
    pub is_allowed: bool,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pod => "Pod",
            Self::Namespace => "Namespace",
        })
    }
}

impl fmt::Display for OptedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sidecar_set: name, by, is_allowed } = self;
        if *is_allowed {
            write!(f, "SidecarSet \"{name}\" is left out: the annotation {OPT_OUT_OF} of the {by} names it")
        } else {
            write!(
                f,
                "SidecarSet \"{name}\" is injected although the annotation {OPT_OUT_OF} of the {by} names it: it does \
                 not allow that; ask its author for the annotation {OPT_OUT}: Allowed, or remove the name"
            )
        }
    }
}

/// The names in an annotation.
struct Names<'a>(BTreeSet<&'a str>);

impl<'a> Names<'a> {
    fn of(annotations: Option<&'a Object>) -> Self {
        let text = annotations.and_then(|all| all.get(OPT_OUT_OF)).and_then(Value::as_str).unwrap_or_default();
        Self(names(text).collect())
    }

    /// Whether they contain the set, or the set of which it is a canary.
    fn cover(&self, set: &CompiledSet<'_>) -> bool {
        self.0.contains(set.name) || set.canary_of.is_some_and(|base| self.0.contains(base))
    }
}

/// Whether a set may be left out. An unknown value of the annotation does not allow it.
fn allows(set: &CompiledSet<'_>) -> bool {
    OptOut::from_annotation(set.annotation(OPT_OUT)) == Ok(OptOut::Allowed)
}

fn names(annotation: &str) -> impl Iterator<Item = &str> {
    annotation.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// Whether one of these annotations, [`OPT_OUT_OF`] of a Pod and of its Namespace, leaves a set out that allows it.
pub fn is_left_out<'a>(set: &SidecarSet, annotations: impl IntoIterator<Item = &'a str>) -> bool {
    let is_it = |name: &str| name == set.name() || set.canary_of() == Some(name);
    OptOut::from_sidecar_set(set) == Ok(OptOut::Allowed) && annotations.into_iter().flat_map(names).any(is_it)
}

/// Returns which of the sets that match a Pod the Pod or its Namespace asks to leave out, in the order of `matched`. The
/// Namespace is looked up only if a set allows it to ask, and the Pod has not (OPT-3).
///
/// # Errors
/// The Namespace could not be read. The reason is about the first set for which it had to be.
pub fn opted_out(matched: &[&CompiledSet<'_>], query: Query<'_>, lookup: &dyn Lookup) -> Result<Vec<OptedOut>, Reason> {
    let of_pod = Names::of(query.pod.annotations());
    let is_undecided = |set: &&&CompiledSet<'_>| allows(set) && !of_pod.cover(set);
    let namespace = match matched.iter().find(is_undecided) {
        None => None,
        Some(set) => namespace_object(query.namespace, lookup).map_err(|failure| {
            let what = format!("Namespace \"{}\"", query.namespace);
            let field = FieldPath::new("metadata.annotations").key(OPT_OUT).to_string();
            Reason::unreadable(&field, &what, &failure, ("v1", "Namespace")).about(set.name)
        })?,
    };
    let annotations = namespace.as_ref().and_then(|object| object.pointer("/metadata/annotations")?.as_object());
    let of_namespace = Names::of(annotations);
    let asked = |set: &&CompiledSet<'_>| {
        let is_allowed = allows(set);
        let by = if of_pod.cover(set) {
            By::Pod
        } else if is_allowed && of_namespace.cover(set) {
            By::Namespace
        } else {
            return None;
        };
        Some(OptedOut { sidecar_set: set.name.to_owned(), by, is_allowed })
    };
    Ok(matched.iter().filter_map(asked).collect())
}

/// Whether one of these leaves a set out.
pub fn leaves_out(opted_out: &[OptedOut], set: &CompiledSet<'_>) -> bool {
    opted_out.iter().any(|one| one.is_allowed && one.sidecar_set == set.name)
}

#[cfg(test)]
mod tests;
