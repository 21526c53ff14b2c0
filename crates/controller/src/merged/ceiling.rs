//! `PermissionCeilingExceeded`: the controller cannot grant what its own role does not hold (`serviceaccounts.md` P6).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::runtime::reflector::Lookup as _;
use pillion_kubernetes::json;
use pillion_plan::condition::{Condition, patch};
use serde_json::{Value, json};

use super::lock;
use super::seen::resource;
use crate::context::Context;
use crate::write::{FIELD_MANAGER, Problem};

/// The condition of a SidecarSet, and the reason of Events.
pub const EXCEEDED: &str = "PermissionCeilingExceeded";

/// What could not be granted, by the name of the merged account: its SidecarSets, and what the API server says.
pub type Refused = BTreeMap<String, (Vec<String>, String)>;

/// What is known of all namespaces.
#[derive(Default)]
pub struct Ceiling(Mutex<State>);

#[derive(Default)]
struct State {
    refused: BTreeMap<String, Refused>,
    /// The namespaces that were looked at since the start: before that, what is not refused here may be there.
    seen: BTreeSet<String>,
}

impl State {
    /// What is to be said of a SidecarSet that says so or not; `None` where that is not known yet.
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

    /// The conditions that are not as they should be. Of nearly every namespace there is nothing to say, and then nothing
    /// is looked at but the conditions that there are.
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
            let condition = Condition { type_: EXCEEDED, status: exceeded, reason, message: &message };
            let patch = patch(&object, condition, context.clock.now())?;
            Some((object, patch))
        };
        objects.into_iter().filter_map(verdict).collect()
    }
}

impl Ceiling {
    /// Takes what was refused in a namespace, and writes the conditions that it changes.
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

/// Whether a SidecarSet says that permissions of its were not granted.
fn says_so(object: &Value) -> bool {
    json::items(object, &["status", "conditions"])
        .iter()
        .any(|condition| json::text(condition, &["type"]) == EXCEEDED && json::text(condition, &["status"]) == "True")
}

/// OpenKruise's definition keeps no conditions: there, the Event is all.
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
        tracing::warn!(sidecar_set = name, problem = %Problem::of(&error), "its condition was not written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p6_it_is_over_when_every_namespace_was_looked_at() {
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
