//! Warnings about guards without a rule (RUN-3, E6, E7, E25, MRG-8, AFT-1).

use super::Policy;
use super::asks::{
    ACCOUNTS, AUTHORITIES, CHANGES, CONNECTIONS, EPHEMERAL, RUNNING, Resource, SECRETS, SERVICES, TOKENS, WORKLOADS,
    WRITES,
};
use crate::report::Finding;

/// A protection that works only if the API server asks a policy about these requests.
struct Guard {
    resources: &'static [Resource],
    operations: &'static [&'static str],
    /// Whether the settings of this policy need it.
    is_needed: fn(&Policy<'_>) -> bool,
    /// Whether another policy with such rules also has the settings for the guard.
    is_given: fn(&Policy<'_>) -> bool,
    /// The consequence of a missing rule.
    without_it: &'static str,
}

const ACCOUNTS_ALONE: [Resource; 1] = [("", "serviceaccounts")];

const GUARDS: [Guard; 11] = [
    Guard {
        resources: &[EPHEMERAL],
        operations: &["UPDATE"],
        is_needed: has_identities,
        is_given: |_| true,
        without_it: "ephemeral containers may mount the tokens of sidecars",
    },
    Guard {
        resources: &[SECRETS],
        operations: &WRITES,
        is_needed: has_identities,
        is_given: |_| true,
        without_it: "tokens that do not expire may be made for the accounts of sidecars",
    },
    Guard {
        resources: &AUTHORITIES,
        operations: &CHANGES,
        is_needed: has_identities,
        is_given: has_gate,
        without_it: "others may replace kube-root-ca.crt, by which sidecars know the API server",
    },
    Guard {
        resources: &SERVICES,
        operations: &WRITES,
        is_needed: has_identities,
        is_given: has_gate,
        without_it: "a Service called \"kubernetes\" may take the place of the API server in a namespace",
    },
    Guard {
        resources: &ACCOUNTS,
        operations: &CHANGES,
        is_needed: merges,
        is_given: |_| true,
        without_it: "others than the controller may make, change and delete what is merged",
    },
    Guard {
        resources: &WORKLOADS,
        operations: &WRITES,
        is_needed: merges,
        is_given: |_| true,
        without_it: "workloads may name a merged ServiceAccount, and only their Pods are refused",
    },
    Guard {
        resources: &ACCOUNTS_ALONE,
        operations: &["DELETE"],
        is_needed: protects_default,
        is_given: protects_default,
        without_it: "serviceAccounts.protectDefault protects nothing",
    },
    Guard {
        resources: &ACCOUNTS_ALONE,
        operations: &["DELETE"],
        is_needed: |policy| protects_in_use(policy) && policy.asks.pods(),
        is_given: protects_in_use,
        without_it: "serviceAccounts.protectInUse protects nothing",
    },
    Guard {
        resources: &CONNECTIONS,
        operations: &["CONNECT"],
        is_needed: guards_exec,
        is_given: guards_exec,
        without_it: "serviceAccounts.guards.exec guards nothing",
    },
    Guard {
        resources: &RUNNING,
        operations: &["UPDATE"],
        is_needed: guards_images,
        is_given: guards_images,
        without_it: "serviceAccounts.guards.images guards nothing",
    },
    Guard {
        resources: &TOKENS,
        operations: &["CREATE"],
        is_needed: guards_token_requests,
        is_given: guards_token_requests,
        without_it: "serviceAccounts.guards.tokenRequests guards nothing",
    },
];

fn has_identities(policy: &Policy<'_>) -> bool {
    policy.asks.pods() && !policy.identities.is_empty()
}

/// Whether the policy guards what sidecars with identities trust.
fn has_gate(policy: &Policy<'_>) -> bool {
    policy.has_gate()
}

fn merges(policy: &Policy<'_>) -> bool {
    policy.asks.pods() && policy.merging().is_some()
}

fn protects_default(policy: &Policy<'_>) -> bool {
    policy.settings().service_accounts.protect_default
}

/// Whether the policy protects accounts in use, which its own SidecarSets determine.
fn protects_in_use(policy: &Policy<'_>) -> bool {
    policy.settings().service_accounts.protect_in_use && !policy.identities.is_empty()
}

fn guards_exec(policy: &Policy<'_>) -> bool {
    policy.settings().service_accounts.guards.exec
}

fn guards_images(policy: &Policy<'_>) -> bool {
    policy.settings().service_accounts.guards.images
}

fn guards_token_requests(policy: &Policy<'_>) -> bool {
    policy.settings().service_accounts.guards.token_requests
}

/// Joins operations: `CREATE, UPDATE and DELETE`.
fn listed(operations: &[&str]) -> String {
    match operations.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Joins resources for a message. Adds the group to `StatefulSets` and `DaemonSets` of OpenKruise, since `apps` has
/// them, too.
fn named(resources: &[Resource]) -> String {
    let is_shared = |plural: &str| WORKLOADS.iter().filter(|(_, other)| *other == plural).count() > 1;
    let names = resources.iter().map(|(group, plural)| match *group {
        "apps.kruise.io" if is_shared(plural) => format!("{plural}.{group}"),
        _ => (*plural).to_owned(),
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Returns warnings about guards that the settings of a policy need and no policy's rules cover.
pub(super) fn check(policy: &Policy<'_>, all: &[Policy<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for guard in GUARDS.iter().filter(|guard| policy.acts() && (guard.is_needed)(policy)) {
        let guarding = || all.iter().filter(|other| other.acts() && (guard.is_given)(other));
        let is_asked =
            |resource: Resource, operation: &str| guarding().any(|other| other.asks.about(resource, operation));
        let is_open = |resource: &Resource| guard.operations.iter().any(|operation| !is_asked(*resource, operation));
        let open: Vec<Resource> = guard.resources.iter().filter(|resource| is_open(resource)).copied().collect();
        if open.is_empty() {
            continue;
        }
        let message = format!(
            "no policy here is asked about {} of {}: {}",
            listed(guard.operations),
            named(&open),
            guard.without_it
        );
        let remedy = "add the rule to a policy with these settings, or check that policy together with this one";
        findings.push(policy.document.warning("spec.rules", message, remedy));
    }
    findings
}
