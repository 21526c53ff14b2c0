//! resourcesPolicy: computes the resources of a sidecar from those of the Pod's containers (INJ-14, EXPR-1).

use std::cell::Cell;
use std::collections::BTreeSet;

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Reason;
use pillion_pattern::{EFFORT_MAX, Pattern};
use pillion_sidecarset::expression::ResourcesPolicy;
use pillion_sidecarset::pod::{self, Pod};
use pillion_sidecarset::sidecar;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::clash;
use super::list::{self, List};
use super::records::{Record, Records};

/// The Pod's containers that a policy may use: native init containers, then containers, without those of a `SidecarSet`
/// in effect (EXPR-1).
pub struct Targets<'a> {
    containers: Vec<&'a Value>,
    /// The remaining effort for matching ([`EFFORT_MAX`]).
    effort: Cell<usize>,
}

impl<'a> Targets<'a> {
    /// Collects the containers. Leaves out those with the name of a sidecar, and containers of hot-upgrade pairs that
    /// the Pod's records list: an earlier admission of this Pod injected them.
    pub fn of(pod: Pod<'a>, sets: &[SidecarSet], records: &Records) -> Self {
        let mut names: BTreeSet<String> = BTreeSet::new();
        for set in sets {
            let listed = records.get(set.name()).map(Record::listed).unwrap_or_default();
            for (list, _, sidecar) in clash::sidecars(set) {
                names.insert(pod::name(sidecar).to_owned());
                if list::is_pair(sidecar, list) && listed.contains(pod::name(sidecar)) {
                    for name in list::names_in_pod(sidecar, list) {
                        names.insert(name);
                    }
                }
            }
        }
        let mut containers = Vec::new();
        for (list, is_init) in [(pod.init_containers(), true), (pod.containers(), false)] {
            for container in list {
                if (!is_init || sidecar::is_native(container)) && !names.contains(pod::name(container)) {
                    containers.push(container);
                }
            }
        }
        Self { containers, effort: Cell::new(EFFORT_MAX) }
    }

    /// Returns the resources that the policy of `sidecar` computes, or `None` if it has no policy (EXPR-3).
    ///
    /// # Errors
    /// The pattern is not a regular expression or needs too much effort, it matches no container, or an expression has
    /// no usable result.
    pub fn resources(
        &self,
        set: &str,
        (list, index, sidecar): (List, usize, &Value),
    ) -> Result<Option<Value>, Vec<Reason>> {
        let Some(policy) = json::at(sidecar, &["resourcesPolicy"]).filter(|policy| policy.is_object()) else {
            return Ok(None);
        };
        let spec = FieldPath::new("spec");
        let list = spec.item(list.key(), index);
        let at = list.child("resourcesPolicy");
        let reason = |field: &str, problem: String, remedy: &str| {
            let place = if field.is_empty() { at } else { at.child(field) };
            Reason::forbidden(place, problem, remedy).about(set)
        };
        let policy = ResourcesPolicy::from_json(policy).map_err(|errors| {
            let mut reasons = Vec::new();
            for mut error in errors {
                let field = std::mem::take(&mut error.path);
                reasons.push(reason(&field, error.to_string(), "correct the SidecarSet"));
            }
            reasons
        })?;
        let regex = policy.name_regex();
        let of_pattern = |problem: String, remedy: &str| vec![reason("targetContainersNameRegex", problem, remedy)];
        let pattern = Pattern::new(regex)
            .map_err(|problem| of_pattern(format!("\"{regex}\": {problem}"), "correct the expression"))?;
        let mut targets = Vec::new();
        for target in &self.containers {
            let name = pod::name(target);
            let Some(left) = self.effort.get().checked_sub(pattern.effort(name)) else {
                let problem = ["\"", regex, "\" is too much work for so many containers of the Pod"].concat();
                return Err(of_pattern(problem, "write a shorter expression, or fewer resourcesPolicies"));
            };
            self.effort.set(left);
            if pattern.is_match(name) {
                targets.push(*target);
            }
        }
        if targets.is_empty() && policy.needs_targets() {
            let problem = ["no containers match the regex pattern \"", regex, "\""].concat();
            return Err(of_pattern(problem, "match a container that the Pod brings itself"));
        }
        let aggregate = policy.aggregate(&targets).map_err(|errors| {
            let mut reasons = Vec::new();
            for error in errors {
                reasons.push(reason("", format!("of the Pod, {error}"), "correct the Pod"));
            }
            reasons
        })?;
        policy.evaluate(&aggregate).map(Some).map_err(|errors| {
            let mut reasons = Vec::new();
            for (field, error) in errors {
                reasons.push(reason(&field, error.to_string(), ""));
            }
            reasons
        })
    }
}
