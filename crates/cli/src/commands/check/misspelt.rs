//! Misspelt fields of SidecarSets, for commands other than `check`.

use pillion_documents::manifest::Manifest;
use pillion_install::settings::Origin;
use pillion_kubernetes::json;

use super::lint;
use super::subject::Spot;
use crate::report::Finding;

/// Returns the fields of a `SidecarSet` that nothing reads, one line each, with the place and the probable spelling.
pub fn unknown_fields(manifest: &Manifest) -> Vec<String> {
    let is_set = json::text(&manifest.value, &["kind"]) == "SidecarSet";
    if is_set { lines(&lint::unknown(&Spot::sidecar_set(manifest))) } else { Vec::new() }
}

/// Returns [`unknown_fields`] of the SidecarSets in settings.
pub fn unknown_fields_in_settings(settings: &Origin) -> Vec<String> {
    let Origin { manifest, base } = settings;
    let spot = Spot { base: base.clone(), ..Spot::document(manifest) };
    let keys: Vec<&str> = base.as_str().split('.').filter(|key| !key.is_empty()).chain(["sidecarSets"]).collect();
    let sets = json::items(&manifest.value, &keys).iter().enumerate();
    sets.flat_map(|(index, raw)| lines(&lint::unknown(&spot.item(index, raw)))).collect()
}

fn lines(findings: &[Finding]) -> Vec<String> {
    let line = |finding: &Finding| {
        let Finding { place, path, message, remedy, sidecar_set, .. } = finding;
        let (file, line) = (&place.source.name, place.start().line);
        format!("{file}:{line}: {path}: {message}; {remedy} (SidecarSet \"{sidecar_set}\")")
    };
    findings.iter().map(line).collect()
}
