//! Rollbacks that never happen, because no rollout fails without a deadline (ROLL-62).

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;

use super::{Rule, Warning, Written};
use crate::upgrades::{NO_FAILURE, PROGRESS_DEADLINE, ROLLBACK, has_progress_deadline};

pub(super) fn check(written: &Written<'_>, found: &mut Vec<Warning>) {
    let annotation = |key| json::text(written.object, &["metadata", "annotations", key]);
    let is_asked = annotation(ROLLBACK).trim() == "true" && !written.rollouts.is_empty();
    let mut settings = written.rollouts.iter();
    if is_asked && !settings.any(|settings| has_progress_deadline(annotation(PROGRESS_DEADLINE), settings)) {
        let path = FieldPath::new("metadata.annotations").key(ROLLBACK).to_string();
        let remedy = format!("add the annotation {PROGRESS_DEADLINE}, as in \"10m\"");
        found.push(Warning::new(Rule::NoProgressDeadline, path, NO_FAILURE, remedy));
    }
}
