//! Watches of merged objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use pillion_identity::names;
use pillion_plan::merged::{KINDS, LABEL, MANAGED_BY, Trio};
use serde_json::Value;

use super::CONTROLLER;
use crate::context::Context;
use crate::watch::{Own, Watch};

/// The accounts of the cluster, and the merged Roles and RoleBindings.
pub struct MergedWatches {
    /// All accounts. A missing account may change the merged set, and foreign accounts with a merged name must be
    /// visible.
    accounts: Own<Account>,
    pub roles: Own<Value>,
    pub bindings: Own<Value>,
}

enum Account {
    Merged(Arc<Value>),
    Other { is_going: bool },
}

impl MergedWatches {
    /// Starts the watches. They end when this is dropped.
    pub fn start(context: &Context) -> Self {
        let [accounts, roles, bindings] = KINDS;
        let whole = |(api_version, kind): (&'static str, &'static str)| {
            move |object: DynamicObject| names::is_merged(&object.name_any()).then(|| whole(object, api_version, kind))
        };
        let watch = |kind: (&str, &'static str)| Watch::new(api(&context.client, kind), kind.1);
        let labelled = |kind: (&'static str, &'static str)| {
            context.cluster.keep(CONTROLLER, watch(kind).labels(&format!("{LABEL}={MANAGED_BY}")), whole(kind))
        };
        let see = whole(accounts);
        let account = move |object: DynamicObject| {
            let is_going = object.metadata.deletion_timestamp.is_some();
            Some(see(object).map_or(Account::Other { is_going }, |object| Account::Merged(Arc::new(object))))
        };
        let accounts = context.cluster.keep(CONTROLLER, watch(accounts), account);
        Self { accounts, roles: labelled(roles), bindings: labelled(bindings) }
    }

    /// Waits until everything was listed.
    pub async fn listed(&self) {
        self.accounts.listed().await;
        self.roles.listed().await;
        self.bindings.listed().await;
    }

    /// Whether an account exists. An account that is not merged counts as missing while it is being deleted.
    pub fn has_account(&self, namespace: &str, name: &str) -> bool {
        self.accounts
            .get(namespace, name)
            .is_some_and(|account| !matches!(&*account, Account::Other { is_going: true }))
    }

    /// Returns the merged objects of a namespace, by name.
    pub fn objects(&self, namespace: &str) -> BTreeMap<String, Trio> {
        let accounts = self.accounts.of(namespace).into_iter().filter_map(|account| match &*account {
            Account::Merged(object) => Some(Arc::clone(object)),
            Account::Other { .. } => None,
        });
        let mut trios: BTreeMap<String, Trio> = BTreeMap::new();
        let all: [Vec<Arc<Value>>; 3] = [accounts.collect(), self.roles.of(namespace), self.bindings.of(namespace)];
        for (index, objects) in all.into_iter().enumerate() {
            for object in objects {
                let name = pillion_kubernetes::json::text(&object, &["metadata", "name"]).to_owned();
                if let Some(place) = trios.entry(name).or_default().get_mut(index) {
                    *place = Some(object);
                }
            }
        }
        trios
    }
}

/// Returns the API for the objects of a kind in all namespaces.
pub fn api(client: &Client, (api_version, kind): (&str, &str)) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource(api_version, kind))
}

pub fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// Returns the whole object without `managedFields`. Sets `apiVersion` and `kind`, which the API server omits in lists.
pub fn whole(mut object: DynamicObject, api_version: &str, kind: &str) -> Value {
    object.metadata.managed_fields = None;
    let mut object = serde_json::to_value(object).unwrap_or_default();
    if let Some(object) = object.as_object_mut() {
        object.insert("apiVersion".to_owned(), api_version.into());
        object.insert("kind".to_owned(), kind.into());
    }
    object
}
