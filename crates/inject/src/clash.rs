//! Conflicts between names of containers (DIFF-4).
//!
//! In the reference implementation, a sidecar replaces an app container of the same name. Pillion refuses that, unless
//! the Pod's own record lists the container as one of the same `SidecarSet`: then the Pod is admitted again.

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::field::{FieldPath, shortened};
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::made::{self, Made};
use pillion_sidecarset::pod::{self, Pod};
use pillion_sidecarset::sidecar::{self, List};
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::records::{Record, Records};

/// Returns a reason for every name that two sidecars, or a sidecar and the Pod, both use.
pub fn find(pod: Pod<'_>, sets: &[SidecarSet], records: &Records) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut owners: BTreeMap<String, Claim<'_>> = BTreeMap::new();
    let there = There::new(pod, sets);
    for set in sets {
        let record = records.get(set.name());
        let ours = Ours { has_record: record.is_some(), listed: record.map(Record::listed).unwrap_or_default() };
        for Made { name, list, index, sidecar } in made::containers(set) {
            let claim =
                Claim { set: set.name(), list, written: made::written(set, (list, index)), base: pod::name(sidecar) };
            match owners.get(&name) {
                Some(owner) if owner.set != claim.set => {
                    reasons.push(claim.against_set(&name, owner));
                    reasons.push(owner.against_set(&name, &claim));
                }
                // The same name twice in one list: validation refuses it, but a stored set is injected as it is.
                Some(owner) if (owner.list, owner.base) == (list, claim.base) => {}
                Some(_) => reasons.push(claim.against_itself(&name)),
                None => {
                    if let Some(other) = there.taken((list, sidecar), &name, &ours) {
                        reasons.push(claim.against_pod(&name, other));
                    }
                    owners.insert(name, claim);
                }
            }
        }
    }
    reasons
}

/// The longest name of an object and of a container, in bytes: Kubernetes' limits.
const OBJECT_NAME_MAX: usize = 253;
const CONTAINER_NAME_MAX: usize = 63;

/// Returns a reason for each name of a `SidecarSet`, of a sidecar or of a container of the Pod that no object and no
/// container can have. Records, annotations, messages and containers repeat a sidecar's name a dozen times, and names
/// of containers are compared (E18).
pub fn too_long(pod: Pod<'_>, sets: &[SidecarSet]) -> Vec<Reason> {
    let spec = FieldPath::new("spec");
    let reason = |field: String, name: &str, limit: usize| {
        let problem = format!("{:?} is longer than {limit} bytes", shortened(name));
        Reason::forbidden(field, problem, "choose a shorter name")
    };
    let of_container = |list: List, index: usize, container: &Value| {
        let name = Some(pod::name(container)).filter(|name| name.len() > CONTAINER_NAME_MAX)?;
        Some(reason(spec.item(list.key(), index).child("name").to_string(), name, CONTAINER_NAME_MAX))
    };
    let mut reasons = Vec::new();
    for list in List::ALL {
        // One is enough: a Pod may have thousands.
        reasons.extend(list.containers(pod).iter().enumerate().find_map(|(index, it)| of_container(list, index, it)));
    }
    for set in sets {
        let name = shortened(set.name());
        if set.name().len() > OBJECT_NAME_MAX {
            reasons.push(reason("metadata.name".to_owned(), set.name(), OBJECT_NAME_MAX).about(&name));
        }
        let of_sidecars = made::sidecars(set).filter_map(|(list, index, it)| {
            let (list, index) = made::written(set, (list, index));
            of_container(list, index, it)
        });
        reasons.extend(of_sidecars.map(|reason| reason.about(&name)));
    }
    reasons
}

/// The record of a `SidecarSet` in the Pod.
struct Ours<'a> {
    has_record: bool,
    listed: BTreeSet<&'a str>,
}

/// The containers of a Pod that have the name of a sidecar. A Pod may have thousands of others (E18).
struct There<'a> {
    containers: BTreeMap<&'a str, Vec<&'a Value>>,
    init_containers: BTreeMap<&'a str, Vec<&'a Value>>,
}

