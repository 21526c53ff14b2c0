//! `pillion inject`: the arguments of [`pillion_preview::inject`].

use pillion_kubernetes::time::Timestamp;
use pillion_preview::inject::{self, Options};
use pillion_preview::{Inputs, Situation};
use pillion_terminal::output::DataFormat;
use pillion_terminal::{Status, Terminal};

/// The arguments of `pillion inject`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = ABOUT)]
pub struct Args {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    situation: Situation,
    /// Print only the changes of injection, as a diff.
    #[arg(long, conflicts_with = "output")]
    diff: bool,
    /// The format of the manifests. Documents of YAML keep their comments, order and quotes, and change only where
    /// injection changes them.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: DataFormat,
    /// Print only Pods: in place of each workload, the Pods that it creates.
    #[arg(long)]
    as_pods: bool,
    /// The time of injection to write into annotations, such as 2026-01-02T03:04:05Z, so that the same input gives
    /// the same output. Without it the time is now.
    #[arg(long, value_name = "TIME", value_parser = time)]
    now: Option<Timestamp>,
    /// Print only warnings and refusals on stderr.
    #[arg(short, long)]
    quiet: bool,
}

const ABOUT: &str = "\
Show manifests as they are after injection.

All objects are printed, in the same order, and as they were written but for what injection changes: Pods and workloads with their sidecars, other objects unchanged. A workload \
is any object with a Pod template: Kubernetes' own, OpenKruise's, Argo's and others. An AdmissionReview or an \
AdmissionRequest is replaced by its object. The sidecars are shown in the template, where applying the output would put \
them; with --as-pods, in the Pod.

SidecarSets are taken from the manifests, from --sidecar-sets and from --settings. Namespaces, ServiceAccounts and \
ControllerRevisions among the manifests answer the policy's look-ups. A Namespace that is in no manifest is assumed to \
exist, with the labels of --namespace-labels; stderr says so if it matters. A ServiceAccount that is in no manifest \
does not exist, and Pods whose sidecars name it are refused; with --assume-service-accounts it is assumed to exist, and \
merged ones too, with the Roles and RoleBindings that Pillion's controller would make.

With --cluster, objects that are in no manifest come from the cluster of the kubeconfig: this shows what a Pod would get \
there, as if the given manifests had been applied. A Pod that the cluster's webhooks exclude, by its namespace or its \
labels, stays unchanged. The settings are those of the installation, unless --settings gives others. The cluster's \
SidecarSets count, too: those of the ConfigMap that settings.bundleRef names, or the custom resources if there is no \
such ConfigMap. A given SidecarSet replaces the cluster's of the same name. Nothing is ever written.

The policy itself decides: the module that a policy server would load runs on the Pod as the server would see it. \
The command imitates controllers: the labels, the owner, the name, the volumes of claims, and whatever else they give \
a Pod. It imitates the API server: the defaults of the Pod, the ServiceAccount with its pull secrets and token, and \
requests made of limits. Manifests that the API server cannot read are refused, with the line. Imitated values that \
depend on the cluster, such as the hash in a label, are \"preview\". Templates are printed without imitated values, and Pods without those of the API \
server. LimitRanges, other webhooks, and later changes of the API server are not imitated. If --settings is a \
ClusterAdmissionPolicy, its rules, selectors and mode count: a Pod about which Kubewarden would not ask the policy stays \
unchanged, and a warning says why. Its matchConditions are ignored. If a SidecarSet leaves its revision to chance, the \
draw depends on the object's name, so that it is always the same here.

Exit codes: 0 done, even if nothing was injected; 1 if a Pod is refused, whose object is then not printed; 2 for \
errors.";

const EXAMPLES: &str = "\
Examples:
  pillion inject examples/log-agent
  pillion inject examples/log-agent --diff
  pillion inject -f examples/log-agent/app.yaml --sidecar-sets examples/log-agent/sidecarset.yaml
  pillion inject - --sidecar-sets examples/log-agent/sidecarset.yaml < examples/log-agent/app.yaml
  pillion inject -R examples/log-agent --as-pods -o json --now 2026-01-02T03:04:05Z
  pillion inject examples/kubewarden/app.yaml --settings examples/kubewarden/settings.yaml
  # what would this Deployment get there?
  pillion inject examples/log-agent/app.yaml --cluster --diff";

/// Runs `pillion inject`.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let &Args { ref inputs, ref situation, diff, output, as_pods, now, quiet } = args;
    inject::run(&Options { inputs, situation, diff, output, as_pods, now, quiet }, terminal)
}

fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).ok_or_else(|| "a time is written as RFC 3339 has it, 2026-01-02T03:04:05Z".to_owned())
}
