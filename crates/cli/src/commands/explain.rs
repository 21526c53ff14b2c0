//! `pillion explain`: the arguments of [`pillion_preview::explain`].

use pillion_preview::explain::{self, Group, Options};
use pillion_preview::{Inputs, Situation};
use pillion_terminal::output::Output;
use pillion_terminal::{Status, Terminal};

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
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let Args { inputs, situation, names, only, output } = args;
    explain::run(&Options { inputs, situation, names, only, output: *output }, terminal)
}
