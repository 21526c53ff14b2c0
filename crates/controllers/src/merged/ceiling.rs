//! `PermissionCeilingExceeded`: the controller cannot grant permissions that its own role does not hold (ESC-6).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use pillion_kubernetes::json;
use pillion_plan::Step;
use pillion_plan::condition::{self, Condition, PERMISSION_CEILING_EXCEEDED, step};
use pillion_runtime::context::Context;
use pillion_runtime::controller::Failure;
use pillion_runtime::effects::Effects;
use pillion_runtime::store::SidecarSetObject;
use serde_json::Value;

/// The refused grants, by the name of the merged account: its SidecarSets, and the API server's text.
pub type Refused = BTreeMap<String, (Vec<String>, String)>;

/// The refused grants of all namespaces.
#[derive(Default)]
pub struct Ceiling(Mutex<CeilingState>);

#[derive(Default)]
struct CeilingState {
    refused: BTreeMap<String, Refused>,
    /// The namespaces that were compared since the start. In the others, a grant may be refused without being in
    /// `refused`.
    seen: BTreeSet<String>,
}

impl CeilingState {
    /// Returns the status and message of the condition for a SidecarSet, given whether its status has the condition
    /// now; `None` if there is nothing to write or the answer is unknown yet.
    fn verdict(&self, name: &str, says_so: bool, is_complete: bool) -> Option<(bool, String)> {
        let problem = self.refused.iter().find_map(|(namespace, refused)| {
            let (_, problem) = refused.values().find(|(sets, _)| sets.iter().any(|set| set == name))?;
            Some(format!("namespace \"{namespace}\": {problem}"))
        });
        match problem {
            Some(problem) => Some((true, problem)),
            None if says_so && is_complete => Some((false, "every permission could be granted".to_owned())),
            None => None,
        }
    }

    /// Returns the writes of conditions. For nearly every namespace there is nothing to report, and no SidecarSet is looked
    /// at.
    fn verdicts(&self, context: &Context) -> Vec<Step> {
        let sidecar_sets = context.store.sidecar_sets();
        let refused = self.refused.values().flat_map(Refused::values).flat_map(|(sets, _)| sets);
        let names: BTreeSet<&String> = refused.collect();
        let refused = names.into_iter().filter_map(|name| sidecar_sets.get("", name));
        let mut objects: Vec<Arc<SidecarSetObject>> = sidecar_sets.group(SidecarSetObject::EXCEEDED);
        objects.extend(refused.filter(|object| !says_so(&object.0)));
        if objects.is_empty() {
            return Vec::new();
        }
        let namespaces = context.store.namespaces().all();
        let mut staying = namespaces.iter().filter(|namespace| !namespace.is_terminating());
        let is_complete = staying.all(|namespace| self.seen.contains(namespace.name()));
        let verdict = |object: &Value| {
            let name = json::text(object, &["metadata", "name"]);
            let (exceeded, message) = self.verdict(name, says_so(object), is_complete)?;
            let reason = if exceeded { "Escalation" } else { "Granted" };
            let condition = Condition {
                type_: PERMISSION_CEILING_EXCEEDED,
                status: exceeded,
                reason,
                message: &message,
                since: None,
            };
            step(object, condition, context.clock.now())
        };
        objects.iter().filter_map(|object| verdict(&object.0)).collect()
    }
}

impl Ceiling {
    /// Records the refused grants of a namespace, and writes the conditions that change.
    ///
    /// # Errors
    /// If a condition could not be written. The next update writes it.
    pub async fn update(
        &self,
        context: &Context,
        effects: &Effects,
        namespace: &str,
        refused: Refused,
    ) -> Result<(), Failure> {
        let verdicts = {
            let mut state = self.lock();
            state.seen.insert(namespace.to_owned());
            if refused.is_empty() {
                state.refused.remove(namespace);
            } else {
                state.refused.insert(namespace.to_owned(), refused);
            }
            state.verdicts(context)
        };
        let mut failed = None;
        for step in verdicts {
            // The definition of OpenKruise keeps no conditions; there, people only get the Event.
            if let Err(error) = effects.condition(&step, PERMISSION_CEILING_EXCEEDED).await {
                failed = Some(Failure::from(error).after(failed));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Forgets a namespace that is gone or being deleted.
    pub fn forget(&self, namespace: &str) {
        let mut state = self.lock();
        state.seen.remove(namespace);
        state.refused.remove(namespace);
    }

    fn lock(&self) -> MutexGuard<'_, CeilingState> {
        self.0.lock()
    }
}

/// Whether the status of a SidecarSet says that permissions were not granted.
fn says_so(object: &Value) -> bool {
    let condition = condition::find(object, PERMISSION_CEILING_EXCEEDED);
    condition.is_some_and(|condition| json::text(condition, &["status"]) == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn esc6_it_is_over_when_every_namespace_was_looked_at() {
        let mut state = CeilingState::default();
        assert_eq!(state.verdict("a", true, false), None);
        assert_eq!(state.verdict("a", false, true), None);
        assert_eq!(state.verdict("a", true, true).map(|(exceeded, _)| exceeded), Some(false));
        let refused = BTreeMap::from([("m".to_owned(), (vec!["a".to_owned()], "no".to_owned()))]);
        state.refused.insert("shop".to_owned(), refused);
        assert_eq!(state.verdict("a", true, true), Some((true, "namespace \"shop\": no".to_owned())));
        assert_eq!(state.verdict("b", false, true), None);
    }
}
