//! The upgrade of a Pod: images of its sidecars, and its records (ROLL-40 to ROLL-43, ROLL-46, ROLL-47).

use std::collections::{BTreeMap, BTreeSet};

use pillion_inject::metadata;
use pillion_inject::records::Record;
use pillion_kubernetes::json::Object;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_kubernetes::outcome::Reason;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::Step;
use pillion_sidecarset::names;
use serde_json::{Value, json};

use crate::hot::{self, NO_VERSION, Pair};
use crate::in_place;
use crate::pod::{Place, Pod};
use crate::resize;
use crate::target::Target;

/// A change of a Pod: images of containers, and annotations. Nothing else of a Pod ever changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// The new images, by place of the container.
    images: BTreeMap<Place, String>,
    /// The new values of annotations.
    annotations: BTreeMap<String, String>,
    /// The annotations that are removed.
    removed: BTreeSet<String>,
}

/// Returns the upgrade of a Pod to the target. `revision` is the name of the target's ControllerRevision.
///
/// # Errors
/// A patch of the Pod's metadata cannot be merged.
pub fn upgrade(target: &Target<'_>, pod: &Pod, revision: &str, now: Timestamp) -> Result<Edit, Vec<Reason>> {
    let mut edit = Edit::default();
    let mut working = hot::working(pod);
    let mut changed = Vec::new();
    for sidecar in &target.sidecars {
        let [name, other] = match sidecar.empty_image {
            Some(_) => hot::order(target, sidecar, pod),
            None => [sidecar.name.to_owned(), sidecar.name.to_owned()],
        };
        let image = |name: &str| pod.container(name).map(|(_, container)| container.image.as_str());
        let Some((place, _)) = pod.container(&name).filter(|_| image(&other) != Some(sidecar.image)) else { continue };
        edit.images.insert(place, sidecar.image.to_owned());
        if sidecar.empty_image.is_some() {
            let mut before = pod.metadata.annotations.clone();
            before.extend(edit.annotations.clone());
            let pair = (sidecar.name, [name.as_str(), other.as_str()]);
            edit.annotations.extend(hot::annotations(&before, working.clone(), pair, target.resource_version));
            working.insert(sidecar.name.to_owned(), name.clone());
        }
        changed.push(name);
    }
    edit.record(target, pod, revision, now);
    let changed: Vec<&str> = changed.iter().map(String::as_str).collect();
    edit.annotations
        .insert(in_place::STATE.to_owned(), in_place::after(pod, target.name(), target.hash(), &changed, now));
    edit.patch_metadata(target, pod)?;
    Ok(edit)
}

/// Returns the upgrade of a Pod whose resize is complete (ROLL-65): images and records, as in [`upgrade`], the hash without
/// images, and the end of the resize.
///
/// # Errors
/// A patch of the Pod's metadata cannot be merged.
pub fn after_resize(target: &Target<'_>, pod: &Pod, revision: &str, now: Timestamp) -> Result<Edit, Vec<Reason>> {
    let mut edit = upgrade(target, pod, revision, now)?;
    let mut records = pod.records_without_image().clone();
    records.complete(now);
    records.replace(record(target, target.hash_without_image(), revision, now));
    edit.annotations.insert(names::HASH_WITHOUT_IMAGE.to_owned(), records.to_text());
    match resize::after(target, pod) {
        Some(others) => drop(edit.annotations.insert(resize::STATE.to_owned(), others)),
        None => drop(edit.removed.insert(resize::STATE.to_owned())),
    }
    Ok(edit)
}

/// Returns the record of a Pod about a version.
fn record(target: &Target<'_>, hash: &str, revision: &str, now: Timestamp) -> Record {
    Record {
        time: Some(now),
        hash: hash.to_owned(),
        set: target.name().to_owned(),
        sidecars: Some(target.recorded().into_iter().map(str::to_owned).collect()),
        revision: revision.to_owned(),
    }
}

/// Returns the change that gives the idle containers of a Pod their empty image (ROLL-47).
pub fn reset(target: &Target<'_>, pod: &Pod, now: Timestamp) -> Edit {
    let mut edit = Edit::default();
    let mut changed = Vec::new();
    for (sidecar, empty) in target.pairs() {
        let Pair { working, idle } = Pair::of(sidecar, pod);
        let Some((place, _)) = pod.container(&idle).filter(|(_, container)| container.image != empty) else { continue };
        edit.images.insert(place, empty.to_owned());
        edit.annotations.insert(hot::key(names::VERSION_PREFIX, &idle), NO_VERSION.to_owned());
        edit.annotations.insert(hot::key(names::VERSION_ALT_PREFIX, &working), NO_VERSION.to_owned());
        changed.push(idle);
    }
    let changed: Vec<&str> = changed.iter().map(String::as_str).collect();
    let state = in_place::after(pod, target.name(), target.hash(), &changed, now);
    edit.annotations.insert(in_place::STATE.to_owned(), state);
    edit
}

