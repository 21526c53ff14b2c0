//! Changes of other webhooks to a sidecar in the Pod, which an injection keeps if the settings say so (ORDER-9).

use std::collections::BTreeSet;

use pillion_kubernetes::json::{self, Object};
use pillion_sidecarset::image::registries_of;
use pillion_sidecarset::other_webhooks::OtherWebhooks;
use pillion_sidecarset::pod;
use serde_json::Value;

use super::container::Sidecar;

/// What the sidecars of a Pod keep.
pub struct Kept<'a> {
    settings: Option<&'a OtherWebhooks>,
    /// The sets whose sidecars get a token of their own.
    owners: BTreeSet<&'a str>,
}

impl<'a> Kept<'a> {
    /// `owners` are the names of the sets that name an account.
    pub fn new(settings: Option<&'a OtherWebhooks>, owners: impl Iterator<Item = &'a str>) -> Self {
        let settings = settings.filter(|settings| !settings.is_empty());
        Self { settings, owners: if settings.is_some() { owners.collect() } else { BTreeSet::new() } }
    }

    /// Returns the container of `sidecar` with the image and the variables of `existing` that stay; `None` if nothing
    /// stays. Nothing stays of a container that was not injected.
    pub fn container(&self, existing: &Value, sidecar: &Sidecar) -> Option<Value> {
        let settings = self.settings.filter(|_| pod::is_injected(existing))?;
        let is_owner = self.owners.contains(sidecar.set.as_str());
        let image = image(existing, &sidecar.container, settings);
        let env = if is_owner { None } else { variables(existing, &sidecar.container, settings) };
        if image.is_none() && env.is_none() {
            return None;
        }
        let mut container = sidecar.container.clone();
        let fields = container.as_object_mut()?;
        fields.extend(image.map(|image| ("image".to_owned(), image.into())));
        fields.extend(env.map(|env| ("env".to_owned(), Value::Array(env))));
        Some(container)
    }
}

/// Returns the image of `existing` if it stays: that of `wanted` from one of the registries.
fn image<'a>(existing: &'a Value, wanted: &Value, settings: &OtherWebhooks) -> Option<&'a str> {
    let (existing, wanted) = (json::text(existing, &["image"]), json::text(wanted, &["image"]));
    let is_kept = |registry: &&str| settings.image_registries.contains(*registry);
    (existing != wanted && registries_of(existing, wanted).iter().any(is_kept)).then_some(existing)
}

/// Returns the variables of the container if some of `existing` stay. They stay where they are if all others are those
/// of `wanted`, and follow these otherwise.
fn variables(existing: &Value, wanted: &Value, settings: &OtherWebhooks) -> Option<Vec<Value>> {
    if settings.variables.is_empty() {
        return None;
    }
    let [existing, wanted] = [existing, wanted].map(|container| json::items(container, &["env"]));
    let ours: BTreeSet<&str> = wanted.iter().map(pod::name).collect();
    let stays = |variable: &&Value| {
        let name = pod::name(variable);
        settings.variables.contains(name) && !ours.contains(name) && variable.as_object().is_some_and(is_plain)
    };
    let (kept, others): (Vec<&Value>, Vec<&Value>) = existing.iter().partition(stays);
    if kept.is_empty() {
        return None;
    }
    let is_in_place = others.len() == wanted.len()
        && others.iter().zip(wanted).all(|(there, ours)| pod::name(there) == pod::name(ours));
    if is_in_place {
        let mut ours = wanted.iter();
        let in_order = existing.iter().filter_map(|there| if stays(&there) { Some(there) } else { ours.next() });
        return Some(in_order.cloned().collect());
    }
    Some(wanted.iter().chain(kept).cloned().collect())
}

/// Whether a variable has a text and nothing else. A text with `$(` could hand another variable of the sidecar on, such
/// as a password.
fn is_plain(variable: &Object) -> bool {
    let text = |key: &str| variable.get(key).and_then(Value::as_str);
    variable.len() == 2 && text("name").is_some() && text("value").is_some_and(|value| !value.contains("$("))
}

#[cfg(test)]
mod tests;
