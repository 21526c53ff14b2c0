//! Warnings about the way in which Kubewarden policies run the module.

mod asks;
mod guards;
mod look_ups;
mod modes;
mod reach;
mod twin;

use pillion_admission::settings::{Role, Settings};
use pillion_identity::declared::Declared;
use pillion_kubernetes::json;
use pillion_sidecarset::validation::conflicts::{are_related, may_meet};
use serde_json::Value;

use self::asks::Asks;
use super::cost;
use crate::report::Finding;
use crate::settings::Judged;
use crate::subject::{Spot, Subject};

/// A policy with its settings.
pub(super) struct Policy<'a> {
    judged: &'a Judged<'a>,
    /// The place of the manifest.
    document: Spot<'a>,
    spec: &'a Value,
    /// The requests that the API server sends to it.
    asks: Asks<'a>,
    /// The `SidecarSet`s that name an account; empty while the gate is off.
    identities: Vec<(&'a Subject<'a>, Declared)>,
}

impl<'a> Policy<'a> {
    /// Returns the policy of these settings, or `None` for settings of a group's member or outside a policy.
    fn from_settings(judged: &'a Judged<'a>) -> Option<Self> {
        if judged.spot.base.is_empty() || member(judged).is_some() {
            return None;
        }
        let document = Spot::document(judged.spot.manifest);
        let spec = document.raw.get("spec").unwrap_or(&Value::Null);
        let identity = |subject: &'a Subject<'a>| {
            let declared = Declared::from_sidecar_set(&subject.prepared).ok()?;
            declared.service_account.is_some().then_some((subject, declared))
        };
        let subjects = judged.subjects.iter().filter(|_| judged.settings.gates.service_account_injection);
        Some(Self {
            judged,
            asks: Asks::new(document.raw, spec),
            identities: subjects.filter_map(identity).collect(),
            document,
            spec,
        })
    }

    fn settings(&self) -> &'a Settings {
        &self.judged.settings
    }

    fn name(&self) -> &'a str {
        json::text(self.document.raw, &["metadata", "name"])
    }

    /// Whether the policy injects and guards, rather than asserts.
    fn acts(&self) -> bool {
        self.settings().role == Role::Inject
    }

    /// Whether the gate for identities is on.
    fn has_gate(&self) -> bool {
        self.settings().gates.service_account_injection
    }

    /// Whether the policy is cluster-wide.
    fn is_cluster_wide(&self) -> bool {
        asks::is_cluster_wide(self.document.raw)
    }

    /// Returns two `SidecarSet`s whose accounts are merged in Pods that get both.
    fn merging(&self) -> Option<(&'a Subject<'a>, &'a Subject<'a>)> {
        let merging: Vec<_> = self.identities.iter().filter(|(_, declared)| declared.merges()).collect();
        merging.iter().enumerate().find_map(|(index, (one, declared))| {
            let other = merging.iter().take(index).find(|(other, theirs)| {
                declared.service_account != theirs.service_account
                    && !are_related(&one.prepared, &other.prepared)
                    && may_meet(&one.prepared, &other.prepared)
            });
            other.map(|(other, _)| (*other, *one))
        })
    }
}

/// Whether these are the settings of a policy that admits the cluster's SidecarSets.
pub fn admits_sets(judged: &Judged<'_>) -> bool {
    Policy::from_settings(judged).is_some_and(|policy| policy.acts() && policy.asks.sets())
}

/// Whether the settings decide about Pods: settings outside a policy do, and those of a policy that is asked about them.
pub fn is_about_pods(judged: &Judged<'_>) -> bool {
    !judged.are_of_policy() || Policy::from_settings(judged).is_some_and(|policy| policy.asks.pods())
}

/// Returns warnings about each policy, and about all policies together.
pub(super) fn check(settings: &[Judged<'_>]) -> Vec<Finding> {
    let policies: Vec<Policy<'_>> = settings.iter().filter_map(Policy::from_settings).collect();
    let mut findings: Vec<Finding> = settings.iter().filter_map(in_group).collect();
    for policy in &policies {
        findings.extend(modes::check(policy));
        findings.extend(policy.asks.pods().then(|| cost::check(policy.judged)).flatten());
        findings.extend(asks::check(policy));
        findings.extend(look_ups::check(policy));
        findings.extend(reach::check(policy));
        findings.extend(twin::check(policy, &policies));
        findings.extend(guards::check(policy, &policies));
    }
    findings
}

/// Returns the path of the member of a group that contains these settings.
fn member(judged: &Judged<'_>) -> Option<String> {
    let member = judged.spot.base.as_str().strip_prefix("spec.policies.")?;
    Some(format!("spec.policies.{}", member.strip_suffix(".settings").unwrap_or(member)))
}

fn in_group(judged: &Judged<'_>) -> Option<Finding> {
    let member = member(judged).filter(|_| judged.settings.role == Role::Inject)?;
    let message = "members of a policy group may not mutate: nothing is injected";
    Some(Spot::document(judged.spot.manifest).warning(&member, message, "use a ClusterAdmissionPolicy"))
}
