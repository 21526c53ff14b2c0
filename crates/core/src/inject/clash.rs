//! Names that are taken (product.md, row Q-4).
//!
//! The reference lets a sidecar take the place of an app container of the same name. Here that is refused, unless
//! the Pod's own record says that the container came from the same `SidecarSet`: then the Pod is being admitted again.

use serde_json::Value;

use super::container::{self, List};
use super::records::Records;
use crate::field::FieldPath;
use crate::ordered::Map;
use crate::outcome::{Code, Reason};
use crate::pod::{self, Pod};
use crate::sidecar_set::{self, SidecarSet};

/// Every name that two sidecars, or a sidecar and the Pod, both want.
pub fn find(pod: Pod<'_>, sets: &[SidecarSet], records: &Records) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut owners: Map<String, Claim<'_>> = Map::new();
    for set in sets {
        for (list, index, sidecar) in sidecars(set) {
            for name in container::names_in_pod(sidecar, list) {
                let claim = Claim { set: set.name(), list, index, base: pod::name(sidecar) };
                match owners.get(&name) {
                    Some(owner) if owner.set != claim.set => {
                        reasons.push(claim.against_set(&name, owner));
                        reasons.push(owner.against_set(&name, &claim));
                    }
                    // One name twice in one list: validation refuses it; a stored set is injected as it stands.
                    Some(owner) if (owner.list, owner.base) == (list, claim.base) => {}
                    Some(_) => reasons.push(claim.against_itself(&name)),
                    None => {
                        if let Some(other) = taken(pod, set, (list, sidecar), &name, records) {
                            reasons.push(claim.against_pod(&name, other));
                        }
                        owners.insert(name, claim);
                    }
                }
            }
        }
    }
    reasons
}

/// The sidecars of a `SidecarSet` with their list and index.
pub fn sidecars(set: &SidecarSet) -> impl Iterator<Item = (List, usize, &Value)> {
    let of = |list: List, items| -> Vec<(List, usize, &Value)> {
        let items: &[Value] = items;
        items.iter().enumerate().map(|(index, item)| (list, index, item)).collect()
    };
    of(List::Init, set.init_containers()).into_iter().chain(of(List::Containers, set.containers()))
}

/// The list of the Pod in which a container that is not ours has the name already.
fn taken(
    pod: Pod<'_>,
    set: &SidecarSet,
    (list, sidecar): (List, &Value),
    name: &str,
    records: &Records,
) -> Option<List> {
    let has = |containers: &[Value]| containers.iter().any(|container| pod::name(container) == name);
    let ours = match records.get(set.name()) {
        None => false,
        // Plain init containers are never listed (M-28): for them the variable that every sidecar has must do.
        Some(_) if list == List::Init && !sidecar_set::is_native(sidecar) => {
            let same = pod.init_containers().iter().filter(|container| pod::name(container) == name);
            same.into_iter().all(pod::is_injected)
        }
        Some(record) => record.lists(pod::name(sidecar)),
    };
    let (same, other) = match list {
        List::Init => (pod.init_containers(), (List::Containers, pod.containers())),
        List::Containers => (pod.containers(), (List::Init, pod.init_containers())),
    };
    if has(other.1) {
        return Some(other.0);
    }
    (!ours && has(same)).then_some(list)
}

/// A sidecar that wants a name.
#[derive(Clone, Copy)]
struct Claim<'a> {
    set: &'a str,
    list: List,
    index: usize,
    /// The name in the `SidecarSet`.
    base: &'a str,
}

impl Claim<'_> {
    fn reason(&self, problem: String, remedy: String) -> Reason {
        Reason {
            sidecar_set: Some(self.set.to_owned()),
            field: FieldPath::new("spec").child(self.list.key()).index(self.index).child("name"),
            problem,
            remedy,
            code: Code::Forbidden,
        }
    }

    fn against_pod(&self, name: &str, list: List) -> Reason {
        let of_pod = match list {
            List::Init => "an init container",
            List::Containers => "a container",
        };
        self.reason(
            format!("sidecar \"{name}\" has the name of {of_pod} of the Pod"),
            format!("rename the Pod's \"{name}\" or the sidecar"),
        )
    }

    fn against_itself(&self, name: &str) -> Reason {
        self.reason(
            format!("the SidecarSet makes two containers \"{name}\""),
            "rename one of them; HotUpgrade makes \"<name>-1\" and \"<name>-2\"".to_owned(),
        )
    }

    fn against_set(&self, name: &str, other: &Claim<'_>) -> Reason {
        self.reason(
            format!(
                "container \"{name}\" is also a container of SidecarSet \"{}\", which matches the same Pod",
                other.set
            ),
            "rename one of them or change a selector".to_owned(),
        )
    }
}
