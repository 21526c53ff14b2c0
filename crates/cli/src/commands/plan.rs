//! `pillion plan`: the arguments of [`pillion_preview::plan`].

use pillion_cluster::Connection;
use pillion_install::tuning::{Choice, Tuning};
use pillion_preview::plan::{self, Options};
use pillion_preview::{Inputs, key_value};
use pillion_terminal::output::Output;
use pillion_terminal::{Status, Terminal};

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
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let options = Options {
        inputs: &args.inputs,
        choice: &args.choice,
        connection: &args.connection,
        namespace: &args.namespace,
        namespace_labels: &args.namespace_labels,
        assume_service_accounts: args.assume_service_accounts,
        sidecar_set: args.sidecar_set.as_deref(),
        waves: args.waves,
        diff: args.diff,
        tuning: &args.tuning,
        output: args.output,
    };
    plan::run(&options, terminal)
}
