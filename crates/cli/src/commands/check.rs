//! `pillion check`: the arguments of [`pillion_check`].

use std::path::PathBuf;

use pillion_check::Options;
use pillion_check::report::{FindingFormat, OptionalRule};
use pillion_cluster::Connection;
use pillion_terminal::{Status, Terminal};

const EXAMPLES: &str = "Examples:
  pillion check settings.yaml
  pillion check --settings settings.yaml -o json
  pillion check examples/identity-isolate
  pillion check -o sarif examples/identity-isolate > pillion.sarif
  pillion check --warnings-as-errors examples/identity-isolate
  pillion check --warnings-as-errors --disable local-volume settings.yaml
  # are its SidecarSets right, with these settings?
  pillion check --cluster --settings settings.yaml";

/// The long description of the command.
pub const ABOUT: &str = "Find all problems in settings and SidecarSets.

Reads the policy's settings, Kubewarden policies that hold them, SidecarSets of both versions, and Gardener's Shoots; \
ControllerRevisions, Namespaces, Roles with their bindings, the ConfigMap kruise-configuration, and the ServiceAccounts \
that Pods and workloads name are taken into account if given, and so are a workload's HorizontalPodAutoscaler, and the \
ResourceQuotas and LimitRanges of its namespace. Other documents are passed over. Errors are those for \
which the policy refuses the settings, the SidecarSet or the Shoot, and for which the API server refuses a policy. Warnings are about input that is accepted and \
probably unintended. Policies are checked together, since one may cover requests that another does not.

A document without apiVersion and kind whose keys are those of settings is settings, and SidecarSets beside it count as \
`pillion inject --settings` counts them. With several files of settings, a SidecarSet counts for those of its own \
folder; if its folder has none, for all. Shoots are judged whether or not the settings turn their rules on.

With --cluster, the SidecarSets of the cluster of the kubeconfig are checked, too, with the ControllerRevisions, \
Namespaces, Roles and bindings that the cluster has; without any settings, also its Kubewarden policies that run this \
module, or the settings of the installed server. HorizontalPodAutoscalers, ResourceQuotas and LimitRanges are read in the \
namespaces of the Pods and workloads given; without the right to list them, a note says so. Warnings name the users, \
groups and ServiceAccounts who can get at the identities of sidecars by rights of RBAC (--disable identity-access). If a \
SidecarSet names a ServiceAccount, the command therefore needs the right to list Roles, ClusterRoles and their bindings. \
Warnings also name what SidecarSets ask for that the cluster's version of Kubernetes does not have (--disable \
kubernetes-version). A \
document given wins over the cluster's object of the same name. \
Nothing is ever written.

Exits with 0 if there are no errors, 1 if there are, and 2 if something could not be read or, without --allow-empty, \
there was nothing to check.";

/// The arguments of `pillion check`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent flags")]
pub struct Args {
    /// Files, folders, or - for stdin.
    #[arg(value_name = "PATH", required_unless_present_any = ["files", "settings", "cluster"])]
    paths: Vec<PathBuf>,
    /// The same, under the name of kubectl's option; may be given several times.
    #[arg(short = 'f', long = "filename", value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Go through folders within folders.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// A file to be read as settings in any case; may be given several times.
    #[arg(long, value_name = "PATH")]
    settings: Vec<PathBuf>,
    /// A file or a folder with existing objects: a Shoot or a SidecarSet of the same name is judged as an update; may
    /// be given several times.
    #[arg(long, value_name = "PATH")]
    old: Vec<PathBuf>,
    #[command(flatten)]
    connection: Connection,
    /// How to print the findings.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: FindingFormat,
    /// Exit with 1 also if there are only warnings.
    #[arg(long, visible_alias = "strict")]
    warnings_as_errors: bool,
    /// Turn the warnings of a rule off; may be given several times.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "RULE")]
    disable: Vec<OptionalRule>,
    /// Exit with 0 if there is nothing to check: for hooks that pass files of every kind.
    #[arg(long)]
    allow_empty: bool,
    /// Also say which documents were passed over.
    #[arg(short, long)]
    verbose: bool,
}

/// Runs `pillion check`.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let options = Options {
        paths: args.paths.iter().chain(&args.files).cloned().collect(),
        recursive: args.recursive,
        settings: &args.settings,
        old: &args.old,
        connection: &args.connection,
        output: args.output,
        warnings_as_errors: args.warnings_as_errors,
        disable: &args.disable,
        allow_empty: args.allow_empty,
        verbose: args.verbose,
    };
    pillion_check::run(&options, terminal)
}
