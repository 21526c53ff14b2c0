//! Warnings about the asserting twin (TOK-10), and about policies without one.

use pillion_admission::settings::Settings;
use pillion_kubernetes::json;
use pillion_sidecarset::sidecar_set::SidecarSet;

use super::Policy;
use crate::identity::GATE;
use crate::report::Finding;

/// Returns warnings about an ineffective twin, or about an injecting policy without a twin.
pub(super) fn check(policy: &Policy<'_>, all: &[Policy<'_>]) -> Vec<Finding> {
    if policy.acts() { alone(policy, all).into_iter().collect() } else { of_twin(policy, all) }
}

fn alone(policy: &Policy<'_>, all: &[Policy<'_>]) -> Option<Finding> {
    let is_needed = policy.asks.pods() && (!policy.identities.is_empty() || limits_tokens(policy));
    if !is_needed || all.iter().any(|other| !other.acts() && other.asks.pods()) {
        return None;
    }
    let message = "no policy here looks at Pods after other webhooks have changed them: one may copy a token that only some \
                   containers get, or take it away";
    let remedy =
        "add a policy with these settings, role: Assert and mutating: false, or check it together with this one";
    Some(policy.document.warning("spec.settings.role", message, remedy))
}

/// Whether the settings say which containers of any Pod get its token (TCN-2).
fn limits_tokens(policy: &Policy<'_>) -> bool {
    policy.settings().service_accounts.token_containers.is_set()
}

fn of_twin(twin: &Policy<'_>, all: &[Policy<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut warn =
        |path: &str, message: &str, remedy: &str| findings.push(twin.document.warning(path, message, remedy));
    if json::flag(twin.spec, &["mutating"]) {
        let message = "the asserting twin is asked among the mutating webhooks, before others are done with the Pod";
        warn("spec.mutating", message, "set it to false");
    }
    if !twin.asks.pods() {
        let message = "the asserting twin only looks at Pods that are created, and no rule asks it about them";
        let remedy = "add a rule with apiGroups [\"\"], apiVersions [v1], resources [pods], operations [CREATE]";
        warn("spec.rules", message, remedy);
    }
    if !twin.has_gate() && !limits_tokens(twin) {
        let message = format!("the asserting twin asserts nothing: the feature gate {GATE} is off");
        warn("spec.settings.featureGates", &message, "give it the settings of the policy that injects");
    }
    let injecting: Vec<&Policy<'_>> = all.iter().filter(|other| other.acts() && other.asks.pods()).collect();
    let compared = injecting.iter().map(|other| (other, differences(twin.settings(), other.settings())));
    match compared.min_by_key(|(_, keys)| keys.len()) {
        None => warn(
            "spec.settings.role",
            "this policy only asserts, and no policy here injects",
            "check it together with the policy that injects; that one has the role Inject",
        ),
        Some((other, keys)) => {
            for key in keys {
                let message = format!(
                    "{key} is not that of the injecting policy {:?}: the twin judges Pods by what they did not get",
                    other.name()
                );
                warn(&format!("spec.settings.{key}"), &message, "give both the same");
            }
        }
    }
    findings
}

/// Returns the settings that determine a Pod's identities and differ between the two.
fn differences(twin: &Settings, other: &Settings) -> Vec<&'static str> {
    let by_name = |settings: &Settings| {
        let mut sets = settings.sidecar_sets.clone();
        sets.sort_by(|one, other| SidecarSet::name(one).cmp(other.name()));
        sets
    };
    let keys = [
        ("sidecarSets", by_name(twin) != by_name(other)),
        ("controllerRevisions", twin.controller_revisions != other.controller_revisions),
        ("featureGates", twin.gates.service_account_injection != other.gates.service_account_injection),
        ("systemNamespace", twin.system_namespace != other.system_namespace),
        ("serviceAccounts", twin.service_accounts != other.service_accounts),
    ];
    keys.into_iter().filter(|(_, differ)| *differ).map(|(key, _)| key).collect()
}
