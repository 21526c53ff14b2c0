//! Scenarios: requests with settings, each under a name.

mod features;
mod others;

use anyhow::bail;
use features::Feature;
use others::Other;
use pillion_bundle as bundle;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::{Map, Value, json};

use crate::corpus::requests::{Resource, create};
use crate::corpus::{Corpus, Style, pods, sidecar_sets};
use crate::objects::Objects;
use crate::provider::Decision;

/// The seed of all generators.
pub const SEED: u64 = 0x7069_6c6c_696f_6e00;

/// The way in which the SidecarSets reach the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As manifests in `settings.sidecarSets`.
    SidecarSets,
    /// As one text in `settings.bundle`.
    Bundle,
    /// As a text in a ConfigMap that `settings.bundleRef` names.
    BundleRef,
}

impl Form {
    const fn name(self) -> &'static str {
        match self {
            Self::SidecarSets => "sets",
            Self::Bundle => "bundle",
            Self::BundleRef => "bundle-ref",
        }
    }
}

/// The creation of a Pod with SidecarSets in the settings, some of which match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pods {
    /// The way in which the sets reach the policy.
    pub form: Form,
    /// The content of the sets.
    pub style: Style,
    /// The number of sets.
    pub sets: usize,
    /// The number of matching sets.
    pub matching: usize,
    /// The Pod's length as compact JSON.
    pub bytes: usize,
}

/// The subject of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// A Pod of this length, with empty settings.
    Empty(usize),
    Pods(Pods),
    Feature(Feature),
    Other(Other),
}

/// A case under its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    name: String,
    case: Case,
}

/// The input of a case for a policy.
#[derive(Clone, Debug)]
pub struct Input {
    /// The `request` of the review.
    pub request: Value,
    /// The policy's settings.
    pub settings: Map<String, Value>,
    /// The objects that the policy can look up.
    pub objects: Objects,
    /// The expected number of containers, init containers included, in the answer beyond those of the request. `None`
    /// if the answer should change nothing.
    injected: Option<usize>,
}

/// The lengths of Pods, in bytes.
const SMALL: usize = 2_000;
const MEDIUM: usize = 20_000;
const LARGE: usize = 200_000;

/// All scenarios, in the order of the table.
pub fn all() -> Vec<Scenario> {
    let empty = |(size, bytes)| Scenario { name: format!("pod/empty/{size}"), case: Case::Empty(bytes) };
    let mut all: Vec<Scenario> = [("2k", SMALL), ("20k", MEDIUM), ("200k", LARGE)].into_iter().map(empty).collect();
    let pods = Pods { form: Form::Bundle, style: Style::Realistic, sets: 0, matching: 0, bytes: SMALL };
    for form in [Form::Bundle, Form::SidecarSets] {
        for sets in [1, 10, 100, 1_000, 3_000] {
            let matching = [0, 1, 3, 10].into_iter().filter(|matching| *matching <= sets);
            all.extend(matching.map(|matching| Scenario::pods(Pods { form, sets, matching, ..pods })));
        }
    }
    // Three thousand sets do not fit into one ConfigMap.
    let others = [1, 10, 100, 1_000].map(|sets| Pods { form: Form::BundleRef, sets, matching: 1, ..pods }).into_iter();
    let others = others.chain([MEDIUM, LARGE].map(|bytes| Pods { sets: 100, matching: 1, bytes, ..pods }));
    let worst = [(100, 1), (1_000, 0), (1_000, 1)];
    let worst = worst.map(|(sets, matching)| Pods { style: Style::Worst, sets, matching, ..pods });
    all.extend(others.chain(worst).map(Scenario::pods));
    all.extend(
        Feature::ALL
            .map(|feature| Scenario { name: format!("feature/{}", feature.name()), case: Case::Feature(feature) }),
    );
    all.extend(Other::ALL.map(|other| Scenario { name: other.name(), case: Case::Other(other) }));
    all
}