impl<'a> There<'a> {
    fn new(pod: Pod<'a>, sets: &[SidecarSet]) -> Self {
        let wanted: BTreeSet<_> = sets.iter().flat_map(made::containers).map(|made| made.name).collect();
        let by_name = |containers: &'a [Value]| {
            let mut names: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
            for container in containers.iter().filter(|container| wanted.contains(pod::name(container))) {
                names.entry(pod::name(container)).or_default().push(container);
            }
            names
        };
        Self { containers: by_name(pod.containers()), init_containers: by_name(pod.init_containers()) }
    }

    /// Returns the list of the Pod in which a container that Pillion did not inject already has the name.
    fn taken(&self, (list, sidecar): (List, &Value), name: &str, ours: &Ours<'_>) -> Option<List> {
        let (own, (other, others)) = match list {
            List::Init => (&self.init_containers, (List::Containers, &self.containers)),
            List::Containers => (&self.containers, (List::Init, &self.init_containers)),
        };
        // An earlier injection may have put the sidecar into the other list (NAT-4).
        let may_move = sidecar::is_long_running(sidecar, list) && ours.listed.contains(pod::name(sidecar));
        let is_moved =
            |container: &&Value| may_move && sidecar::is_long_running(container, other) && pod::is_injected(container);
        if others.get(name).is_some_and(|containers| !containers.iter().all(is_moved)) {
            return Some(other);
        }
        // Records never list plain init containers (INJ-28). Recognise them by the variable that every sidecar has.
        let is_plain_init = !sidecar::is_long_running(sidecar, list);
        let is_listed = ours.listed.contains(pod::name(sidecar));
        let is_ours = |container: &Value| {
            if is_plain_init { ours.has_record && pod::is_injected(container) } else { is_listed }
        };
        own.get(name)?.iter().any(|container| !is_ours(container)).then_some(list)
    }
}

/// The use of a name by a sidecar.
#[derive(Clone, Copy)]
struct Claim<'a> {
    set: &'a str,
    list: List,
    /// The list in which the sidecar is written, and its index there.
    written: (List, usize),
    /// The name in the `SidecarSet`.
    base: &'a str,
}

impl Claim<'_> {
    fn reason(&self, problem: String, remedy: &str) -> Reason {
        let spec = FieldPath::new("spec");
        let (list, index) = self.written;
        let list = spec.item(list.key(), index);
        Reason::forbidden(list.child("name"), problem, remedy).about(self.set)
    }

    fn against_pod(&self, name: &str, list: List) -> Reason {
        self.reason(
            format!("sidecar \"{name}\" has the name of {} of the Pod", list.noun()),
            &format!("rename the Pod's \"{name}\" or the sidecar"),
        )
    }

    fn against_itself(&self, name: &str) -> Reason {
        self.reason(
            format!("the SidecarSet makes two containers \"{name}\""),
            "rename one of them; HotUpgrade makes \"<name>-1\" and \"<name>-2\"",
        )
    }

    fn against_set(&self, name: &str, other: &Claim<'_>) -> Reason {
        let problem = format!(
            "container \"{name}\" is also a container of SidecarSet \"{}\", which matches the same Pod",
            other.set
        );
        self.reason(problem, made::REMEDY)
    }
}

#[cfg(test)]
mod tests {
    use pillion_sidecarset::sidecar_set::prepare::prepared;
    use pillion_sidecarset::validation::conflicts;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Returns a sidecar of one of a few names, and whether it is an init container.
    fn sidecar() -> impl Strategy<Value = (Value, bool)> {
        let name = prop::sample::select(vec!["a", "a-1", "a-2", "a-1-1", "b"]);
        (name, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(name, is_init, is_hot, is_native)| {
            let mut sidecar = json!({"name": name, "image": "i:1"});
            if is_hot {
                sidecar["upgradeStrategy"] = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e:1"});
            }
            if is_init && is_native {
                sidecar["restartPolicy"] = json!("Always");
            }
            (sidecar, is_init)
        })
    }

    fn set(name: &'static str) -> impl Strategy<Value = SidecarSet> {
        prop::collection::vec(sidecar(), 1..3).prop_map(move |sidecars| {
            let (init, plain): (Vec<_>, Vec<_>) = sidecars.into_iter().partition(|(_, is_init)| *is_init);
            let list = |sidecars: Vec<(Value, bool)>| sidecars.into_iter().map(|(sidecar, _)| sidecar).collect::<Value>();
            prepared(&SidecarSet::from_decoded(json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
                "spec": {"selector": {"matchLabels": {"app": "x"}}, "initContainers": list(init), "containers": list(plain)}
            })))
        })
    }

    proptest! {
        /// What validation accepts is not refused at the Pod.
        #[test]
        fn val52_diff4_sets_without_conflicts_do_not_clash_in_a_pod(one in set("one"), other in set("other")) {
            let pod = json!({"metadata": {}, "spec": {"containers": [{"name": "app"}]}});
            let pod = Pod::decode(&pod).unwrap();
            let mut errors = Vec::new();
            conflicts::check(&one, &other, &mut errors);
            let reasons = find(pod, &[one, other], &Records::default());
            let between = reasons.iter().filter(|reason| reason.to_string().contains("which matches the same Pod")).count();
            prop_assert!(between == 0 || !errors.is_empty(), "{reasons:?}");
        }
    }
}
