//! Checks the ConfigMap that `bundleRef` names, if it is among the documents.

use std::collections::BTreeSet;

use pillion_bundle::Bundle;
use pillion_bundle::config_map::{self, Fault};
use pillion_bundle::source::ConfigMapName;
use pillion_kubernetes::json;
use serde_json::Value;

use pillion_admission::settings::Role;

use super::super::documents::Document;
use super::super::settings::Judged;
use super::super::subject::Spot;
use super::policy;
use crate::report::Finding;

/// Whether these settings inject nothing: they have no SidecarSets, and no `bundleRef` that brings those of the cluster.
/// Settings for Shoots or token Secrets alone have other work.
pub fn is_missing(judged: &Judged<'_>) -> bool {
    let settings = &judged.settings;
    let has_sets =
        settings.bundle_source.config_map.is_some() || !judged.subjects.is_empty() || !judged.items.is_empty();
    let has_other_work =
        settings.shoots.enabled || json::at(judged.spot.raw, &["serviceAccounts", "legacyTokenSecrets"]).is_some();
    !has_sets && !has_other_work && settings.role == Role::Inject && policy::is_about_pods(judged)
}

/// Returns the faults that the policy would find in the ConfigMap and its shards. Ignores objects that are not given:
/// the cluster may have them.
pub fn kept(judged: &Judged<'_>, documents: &[Document]) -> Vec<Finding> {
    let source = &judged.settings.bundle_source;
    let Some(at) = &source.config_map else { return Vec::new() };
    let Some(index) = find(documents, at, &at.name) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut report = |document: &Document, fault: Fault| {
        let name = json::text(&document.manifest.value, &["metadata", "name"]);
        let message = format!("ConfigMap \"{}/{name}\", which bundleRef names, {}", at.namespace, fault.as_str());
        let remedy = "make it anew with `pillion bundle --config-map`";
        findings.push(Spot::document(&document.manifest).warning(field(fault), message, remedy));
    };
    let found = &index.manifest.value;
    let shards = config_map::shards(found);
    let fault = verified(found).and(shards.as_ref().map(drop).map_err(|fault| *fault));
    if let Err(fault) = fault.and_then(|()| config_map::check_time(found, source, pillion_terminal::now())) {
        report(index, fault);
    }
    for checksum in shards.unwrap_or_default().into_iter().collect::<BTreeSet<_>>() {
        let shard = find(documents, at, &config_map::shard_name(&at.name, checksum));
        if let Some((document, fault)) = shard.and_then(|it| Some((it, verified(&it.manifest.value).err()?))) {
            report(document, fault);
        }
    }
    findings
}

/// Reads the whole bundle of a ConfigMap.
fn verified(config_map: &Value) -> Result<(), Fault> {
    Bundle::read(config_map::text_of(config_map)?)?.verify()?;
    Ok(())
}

/// Returns the field with the fault.
const fn field(fault: Fault) -> &'static str {
    match fault {
        Fault::Undated | Fault::Old | Fault::Early => "metadata.annotations",
        _ => "data",
    }
}

fn find<'a>(documents: &'a [Document], at: &ConfigMapName, name: &str) -> Option<&'a Document> {
    let is_it = |found: &Value| {
        let namespace = json::text(found, &["metadata", "namespace"]);
        json::text(found, &["kind"]) == "ConfigMap"
            && json::text(found, &["apiVersion"]) == "v1"
            && json::text(found, &["metadata", "name"]) == name
            && (namespace.is_empty() || namespace == at.namespace)
    };
    documents.iter().find(|document| is_it(&document.manifest.value))
}
