//! The documents that `pillion check --cluster` finds in the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use pillion_cluster::manifests;
use pillion_cluster::{Kind, NO_DEFINITION, Reader, Trouble};
use pillion_documents::manifest::{self, Manifest, Source};
use pillion_identity::declared::Declared;
use pillion_install::installation;
use pillion_kubernetes::json;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_terminal::Terminal;
use pillion_yaml::{self as yaml, Tree};
use serde_json::Value;

use super::documents::{Document, KUBEWARDEN, POLICIES, Role, role};
use super::{lint, settings, settings_in};

/// The kinds that grant permissions to ServiceAccounts.
const RBAC: [&str; 4] = ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"];

/// The kinds that judge the requests and limits of containers.
const JUDGES: [Kind<'_>; 3] =
    [Kind("autoscaling/v2", "HorizontalPodAutoscaler"), Kind("v1", "ResourceQuota"), Kind("v1", "LimitRange")];

/// The identity of a document: role, namespace, name.
type Key = (&'static str, String, String);

/// Adds the SidecarSets of the cluster, and the objects that count for them and for the settings: ControllerRevisions,
/// the whitelist, Namespaces, and Roles with their bindings if a SidecarSet names a ServiceAccount. If no settings are
/// given, adds the policies of Kubewarden, too, or the settings of the installed server. Where the documents show Pods, adds
/// what judges their resources in their namespaces. A document with the role and the name of an object wins over it.
/// Returns notes.
///
/// # Errors
/// [`Trouble`] if the cluster does not answer, or does not allow a request. Another error if it has several servers whose
/// settings differ.
pub fn add(documents: &mut Vec<Document>, reader: &Reader, terminal: &mut Terminal) -> anyhow::Result<Vec<String>> {
    let mut notes = Vec::new();
    let mut known = known(documents);
    let mut add = |documents: &mut Vec<Document>, manifests: Vec<Manifest>| {
        for manifest in manifests {
            let role = role(&manifest.value);
            if role != Role::Other && known.insert(key(role, &manifest.value)) {
                documents.push(Document { manifest, role });
            }
        }
    };
    let list = |kind: Kind<'_>| -> Result<Vec<Manifest>, Trouble> {
        let found = reader.list(kind, None, None)?.unwrap_or_default();
        Ok(found.iter().filter_map(|object| manifests::manifest_of("cluster", object)).collect())
    };
    if settings_in(documents).is_empty() {
        for kind in POLICIES {
            add(documents, list(Kind(&format!("{KUBEWARDEN}/v1"), kind))?);
        }
    }
    if settings_in(documents).is_empty()
        && let Some(part) = installation::for_new_pods(reader, terminal)?
    {
        let text = yaml::print(&Tree::conventional(&part.settings));
        let manifests = manifest::parse(&Arc::new(Source::new(part.source, text)))?;
        documents.extend(manifests.into_iter().map(|manifest| Document { manifest, role: Role::Settings }));
    }
    match manifests::sidecar_sets(reader)? {
        Some(sets) => add(documents, sets),
        None => notes.push(NO_DEFINITION.to_owned()),
    }
    add(documents, list(Kind("v1", "Namespace"))?);
    let systems: BTreeSet<String> = system_namespaces(documents);
    let sets: Vec<Value> = sidecar_sets(documents).cloned().collect();
    for system in &systems {
        if sets.iter().any(manifests::asks_for_a_revision) {
            add(documents, manifests::controller_revisions(reader, system)?);
        }
        let whitelist = reader.get(Kind("v1", "ConfigMap"), Some(system), names::WHITELIST_CONFIG_MAP)?;
        add(documents, whitelist.iter().filter_map(|object| manifests::manifest_of("cluster", object)).collect());
    }
    let bundled = settings_in(documents).into_iter().flat_map(|spot| settings::bundled(spot.raw));
    let is_named =
        sets.iter().any(names_an_account) || bundled.map(SidecarSet::from_decoded).any(|set| has_account(&set));
    if is_named {
        for kind in RBAC {
            add(documents, list(Kind("rbac.authorization.k8s.io/v1", kind))?);
        }
    }
    notes.extend(add_judges(documents, reader)?);
    Ok(notes)
}

/// Adds the objects that judge the resources of containers, from the namespaces in which the documents have Pods. Returns
/// notes about those that may not be read: the check goes on without them.
fn add_judges(documents: &mut Vec<Document>, reader: &Reader) -> Result<Vec<String>, Trouble> {
    let pods = lint::created_pods(documents);
    let namespaces: BTreeSet<String> = pods.iter().map(|created| created.namespace.to_owned()).collect();
    let known: BTreeSet<(String, String, String)> =
        documents.iter().map(|document| named(&document.manifest.value)).collect();
    let mut notes = Vec::new();
    for kind in JUDGES {
        for namespace in &namespaces {
            let found = match reader.try_list(kind, Some(namespace), None) {
                Ok(found) => found.unwrap_or_default(),
                Err(forbidden @ Trouble::Forbidden { .. }) => {
                    notes.push(format!("{}s of the namespace {namespace} do not count: {forbidden}", kind.1));
                    continue;
                }
                Err(trouble) => return Err(trouble),
            };
            let new = found.iter().filter(|object| !known.contains(&named(object)));
            let manifests = new.filter_map(|object| manifests::manifest_of("cluster", object));
            documents.extend(manifests.map(|manifest| Document { manifest, role: Role::Other }));
        }
    }
    Ok(notes)
}

/// Returns kind, namespace and name of an object.
fn named(object: &Value) -> (String, String, String) {
    let text = |path: &[&str]| json::text(object, path).to_owned();
    (text(&["kind"]), lint::namespace_of(object).to_owned(), text(&["metadata", "name"]))
}

/// Returns the identities of all documents, and of the SidecarSets in settings.
fn known(documents: &[Document]) -> BTreeSet<Key> {
    let own = documents.iter().map(|document| key(document.role, &document.manifest.value));
    own.chain(sidecar_sets(documents).map(|set| key(Role::SidecarSet, set))).collect()
}

fn key(role: Role, object: &Value) -> Key {
    let text = |path: &[&str]| json::text(object, path).to_owned();
    let kind = match role {
        Role::SidecarSet => "SidecarSet",
        Role::ControllerRevision => "ControllerRevision",
        Role::Whitelist => "Whitelist",
        Role::Namespace => "Namespace",
        Role::Rbac => RBAC.into_iter().find(|kind| *kind == json::text(object, &["kind"])).unwrap_or_default(),
        Role::Policy | Role::PolicyGroup => "Policy",
        Role::Settings | Role::Shoot | Role::Other => "",
    };
    (kind, text(&["metadata", "namespace"]), text(&["metadata", "name"]))
}

/// Returns the SidecarSets among the documents, and those in settings.
fn sidecar_sets(documents: &[Document]) -> impl Iterator<Item = &Value> {
    let own = documents.iter().filter(|document| document.role == Role::SidecarSet);
    let of_settings = settings_in(documents).into_iter().flat_map(|spot| json::items(spot.raw, &["sidecarSets"]));
    own.map(|document| &document.manifest.value).chain(of_settings)
}

/// Returns the system namespace of each settings document; without any, the default one.
fn system_namespaces(documents: &[Document]) -> BTreeSet<String> {
    let settings = settings_in(documents);
    let named = settings.iter().map(|spot| json::text(spot.raw, &["systemNamespace"]));
    let named: BTreeSet<&str> = named.chain(settings.is_empty().then_some("")).collect();
    let default = pillion_admission::settings::SYSTEM_NAMESPACE;
    named.into_iter().map(|name| if name.is_empty() { default } else { name }.to_owned()).collect()
}

/// Whether a SidecarSet names a ServiceAccount. One that cannot be decoded names none.
fn names_an_account(set: &Value) -> bool {
    decode(set.clone()).is_ok_and(|decoded| has_account(&decoded.into_sidecar_set()))
}

fn has_account(set: &SidecarSet) -> bool {
    Declared::from_sidecar_set(set).is_ok_and(|declared| declared.service_account.is_some())
}
