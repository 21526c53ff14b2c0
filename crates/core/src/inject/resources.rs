//! resourcesPolicy: resources of a sidecar computed from those of the Pod's containers (M-14, section 5.6).

use serde_json::Value;

use super::container::{self, List};
use super::{clash, records::Records};
use crate::expression::ResourcesPolicy;
use crate::field::{FieldError, FieldPath};
use crate::json;
use crate::ordered::Set;
use crate::outcome::{Code, Reason};
use crate::pattern::Pattern;
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
        let mut names: Set<String> = Set::new();
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
            field: FieldError::required(&field, "").below(&path).path,
            problem,
            remedy: remedy.to_owned(),
            code: Code::Forbidden,
        };
        let from_error = |error: FieldError| {
            let text = FieldError { path: FieldPath::default(), ..error.clone() }.to_string();
            reason(error.path, text, "correct the SidecarSet")
        };
        let policy = ResourcesPolicy::from_json(policy)
            .map_err(|errors| errors.into_iter().map(from_error).collect::<Vec<_>>())?;
        let pattern_path = FieldPath::new("targetContainersNameRegex");
        let pattern = Pattern::new(policy.name_regex()).map_err(|problem| {
            let problem = format!("\"{}\": {problem}", policy.name_regex());
            vec![reason(pattern_path.clone(), problem, "correct the expression")]
        })?;
        let targets: Vec<&Value> =
            self.containers.iter().copied().filter(|target| pattern.is_match(pod::name(target))).collect();
        if targets.is_empty() && policy.needs_targets() {
            let problem = format!("no containers match the regex pattern \"{}\"", policy.name_regex());
            return Err(vec![reason(pattern_path, problem, "match a container that the Pod brings itself")]);
        }
        let aggregate = policy.aggregate(&targets).map_err(|errors| {
            let of =
                |error: FieldError| reason(FieldPath::default(), format!("of the Pod, {error}"), "correct the Pod");
            errors.into_iter().map(of).collect::<Vec<_>>()
        })?;
        policy
            .evaluate(&aggregate)
            .map(Some)
            .map_err(|errors| errors.into_iter().map(|(field, error)| reason(field, error.to_string(), "")).collect())
    }
}
