//! The path of a Pod through the API server and the policy.

use std::sync::Arc;

use pillion_host::{NoCluster, ValidationResponse};
use pillion_testkit::identity::{self, Expected, Scenario};
use pillion_testkit::module;
use serde_json::Value;

use crate::support::{create_pod, is_sound};

/// A Pod of a scenario before and after admission.
pub struct Admission {
    /// The Pod that the policy receives.
    pub seen: Value,
    /// The Pod after injection without identities.
    pub injected: Value,
    /// The result that the specification requires.
    pub expected: Expected,
    /// The answer of the policy.
    pub answer: ValidationResponse,
}

impl Admission {
    /// Admits the Pod of a scenario. `Err` if the API server refuses it before any webhook.
    pub fn admit(scenario: &Scenario) -> Result<Self, String> {
        let seen = identity::admit(&scenario.pod, &scenario.accounts)?;
        let injected = injected(&seen, &scenario.settings_without());
        let expected = Expected::for_scenario(scenario, &seen, &injected);
        let answer = evaluate(&seen, "11111111-0000-4000-8000-000000000001", &scenario.settings(), scenario);
        Ok(Self { seen, injected, expected, answer })
    }

    /// Returns the Pod after the policy: the API server applies the JSON patch that the policy server sends.
    pub fn patched(&self) -> Value {
        let mut pod = self.seen.clone();
        if let Some(mutated) = &self.answer.mutated_object {
            let patch = json_patch::diff(&self.seen, mutated);
            json_patch::patch(&mut pod, &patch).unwrap();
        }
        pod
    }
}

/// The beginnings of names that only Pillion uses, each with one of the same length that anybody may use.
const OURS: [(&str, &str); 2] = [("sidecarset-token-", "sidecarset-plain-"), ("sidecarset-sa-", "sidecarset-of-")];

/// Returns an object with other names.
fn renamed<'a>(object: &Value, names: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    let text = names.fold(object.to_string(), |text, (from, to)| text.replace(from, to));
    serde_json::from_str(&text).unwrap()
}

/// Returns the Pod after injection without identities. Without identities a Pod must not name a merged account (E6) nor
/// what only Pillion writes (TOK-17), so the Pod temporarily has other names.
fn injected(seen: &Value, settings: &Value) -> Value {
    let mut pod = renamed(seen, OURS.into_iter());
    pod["spec"]["serviceAccountName"] = "own".into();
    let answer = module().validate(&create_pod(&pod, "u"), settings, Arc::new(NoCluster)).unwrap();
    assert!(answer.accepted, "{:?}", answer.message);
    let pod = answer.mutated_object.unwrap_or(pod);
    let mut pod = renamed(&pod, OURS.into_iter().map(|(ours, other)| (other, ours)));
    pod["spec"]["serviceAccountName"] = seen["spec"]["serviceAccountName"].clone();
    pod
}

/// Returns the policy's answer to a Pod in a scenario's cluster.
pub fn evaluate(pod: &Value, uid: &str, settings: &Value, scenario: &Scenario) -> ValidationResponse {
    let answer = module().validate(&create_pod(pod, uid), settings, Arc::new(scenario.cluster())).unwrap();
    assert!(is_sound(&answer), "{answer:?}");
    answer
}
