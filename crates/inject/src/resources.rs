//! resourcesPolicy: computes the resources of a sidecar from those of the Pod's containers (INJ-14, EXPR-1).

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use pillion_kubernetes::field::{FieldError, FieldPath, shortened};
use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Reason;
use pillion_pattern::Pattern;
use pillion_sidecarset::expression::{Aggregate, Amounts, Mode, ResourcesPolicy};
use pillion_sidecarset::made;
use pillion_sidecarset::pod::{self, Pod};
use pillion_sidecarset::sidecar::{self, List};
use pillion_sidecarset::sidecar_set::{SidecarSet, weight};
use serde_json::Value;

use super::records::{Record, Records};

/// The maximum effort of all matches for one Pod: half of that of a whitelist, since a Pod may be longer than a
/// SidecarSet (E18).
const EFFORT_MAX: usize = pillion_pattern::EFFORT_MAX / 2;

/// The Pod's containers that a policy may use: native init containers, then containers, without those of a `SidecarSet`
/// in effect (EXPR-1).
pub struct Targets<'a> {
    containers: Vec<&'a Value>,
    /// The amounts of the containers, parsed when the first policy needs them.
    amounts: OnceCell<Vec<Amounts<'a>>>,
    /// What policies with the same mode and pattern computed before: there may be dozens of sidecars and thousands of
    /// containers (E18).
    known: RefCell<BTreeMap<Choice, Rc<Found>>>,
    /// The remaining effort for matching ([`EFFORT_MAX`]).
    effort: Cell<usize>,
}

/// Which containers a policy uses, and how: its mode and its pattern.
type Choice = (Option<Mode>, String);

/// The containers that a policy uses.
struct Found {
    is_any: bool,
    aggregate: Result<Aggregate, Vec<FieldError>>,
}

/// The reason why a pattern finds no containers.
struct Unmatched {
    problem: String,
    remedy: &'static str,
}

impl<'a> Targets<'a> {
    /// [Collects](containers) the containers.
    pub fn new(pod: Pod<'a>, sets: &[SidecarSet], records: &Records) -> Self {
        Self {
            containers: containers(pod, sets, records),
            amounts: OnceCell::new(),
            known: RefCell::default(),
            effort: Cell::new(EFFORT_MAX),
        }
    }

    /// Returns the containers that a policy uses.
    fn found(&self, policy: &ResourcesPolicy) -> Result<Rc<Found>, Unmatched> {
        let key = (policy.mode(), policy.name_regex().to_owned());
        if let Some(found) = self.known.borrow().get(&key) {
            return Ok(Rc::clone(found));
        }
        let regex = shortened(policy.name_regex());
        let pattern = Pattern::new(policy.name_regex()).map_err(|problem| Unmatched {
            problem: format!("\"{regex}\": {problem}"),
            remedy: "correct the expression",
        })?;
        let amounts =
            self.amounts.get_or_init(|| self.containers.iter().copied().map(Amounts::from_container).collect());
        let mut targets = Vec::new();
        for (target, amounts) in self.containers.iter().zip(amounts) {
            let name = pod::name(target);
            let left = self.effort.get().checked_sub(pattern.effort(name)).ok_or_else(|| Unmatched {
                problem: format!("\"{regex}\" is too much work for so many containers of the Pod"),
                remedy: "write a shorter expression, or fewer resourcesPolicies",
            })?;
            self.effort.set(left);
            if pattern.is_match(name) {
                targets.push(amounts);
            }
        }
        let found = Rc::new(Found { is_any: !targets.is_empty(), aggregate: policy.aggregate(&targets) });
        self.known.borrow_mut().insert(key, Rc::clone(&found));
        Ok(found)
    }

    /// Returns the resources that the policy of `sidecar` computes, or `None` if it has no policy (EXPR-3). `list` and
    /// `index` say where it is written.
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
            let of_set = |mut error: FieldError| {
                let field = std::mem::take(&mut error.path);
                reason(&field, error.to_string(), "correct the SidecarSet")
            };
            errors.into_iter().map(of_set).collect::<Vec<_>>()
        })?;
        let of_pattern = |problem: String, remedy: &str| vec![reason("targetContainersNameRegex", problem, remedy)];
        let found = self.found(&policy).map_err(|Unmatched { problem, remedy }| of_pattern(problem, remedy))?;
        if !found.is_any && policy.needs_targets() {
            let problem = format!("no containers match the regex pattern \"{}\"", shortened(policy.name_regex()));
            return Err(of_pattern(problem, "match a container that the Pod brings itself"));
        }
        let aggregate = found.aggregate.as_ref().map_err(|errors| {
            let of_pod = |error| reason("", format!("of the Pod, {error}"), "correct the Pod");
            errors.iter().map(of_pod).collect::<Vec<_>>()
        })?;
        policy
            .evaluate(aggregate)
            .map(Some)
            .map_err(|errors| errors.into_iter().map(|(field, error)| reason(&field, error.to_string(), "")).collect())
    }
}

/// Returns the Pod's containers that policies may use (EXPR-1). Leaves out those with the name of a sidecar, and containers
/// of hot-upgrade pairs that the Pod's records list: an earlier admission of this Pod injected them.
pub(crate) fn containers<'a>(pod: Pod<'a>, sets: &[SidecarSet], records: &Records) -> Vec<&'a Value> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for set in sets {
        let listed = records.get(set.name()).map(Record::listed).unwrap_or_default();
        for (list, _, sidecar) in made::sidecars(set) {
            names.insert(pod::name(sidecar).to_owned());
            if sidecar::is_pair(sidecar, list) && listed.contains(pod::name(sidecar)) {
                for name in sidecar::names_in_pod(sidecar, list) {
                    names.insert(name);
                }
            }
        }
    }
    let natives = pod.init_containers().iter().filter(|container| sidecar::is_native(container));
    natives.chain(pod.containers()).filter(|container| !names.contains(pod::name(container))).collect()
}

/// If the expressions of the SidecarSets are too long together, returns a reason for each SidecarSet that has any. A
/// stored revision may bring expressions that the settings do not have (E18).
pub(super) fn too_long(sets: &[SidecarSet]) -> Vec<Reason> {
    if !weight::has_too_long_expressions(sets) {
        return Vec::new();
    }
    let has_policy = |set: &&SidecarSet| {
        made::sidecars(set).any(|(_, _, sidecar)| json::object(sidecar, &["resourcesPolicy"]).is_some())
    };
    let reason = |set: &SidecarSet| {
        let problem = format!("has {}", weight::EXPRESSIONS_TOO_LONG);
        Reason::forbidden("spec.containers", problem, "shorten the expressions").about(set.name())
    };
    sets.iter().filter(has_policy).map(reason).collect()
}
