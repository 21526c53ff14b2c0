//! Warnings about permissions that sidecars lose if their ServiceAccounts are merged (IDC-5), according to the Roles
//! and bindings in the files.

use std::collections::BTreeSet;

use pillion_identity::author::closed_list;
use pillion_identity::declared::{Declared, Mode, OnConflict, PERMISSIONS, path};
use pillion_identity::lost::{AccountRef, lost};
use pillion_kubernetes::json;
use pillion_kubernetes::rbac;
use serde_json::Value;

use crate::documents::{Document, Role};
use crate::report::Finding;
use crate::subject::Subject;

/// Returns warnings about permissions bound to the account of a merging `SidecarSet` that the `SidecarSet` does not
/// list.
pub(super) fn not_merged(subject: &Subject<'_>, documents: &[Document]) -> Vec<Finding> {
    let Ok(declared) = Declared::from_sidecar_set(&subject.prepared) else { return Vec::new() };
    let Some(account) = declared.service_account else { return Vec::new() };
    // In mode `Isolate` a sidecar has a token of its own, which is never merged.
    if declared.on_conflict == OnConflict::Refuse || declared.mode == Mode::Isolate {
        return Vec::new();
    }
    let listed = declared.permissions;
    let known: Vec<Value> = documents.iter().filter(|document| document.role == Role::Rbac).map(complete).collect();
    let mut namespaces: BTreeSet<&str> =
        known.iter().flat_map(|binding| json::items(binding, &["subjects"])).map(namespace).collect();
    if let Some(closed) = closed_list(&subject.set) {
        namespaces.retain(|namespace| closed.contains(namespace));
    }
    let mut findings = Vec::new();
    for namespace in namespaces.into_iter().filter(|namespace| !namespace.is_empty()) {
        let rules_of = |kind: &str, name: &str| {
            let is_it = |role: &&Value| {
                json::text(role, &["kind"]) == kind
                    && json::text(role, &["metadata", "name"]) == name
                    && (kind == "ClusterRole"
                        || ["", namespace].contains(&json::text(role, &["metadata", "namespace"])))
            };
            known.iter().find(is_it).and_then(|role| rbac::of_role(role).ok())
        };
        for lost in lost(AccountRef { namespace, name: &account }, &listed, &known, rules_of) {
            // The permissions of a role outside the files are unknown.
            if lost.atoms.is_some() {
                let message = format!(
                    "where ServiceAccount {account:?} is merged, sidecars in namespace {namespace:?} may not do what is \
                     bound to it and not listed here: {lost}"
                );
                let remedy = "list it, or take it away from the ServiceAccount";
                findings.push(subject.spot.warning(path(PERMISSIONS).as_str(), message, remedy));
            }
        }
    }
    findings
}

/// Returns the object. A RoleBinding without a namespace gets the namespace of its first account, as the best guess.
fn complete(document: &Document) -> Value {
    let mut object = document.manifest.value.clone();
    if json::text(&object, &["kind"]) == "RoleBinding" && json::text(&object, &["metadata", "namespace"]).is_empty() {
        let namespace = json::items(&object, &["subjects"]).first().map(|who| namespace(who).to_owned());
        if let (Some(namespace), Some(metadata)) =
            (namespace, object.get_mut("metadata").and_then(Value::as_object_mut))
        {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
    }
    object
}

fn namespace(who: &Value) -> &str {
    json::text(who, &["namespace"])
}