impl Scenario {
    /// Returns the scenario of a Pod's creation. Its name is `pod/<form>/<sets>/<matching>`, followed by the Pod's
    /// length unless that is 2 KB.
    pub fn pods(pods: Pods) -> Self {
        let style = if pods.style == Style::Worst { "worst-" } else { "" };
        let size = if pods.bytes == SMALL { String::new() } else { format!("/{}k", pods.bytes / 1_000) };
        let name = format!("pod/{style}{}/{}/{}{size}", pods.form.name(), pods.sets, pods.matching);
        Self { name, case: Case::Pods(pods) }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the input of the policy.
    pub fn input(&self) -> Input {
        match self.case {
            Case::Empty(bytes) => Input {
                request: create(Resource::POD, &pods::pod(SEED, bytes)),
                settings: Map::new(),
                objects: Objects::default(),
                injected: None,
            },
            Case::Pods(pods) => pods.input(),
            Case::Feature(feature) => feature.input(),
            Case::Other(other) => other.input(),
        }
    }
}

impl Pods {
    fn input(self) -> Input {
        let Corpus { sets, injected } = sidecar_sets(SEED, self.style, self.sets, self.matching);
        let (settings, objects) = match self.form {
            Form::SidecarSets => (object("sidecarSets", sets.into()), Objects::default()),
            Form::Bundle => (bundled(&sets), Objects::default()),
            Form::BundleRef => {
                let name = json!({"namespace": "pillion-system", "name": "sidecarsets"});
                let mut settings = object("bundleRef", name);
                // The counting engine has a fixed clock, timing uses that of the machine.
                settings.insert("bundleMaxAge".to_owned(), "876000h".into());
                let map = json!({
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {
                        "namespace": "pillion-system", "name": "sidecarsets",
                        "annotations": {"pillion.dev/bundle-time": "2026-01-02T03:04:05Z"},
                    },
                    "data": {"bundle": bundle_of(&sets)},
                });
                (settings, Objects::new([map]))
            }
        };
        Input {
            request: create(Resource::POD, &pods::pod(SEED, self.bytes)),
            settings,
            objects,
            injected: (self.matching > 0).then_some(injected),
        }
    }
}

fn object(key: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), value)])
}

fn bundled(sets: &[Value]) -> Map<String, Value> {
    object("bundle", bundle_of(sets).into())
}

/// Returns the bundle of these manifests.
pub fn bundle_of(sets: &[Value]) -> String {
    let sets: Vec<SidecarSet> = sets.iter().cloned().map(SidecarSet::from_decoded).collect();
    bundle::write(&sets)
}

impl Input {
    /// Returns the payload of the call.
    pub fn payload(&self) -> Vec<u8> {
        json!({"request": self.request, "settings": self.settings}).to_string().into_bytes()
    }

    /// Returns the same request with empty settings.
    #[must_use]
    pub fn without_settings(&self) -> Self {
        Self { settings: Map::new(), ..self.clone() }
    }

    /// Checks that the policy's decision is the expected one. Otherwise the measurement would be meaningless.
    ///
    /// # Errors
    /// If the decision is another one. The error contains the policy's message.
    pub fn judge(&self, decision: &Decision) -> anyhow::Result<()> {
        if !decision.accepted {
            bail!("refused: {}", decision.message.as_deref().unwrap_or_default());
        }
        let count = |pod: &Value| -> usize {
            ["/spec/containers", "/spec/initContainers"]
                .into_iter()
                .filter_map(|pointer| pod.pointer(pointer).and_then(Value::as_array))
                .map(Vec::len)
                .sum()
        };
        let before = self.request.get("object").map_or(0, count);
        let injected = decision.mutated_object.as_ref().map(|pod| count(pod).saturating_sub(before));
        if injected != self.injected {
            let text = |count: Option<usize>| count.map_or_else(|| "no".to_owned(), |count| count.to_string());
            bail!("{} containers were injected, not {}", text(injected), text(self.injected));
        }
        Ok(())
    }
}
