//! Tells people what the ServiceAccounts of SidecarSets hold: a condition and an Event on the SidecarSet.

use std::collections::BTreeMap;

use pillion_kubernetes::json;
use pillion_plan::account_permissions::{Accounts, DENIED_PERMISSION_HELD, Memory, NOT_HELD};
use pillion_plan::condition::{self, Condition, step};
use pillion_runtime::context::Context;
use pillion_runtime::controller::{Controller as _, Failure};
use pillion_runtime::effects::{Effects, Journal};
use serde_json::Value;

use super::AccountPermissions;

/// The action in Events.
const ACTION: &str = "CheckServiceAccount";
/// The message of the condition once no account holds a denied permission.
const NOTHING: &str = "no ServiceAccount of this SidecarSet is known to hold a permission that no sidecar may have";

pub(super) struct Reports<'a> {
    pub context: &'a Context,
    pub effects: &'a Effects,
    /// Whether every question that RBAC gives rise to was answered. Otherwise a condition stays.
    pub is_complete: bool,
}

impl Reports<'_> {
    /// Writes the conditions that change, and the Events that are new.
    ///
    /// # Errors
    /// A condition could not be written. The next pass writes it.
    pub async fn tell(&self, memory: &Memory, accounts: &Accounts, journal: &mut Journal) -> Result<(), Failure> {
        let mut failed = None;
        let resources = self.context.store.sidecar_sets().all();
        let named = resources.iter().map(|resource| (json::text(&resource.0, &["metadata", "name"]), &*resource.0));
        let objects: BTreeMap<&str, &Value> = named.collect();
        let problems = memory.problems(accounts);
        for (set, problem) in &problems {
            self.event(set, objects.get(set).copied(), problem, journal).await;
        }
        for (set, object) in objects {
            let problem = problems.get(set).map(String::as_str);
            let Some((status, reason, message)) = self.verdict(object, problem) else { continue };
            let condition = Condition { type_: DENIED_PERMISSION_HELD, status, reason, message, since: None };
            let Some(step) = step(object, condition, self.context.clock.now()) else { continue };
            // The definition of OpenKruise keeps no conditions; there, people only get the Event.
            if let Err(error) = self.effects.condition(&step, DENIED_PERMISSION_HELD).await {
                failed = Some(Failure::from(error).after(failed));
            }
        }
        journal.end(self.is_complete);
        failed.map_or(Ok(()), Err)
    }

    /// Returns status, reason and message of the condition; `None` if it stays as it is.
    fn verdict<'a>(&self, object: &Value, problem: Option<&'a str>) -> Option<(bool, &'static str, &'a str)> {
        let says_so = condition::find(object, DENIED_PERMISSION_HELD)
            .is_some_and(|condition| json::text(condition, &["status"]) == "True");
        match problem {
            Some(problem) => Some((true, DENIED_PERMISSION_HELD, problem)),
            None => (says_so && self.is_complete).then_some((false, NOT_HELD, NOTHING)),
        }
    }

    /// Reports a problem of a SidecarSet once. One of the settings has no object for an Event.
    async fn event(&self, set: &str, resource: Option<&Value>, problem: &str, journal: &mut Journal) {
        let name = AccountPermissions::NAME;
        let raise = || self.context.metrics.problem(name, DENIED_PERMISSION_HELD);
        if !journal.is_new_problem(&format!("{set}: {problem}"), raise) {
            return;
        }
        self.effects.problem(None, format!("SidecarSet \"{set}\": {problem}"));
        tracing::warn!(controller = name, sidecar_set = set, reason = DENIED_PERMISSION_HELD, "{problem}");
        if let Some(resource) = resource {
            self.context.events.warning(resource, ACTION, DENIED_PERMISSION_HELD, problem.to_owned()).await;
        }
    }
}
