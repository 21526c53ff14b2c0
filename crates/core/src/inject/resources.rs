//! resourcesPolicy: resources of a sidecar computed from those of the Pod's containers (M-14, section 5.6).

use std::collections::BTreeSet;

use regex_lite::Regex;
use serde_json::Value;

use super::container::{self, List};
use super::{clash, records::Records};
use crate::expression::aggregate::aggregate;
use crate::expression::policy::ResourcesPolicy;
use crate::field::FieldPath;
use crate::json;
use crate::outcome::{Code, Reason};
use crate::pod::{self, Pod};
use crate::sidecar_set::{self, SidecarSet};

/// The Pod's containers that a policy may look at: native init containers, then containers, without those that a
/// `SidecarSet` in effect brings (E-1).
pub struct Targets<'a> {
    containers: Vec<&'a Value>,
}

impl<'a> Targets<'a> {
    /// Leaves out what has the name of a sidecar, and halves of hot-upgrade pairs that the Pod's records list: those
    /// were injected when this Pod was admitted before.
    pub fn of(pod: Pod<'a>, sets: &[SidecarSet], records: &Records) -> Self {
        let mut names: BTreeSet<String> = BTreeSet::new();
        for set in sets {
            for (list, _, sidecar) in clash::sidecars(set) {
                names.insert(pod::name(sidecar).to_owned());
                if container::is_pair(sidecar, list)
                    && records.get(set.name()).is_some_and(|record| record.lists(pod::name(sidecar)))
                {
                    names.extend(container::names_in_pod(sidecar, list));
                }
            }
        }
        let native = pod.init_containers().iter().filter(|container| sidecar_set::is_native(container));
        let containers = native.chain(pod.containers()).filter(|container| !names.contains(pod::name(container)));
        Self { containers: containers.collect() }
    }

    /// The resources that the policy of `sidecar` computes; `None` where it has no policy (E-3).
    ///
    /// # Errors
    /// A pattern that is no regular expression, no container that it matches, expressions without a usable result.
    pub fn resources(
        &self,
        set: &str,
        (list, index, sidecar): (List, usize, &Value),
    ) -> Result<Option<Value>, Vec<Reason>> {
        let Some(policy) = json::at(sidecar, &["resourcesPolicy"]).filter(|policy| policy.is_object()) else {
            return Ok(None);
        };
        let path = FieldPath::new("spec").child(list.key()).index(index).child("resourcesPolicy");
        let reason = |field: FieldPath, problem: String, remedy: &str| Reason {
            sidecar_set: Some(set.to_owned()),
            field,
            problem,
            remedy: remedy.to_owned(),
            code: Code::Forbidden,
        };
        let policy = ResourcesPolicy::parse(policy).map_err(|errors| {
            let of = errors.into_iter().map(|(slot, error)| (path.child(slot), error.to_string()));
            of.map(|(field, problem)| reason(field, problem, "correct the expression")).collect::<Vec<_>>()
        })?;
        let pattern_path = path.child("targetContainersNameRegex");
        let pattern = Regex::new(policy.pattern()).map_err(|_| {
            let problem = format!("\"{}\" is no regular expression that can be used here", policy.pattern());
            vec![reason(pattern_path.clone(), problem, "use RE2 syntax without \\p{...} and \\Q...\\E")]
        })?;
        let targets: Vec<&Value> =
            self.containers.iter().copied().filter(|target| pattern.is_match(pod::name(target))).collect();
        if targets.is_empty() && policy.needs_targets() {
            let problem = format!("no containers match the regex pattern \"{}\"", policy.pattern());
            return Err(vec![reason(pattern_path, problem, "match a container that the Pod brings itself")]);
        }
        let aggregate = aggregate(policy.mode(), &targets).map_err(|error| {
            vec![reason(path.clone(), format!("the resources of the Pod's containers cannot be added up: {error}"), "")]
        })?;
        policy.evaluate(&aggregate).map(Some).map_err(|errors| {
            errors.into_iter().map(|(slot, error)| reason(path.child(slot), error.to_string(), "")).collect()
        })
    }
}
