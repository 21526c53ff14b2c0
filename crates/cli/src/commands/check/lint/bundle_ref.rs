//! Checks the ConfigMap that `bundleRef` names, if it is among the documents.

use pillion_bundle::Bundle;
use pillion_bundle::config_map::{self, Fault, GENERATION};
use pillion_bundle::source::ConfigMapName;
use pillion_kubernetes::json;
use serde_json::Value;

use super::super::documents::Document;
use super::super::settings::Judged;
use super::super::subject::Spot;
use crate::preview;
use crate::report::Finding;

/// Returns the faults that the policy would find in the ConfigMap and its shards. Ignores objects that are not given:
/// the cluster may have them.
pub fn kept(judged: &Judged<'_>, documents: &[Document]) -> Vec<Finding> {
    let source = &judged.settings.bundle_source;
    let Some(at) = &source.config_map else { return Vec::new() };
    let Some(index) = find(documents, at, &at.name) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut judge = |document: &Document, is_shard: bool| {
        let found = &document.manifest.value;
        let generation = |config_map| json::text(config_map, &["data", GENERATION]);
        let sound = config_map::text_of(found).and_then(|text| {
            Bundle::read(text).and_then(|bundle| bundle.verify())?;
            config_map::shards(found)?;
            config_map::check_time(found, source, preview::now())
        });
        let fault = match sound {
            Ok(()) if is_shard && generation(found) != generation(&index.manifest.value) => Some(Fault::HalfWritten),
            Ok(()) => None,
            Err(fault) => Some(fault),
        };
        if let Some(fault) = fault {
            let name = json::text(found, &["metadata", "name"]);
            let message = format!("ConfigMap \"{}/{name}\", which bundleRef names, {}", at.namespace, fault.as_str());
            let remedy = "make it anew with `pillion bundle --config-map`";
            findings.push(Spot::document(&document.manifest).warning(field(fault), message, remedy));
        }
    };
    judge(index, false);
    for shard in 0..config_map::shards(&index.manifest.value).unwrap_or_default() {
        if let Some(document) = find(documents, at, &config_map::shard_name(&at.name, shard)) {
            judge(document, true);
        }
    }
    findings
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
