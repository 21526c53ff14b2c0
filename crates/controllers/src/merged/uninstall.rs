//! Removes the finalizers of merged objects, so that they do not block the deletion of a namespace once the controller
//! is gone (MRG-9).

use std::collections::BTreeMap;

use kube::Client;
use kube::api::ListParams;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_plan::Step;
use pillion_plan::merged::{KINDS, LABEL, MANAGED_BY, MergedKind, is_ours, without_finalizers};
use pillion_runtime::context::Context;
use pillion_runtime::controller::Controller as _;
use pillion_runtime::read::pages;
use pillion_runtime::store::whole;
use serde_json::Value;

use super::MergedAccounts;
use super::carry::{Stopped, is_used};
use super::watches::api;

const WHY: &str = "the controller is uninstalled";

/// The result of an uninstallation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uninstalled {
    /// The number of objects whose finalizers were removed.
    pub released: usize,
    /// The number of deleted objects.
    pub deleted: usize,
    /// The number of objects that stay because Pods run under their account.
    pub in_use: usize,
}

/// Removes the finalizers of SidecarSets from all merged objects, and deletes those that no Pod uses, in the order
/// RoleBinding, Role, ServiceAccount. The controller should not run at the same time. A later call deletes the rest
/// once no Pod uses it.
///
/// # Errors
/// The first write or read that fails.
pub async fn uninstall(context: &Context) -> Result<Uninstalled, Stopped> {
    let (client, effects) = (&context.client, context.effects(MergedAccounts::NAME));
    let mut done = Uninstalled::default();
    let mut used: BTreeMap<(String, String), bool> = BTreeMap::new();
    for of in KINDS.into_iter().rev() {
        for object in all(client, of).await? {
            let text = |key| json::text(&object, &["metadata", key]).to_owned();
            let (namespace, name) = (text("namespace"), text("name"));
            if let Some(step) = without_finalizers(&object) {
                effects.carry_out(&step, WHY).await?;
                done.released += 1;
            }
            let key = (namespace, name);
            let is_used = match used.get(&key) {
                Some(is_used) => *is_used,
                None => is_used(client, &key.0, &key.1).await?,
            };
            used.insert(key.clone(), is_used);
            if is_used {
                done.in_use += 1;
                continue;
            }
            let (namespace, name) = key;
            let object = ObjectRef { api_version: of.api_version, kind: of.kind, namespace: Some(namespace), name };
            let step = Step::Delete { object, uid: text("uid"), resource_version: None };
            effects.carry_out(&step, WHY).await?;
            done.deleted += 1;
        }
    }
    Ok(done)
}

/// Lists the merged objects of a kind.
async fn all(client: &Client, of: MergedKind) -> Result<Vec<Value>, Stopped> {
    let mut objects = Vec::new();
    let labelled = ListParams::default().labels(&format!("{LABEL}={MANAGED_BY}"));
    let see = |object| objects.push(whole(object, of.api_version, of.kind));
    pages(&api(client, of), labelled, see).await.map_err(|problem| Stopped::read(of.kind, problem))?;
    objects.retain(is_ours);
    Ok(objects)
}
