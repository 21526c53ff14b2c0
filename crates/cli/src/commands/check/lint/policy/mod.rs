//! How Kubewarden policies run the module.

mod asks;
mod guards;
mod look_ups;
mod modes;
mod reach;
mod twin;

use pillion_admission::settings::{Role, Settings};
use pillion_identity::declared::{Declared, Mode, OnConflict};
use pillion_kubernetes::json;
use pillion_sidecarset::validation::conflicts::{are_related, may_meet};
use serde_json::Value;

use self::asks::Asks;
use crate::commands::check::settings::Judged;
use crate::commands::check::subject::{Spot, Subject};
use crate::report::Finding;

/// A policy, and the settings in it.
pub(super) struct Policy<'a> {
    judged: &'a Judged<'a>,
    /// The manifest.
    document: Spot<'a>,
    spec: &'a Value,
    /// What the API server asks it about.
    asks: Asks<'a>,
    /// The `SidecarSet`s that name an account, where the gate is on.
    identities: Vec<(&'a Subject<'a>, Declared)>,
}

impl<'a> Policy<'a> {
    /// Nothing for settings outside of a policy, and for members of groups.
    fn of(judged: &'a Judged<'a>) -> Option<Self> {
        if judged.spot.base.is_empty() || member(judged).is_some() {
            return None;
        }
        let document = Spot::document(judged.spot.manifest);
        let spec = document.raw.get("spec").unwrap_or(&Value::Null);
        let identity = |subject: &'a Subject<'a>| {
            let declared = Declared::of(&subject.prepared).ok()?;
            declared.service_account.is_some().then_some((subject, declared))
        };
        let subjects = judged.subjects.iter().filter(|_| judged.settings.gates.service_account_injection);
        Some(Self {
            judged,
            asks: Asks::of(document.raw, spec),
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

    /// Whether it is there to inject and to guard, and not to assert.
    fn acts(&self) -> bool {
        self.settings().role == Role::Inject
    }

    /// Whether `SidecarSet`s may have identities.
    fn has_gate(&self) -> bool {
        self.settings().gates.service_account_injection
    }

    /// Whether it is for the whole cluster.
    fn is_cluster_wide(&self) -> bool {
        asks::is_cluster_wide(self.document.raw)
    }

    /// Two `SidecarSet`s that want one Pod to run under a merged account.
    fn merging(&self) -> Option<(&'a Subject<'a>, &'a Subject<'a>)> {
        let merge = |declared: &Declared| declared.on_conflict == OnConflict::Merge && declared.mode != Mode::Isolate;
        let merging: Vec<_> = self.identities.iter().filter(|(_, declared)| merge(declared)).collect();
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

/// Whether these are the settings of a policy that admits the SidecarSets of the cluster.
pub fn admits_sets(judged: &Judged<'_>) -> bool {
    Policy::of(judged).is_some_and(|policy| policy.acts() && policy.asks.sets())
}

/// What the policies do to the settings in them, each alone and all together.
pub(super) fn check(settings: &[Judged<'_>]) -> Vec<Finding> {
    let policies: Vec<Policy<'_>> = settings.iter().filter_map(Policy::of).collect();
    let mut findings: Vec<Finding> = settings.iter().filter_map(in_group).collect();
    for policy in &policies {
        findings.extend(modes::check(policy));
        findings.extend(asks::check(policy));
        findings.extend(look_ups::check(policy));
        findings.extend(reach::check(policy));
        findings.extend(twin::check(policy, &policies));
        findings.extend(guards::check(policy, &policies));
    }
    findings
}

/// The path of the member of a group that holds these settings.
fn member(judged: &Judged<'_>) -> Option<String> {
    let member = judged.spot.base.as_str().strip_prefix("spec.policies.")?;
    Some(format!("spec.policies.{}", member.strip_suffix(".settings").unwrap_or(member)))
}

fn in_group(judged: &Judged<'_>) -> Option<Finding> {
    let member = member(judged).filter(|_| judged.settings.role == Role::Inject)?;
    let message = "members of a policy group may not mutate: nothing is injected";
    Some(Spot::document(judged.spot.manifest).warning(&member, message, "use a ClusterAdmissionPolicy"))
}