impl Edit {
    /// Returns the change of one annotation.
    pub(crate) fn annotation(key: &str, value: String) -> Self {
        Self { annotations: BTreeMap::from([(key.to_owned(), value)]), ..Self::default() }
    }

    /// Writes the records of the Pod's SidecarSets (ROLL-41). Records of the older form, which have only a hash, get a
    /// time and keep their own names (DIFF-19). A record that cannot be read is replaced.
    fn record(&mut self, target: &Target<'_>, pod: &Pod, revision: &str, now: Timestamp) {
        let mut records = pod.records().clone();
        if records.is_legacy() {
            records.complete(now);
            let mut without_image = pod.records_without_image().clone();
            if without_image.is_legacy() {
                without_image.complete(now);
                self.annotations.insert(names::HASH_WITHOUT_IMAGE.to_owned(), without_image.to_text());
            }
        }
        records.replace(record(target, target.hash(), revision, now));
        self.annotations.insert(names::HASH.to_owned(), records.to_text());
    }

    /// Applies the patches of the SidecarSet to the Pod's annotations (ROLL-43), except for new `Retain` keys (DIFF-23).
    fn patch_metadata(&mut self, target: &Target<'_>, pod: &Pod) -> Result<(), Vec<Reason>> {
        let patched = metadata::keys(target.version);
        if patched.is_empty() {
            return Ok(());
        }
        let current = |key: &str| self.annotations.get(key).or_else(|| pod.metadata.annotations.get(key));
        let before: Object =
            patched.iter().filter_map(|key| Some(((*key).to_owned(), Value::from(current(key)?.as_str())))).collect();
        let (after, reasons) = metadata::patch_running(&before, target.version);
        if !reasons.is_empty() {
            return Err(reasons);
        }
        for (key, value) in after.unwrap_or_default() {
            if before.get(&key) != Some(&value) {
                self.annotations.insert(key, value.as_str().unwrap_or_default().to_owned());
            }
        }
        Ok(())
    }

    /// Whether the image of a container changes.
    pub fn changes_images(&self) -> bool {
        !self.images.is_empty()
    }

    /// Returns the step that changes the Pod: a JSON Patch that tests all values on which the change depends. If it adds
    /// an annotation, the Pod must not have changed since it was observed, because a JSON Patch cannot test that a field
    /// is absent.
    pub fn step(&self, pod: &Pod) -> Step {
        let mut operations = vec![test("/metadata/uid", pod.metadata.uid.as_str())];
        let known = &pod.metadata.annotations;
        let is_new = |key: &String| !known.contains_key(key);
        if self.annotations.keys().any(is_new) {
            operations.push(test("/metadata/resourceVersion", pod.metadata.resource_version.as_str()));
        }
        for (key, value) in self.annotations.iter().filter(|(key, value)| known.get(*key) != Some(value)) {
            let path = format!("/metadata/annotations/{}", escaped(key));
            if let Some(before) = known.get(key) {
                operations.push(test(&path, before.as_str()));
            }
            operations.push(json!({"op": "add", "path": path, "value": value}));
        }
        for (key, before) in self.removed.iter().filter_map(|key| Some((key, known.get(key)?))) {
            let path = format!("/metadata/annotations/{}", escaped(key));
            operations.push(test(&path, before.as_str()));
            operations.push(json!({"op": "remove", "path": path}));
        }
        for (place, image) in &self.images {
            let Some(container) = pod.at(*place) else { continue };
            let path = format!("/spec/{}/{}", place.list.key(), place.index);
            operations.push(test(&format!("{path}/name"), container.name.as_str()));
            operations.push(test(&format!("{path}/image"), container.image.as_str()));
            operations.push(json!({"op": "replace", "path": format!("{path}/image"), "value": image}));
        }
        Step::JsonPatch { object: reference(pod), subresource: None, operations }
    }
}

/// Returns the operation that tests a value.
pub(crate) fn test(path: &str, value: &str) -> Value {
    json!({"op": "test", "path": path, "value": value})
}

/// Escapes a key for a JSON Pointer (RFC 6901).
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Returns the reference to a Pod.
pub fn reference(pod: &Pod) -> ObjectRef {
    ObjectRef {
        api_version: "v1",
        kind: "Pod",
        namespace: Some(pod.metadata.namespace.clone()),
        name: pod.metadata.name.clone(),
    }
}
