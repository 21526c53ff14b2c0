//! Warnings about policies that tolerate failures, only monitor, or may not mutate.

use pillion_kubernetes::json;

use super::Policy;
use super::asks::{SECRETS, WRITES};
use crate::report::Finding;

/// A task of a policy.
struct Job {
    /// The consequence if the policy does not do it.
    without_it: &'static str,
    /// The consequence if the policy may not change the object; empty if the task changes none.
    without_mutation: &'static str,
}

/// E12: a policy works only if it can refuse requests and change objects.
pub(super) fn check(policy: &Policy<'_>) -> Vec<Finding> {
    let Policy { document, spec, .. } = policy;
    let jobs = jobs(policy);
    let mut findings = Vec::new();
    let monitors = json::text(spec, &["mode"]) == "monitor";
    let ignores = json::text(spec, &["failurePolicy"]) == "Ignore";
    if monitors {
        let message = match (policy.acts() && policy.asks.pods(), policy.has_gate()) {
            (true, true) => {
                "the policy only monitors: nothing is injected, no sidecar gets an identity, nothing is refused"
            }
            (true, false) => "the policy only monitors: nothing is injected, nothing is refused",
            (false, _) => "the policy only monitors: nothing is refused",
        };
        findings.push(document.warning("spec.mode", message, "set it to protect when its log says what you expect"));
        if !ignores {
            let message =
                "the policy only monitors, but every request is refused while the policy server does not answer";
            findings.push(document.warning(
                "spec.failurePolicy",
                message,
                "set it to Ignore until the mode is protect",
            ));
        }
    } else if ignores && !jobs.is_empty() {
        let missed: Vec<&str> = jobs.iter().map(|job| job.without_it).collect();
        let message = format!("while the policy server does not answer, {}", missed.join(", "));
        let remedy = "use Fail, and leave out the namespaces that must start without it";
        findings.push(document.warning("spec.failurePolicy", message, remedy));
    }
    let refused: Vec<&str> = jobs.iter().map(|job| job.without_mutation).filter(|text| !text.is_empty()).collect();
    if !json::flag(spec, &["mutating"]) && !refused.is_empty() {
        let message = format!("the policy may not mutate: {}", refused.join(", "));
        findings.push(document.warning("spec.mutating", message, "set it to true"));
    }
    findings
}

/// Returns the tasks of a policy according to its rules.
fn jobs(policy: &Policy<'_>) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut add = |without_it, without_mutation| jobs.push(Job { without_it, without_mutation });
    let (asks, has_gate) = (policy.asks, policy.has_gate());
    if !policy.acts() {
        if asks.pods() {
            add("Pods start although their tokens may not be where they belong", "");
        }
        return jobs;
    }
    if asks.pods() {
        let alone = "Pods start without their sidecars";
        let refused = "every Pod that would get a sidecar is refused";
        add(if has_gate { "Pods start without their sidecars and identities" } else { alone }, refused);
    }
    if asks.sets() {
        let unchecked = "SidecarSets are stored unchecked";
        let unverified = "SidecarSets are stored without a check of their permissions and authors";
        let refused = "every SidecarSet without its defaults and hash is refused";
        add(if has_gate { unverified } else { unchecked }, refused);
    }
    if asks.guarded() {
        let is_changed = asks.about_any(&[SECRETS], &WRITES);
        let refused = "every token Secret without the UID of its account is refused";
        add("nothing guards ServiceAccounts and their tokens", if is_changed { refused } else { "" });
    }
    if asks.shoots() {
        add("Shoots are stored unchecked", "");
    }
    jobs
}
