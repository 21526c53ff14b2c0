//! `pillion bundle --inspect`.

use std::sync::Arc;

use anyhow::{anyhow, bail};
use pillion_bundle::{Bundle, BundleError, FORMAT};
use pillion_documents::manifest::{self, Source};
use pillion_install::settings;
use pillion_kubernetes::json;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_terminal::{Status, Terminal};

use super::{Args, all, count, selector, table};

/// Describes all bundles given on the command line.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<(String, Status)> {
    let (mut text, mut found, mut status) = (String::new(), Vec::new(), Status::Done);
    for source in manifest::sources(&args.inputs.paths()?, args.inputs.recursive)? {
        let bundle = find(&source)?;
        match read(&bundle) {
            Ok(sets) => {
                if args.output.data().is_none() {
                    text.push_str(&described(&source.name, &bundle, &sets));
                }
                found.extend(sets.into_iter().map(SidecarSet::into_value));
            }
            Err(error) => {
                terminal.error(&anyhow!("{}: {error}", source.name));
                status = Status::Refused;
            }
        }
    }
    let printed = match args.output.data() {
        None => text,
        Some(format) => all(&found, format)?,
    };
    Ok((printed, status))
}

/// Returns the bundle in a file: the whole text, or `bundle` of the settings in it.
fn find(source: &Arc<Source>) -> anyhow::Result<String> {
    let text = source.text.trim();
    if text.starts_with("pillion-bundle-") {
        return Ok(text.to_owned());
    }
    let settings = settings::of_text(&source.name, source.text.clone())?;
    match json::text(&settings, &["bundle"]) {
        "" => bail!("{}: neither a bundle nor settings with one", source.name),
        bundle => Ok(bundle.to_owned()),
    }
}

fn read(text: &str) -> Result<Vec<SidecarSet>, BundleError> {
    Bundle::read(text.as_bytes())?.verify()
}

fn described(name: &str, text: &str, sets: &[SidecarSet]) -> String {
    let mut rows = vec![["NAME", "SELECTOR", "NAMESPACES", "SIDECARS", "HASH"].map(str::to_owned).to_vec()];
    for set in sets {
        rows.push(vec![
            set.name().to_owned(),
            selector(set, "selector"),
            selector(set, "namespaceSelector"),
            (set.containers().len() + set.init_containers().len()).to_string(),
            set.hash().chars().take(12).collect(),
        ]);
    }
    format!("{name}: format {FORMAT}, {}, {} bytes, checksum right\n{}", count(sets.len()), text.len(), table(&rows))
}
