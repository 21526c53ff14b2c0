//! `pillion status`: shows SidecarSets of a cluster, and how far their rollouts are.

mod text;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::ValueEnum;
use pillion_admission::settings::Settings;
use pillion_cluster::rollouts::inventory::{self, Pods};
use pillion_cluster::rollouts::report::{Report, Sources, must_be_created_again};
use pillion_cluster::rollouts::sets::{self, SetName};
use pillion_cluster::rollouts::summary::{Summary, decoded};
use pillion_cluster::{Ended, Event, Kind, Kubeconfig, Reader, Trouble};
use pillion_install::installation::{self, SystemNamespace};
use pillion_install::settings;
use pillion_kubernetes::field::joined;
use pillion_rollout::consistency::Judged;
use pillion_rollout::counts::Counts;
use pillion_rollout::history::Revision;
use pillion_rollout::target::{RolloutTarget, Surroundings};
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::upgrades::{RolloutSettings, Upgrades};
use pillion_terminal::output::DataFormat;
use pillion_terminal::{Status, Terminal};
use serde_json::Value;

const ABOUT: &str = "\
Show the SidecarSets of a cluster, and how far their rollouts are.

Without a name, each SidecarSet is one row. The numbers and the column WAITS FOR come from its status: from the \
conditions that Pillion's controller writes, or from the counters where there are no conditions, as with OpenKruise's \
definition of SidecarSets. Only the right to list SidecarSets is needed.

With a name, everything about this SidecarSet follows: its conditions; the Pods by revision; the fields that differ \
between each older revision in use and the one in force, and what it takes to bring them to a Pod; the Pods that cannot \
be upgraded, and why; the Pods that must be created again and that a PodDisruptionBudget holds; and the Pods that come \
next. This needs the right to list Pods, and for some parts to list ControllerRevisions in the system namespace and \
PodDisruptionBudgets. A part without its right is left out, with a warning.

With -n, only the Pods of this namespace count; the rest of the status is that of all Pods.

-o json and -o yaml print one object. Its fields are stable: for a SidecarSet `name`, `createdAt`, `generation`, \
`observedGeneration`, `matchedPods`, `updatedPods`, `readyPods`, `updatedReadyPods`, `latestRevision`, `strategy`, \
`upgradePolicies`, `progressDeadline`, `state` and `waitsFor`; with a name also `namespace`, `revision`, `conditions`, \
`podsByRevision`, `differences`, `notUpgradable`, `held` and `next`. Without a name, `sidecarSets` lists them.

Exit codes: 0 done; 2 for errors.";

const EXAMPLES: &str = "\
Examples:
  pillion status
  # with policies, partition, maxUnavailable and deadline
  pillion status -o wide
  # everything about one
  pillion status log-agent
  # only the Pods of a namespace
  pillion status log-agent -n shop
  # a row for each change
  pillion status -l team=observability --watch";

/// The arguments of `pillion status`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// The SidecarSet to show in full.
    #[arg(value_name = "NAME")]
    sidecar_set: Option<SetName>,
    /// Count only the Pods of this namespace.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Count the Pods of all namespaces. This is the default, since SidecarSets are in no namespace.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only SidecarSets with these labels, as in `kubectl get --selector`.
    #[arg(short = 'l', long, value_name = "QUERY", conflicts_with = "sidecar_set")]
    selector: Option<String>,
    /// After the rows, print a row whenever a SidecarSet changes.
    #[arg(short, long, conflicts_with = "namespace")]
    watch: bool,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    #[command(flatten)]
    context: RolloutContext,
    /// The format; absent: text for people.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<StatusFormat>,
}

impl Args {
    /// Returns the system namespace, and what the settings say about rollouts, as far as the output has it.
    fn place_of_revisions(
        &self,
        reader: &Reader,
        terminal: &mut Terminal,
    ) -> anyhow::Result<(String, RolloutSettings)> {
        if !self.watch && (self.sidecar_set.is_some() || self.namespace.is_some()) {
            return self.context.read(reader, terminal);
        }
        // The rows of all SidecarSets need no revisions, and names and the fewer columns no settings.
        let shows_settings = !matches!(self.output, None | Some(StatusFormat::Name));
        let rollouts = &self.context.rollouts;
        let settings = if shows_settings { rollouts.read(reader)? } else { rollouts.read_given()? };
        Ok((String::new(), settings))
    }
}

