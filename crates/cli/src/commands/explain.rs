//! `pillion explain`.

mod as_written;
mod groups;
mod structured;
mod subject;
mod text;

use anyhow::bail;
use pillion_admission::settings::Settings;
use pillion_bundle::config_map::Fault;
use pillion_bundle::source::OnUnavailable;
use pillion_documents::locate;
use pillion_documents::manifest::Manifest;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_terminal::output::Output;
use pillion_terminal::{Status, Terminal};
use pillion_workload::shape;

use self::groups::Group;
use self::subject::ExplainedPod;
use self::text::Page;
use crate::commands::prepared::Prepared;
use crate::preview::{self, Inputs, Situation};

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

const OUTPUT: &str = "The format of the explanation; yaml and json: a list with an object for each Pod";

/// The arguments of `pillion explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = ABOUT, mut_arg("output", |arg| arg.help(OUTPUT)))]
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
    #[command(flatten)]
    output: Output,
}

/// Runs `pillion explain`.
///
/// # Errors
/// If something cannot be read, the policy gives no answer, or `stdout` takes no more.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let prepared = Prepared::<Manifest>::read(&args.inputs, &args.situation, terminal)?;
    let Some(Prepared { given, settings: assembled, cluster, preview, doubts }) = prepared else {
        return Ok(Status::Failed);
    };
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
        let found = subject::subjects(manifest, &preview);
        if !found.iter().any(subject::Subject::is_malformed) {
            for doubt in locate::messages(manifest, &shape::doubts(&manifest.value)) {
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
    let mut pods = Vec::new();
    let written = as_written::ShortNames::from_settings(&assembled.value);
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
        pods.push(explained);
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
    print(args, &pods, terminal)?;
    Ok(if pods.iter().any(ExplainedPod::is_refused) { Status::Refused } else { Status::Done })
}

fn unknown_names(only: &[String], settings: &Settings) -> anyhow::Result<()> {
    let known: Vec<&str> = settings.sidecar_sets.iter().map(SidecarSet::name).collect();
    match only.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) if known.is_empty() => bail!("there is no SidecarSet \"{name}\", nor any other"),
        Some(name) => bail!("there is no SidecarSet \"{name}\"; there are {}", known.join(", ")),
        None => Ok(()),
    }
}

fn print(args: &Args, pods: &[ExplainedPod], terminal: &mut Terminal) -> anyhow::Result<()> {
    let is_chosen = |pod: &&ExplainedPod| args.only.is_empty() || args.only.contains(&Group::from_explained(pod));
    let chosen: Vec<&ExplainedPod> = pods.iter().filter(is_chosen).collect();
    if let Some(format) = args.output.data() {
        write!(terminal.out(), "{}", format.print_tree(&structured::list(&chosen))?)?;
        return Ok(());
    }
    let columns = terminal.columns();
    let mut page = Page::new(terminal.out(), columns);
    let has_summary = pods.len() > 1 || chosen.is_empty();
    if has_summary {
        page.line("", 2, &groups::summary(pods))?;
    }
    for (index, pod) in chosen.into_iter().enumerate() {
        if has_summary || index > 0 {
            page.line("", 0, "")?;
        }
        text::write(&mut page, pod, !args.names.is_empty())?;
    }
    Ok(())
}
