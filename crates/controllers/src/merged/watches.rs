//! The merged objects, as watches show them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::DynamicObject;
use kube::{Api, Client, ResourceExt as _};
use pillion_identity::names;
use pillion_kubernetes::json;
use pillion_plan::merged::{LABEL, MANAGED_BY, MergedKind, Trio};
use pillion_runtime::context::Context;
use pillion_runtime::controller::Controller as _;
use pillion_runtime::store::{Facets, Kept, Projection, Store, Watch, Watched, resource, whole};
use serde_json::Value;

use super::MergedAccounts;

/// A merged Role or RoleBinding: the whole object without `managedFields`.
#[derive(Debug, PartialEq, Eq)]
pub struct MergedObject(Kept);

impl Projection for MergedObject {
    fn differences(&self, next: &Self) -> Facets {
        if self == next { Facets::empty() } else { Facets::CONTENT }
    }
}

/// Starts to watch the merged objects of a kind.
pub fn merged(context: &Context, of: MergedKind) -> Watched<MergedObject> {
    let watch = Watch::new(api(&context.client, of), of.kind).label(LABEL, Some(MANAGED_BY));
    context.store.keep(MergedAccounts::NAME, watch, move |object: DynamicObject| {
        let is_merged = names::is_merged(&object.name_any());
        is_merged.then(|| MergedObject(Kept::from(&whole(object, of.api_version, of.kind))))
    })
}

/// Whether an account exists. An account that is not merged counts as missing while it is being deleted.
pub fn has_account(store: &Store, namespace: &str, name: &str) -> bool {
    let account = store.accounts().get(namespace, name);
    account.is_some_and(|account| account.merged.is_some() || !account.known.is_terminating)
}

/// Returns the merged objects of a namespace, by name.
pub fn objects(
    store: &Store,
    namespace: &str,
    roles: &Watched<MergedObject>,
    bindings: &Watched<MergedObject>,
) -> BTreeMap<String, Trio> {
    let accounts = store.accounts().in_namespace(namespace);
    let accounts = accounts.iter().filter_map(|account| account.merged.as_ref().map(Kept::value));
    let objects =
        |kept: &Watched<MergedObject>| kept.in_namespace(namespace).iter().map(|object| object.0.value()).collect();
    let mut trios: BTreeMap<String, Trio> = BTreeMap::new();
    let all: [Vec<Value>; 3] = [accounts.collect(), objects(roles), objects(bindings)];
    for (index, objects) in all.into_iter().enumerate() {
        for object in objects {
            let name = json::text(&object, &["metadata", "name"]).to_owned();
            if let Some(place) = trios.entry(name).or_default().get_mut(index) {
                *place = Some(Arc::new(object));
            }
        }
    }
    trios
}

/// Returns the API for the objects of a kind in all namespaces.
pub fn api(client: &Client, of: MergedKind) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource(of.api_version, of.kind))
}
