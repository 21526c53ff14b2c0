//! The upgrade of a Pod: images of its sidecars, and its records (ROLL-40 to ROLL-43, ROLL-46, ROLL-47).

use pillion_inject::metadata;
use pillion_inject::records::Record;
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::outcome::Reason;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::names;
use serde_json::Value;

use crate::edit::Edit;
use crate::hot::{self, NO_VERSION};
use crate::pair::{self, Pair};
use crate::pod::Pod;
use crate::resize;
use crate::target::RolloutTarget;

/// Returns the upgrade of a Pod to the target. `revision` is the name of the target's ControllerRevision.
///
/// # Errors
/// A patch of the Pod's metadata cannot be merged.
pub fn upgrade(target: &RolloutTarget<'_>, pod: &Pod, revision: &str, now: Timestamp) -> Result<Edit, Vec<Reason>> {
    let mut edit = images(target, pod, now);
    edit.record(target, pod, revision, now);
    edit.patch_metadata(target, pod)?;
    resize::drop_records(target, pod, &mut edit);
    Ok(edit)
}

/// Returns the change of a Pod's images to those of the target.
pub fn images(target: &RolloutTarget<'_>, pod: &Pod, now: Timestamp) -> Edit {
    let mut edit = Edit::default();
    let mut working = pair::working(pod);
    let mut changed = Vec::new();
    let overridden = target.overridden(&pod.metadata);
    for sidecar in &target.sidecars {
        let container = overridden.in_container(sidecar.container);
        let wanted = json::text(&container, &["image"]);
        let [name, other] = match sidecar.empty_image {
            Some(_) => hot::order(target, sidecar, pod),
            None => [sidecar.name.to_owned(), sidecar.name.to_owned()],
        };
        let image = |name: &str| pod.container(name).map(|(_, container)| container.image.as_str());
        // ROLL-45: the half that has the image is the one that works.
        let [next, former] = if image(&other) == Some(wanted) { [&other, &name] } else { [&name, &other] };
        let has_image = image(next) == Some(wanted);
        if sidecar.empty_image.is_some() && !(has_image && working.get(sidecar.name) == Some(next)) {
            let pair = (sidecar.name, [next.as_str(), former.as_str()]);
            let alternative = edit.annotation_after(pod, &hot::key(names::VERSION_PREFIX, former));
            let annotations = hot::annotations(alternative, working.clone(), pair, target.resource_version);
            edit.annotations.extend(annotations);
            working.insert(sidecar.name.to_owned(), next.clone());
        }
        if let Some((position, _)) = pod.container(next).filter(|_| !has_image) {
            edit.images.insert(position, wanted.to_owned());
            changed.push(next.clone());
        }
    }
    edit.record_in_place(target, pod, &changed, now);
    edit
}

/// Whether the images of a Pod change before its resize is complete (ROLL-65): the kubelet has accepted the resize, and a
/// restarted container gets the new cpu and memory in any case.
pub fn images_precede_resize(target: &RolloutTarget<'_>, pod: &Pod) -> bool {
    pod.state.resize.in_progress.is_some() && images(target, pod, target.surroundings.now).changes_images()
}

/// Returns the upgrade of a Pod whose resize is complete (ROLL-65): images and records, as in [`upgrade`], the hash without
/// images, and the end of the resize.
///
/// # Errors
/// A patch of the Pod's metadata cannot be merged.
pub fn after_resize(
    target: &RolloutTarget<'_>,
    pod: &Pod,
    revision: &str,
    now: Timestamp,
) -> Result<Edit, Vec<Reason>> {
    let mut edit = upgrade(target, pod, revision, now)?;
    let mut records = pod.records_without_image().clone();
    records.complete(now);
    records.replace(record(target, target.hash_without_image(), revision, now));
    edit.annotations.insert(names::HASH_WITHOUT_IMAGE.to_owned(), records.to_text());
    Ok(edit)
}

/// Returns the record of a Pod about a version.
fn record(target: &RolloutTarget<'_>, hash: &str, revision: &str, now: Timestamp) -> Record {
    Record {
        time: Some(now),
        hash: hash.to_owned(),
        set: target.name().to_owned(),
        sidecars: Some(target.recorded().into_iter().map(str::to_owned).collect()),
        revision: revision.to_owned(),
    }
}

/// Returns the change that gives the idle containers of a Pod their empty image (ROLL-47).
pub fn reset(target: &RolloutTarget<'_>, pod: &Pod, now: Timestamp) -> Edit {
    let mut edit = Edit::default();
    let mut changed = Vec::new();
    for (sidecar, empty) in target.pairs() {
        let Pair { working, idle } = Pair::find(sidecar, pod);
        let Some((place, _)) = pod.container(&idle).filter(|(_, container)| container.image != empty) else { continue };
        edit.images.insert(place, empty.to_owned());
        edit.annotations.insert(hot::key(names::VERSION_PREFIX, &idle), NO_VERSION.to_owned());
        edit.annotations.insert(hot::key(names::VERSION_ALT_PREFIX, &working), NO_VERSION.to_owned());
        changed.push(idle);
    }
    edit.record_in_place(target, pod, &changed, now);
    edit
}

impl Edit {
    /// Returns an annotation as it is after the change so far.
    fn annotation_after<'a>(&'a self, pod: &'a Pod, key: &str) -> Option<&'a str> {
        self.annotations.get(key).map(String::as_str).or_else(|| pod.metadata.annotations.get(key))
    }

    /// Writes the records of the Pod's SidecarSets (ROLL-41). Records of the older form, which have only a hash, get a
    /// time and keep their own names (DIFF-19). A record that cannot be read is replaced.
    fn record(&mut self, target: &RolloutTarget<'_>, pod: &Pod, revision: &str, now: Timestamp) {
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
    fn patch_metadata(&mut self, target: &RolloutTarget<'_>, pod: &Pod) -> Result<(), Vec<Reason>> {
        let patched = metadata::keys(target.version);
        if patched.is_empty() {
            return Ok(());
        }
        let current = |key: &str| self.annotation_after(pod, key);
        let before: Object =
            patched.iter().filter_map(|key| Some(((*key).to_owned(), Value::from(current(key)?)))).collect();
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
}
