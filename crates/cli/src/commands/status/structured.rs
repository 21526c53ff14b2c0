//! The machine-readable forms.

use std::io::{self, Write};

use pillion_yaml::{self as yaml, Tree};
use serde_json::{Value, json};

use crate::rollouts::summary::Summary;

/// Returns an object whose `sidecarSets` lists the SidecarSets.
pub(super) fn list(summaries: &[Summary]) -> serde_json::Result<Value> {
    Ok(json!({"sidecarSets": serde_json::to_value(summaries)?}))
}

pub(super) fn json(value: &Value, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

pub(super) fn yaml(value: &Value, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(yaml::print(&Tree::conventional(value)).as_bytes())
}

/// Writes the names as `kubectl get -o name` does.
pub(super) fn names(summaries: &[Summary], out: &mut dyn Write) -> io::Result<()> {
    summaries.iter().try_for_each(|summary| writeln!(out, "sidecarset.apps.kruise.io/{}", summary.name))
}
