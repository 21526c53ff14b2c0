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

/// Returns the Pod after injection without identities. Without identities a Pod must not name a merged account (E6), so
/// the Pod temporarily names another one.
fn injected(seen: &Value, settings: &Value) -> Value {
    let mut pod = seen.clone();
    pod["spec"]["serviceAccountName"] = "own".into();
    let answer = module().validate(&create_pod(&pod, "u"), settings, Arc::new(NoCluster)).unwrap();
    assert!(answer.accepted, "{:?}", answer.message);
    let mut pod = answer.mutated_object.unwrap_or(pod);
    pod["spec"]["serviceAccountName"] = seen["spec"]["serviceAccountName"].clone();
    pod
}

/// Returns the policy's answer to a Pod in a scenario's cluster.
pub fn evaluate(pod: &Value, uid: &str, settings: &Value, scenario: &Scenario) -> ValidationResponse {
    let answer = module().validate(&create_pod(pod, uid), settings, Arc::new(scenario.cluster())).unwrap();
    assert!(is_sound(&answer), "{answer:?}");
    answer
}