/// The settings that matter to rollouts.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Rollouts {
    /// The policy's settings, whose `rollouts` hold for SidecarSets without annotations.
    #[arg(long, value_name = "FILE", env = "PILLION_SETTINGS", hide_env_values = true)]
    settings: Option<PathBuf>,
}

impl Rollouts {
    /// Returns what the settings say about rollouts: those of the option, else those of the installation in the cluster,
    /// if they are known.
    ///
    /// # Errors
    /// If the settings of the option cannot be read.
    pub fn read(&self, reader: &Reader) -> anyhow::Result<RolloutSettings> {
        rollouts(&self.given().unwrap_or_else(|| Ok(if_known(reader)))?)
    }

    /// Returns what the settings of the option say about rollouts, without a look at the cluster.
    fn read_given(&self) -> anyhow::Result<RolloutSettings> {
        rollouts(&self.given().unwrap_or_else(|| Ok(Settings::default()))?)
    }

    /// Returns the settings of the option, if it is given.
    fn given(&self) -> Option<anyhow::Result<Settings>> {
        let read = |path: &PathBuf| {
            Settings::decode(settings::of_files(path)?)
                .map_err(|errors| anyhow!("{}: {}", path.display(), joined(&errors)))
        };
        self.settings.as_ref().map(read)
    }
}

/// Returns the settings of the installation in the cluster, and the defaults if they are not known.
fn if_known(reader: &Reader) -> Settings {
    installation::decoded(reader).ok().flatten().unwrap_or_default()
}

fn rollouts(settings: &Settings) -> anyhow::Result<RolloutSettings> {
    if settings.rollout_errors.is_empty() {
        return Ok(settings.rollouts.clone());
    }
    Err(anyhow!(joined(&settings.rollout_errors)))
}

/// The settings, and the place of the stored revisions.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RolloutContext {
    #[command(flatten)]
    rollouts: Rollouts,
    #[command(flatten)]
    namespace: SystemNamespace,
}

impl RolloutContext {
    /// Returns the system namespace, and what the settings say about rollouts: settings of the option, else those of the
    /// installation in the cluster.
    ///
    /// # Errors
    /// If the settings cannot be read, or the cluster has several installations whose settings differ.
    pub fn read(&self, reader: &Reader, terminal: &mut Terminal) -> anyhow::Result<(String, RolloutSettings)> {
        let settings = match (self.rollouts.given(), &self.namespace.system_namespace) {
            (Some(given), _) => given?,
            (None, Some(_)) => if_known(reader),
            (None, None) => installation::settings_of_controllers(reader, terminal)?,
        };
        let rollouts = rollouts(&settings)?;
        Ok((self.namespace.system_namespace.clone().unwrap_or(settings.system_namespace), rollouts))
    }
}

/// The formats of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StatusFormat {
    /// More columns.
    Wide,
    /// One object.
    Json,
    /// The same.
    Yaml,
    /// `sidecarset.apps.kruise.io/<name>`, for other commands.
    Name,
}

impl StatusFormat {
    /// Returns the format of the data, or `None` for rows and names.
    const fn data(self) -> Option<DataFormat> {
        match self {
            Self::Wide | Self::Name => None,
            Self::Json => Some(DataFormat::Json),
            Self::Yaml => Some(DataFormat::Yaml),
        }
    }
}

/// Runs `pillion status`.
///
/// # Errors
/// If the cluster cannot be read, or `stdout` takes no more.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    if args.watch && !matches!(args.output, None | Some(StatusFormat::Wide)) {
        bail!("--watch prints rows; leave out -o, or take -o wide");
    }
    let reader = args.kubeconfig.reader()?;
    let (system_namespace, settings) = args.place_of_revisions(&reader, terminal)?;
    let look = Look { args, reader: &reader, system_namespace: &system_namespace, settings: &settings };
    if args.watch { look.watch(terminal) } else { look.once(terminal) }
}

