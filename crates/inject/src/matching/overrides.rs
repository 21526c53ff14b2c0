//! What a Pod and its Namespace change in the `SidecarSet`s that the Pod gets (OVR-4 to OVR-9).

use std::collections::BTreeSet;

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::lookup::{self, Lookup};
use pillion_kubernetes::outcome::{Code, Reason};
use pillion_sidecarset::made;
use pillion_sidecarset::overrides::{
    Annotations, ISTIO, Judged, OVERRIDES, OutOfBounds, Override, PREFIX, Rules, Source, Values, container_of, judge,
};
use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::{Query, unreadable_namespace};
use crate::metadata;

/// What came of the overrides of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// One for each field of a sidecar that is asked for.
    pub of_sidecars: Vec<Overridden>,
    /// The containers of which the Pod overrides something, and that no `SidecarSet` brings.
    pub unknown: Vec<String>,
}

/// What came of one override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overridden {
    /// The name of the `SidecarSet`.
    pub sidecar_set: String,
    /// The override, and what came of it.
    pub of: Override,
}

impl Overridden {
    /// Returns the warning for whoever creates the Pod; `None` if the override counts as it is.
    fn warning(&self) -> Option<String> {
        let Self { sidecar_set, of } = self;
        let problem = format!("SidecarSet \"{sidecar_set}\": annotation {} {}", of.annotation(), of.problem()?);
        Some(of.value().map_or_else(|| problem.clone(), |value| format!("{problem}; it is {value}")))
    }
}

impl Overrides {
    /// Returns the warnings for whoever creates the Pod: what does not count, and what was set to a bound.
    pub fn warnings(&self) -> Vec<String> {
        let sidecars = self.of_sidecars.iter().filter_map(Overridden::warning);
        let unknown = self.unknown.iter().map(|name| {
            format!(
                "the annotation {PREFIX}{name} has no effect: no SidecarSet gives the Pod a container \"{name}\"; \
                 correct the name, or remove the annotation"
            )
        });
        sidecars.chain(unknown).collect()
    }
}

/// Changes the sets that a Pod gets as it and its Namespace ask, within what the sets allow. The Namespace is looked up
/// only if a set lets Namespaces ask.
///
/// # Errors
/// What is not allowed, or cannot be read, for each set that does not clamp it. Also, that the Namespace could not be
/// read.
pub fn apply(sets: &mut [SidecarSet], query: Query<'_>, lookup: &dyn Lookup) -> Result<Overrides, Vec<Reason>> {
    let own = query.pod.annotations();
    let asks = own.into_iter().flat_map(Object::keys).filter_map(|key| container_of(key));
    let asked: Vec<&str> = asks.collect();
    let rules: Vec<Option<Rules>> = sets.iter().map(Rules::allowed_by).collect();
    if sets.is_empty() || (asked.is_empty() && rules.iter().all(Option::is_none)) {
        return Ok(Overrides::default());
    }
    let reads_namespace = |rules: &Option<Rules>| rules.as_ref().is_some_and(|it| it.from.contains(&Source::Namespace));
    let namespace = match sets.iter().zip(&rules).find(|(_, rules)| reads_namespace(rules)) {
        None => None,
        Some((set, _)) => lookup::namespace(query.namespace, lookup).map_err(|failure| {
            let field = FieldPath::new("metadata.annotations").key(OVERRIDES).to_string();
            vec![unreadable_namespace(&field, query, failure).about(set.name())]
        })?,
    };
    // What a SidecarSet writes into the Pod says nothing about what the Pod asks for. It is there only when admission sees
    // the Pod for the second time.
    let written = written_for_istio(sets);
    let of_pod =
        |key: &str| own.filter(|_| !written.contains(key)).and_then(|own| own.get(key)).and_then(Value::as_str);
    let namespace = namespace.as_ref().and_then(|object| json::object(object, &["metadata", "annotations"]));
    let of_namespace = |key: &str| namespace.and_then(|all| all.get(key)).and_then(Value::as_str);
    let annotations = Annotations::new(&of_pod, &of_namespace);
    let (mut overrides, mut reasons, mut known) = (Overrides::default(), Vec::new(), BTreeSet::new());
    for (set, rules) in sets.iter_mut().zip(&rules) {
        known.extend(made::sidecars(set).map(|(_, _, sidecar)| pod::name(sidecar).to_owned()));
        let judged = judge(set, rules.as_ref(), &annotations);
        Values::from(&judged).apply_to(set);
        let Judged { out_of_bounds, overrides: all } = judged;
        for of in all {
            match refusal(&of, out_of_bounds) {
                Some(reason) => reasons.push(reason.about(set.name())),
                None => overrides.of_sidecars.push(Overridden { sidecar_set: set.name().to_owned(), of }),
            }
        }
    }
    if !reasons.is_empty() {
        return Err(reasons);
    }
    overrides.unknown = asked.into_iter().filter(|name| !known.contains(*name)).map(str::to_owned).collect();
    Ok(overrides)
}

/// Returns those of Istio's annotations that one of the sets writes into its Pods.
fn written_for_istio(sets: &[SidecarSet]) -> BTreeSet<&'static str> {
    let keys: BTreeSet<&str> = sets.iter().flat_map(metadata::keys).collect();
    ISTIO.into_iter().map(|(key, _)| key).filter(|key| keys.contains(key)).collect()
}

/// Returns the reason to refuse a Pod for an override; `None` if it is allowed, or only warned of.
fn refusal(of: &Override, out_of_bounds: OutOfBounds) -> Option<Reason> {
    let problem = of.problem().filter(|_| of.refuses(out_of_bounds))?;
    let field = FieldPath::new("metadata.annotations").key(&of.annotation()).to_string();
    Some(Reason::new(Code::Forbidden, field, problem, &of.remedy()))
}

#[cfg(test)]
mod tests;
