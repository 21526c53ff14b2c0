//! `pillion explain`.

mod as_written;
mod groups;
mod structured;
mod subject;
mod text;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use clap::ValueEnum;
use pillion_admission::settings::Settings;
use pillion_bundle::config_map::Fault;
use pillion_bundle::source::OnUnavailable;
use pillion_documents::manifest;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_workload::shape;
use pillion_yaml as yaml;

use self::groups::Group;
use self::subject::Told;
use self::text::Page;
use crate::commands::check;
use crate::installation;
use crate::preview::{self, Inputs, Preview, Situation, Webhooks};
use crate::report::locate;
use crate::status::Status;
use crate::terminal::Terminal;

const ABOUT: &str = "\
Say for each SidecarSet why a Pod gets it or not.

The explanation has every reason, not only the first: each requirement of a selector that a label fails, the namespace, \
pauses, canaries, and which revision is injected. SidecarSets are listed in the order of injection. If they request \
ServiceAccounts, the explanation says which one each gets and where its token comes from, or why it gets none; what the \
other containers lose; and whether a merged one is ready.

A Pod may be given as a Pod, as a workload that creates it, or as the AdmissionReview or AdmissionRequest that an API \
server sent. SidecarSets, Namespaces, ServiceAccounts and ControllerRevisions are taken from the manifests, from \
--sidecar-sets and from --settings. The command imitates controllers and the API server, as `pillion inject` does. If a SidecarSet \
leaves its revision to chance, only an AdmissionReview has the uid that decided.

With --cluster, objects that are in no manifest come from the cluster of the kubeconfig, its SidecarSets included, as by \
`pillion inject`: this explains what a Pod would get there. A Pod about which the API server would not ask Pillion, \
because the cluster's webhooks exclude its namespace or its labels, is \"not asked\". The settings are those of the \
installation, unless --settings gives others.

Several Pods begin with a summary. --only prints the Pods of one outcome; the exit code is that of all.

The built-in module judges the Pod, too, so that the explanation matches a policy server. If --settings is a \
ClusterAdmissionPolicy, its rules, selectors and mode are explained as well; its matchConditions are ignored.

Exit codes: 0 explained; 1 if a Pod is refused, by the policy or because the API server cannot read it; 2 for errors, \
such as invalid SidecarSets or settings.";

const EXAMPLES: &str = "\
Examples:
  pillion explain examples/security-agent
  pillion explain -f examples/log-agent/app.yaml --sidecar-sets examples/log-agent/sidecarset.yaml
  pillion explain review.json --settings settings.yaml
  # exits with 1: the policy refuses the Pod
  pillion explain review.json --settings other-settings.yaml
  # why one SidecarSet is not injected, and what to do about it
  pillion explain examples/canary --sidecar-set log-agent-canary
  # only the Pods that are refused, of many
  pillion explain -R examples/log-agent --only refused
  cat examples/log-agent/app.yaml | pillion explain --sidecar-sets examples/log-agent -o json
  # what would this Deployment get there, and why?
  pillion explain examples/log-agent/app.yaml --cluster";

/// The arguments of `pillion explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = ABOUT)]
pub struct Args {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    situation: Situation,
    /// Explain only this SidecarSet, and say what to do about every reason; may be repeated.
    #[arg(long = "sidecar-set", value_name = "NAME")]
    names: Vec<String>,
    /// Print only the Pods of this outcome; several are separated by commas.
    #[arg(long, value_enum, value_name = "OUTCOME", value_delimiter = ',')]
    only: Vec<Group>,
    /// The format of the explanation.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

/// The formats of explanations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Text,
    /// A list with an object for each Pod.
    Yaml,
    /// The same.
    Json,
}

