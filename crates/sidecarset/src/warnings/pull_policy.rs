//! Updates of images that change a default with them (DEF-5, HASH-4, WARN-7).

use std::collections::BTreeMap;

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use serde_json::Value;

use super::{LISTS, Rule, Warning, Written};
use crate::hash::hashes;
use crate::sidecar_set::defaults;
use crate::sidecar_set::prepare::prepared;

const FIELD: &str = "imagePullPolicy";

/// A container whose pull policy is not written, and was another one before this update of its image.
struct Changed<'a> {
    list: &'static str,
    index: usize,
    before: &'a str,
}

pub(super) fn check(written: &Written<'_>, found: &mut Vec<Warning>) {
    let Some(old) = written.old else { return };
    if json::text(written.object, &["spec", "updateStrategy", "type"]) == "NotUpdate" {
        return;
    }
    let old = prepared(old);
    let now = defaulted(written.object.clone());
    let changed = changed(written.object, &now, old.as_value());
    if changed.is_empty() {
        return;
    }
    let mut kept = now.clone();
    for Changed { list, index, before } in &changed {
        if let Some(container) = container_mut(&mut kept, list, *index) {
            container.insert(FIELD.to_owned(), Value::from(*before));
        }
    }
    // Without the images, only the pull policies differ. Any other change is one that the author made.
    let before = hash_without_image(old.as_value());
    if hash_without_image(&now) == before || hash_without_image(&kept) != before {
        return;
    }
    for Changed { list, index, before } in changed {
        let path = FieldPath::new("spec").item(list, index).child(FIELD).to_string();
        let after = container(&now, list, index).map_or("", |container| json::text(container, &[FIELD]));
        let message = format!(
            "{FIELD} is not written, and with this image it changes from {before} to {after}; so more than images \
             changes, and running Pods are not upgraded in place"
        );
        found.push(Warning::new(Rule::ChangedPullPolicy, path, message, format!("write {FIELD}: {before}")));
    }
}

/// Returns the containers whose image is another one, and whose pull policy changes without being written.
fn changed<'a>(object: &Value, now: &Value, old: &'a Value) -> Vec<Changed<'a>> {
    let mut changed = Vec::new();
    for list in LISTS {
        let before: BTreeMap<&str, &Value> =
            containers(old, list).iter().map(|it| (json::text(it, &["name"]), it)).collect();
        for (index, (written, now)) in containers(object, list).iter().zip(containers(now, list)).enumerate() {
            let Some(old) = before.get(json::text(now, &["name"])) else { continue };
            let is_another = |field| json::text(old, &[field]) != json::text(now, &[field]);
            if json::text(written, &[FIELD]).is_empty() && is_another(FIELD) && is_another("image") {
                changed.push(Changed { list, index, before: json::text(old, &[FIELD]) });
            }
        }
    }
    changed
}

/// Sets the defaults that `prepared` sets. Those of the CRD are there at admission.
fn defaulted(mut object: Value) -> Value {
    defaults::apply_crd(&mut object);
    defaults::apply(&mut object);
    object
}

fn hash_without_image(object: &Value) -> String {
    hashes(json::at(object, &["spec"]).unwrap_or(&Value::Null)).without_image
}

fn containers<'a>(object: &'a Value, list: &str) -> &'a [Value] {
    json::items(object, &["spec", list])
}

fn container<'a>(object: &'a Value, list: &str, index: usize) -> Option<&'a Value> {
    containers(object, list).get(index)
}

fn container_mut<'a>(object: &'a mut Value, list: &str, index: usize) -> Option<&'a mut json::Object> {
    object.get_mut("spec")?.get_mut(list)?.get_mut(index)?.as_object_mut()
}