/// What a run looks at.
struct Look<'a> {
    args: &'a Args,
    reader: &'a Reader,
    system_namespace: &'a str,
    settings: &'a RolloutSettings,
}

impl Look<'_> {
    fn once(&self, terminal: &mut Terminal) -> anyhow::Result<Status> {
        let (output, namespace) = (self.args.output, self.args.namespace.as_deref());
        let (data, is_wide) = (output.and_then(StatusFormat::data), output == Some(StatusFormat::Wide));
        let Some(name) = &self.args.sidecar_set else {
            let (objects, _) = sets::all(self.reader, self.args.selector.as_deref())?;
            let summaries = match namespace {
                None => objects.iter().map(|object| Summary::new(object, self.settings)).collect(),
                Some(namespace) => self.of_namespace(&objects, namespace, terminal)?,
            };
            if let Some(format) = data {
                let list = BTreeMap::from([("sidecarSets", summaries)]);
                write!(terminal.out(), "{}", format.print(list)?)?;
            } else if output == Some(StatusFormat::Name) {
                names(&summaries, terminal.out())?;
            } else if summaries.is_empty() {
                let place = namespace.map(|name| format!(" with Pods in namespace \"{name}\"")).unwrap_or_default();
                writeln!(terminal.err(), "no SidecarSets found{place}")?;
            } else {
                text::Rows::new(is_wide, pillion_terminal::now()).print(&summaries, terminal.out())?;
            }
            return Ok(Status::Done);
        };
        let (object, _) = sets::one(self.reader, name)?;
        if output == Some(StatusFormat::Name) {
            names(&[Summary::new(&object, self.settings)], terminal.out())?;
            return Ok(Status::Done);
        }
        let report = self.report(&object, terminal)?;
        match data {
            Some(format) => write!(terminal.out(), "{}", format.print(report)?)?,
            None => text::report(&report, is_wide, terminal.out())?,
        }
        Ok(Status::Done)
    }

    /// Returns everything about a SidecarSet.
    fn report(&self, object: &Value, terminal: &mut Terminal) -> anyhow::Result<Report> {
        let namespace = self.args.namespace.as_deref();
        let set = decoded(object)?;
        let revisions = self.revisions(Some(set.name()), terminal);
        let stored = revisions.as_ref().map(|revisions| inventory::revisions_of(&set, revisions));
        let (version, in_force) = inventory::in_force(&set, stored.as_deref().unwrap_or_default());
        let target = self.target(&version, &set, stored.as_deref());
        let read = Pods::read(self.reader, namespace, Some(&set)).map_err(hint)?;
        let pods = read.selected_by(&target)?;
        let opted_out = read.opted_out(&set)?;
        let budgets = if must_be_created_again(&target, &pods).is_empty() {
            Some(Vec::new())
        } else {
            let budgets = self.reader.list(Kind("policy/v1", "PodDisruptionBudget"), namespace, None);
            or_warning(budgets, "the Pods that budgets hold are not shown", terminal).map(Option::unwrap_or_default)
        };
        let sources = Sources { object, target, pods, opted_out, namespace, in_force, revisions: stored, budgets };
        Ok(Report::new(Summary::new(object, self.settings), sources))
    }

    /// Returns the SidecarSets that have Pods in a namespace, with the numbers of these Pods.
    fn of_namespace(
        &self,
        objects: &[Value],
        namespace: &str,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Vec<Summary>> {
        let revisions = self.revisions(None, terminal);
        let pods = Pods::read(self.reader, Some(namespace), None)?;
        let mut summaries = Vec::new();
        for object in objects {
            let set = match decoded(object) {
                Ok(set) => set,
                Err(error) => {
                    terminal.warn(format_args!("{error:#}"));
                    continue;
                }
            };
            let stored = revisions.as_ref().map(|revisions| inventory::revisions_of(&set, revisions));
            let (version, _) = inventory::in_force(&set, stored.as_deref().unwrap_or_default());
            let target = self.target(&version, &set, stored.as_deref());
            let judged: Vec<Judged> =
                pods.selected_by(&target)?.into_iter().map(|pod| Judged::judge(&target, pod)).collect();
            if !judged.is_empty() {
                let numbers = Counts::count(&judged).into();
                summaries.push(Summary { pods: Some(numbers), ..Summary::new(object, self.settings) });
            }
        }
        Ok(summaries)
    }

    fn target<'a>(
        &self,
        version: &'a SidecarSet,
        set: &'a SidecarSet,
        stored: Option<&[&'a Revision]>,
    ) -> RolloutTarget<'a> {
        let stored = stored.into_iter().flatten().copied();
        // Which nodes are not ready is not asked: what the numbers tell does not depend on it.
        let surroundings = Surroundings { now: pillion_terminal::now(), ..Surroundings::default() };
        RolloutTarget::new(version, set)
            .with_upgrades(Upgrades::from_sidecar_set(set, self.settings), stored)
            .within(surroundings)
    }

    fn revisions(&self, name: Option<&str>, terminal: &mut Terminal) -> Option<Vec<Revision>> {
        let found = inventory::revisions(self.reader, self.system_namespace, name);
        or_warning(found, "the stored revisions are not shown", terminal)
    }

    /// Prints the rows, and a further row for each change until the program is interrupted.
    fn watch(&self, terminal: &mut Terminal) -> anyhow::Result<Status> {
        let name = self.args.sidecar_set.as_ref();
        let (objects, version) = match name {
            Some(name) => {
                let (object, version) = sets::one(self.reader, name)?;
                (vec![object], version)
            }
            None => sets::all(self.reader, self.args.selector.as_deref())?,
        };
        let mut rows = text::Rows::new(self.args.output == Some(StatusFormat::Wide), pillion_terminal::now());
        let summary = |object: &Value| Summary::new(object, self.settings);
        let mut shown: Vec<Summary> = objects.iter().map(summary).collect();
        rows.print(&shown, terminal.out())?;
        terminal.finish()?;
        let watched = self.reader.watch(
            Kind(version, sets::KIND),
            name.map(|name| name.0.as_str()),
            self.args.selector.as_deref(),
            None,
            |event| {
                let Event::Seen(object) = event else { return None };
                let summary = summary(&object);
                let known = shown.iter().position(|known| known.name == summary.name);
                if known.and_then(|known| shown.get(known)) == Some(&summary) {
                    return None;
                }
                if let Some(known) = known {
                    shown.remove(known);
                }
                shown.push(summary.clone());
                let written =
                    rows.add(&[summary], pillion_terminal::now(), terminal.out()).map_err(anyhow::Error::from);
                written.and_then(|()| terminal.finish()).err()
            },
        )?;
        match watched {
            Ended::Decided(error) => Err(error),
            Ended::Interrupted | Ended::TimedOut => Ok(Status::Done),
        }
    }
}

/// Writes the names as `kubectl get -o name` does.
fn names(summaries: &[Summary], out: &mut dyn Write) -> io::Result<()> {
    summaries.iter().try_for_each(|summary| writeln!(out, "sidecarset.apps.kruise.io/{}", summary.name))
}

/// Adds to the error of a request for all Pods that those of one namespace may suffice.
fn hint(trouble: Trouble) -> anyhow::Error {
    let is_forbidden = matches!(trouble, Trouble::Forbidden { .. });
    let error = anyhow::Error::from(trouble);
    if is_forbidden { anyhow!("{error}; -n asks for the Pods of one namespace alone") } else { error }
}

/// Returns what was read. Warns of what could not be read, which the command leaves out.
pub(super) fn or_warning<T>(found: Result<T, Trouble>, without: &str, terminal: &mut Terminal) -> Option<T> {
    found.map_err(|trouble| terminal.warn(format_args!("{without}: {trouble}"))).ok()
}