/// Runs `pillion explain`.
///
/// # Errors
/// If something cannot be read, the policy gives no answer, or `stdout` takes no more.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let preview::Given { mut value, policy, origin } =
        args.situation.settings.as_deref().map(preview::with_policy).transpose()?.unwrap_or_default();
    let misspelt = origin.as_ref().map(check::unknown_fields_in_settings).unwrap_or_default();
    let read = |paths: &[PathBuf], terminal: &mut Terminal| {
        preview::read(paths, args.inputs.recursive, terminal, manifest::parse)
    };
    let Some(beside) = read(&args.situation.sidecar_sets, terminal)? else {
        return Ok(Status::Failed);
    };
    let Some(given) = read(&args.inputs.paths()?, terminal)? else {
        return Ok(Status::Failed);
    };
    if !preview::is_understood(&beside, &given, terminal) {
        return Ok(Status::Failed);
    }
    let all = || beside.iter().chain(&given);
    let reader = args.situation.connection.reader()?;
    if let (Some(reader), None) = (&reader, &args.situation.settings) {
        value = installation::for_new_pods(reader, terminal)?.map(|part| part.settings).unwrap_or_default();
    }
    let mut assembled = preview::assemble_beside(value, all()).read_from(origin);
    let cluster = preview::cluster_of(all(), &args.situation, reader.clone());
    if let Some(reader) = &reader {
        assembled = preview::with_cluster(assembled, &cluster, reader, terminal)?;
    }
    let module = preview::module(terminal)?;
    // The policy that the user gives stands for the one of the cluster, its selectors included.
    let webhooks = Webhooks::read(all(), reader.as_deref().filter(|_| policy.is_none()), terminal)?;
    let doubts: Vec<String> = policy.iter().flat_map(preview::doubts).chain(webhooks.doubts()).collect();
    let preview = Preview::new(module, assembled.value.clone(), Arc::clone(&cluster), &args.situation)
        .under(policy)
        .asked_by(webhooks);
    for warning in misspelt.into_iter().chain(all().flat_map(check::unknown_fields)) {
        terminal.warn(warning);
    }
    if !preview.is_valid(&assembled, terminal)? {
        return Ok(Status::Failed);
    }
    // Decode the SidecarSets of the bundle, too, even those that this Pod would not open: the explanation covers all.
    let decoded = Settings::decode(assembled.value.clone()).ok().and_then(|settings| settings.unbundled().ok());
    let Some(settings) = decoded else { bail!("the settings cannot be decoded") };
    let (settings, unavailable) = preview::with_kept(settings, &preview.answers());
    if let (Some(unavailable), Some(at)) = (unavailable, &settings.bundle_source.config_map) {
        let remedy = match unavailable.fault {
            Fault::Missing => "give it among the manifests, or read it with --cluster",
            _ => "make it anew with `pillion bundle --config-map`",
        };
        let what = format!("settings.bundleRef: {}; {remedy}", unavailable.says(at));
        if settings.bundle_source.on_unavailable == OnUnavailable::Deny {
            bail!("{what}");
        }
        terminal.warn(what);
    }
    let mut subjects = Vec::new();
    for manifest in &given {
        let found = subject::of(manifest, &preview);
        if !found.iter().any(subject::Subject::is_malformed) {
            for doubt in locate::told(manifest, &shape::doubts(&manifest.value)) {
                terminal.warn(doubt);
            }
        }
        subjects.extend(found);
    }
    if subjects.is_empty() {
        bail!("nothing to explain: no Pod, no workload and no AdmissionReview in what was given");
    }
    unknown_names(&args.names, &settings)?;
    if settings.sidecar_sets.is_empty() {
        terminal.warn("no SidecarSets: give them among the manifests, with --sidecar-sets, or with --settings");
    }
    for doubt in doubts {
        terminal.warn(doubt);
    }
    let mut told = Vec::new();
    let written = as_written::Short::of(&assembled.value);
    for subject in subjects {
        let mut explained = subject.explained(&settings, &preview, cluster.as_ref())?;
        if !explained.agrees() {
            bail!(
                "{}: this explanation is not what the policy does, which is a mistake in pillion; please report it",
                explained.label
            );
        }
        explained.sets.iter_mut().for_each(|set| written.rename(set));
        if !args.names.is_empty() {
            explained.sets.retain(|set| args.names.contains(&set.name));
        }
        told.push(explained);
    }
    for namespace in preview.assumed() {
        terminal.warn(format_args!(
            "Namespace \"{namespace}\" is {}; give it, or --namespace-labels",
            preview.missing_in()
        ));
    }
    for note in preview.notes() {
        terminal.warn(note);
    }
    print(args, &told, terminal)?;
    Ok(if told.iter().any(Told::is_refused) { Status::Refused } else { Status::Done })
}

fn unknown_names(only: &[String], settings: &Settings) -> anyhow::Result<()> {
    let known: Vec<&str> = settings.sidecar_sets.iter().map(SidecarSet::name).collect();
    match only.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) if known.is_empty() => bail!("there is no SidecarSet \"{name}\", nor any other"),
        Some(name) => bail!("there is no SidecarSet \"{name}\"; there are {}", known.join(", ")),
        None => Ok(()),
    }
}

fn print(args: &Args, told: &[Told], terminal: &mut Terminal) -> anyhow::Result<()> {
    let is_chosen = |told: &&Told| args.only.is_empty() || args.only.contains(&Group::from_told(told));
    let chosen: Vec<&Told> = told.iter().filter(is_chosen).collect();
    match args.output {
        Format::Text => {
            let columns = terminal.columns();
            let mut page = Page::new(terminal.out(), columns);
            let has_summary = told.len() > 1 || chosen.is_empty();
            if has_summary {
                page.line("", 2, &groups::summary(told))?;
            }
            for (index, told) in chosen.into_iter().enumerate() {
                if has_summary || index > 0 {
                    page.line("", 0, "")?;
                }
                text::write(&mut page, told, !args.names.is_empty())?;
            }
        }
        Format::Yaml => terminal.out().write_all(yaml::print(&structured::list(&chosen)).as_bytes())?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut *terminal.out(), &structured::list(&chosen))
                .map_err(std::io::Error::from)?;
            writeln!(terminal.out())?;
        }
    }
    Ok(())
}
