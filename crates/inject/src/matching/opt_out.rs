//! Which of the `SidecarSet`s that match a Pod it leaves out (OPT-2 to OPT-4).

use std::collections::BTreeSet;
use std::fmt;

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{self, Lookup};
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::opt_out::{OPT_OUT, OptOut};
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;
use serde_json::Value;

use super::{Query, unreadable_namespace};

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
    fn from_annotation(text: &'a str) -> Self {
        Self(text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect())
    }

    /// Whether they contain the set, or the set of which it is a canary.
    fn cover(&self, set: &SidecarSet) -> bool {
        self.0.contains(set.name()) || set.canary_of().is_some_and(|base| self.0.contains(base))
    }
}

/// Returns whose annotation [`OPT_OUT_OF`] leaves a set out, that of the Pod or that of its Namespace; `None` if the set is
/// not left out.
pub fn left_out_by(set: &SidecarSet, of_pod: &str, of_namespace: &str) -> Option<By> {
    if !OptOut::is_allowed_by(set) {
        return None;
    }
    [(By::Pod, of_pod), (By::Namespace, of_namespace)]
        .into_iter()
        .find_map(|(by, text)| Names::from_annotation(text).cover(set).then_some(by))
}

/// Returns which of the sets that match a Pod the Pod or its Namespace asks to leave out, in the order of `matched`. The
/// Namespace is looked up only if a set allows it to ask, and the Pod has not (OPT-3).
///
/// # Errors
/// The Namespace could not be read. The reason is about the first set for which it had to be.
pub fn opted_out(matched: &[&CompiledSet<'_>], query: Query<'_>, lookup: &dyn Lookup) -> Result<Vec<OptedOut>, Reason> {
    let of_pod = query.pod.annotations().and_then(|all| all.get(OPT_OUT_OF)).and_then(Value::as_str);
    let of_pod = Names::from_annotation(of_pod.unwrap_or_default());
    let is_undecided = |set: &&&CompiledSet<'_>| OptOut::is_allowed_by(set.manifest()) && !of_pod.cover(set.manifest());
    let namespace = match matched.iter().find(is_undecided) {
        None => None,
        Some(set) => lookup::namespace(query.namespace, lookup).map_err(|failure| {
            let field = FieldPath::new("metadata.annotations").key(OPT_OUT).to_string();
            unreadable_namespace(&field, query, failure).about(set.name)
        })?,
    };
    let of_namespace = namespace.as_ref().map(|object| json::text(object, &["metadata", "annotations", OPT_OUT_OF]));
    let of_namespace = Names::from_annotation(of_namespace.unwrap_or_default());
    let asked = |set: &&CompiledSet<'_>| {
        let is_allowed = OptOut::is_allowed_by(set.manifest());
        let by = if of_pod.cover(set.manifest()) {
            By::Pod
        } else if is_allowed && of_namespace.cover(set.manifest()) {
            By::Namespace
        } else {
            return None;
        };
        Some(OptedOut { sidecar_set: set.name.to_owned(), by, is_allowed })
    };
    Ok(matched.iter().filter_map(asked).collect())
}

/// Returns the one of these that leaves a set out, if one does.
pub fn leaving_out<'a>(opted_out: &'a [OptedOut], set: &CompiledSet<'_>) -> Option<&'a OptedOut> {
    opted_out.iter().find(|one| one.is_allowed && one.sidecar_set == set.name)
}

#[cfg(test)]
mod tests;
