//! Warnings about settings that are too large to store.

use std::collections::BTreeMap;

use pillion_kubernetes::json;

use crate::report::{Finding, Severity};
use crate::settings::Judged;

/// The maximum size of the ConfigMap with the settings of all policies of one policy server, in bytes.
const MOST: usize = 1024 * 1024;
/// The size from which on a warning is due.
const MUCH: usize = MOST / 2;

/// Checks the settings of each policy server together. Settings outside a policy count on their own.
pub(super) fn of_servers(settings: &[Judged<'_>]) -> Vec<Finding> {
    let mut servers: BTreeMap<&str, Vec<(&Judged<'_>, usize)>> = BTreeMap::new();
    let mut alone = Vec::new();
    for judged in settings {
        let bytes = judged.spot.raw.to_string().len();
        if judged.spot.base.is_empty() {
            alone.push(vec![(judged, bytes)]);
        } else {
            let server = json::text(&judged.spot.manifest.value, &["spec", "policyServer"]);
            servers.entry(if server.is_empty() { "default" } else { server }).or_default().push((judged, bytes));
        }
    }
    servers.into_values().chain(alone).filter_map(|group| finding(&group)).collect()
}

/// Returns a finding at the largest settings of a group, if the group is too large.
fn finding(group: &[(&Judged<'_>, usize)]) -> Option<Finding> {
    let total: usize = group.iter().map(|(_, bytes)| bytes).sum();
    let (largest, _) = group.iter().max_by_key(|(_, bytes)| *bytes)?;
    if total < MUCH {
        return None;
    }
    let among = match group.len() {
        1 => "these settings have".to_owned(),
        count => format!("the settings of the {count} policies of this policy server together have"),
    };
    let message = format!(
        "{among} {total} bytes; all settings of a policy server share one ConfigMap of at most {MOST} bytes, and every \
         request gets slower with them"
    );
    let has_manifests = !json::items(largest.spot.raw, &["sidecarSets"]).is_empty();
    let remedy = if has_manifests {
        "compile the SidecarSets with `pillion bundle --settings FILE -o yaml`"
    } else {
        "leave out what the policy does not read, keep SidecarSets in the cluster (bundleRef), or use another policy server"
    };
    let finding = largest.spot.warning("", message, remedy);
    let severity = if total > MOST { Severity::Error } else { Severity::Warning };
    Some(Finding { severity, ..finding })
}
