//! Settings for the creation of a Pod, with only those SidecarSets that match it.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Text;
use super::catalogs::Catalogs;
use super::known::Known;
use crate::subject::NewPod;

/// Settings that have nothing to do with Pods.
const OTHERS: [&str; 4] = ["bundle", "patchPodMetadataWhitelist", "rollouts", "shoots"];

/// The SidecarSets, and the texts of settings with some of them.
pub(super) struct PodSettings {
    catalogs: Catalogs,
    /// The settings without SidecarSets.
    rest: Map<String, Value>,
    known: Known<Text>,
}

impl PodSettings {
    pub(super) fn new(catalogs: Catalogs, settings: &Map<String, Value>) -> Self {
        let is_needed = |(key, _): &(&String, &Value)| !OTHERS.contains(&key.as_str());
        let rest = settings.iter().filter(is_needed).map(|(key, value)| (key.clone(), value.clone())).collect();
        Self { catalogs, rest, known: Known::default() }
    }

    /// Returns the settings for the creation of this Pod. `None` if they cannot be made, which must not happen: the
    /// Pod then needs the settings with all SidecarSets.
    pub(super) fn text_for(&self, pod: &NewPod) -> Option<Text> {
        let sets = self.catalogs.matching(&pod.namespace, pod.labels.as_ref());
        self.known.get_or_make(sets, |sets| self.text_of(sets))
    }

    /// Returns a bundle of the SidecarSets with which admission compares the one of a request. `None` if one bundle has
    /// all SidecarSets, among which the module finds them, and if the request has no object.
    pub(super) fn bundle_beside(&self, sent: Option<&RawValue>) -> Option<String> {
        if self.catalogs.text().is_some() {
            return None;
        }
        self.catalogs.bundle_beside(&serde_json::from_str(sent?.get()).ok()?).ok()
    }

    fn text_of(&self, sets: &[usize]) -> Option<Text> {
        let mut settings = self.rest.clone();
        if !sets.is_empty() {
            settings.insert("bundle".to_owned(), self.catalogs.bundle_of(sets).ok()?.into());
        }
        Text::new(&settings).ok()
    }
}
