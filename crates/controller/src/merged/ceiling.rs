//! `PermissionCeilingExceeded`: the controller cannot grant permissions that its own role does not hold (ESC-6).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::runtime::reflector::Lookup as _;
use pillion_kubernetes::json;
use pillion_plan::condition::{Condition, PERMISSION_CEILING_EXCEEDED, patch};
use serde_json::{Value, json};

use super::lock;
use super::watches::resource;
use crate::context::Context;
use crate::write::{FIELD_MANAGER, WriteProblem};

/// The refused grants, by the name of the merged account: its SidecarSets, and the API server's text.
pub type Refused = BTreeMap<String, (Vec<String>, String)>;

/// The refused grants of all namespaces.
#[derive(Default)]
pub struct Ceiling(Mutex<State>);

#[derive(Default)]
struct State {
    refused: BTreeMap<String, Refused>,
    /// The namespaces that were compared since the start. In the others, a grant may be refused without being in
    /// `refused`.
    seen: BTreeSet<String>,
}

impl State {
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

    /// Returns the SidecarSets whose conditions must change, with the patches. For nearly every namespace there is
    /// nothing to report; then only the existing conditions are checked.
    fn verdicts(&self, context: &Context) -> Vec<(Arc<Value>, Value)> {
        let mut objects = context.cluster.sidecar_sets.all();
        objects.retain(|object| !self.refused.is_empty() || says_so(object));
        if objects.is_empty() {
            return Vec::new();
        }
        let namespaces = context.cluster.namespaces.state();
        let mut staying = namespaces.iter().filter(|namespace| namespace.metadata.deletion_timestamp.is_none());
        let is_complete = staying.all(|one| one.name().is_some_and(|name| self.seen.contains(&*name)));
        let verdict = |object: Arc<Value>| {
            let name = json::text(&object, &["metadata", "name"]);
            let (exceeded, message) = self.verdict(name, says_so(&object), is_complete)?;
            let reason = if exceeded { "Escalation" } else { "Granted" };
            let condition =
                Condition { type_: PERMISSION_CEILING_EXCEEDED, status: exceeded, reason, message: &message };
            let patch = patch(&object, condition, context.clock.now())?;
            Some((object, patch))
        };
        objects.into_iter().filter_map(verdict).collect()
    }
}

impl Ceiling {
    /// Records the refused grants of a namespace, and writes the conditions that change.
    pub async fn update(&self, context: &Context, namespace: &str, refused: Refused) {
        let verdicts = {
            let mut state = lock(&self.0);
            state.seen.insert(namespace.to_owned());
            if refused.is_empty() {
                state.refused.remove(namespace);
            } else {
                state.refused.insert(namespace.to_owned(), refused);
            }
            state.verdicts(context)
        };
        for (object, patch) in verdicts {
            write(context, &object, patch).await;
        }
    }

    /// Forgets a namespace that is being deleted.
    pub fn forget(&self, namespace: &str) {
        let mut state = lock(&self.0);
        state.seen.remove(namespace);
        state.refused.remove(namespace);
    }
}

/// Whether the status of a SidecarSet says that permissions were not granted.
fn says_so(object: &Value) -> bool {
    json::items(object, &["status", "conditions"]).iter().any(|condition| {
        json::text(condition, &["type"]) == PERMISSION_CEILING_EXCEEDED && json::text(condition, &["status"]) == "True"
    })
}

/// Writes the condition. The CustomResourceDefinition of OpenKruise drops conditions; there, people only get the Event.
async fn write(context: &Context, object: &Value, mut patch: Value) {
    let text = |path: &[&str]| json::text(object, path);
    let (name, version) = (text(&["metadata", "name"]), text(&["metadata", "resourceVersion"]));
    if let Some(patch) = patch.as_object_mut() {
        patch.insert("metadata".to_owned(), json!({"uid": text(&["metadata", "uid"]), "resourceVersion": version}));
    }
    let resource = resource(text(&["apiVersion"]), "SidecarSet");
    let api: Api<DynamicObject> = Api::all_with(context.client.clone(), &resource);
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    if let Err(error) = api.patch_status(name, &params, &Patch::Merge(patch)).await {
        tracing::warn!(sidecar_set = name, problem = %WriteProblem::of(&error), "its condition was not written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn esc6_it_is_over_when_every_namespace_was_looked_at() {
        let mut state = State::default();
        assert_eq!(state.verdict("a", true, false), None);
        assert_eq!(state.verdict("a", false, true), None);
        assert_eq!(state.verdict("a", true, true).map(|(exceeded, _)| exceeded), Some(false));
        let refused = BTreeMap::from([("m".to_owned(), (vec!["a".to_owned()], "no".to_owned()))]);
        state.refused.insert("shop".to_owned(), refused);
        assert_eq!(state.verdict("a", true, true), Some((true, "namespace \"shop\": no".to_owned())));
        assert_eq!(state.verdict("b", false, true), None);
    }
}
