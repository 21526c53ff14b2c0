//! `pillion plan`: shows what `pillion controller` would do.

mod lines;
mod structured;
mod subject;
mod text;
mod words;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use pillion_admission::settings::Settings;
use pillion_cluster::rollouts::sets;
use pillion_cluster::{Connection, NO_DEFINITION, Trouble};
use pillion_controllers::preview::{self as previews, Preview, Question};
use pillion_controllers::registry::Name;
use pillion_documents::manifest::Manifest;
use pillion_install::rendering::has_own_sets;
use pillion_install::settings::{self, Assembled};
use pillion_install::tuning::{Choice, Tuning};
use pillion_kubernetes::field::joined;
use pillion_kubernetes::json;
use pillion_runtime::Clock;
use pillion_runtime::metrics::Metrics;
use pillion_simulation::{Simulation, Situation};
use pillion_terminal::output::Output;
use pillion_terminal::{Status, Terminal};
use serde_json::Value;
use tokio::time::timeout;

use self::subject::Subject;
use crate::Inputs;

/// Time without output before a progress message.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a plan is made for, and how it is printed.
#[derive(Debug)]
pub struct Options<'a> {
    /// The manifests.
    pub inputs: &'a Inputs,
    /// The controllers and the settings.
    pub choice: &'a Choice,
    /// The cluster to look at, if any.
    pub connection: &'a Connection,
    /// The namespace of manifests that name none.
    pub namespace: &'a str,
    /// Labels of Namespaces that are in no manifest.
    pub namespace_labels: &'a [(String, String)],
    /// Whether all ServiceAccounts that SidecarSets name count as existing.
    pub assume_service_accounts: bool,
    /// The SidecarSet to reconcile for alone.
    pub sidecar_set: Option<&'a str>,
    /// The number of further rounds.
    pub waves: u32,
    /// Whether changes are shown as differences.
    pub diff: bool,
    /// The options of the controllers.
    pub tuning: &'a Tuning,
    /// The format.
    pub output: Output,
}

/// Shows what `pillion controller` would do, without doing it.
///
/// # Errors
/// If something cannot be read, or `stdout` takes no more.
pub fn run(options: &Options<'_>, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let Some(manifests) = manifests(options, terminal)? else { return Ok(Status::Failed) };
    let Subject { settings, choice, tuning, bundle_is_kept } = subject::subject(options, terminal)?;
    let chosen = choice.chosen()?;
    // As elsewhere, given SidecarSets belong to the policy, unless the policy looks them up in the cluster.
    let are_of_cluster = json::at(&settings, &["bundleRef"]).is_some();
    let joining = manifests.iter().filter(|_| !are_of_cluster);
    let assembled = settings::assemble(settings, joining);
    if !assembled.is_valid(terminal) {
        return Ok(Status::Failed);
    }
    let settings = Settings::decode(assembled.value.clone()).map_err(|errors| anyhow!(joined(&errors)))?;
    let of_cluster = manifests.into_iter().map(|manifest| manifest.value);
    let of_cluster = of_cluster.filter(|object| are_of_cluster || json::text(object, &["kind"]) != "SidecarSet");
    let of_cluster: Vec<Value> = of_cluster.collect();
    tell_of_definition(options, &assembled, &of_cluster, terminal)?;
    let mut situation = Situation {
        manifests: of_cluster,
        namespace: options.namespace.to_owned(),
        namespace_labels: options.namespace_labels.iter().cloned().collect(),
        accounts: BTreeSet::new(),
    };
    if !options.connection.cluster && !chosen.contains(&Name::ServiceAccount) {
        situation.accounts.insert("default".to_owned());
    }
    if options.assume_service_accounts {
        situation.accounts.append(&mut previews::named(&situation, &settings));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("the event loop")?;
    let preview = runtime.block_on(async {
        let config = options.connection.config().await?;
        let tuned = tuning.options(&chosen, None, config.as_ref())?;
        let cluster = config.map(|config| pillion_runtime::client::client(config, Arc::new(Metrics::new()), None));
        let cluster = cluster.transpose().context("the cluster cannot be asked")?;
        let clock = Clock::system();
        let question = Question {
            names: &chosen,
            options: tuned,
            settings: Arc::new(settings),
            clock: clock.clone(),
            waves: options.waves,
            sidecar_set: options.sidecar_set,
            bundle_is_kept,
        };
        let look = async {
            let simulation = Simulation::new(&situation, cluster, move || clock.now()).await?;
            Ok::<_, anyhow::Error>(previews::preview(simulation, question).await?)
        };
        tokio::pin!(look);
        if let Ok(seen) = timeout(PATIENCE, &mut look).await {
            return seen;
        }
        writeln!(terminal.err(), "{}", if options.connection.cluster { "looking at the cluster" } else { "planning" })?;
        look.await
    })?;
    // End the watches with the runtime.
    runtime.shutdown_background();
    print(&preview, options, terminal)?;
    let is_fine = std::iter::once(&preview.first).chain(&preview.waves).all(|wave| wave.problems.is_empty());
    Ok(if is_fine { Status::Done } else { Status::Refused })
}

/// Tells that the cluster has no SidecarSets because it does not serve them.
///
/// # Errors
/// Nothing else has any, so there is nothing to plan; or the cluster does not answer.
fn tell_of_definition(
    options: &Options<'_>,
    assembled: &Assembled,
    manifests: &[Value],
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    let Some(reader) = options.connection.reader()? else { return Ok(()) };
    if sets::are_served(&reader)? {
        return Ok(());
    }
    if !has_own_sets(&assembled.value) && !manifests.iter().any(|object| json::text(object, &["kind"]) == sets::KIND) {
        return Err(Trouble::NoDefinition.into());
    }
    terminal.warn(NO_DEFINITION);
    Ok(())
}

/// Returns the given manifests, or `None` if some cannot be read; the errors are printed before.
fn manifests(options: &Options<'_>, terminal: &mut Terminal) -> anyhow::Result<Option<Vec<Manifest>>> {
    let paths = if options.inputs.is_empty() && options.connection.cluster {
        Vec::new()
    } else {
        options.inputs.paths().map_err(|error| anyhow!("{error}; --cluster looks at a cluster"))?
    };
    let Some(manifests) = crate::manifests(&paths, options.inputs.recursive, terminal)? else { return Ok(None) };
    let problems: Vec<String> = manifests.iter().filter_map(problem).collect();
    for problem in &problems {
        terminal.error(&anyhow!("{problem}"));
    }
    Ok(Some(manifests).filter(|_| problems.is_empty()))
}

/// Returns why an API server would refuse a manifest, with the manifest's place, or `None`.
fn problem(manifest: &Manifest) -> Option<String> {
    let why = previews::problem(&manifest.value)?;
    let text = |path: &[&str]| json::text(&manifest.value, path);
    let (kind, name) = (text(&["kind"]), text(&["metadata", "name"]));
    Some(format!("{}:{}: {kind} \"{name}\": {why}", manifest.source.name, manifest.line()))
}

fn print(preview: &Preview, options: &Options<'_>, terminal: &mut Terminal) -> anyhow::Result<()> {
    match options.output.data() {
        None => text::print(preview, options.diff, terminal.out())?,
        Some(format) => write!(terminal.out(), "{}", format.print(structured::preview(preview))?)?,
    }
    Ok(())
}
