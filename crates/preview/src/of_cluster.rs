//! SidecarSets and ControllerRevisions of a cluster, for settings that look them up or lack them.

use std::collections::BTreeSet;

use pillion_admission::settings::Settings;
use pillion_bundle::config_map::{BundleReader, Fault, Unavailable};
use pillion_cluster::manifests::{asks_for_a_revision, controller_revisions, manifest_of, sidecar_sets};
use pillion_cluster::{NO_DEFINITION, Reader, Trouble};
use pillion_documents::manifest::Manifest;
use pillion_install::settings::Assembled;
use pillion_kubernetes::json;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::origin::Origin;
use pillion_terminal::{Terminal, now};
use serde_json::Value;

use super::cluster::Manifests;
use super::lookup::Answers;

/// The settings that have SidecarSets and what belongs to them.
const OF_SETS: [&str; 4] = ["sidecarSets", "controllerRevisions", "bundle", "bundleRef"];

/// Adds the SidecarSets of the cluster to settings, unless the settings or the manifests have one of the same name.
///
/// The ConfigMap of `bundleRef` decides if it exists: the policy reads it and no custom resource. If it does not exist,
/// or the settings have no `bundleRef`, the custom resources count. Warns of custom resources that the policy refuses,
/// which are left out. Settings that cannot be decoded stay as they are, for the caller to report.
///
/// # Errors
/// [`Trouble`] if the cluster does not answer, or does not allow a request.
pub fn with_cluster(
    assembled: Assembled,
    cluster: &Manifests,
    reader: &Reader,
    terminal: &mut Terminal,
) -> Result<Assembled, Trouble> {
    let Some(settings) = decoded(&assembled.value) else { return Ok(assembled) };
    let given: BTreeSet<&str> = settings.sidecar_sets.iter().map(SidecarSet::name).collect();
    let Some(at) = &settings.bundle_source.config_map else {
        return with_resources(assembled, &settings, &given, reader, terminal);
    };
    let answers = Answers(cluster);
    let kept = BundleReader { at, source: &settings.bundle_source, lookup: &answers, now: now() }.every_set();
    reader.check()?;
    match kept {
        Ok(sets) => Ok(without_given(assembled, sets, &given)),
        Err(Unavailable { fault: Fault::Missing, name }) if name == at.name => {
            terminal.warn(format_args!(
                "settings.bundleRef: ConfigMap \"{}/{name}\" does not exist in the cluster; until Pillion's controller \
                 makes it, this shows the SidecarSets that would be in it",
                at.namespace
            ));
            with_resources(without_bundle(assembled), &settings, &given, reader, terminal)
        }
        // The policy finds the same fault, and the settings say what happens then.
        Err(_) => Ok(assembled),
    }
}

/// Returns settings in which SidecarSets of the bundle do not stand beside given ones of the same name. If none does,
/// the settings stay as they are: the policy reads the bundle itself.
fn without_given(assembled: Assembled, bundled: Vec<SidecarSet>, given: &BTreeSet<&str>) -> Assembled {
    if !bundled.iter().any(|set| given.contains(set.name())) {
        return assembled;
    }
    let others = bundled.into_iter().filter(|set| !given.contains(set.name()));
    let others: Vec<Manifest> = others.filter_map(|set| manifest_of("bundle", &set.into_value())).collect();
    without_bundle(assembled).join_as(&others, Some(Origin::Cluster))
}

fn without_bundle(mut assembled: Assembled) -> Assembled {
    if let Some(settings) = assembled.value.as_object_mut() {
        settings.remove("bundleRef");
    }
    assembled
}

/// Adds the custom resources, and the ControllerRevisions if a SidecarSet asks for a stored revision.
fn with_resources(
    assembled: Assembled,
    settings: &Settings,
    given: &BTreeSet<&str>,
    reader: &Reader,
    terminal: &mut Terminal,
) -> Result<Assembled, Trouble> {
    let Some(found) = sidecar_sets(reader)? else {
        terminal.warn(NO_DEFINITION);
        return Ok(assembled);
    };
    let mut joining = Vec::new();
    let known: Vec<&Value> = found
        .iter()
        .map(|manifest| &manifest.value)
        .chain(settings.sidecar_sets.iter().map(SidecarSet::as_value))
        .collect();
    let bases: Vec<Option<Value>> = found.iter().map(|manifest| base_of(&manifest.value, &known)).collect();
    for (manifest, base) in found.into_iter().zip(bases) {
        let name = json::text(&manifest.value, &["metadata", "name"]);
        if given.contains(name) {
            continue;
        }
        match problems(&assembled.value, &manifest.value, base) {
            problems if problems.is_empty() => joining.push(manifest),
            problems => terminal.warn(format_args!(
                "SidecarSet \"{name}\" of the cluster is left out, since the policy refuses it: {}",
                problems.join("; ")
            )),
        }
    }
    let own = settings.sidecar_sets.iter().map(SidecarSet::as_value);
    if own.chain(joining.iter().map(|manifest| &manifest.value)).any(asks_for_a_revision) {
        let known = json::items(&assembled.value, &["controllerRevisions"]).iter();
        let known: BTreeSet<&str> = known.map(|revision| json::text(revision, &["metadata", "name"])).collect();
        let stored = controller_revisions(reader, &settings.system_namespace)?;
        joining.extend(stored.into_iter().filter(|it| !known.contains(json::text(&it.value, &["metadata", "name"]))));
    }
    Ok(assembled.join_as(&joining, Some(Origin::Cluster)))
}

/// Returns the base of a canary among the known SidecarSets.
fn base_of(set: &Value, known: &[&Value]) -> Option<Value> {
    let base = json::text(set, &["metadata", "annotations", names::BASE]);
    let is_base = |other: &&&Value| !base.is_empty() && json::text(other, &["metadata", "name"]) == base;
    known.iter().find(is_base).map(|base| Value::clone(base))
}

/// Returns the errors for which the policy refuses these settings with this SidecarSet alone, or with its base.
fn problems(settings: &Value, set: &Value, base: Option<Value>) -> Vec<String> {
    let others = settings.as_object().into_iter().flatten().filter(|(key, _)| !OF_SETS.contains(&key.as_str()));
    let mut alone: json::Object = others.map(|(key, value)| (key.clone(), value.clone())).collect();
    alone.insert("sidecarSets".to_owned(), std::iter::once(set.clone()).chain(base).collect());
    let settings = Settings::decode(Value::Object(alone));
    let mut errors = settings.map_or_else(|errors| errors, |settings| settings.validate());
    errors.retain(|error| !error.path.as_str().starts_with("sidecarSets[1]"));
    let path = |path: &str| path.strip_prefix("sidecarSets[0].").unwrap_or(path).to_owned();
    errors
        .into_iter()
        .map(|mut error| {
            error.path = path(&error.path);
            error.to_string()
        })
        .collect()
}

/// Returns the settings with the SidecarSets of their own bundle; `None` if they cannot be decoded.
fn decoded(settings: &Value) -> Option<Settings> {
    Settings::decode(settings.clone()).ok().and_then(|settings| settings.unbundled().ok())
}
