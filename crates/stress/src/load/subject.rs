//! What a server is asked, and with which settings: the mix, or one kind of review beside a number of SidecarSets.

use clap::ValueEnum;
use pillion_bench::corpus::requests::{Resource, create};
use pillion_bench::corpus::{Style, pods, sidecar_sets};
use pillion_bench::scenario::{SEED, bundle_of};
use pillion_server::Endpoint;
use serde_json::{Value, json};

use super::mix::{self, Sample};

/// The length of the Pod that is created beside a number of SidecarSets, as compact JSON.
const POD: usize = 10_000;

/// How SidecarSets are written in settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum SettingsForm {
    /// As manifests in `sidecarSets`.
    #[default]
    Manifests,
    /// As one text in `bundle`.
    Bundle,
}

impl SettingsForm {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Manifests => "manifests",
            Self::Bundle => "bundle",
        }
    }
}

/// Settings and requests.
pub(super) struct Subject {
    pub(super) settings: Value,
    pub(super) samples: Vec<Sample>,
}

impl Subject {
    /// Returns the mix, with other settings if there are any.
    pub(super) fn mix(settings: Option<&Value>, seed: u64) -> Self {
        Self { settings: settings.cloned().unwrap_or_else(|| mix::settings(seed)), samples: mix::samples(seed) }
    }

    /// Returns the creation of one Pod, with settings of this many SidecarSets of which one matches.
    pub(super) fn beside(count: usize, form: SettingsForm) -> Self {
        let sets = manifests(count);
        let settings = match form {
            SettingsForm::Manifests => json!({"sidecarSets": sets}),
            SettingsForm::Bundle => json!({"bundle": bundle_of(&sets)}),
        };
        let request = create(Resource::POD, &pods::pod(SEED, POD));
        Self { settings, samples: vec![Sample { endpoint: Endpoint::Mutate, request }] }
    }

    /// Leaves only what a webhook for the creation of Pods is asked.
    pub(super) fn retain_pods(&mut self) {
        self.samples.retain(|sample| {
            sample.endpoint == Endpoint::Mutate
                && sample.request.pointer("/kind/kind").is_some_and(|kind| kind == "Pod")
        });
    }

    /// Returns the manifests of the SidecarSets as one list, which kubectl takes; `None` if the settings contain none.
    pub(super) fn list(&self) -> Option<Value> {
        let sets = self.settings.get("sidecarSets")?;
        Some(json!({"apiVersion": "v1", "kind": "List", "items": sets}))
    }
}

/// Returns the manifests of SidecarSets of which the first one matches. That one is the same for every count, so that
/// the answers of a server are the same, too: the counts differ only in what has to be passed over.
fn manifests(count: usize) -> Vec<Value> {
    let matching = sidecar_sets(SEED, Style::Realistic, 1, 1).sets;
    let others = sidecar_sets(SEED, Style::Realistic, count, 0).sets;
    matching.into_iter().chain(others.into_iter().skip(1)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(1)]
    #[case(10)]
    #[case(100)]
    fn there_are_as_many_sets_as_wanted_and_the_first_is_the_same(#[case] count: usize) {
        let sets = manifests(count);
        let names: BTreeSet<_> = sets.iter().map(|set| set["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!((sets.len(), names.len()), (count, count));
        assert_eq!(sets[0], manifests(1)[0]);
        assert_eq!(sets[..], manifests(count + 1)[..count]);
    }

    #[test]
    fn a_cluster_gets_the_manifests_of_the_settings() {
        let subject = Subject::beside(3, SettingsForm::Manifests);
        let list = subject.list().unwrap();
        assert_eq!((&list["kind"], &list["items"]), (&json!("List"), &subject.settings["sidecarSets"]));
        assert_eq!(Subject::beside(3, SettingsForm::Bundle).list(), None);
    }

    #[test]
    fn a_webhook_for_pods_is_asked_about_their_creation_only() {
        let mut mix = Subject::mix(None, 1);
        let all = mix.samples.len();
        mix.retain_pods();
        assert!(mix.samples.len() > 20 && mix.samples.len() < all, "{} of {all}", mix.samples.len());
        assert!(mix.samples.iter().all(|sample| sample.request["operation"] == json!("CREATE")));
    }
}
