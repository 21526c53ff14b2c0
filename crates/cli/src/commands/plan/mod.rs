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
use pillion_controller::Clock;
use pillion_controller::metrics::Metrics;
use pillion_controller::preview::{self as previews, Preview, Question};
use pillion_controller::registry::Name;
use pillion_controller::simulation::{self, Simulation, Situation};
use pillion_documents::manifest::Manifest;
use pillion_install::rendering::has_own_sets;
use pillion_install::settings::{self, Assembled};
use pillion_install::tuning::{Choice, Tuning};
use pillion_kubernetes::field::joined;
use pillion_kubernetes::json;
use pillion_terminal::output::Output;
use pillion_terminal::{Status, Terminal};
use serde_json::Value;
use tokio::time::timeout;

use self::subject::Subject;
use crate::preview::{self, Inputs, key_value};

const ABOUT: &str = "\
Show what `pillion controller` would do, without doing it.

Given manifests, the plan is for a cluster that contains only them. It lists the merged ServiceAccounts, Roles and \
RoleBindings, the Secrets with tokens and the ConfigMaps with the bundle to be made, and the problems that prevent some. \
It says in words what changes; --diff shows the difference of each object, and -o json everything. Values of Secrets are \
not shown. With --cluster, the plan is for the cluster of the kubeconfig, as if the given manifests had been applied: this \
shows the effect of a new SidecarSet. Nothing is ever written.

Each controller reconciles each of its keys once, as it would after a start, on a simulation of the cluster that takes \
the writes. --waves shows what would follow. The bundle is taken as the cluster's controller would leave it, also if \
`bundle` is not among the chosen controllers; `-bundle` in --controllers \
turns that off.

With --cluster and without --settings, the plan has the settings of the installation in the cluster, and its controllers \
and their options, unless options name others.

SidecarSets among the manifests are added to the policy's own, as elsewhere; if the settings have a bundleRef, they \
count as objects of the cluster. The plan does not know which requests the API server would refuse, such as grants of \
permissions that the controller does not hold itself.

Exit codes: 0 done; 1 if something that is needed cannot be made, or is left out; 2 for errors.";

const EXAMPLES: &str = "\
Examples:
  pillion plan examples/identity-isolate --settings examples/identity-isolate/settings.yaml
  pillion plan examples/identity-merge --settings examples/identity-merge/settings.yaml -o yaml
  pillion plan examples/identity-merge --settings examples/identity-merge/settings.yaml --diff
  # the settings and controllers are those of the installation
  pillion plan --cluster
  # what would this SidecarSet bring about?
  pillion plan examples/log-agent --cluster --settings examples/identity-merge/settings.yaml";

const OUTPUT: &str = "\
The format of the plan; yaml and json: one object with changes, events, problems, what comes later and waves; with the \
objects as they will be";

/// Time without output before a progress message.
const PATIENCE: Duration = Duration::from_secs(1);

/// The arguments of `pillion plan`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, mut_arg("output", |arg| arg.help(OUTPUT)))]
pub struct Args {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    connection: Connection,
    /// The namespace of manifests that name none.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Labels of Namespaces that are in no manifest, for namespaceSelectors.
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',', value_parser = key_value)]
    namespace_labels: Vec<(String, String)>,
    /// Assume that all ServiceAccounts that SidecarSets name exist.
    #[arg(long)]
    assume_service_accounts: bool,
    /// Reconcile for this SidecarSet alone, with all the others there: for controllers that work by SidecarSet.
    #[arg(long, value_name = "NAME")]
    sidecar_set: Option<String>,
    /// Also show what follows in up to so many further rounds, as if containers with a new image restarted in between.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    waves: u32,
    /// With the output for people: show the objects that change as a difference.
    #[arg(long)]
    diff: bool,
    #[command(flatten)]
    tuning: Tuning,
    #[command(flatten)]
    output: Output,
}

/// Runs `pillion plan`.
///
/// # Errors
/// If something cannot be read, or `stdout` takes no more.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let Some(manifests) = manifests(args, terminal)? else { return Ok(Status::Failed) };
    let Subject { settings, choice, tuning, bundle_is_kept } = subject::subject(args, terminal)?;
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
    tell_of_definition(args, &assembled, &of_cluster, terminal)?;
    let mut situation = Situation {
        manifests: of_cluster,
        namespace: args.namespace.clone(),
        namespace_labels: args.namespace_labels.iter().cloned().collect(),
        accounts: BTreeSet::new(),
    };
    if !args.connection.cluster && !chosen.contains(&Name::ServiceAccount) {
        situation.accounts.insert("default".to_owned());
    }
    if args.assume_service_accounts {
        situation.accounts.append(&mut previews::named(&situation, &settings));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("the event loop")?;
    let preview = runtime.block_on(async {
        let config = args.connection.config().await?;
        let options = tuning.options(&chosen, None, config.as_ref())?;
        let cluster = config.map(|config| pillion_controller::client::client(config, Arc::new(Metrics::new())));
        let cluster = cluster.transpose().context("the cluster cannot be asked")?;
        let clock = Clock::system();
        let question = Question {
            names: &chosen,
            options,
            settings: Arc::new(settings),
            clock: clock.clone(),
            waves: args.waves,
            sidecar_set: args.sidecar_set.as_deref(),
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
        writeln!(terminal.err(), "{}", if args.connection.cluster { "looking at the cluster" } else { "planning" })?;
        look.await
    })?;
    // End the watches with the runtime.
    runtime.shutdown_background();
    print(&preview, args, terminal)?;
    let is_fine = std::iter::once(&preview.first).chain(&preview.waves).all(|wave| wave.problems.is_empty());
    Ok(if is_fine { Status::Done } else { Status::Refused })
}

/// Tells that the cluster has no SidecarSets because it does not serve them.
///
/// # Errors
/// Nothing else has any, so there is nothing to plan; or the cluster does not answer.
fn tell_of_definition(
    args: &Args,
    assembled: &Assembled,
    manifests: &[Value],
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    let Some(reader) = args.connection.reader()? else { return Ok(()) };
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
fn manifests(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Option<Vec<Manifest>>> {
    let paths = if args.inputs.is_empty() && args.connection.cluster {
        Vec::new()
    } else {
        args.inputs.paths().map_err(|error| anyhow!("{error}; --cluster looks at a cluster"))?
    };
    let Some(manifests) = preview::manifests(&paths, args.inputs.recursive, terminal)? else { return Ok(None) };
    let problems: Vec<String> = manifests.iter().filter_map(problem).collect();
    for problem in &problems {
        terminal.error(&anyhow!("{problem}"));
    }
    Ok(Some(manifests).filter(|_| problems.is_empty()))
}

/// Returns why an API server would refuse a manifest, with the manifest's place, or `None`.
fn problem(manifest: &Manifest) -> Option<String> {
    let why = simulation::problem(&manifest.value)?;
    let text = |path: &[&str]| json::text(&manifest.value, path);
    let (kind, name) = (text(&["kind"]), text(&["metadata", "name"]));
    Some(format!("{}:{}: {kind} \"{name}\": {why}", manifest.source.name, manifest.line()))
}

fn print(preview: &Preview, args: &Args, terminal: &mut Terminal) -> anyhow::Result<()> {
    match args.output.data() {
        None => text::print(preview, args.diff, terminal.out())?,
        Some(format) => write!(terminal.out(), "{}", format.print(structured::preview(preview))?)?,
    }
    Ok(())
}
