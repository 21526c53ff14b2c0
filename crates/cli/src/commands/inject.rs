//! `pillion inject`: shows manifests as they are after injection.

mod documents;
mod object;
mod output;
#[cfg(test)]
mod tests;
mod timestamp;

use std::fmt;

use anyhow::anyhow;
use pillion_documents::manifest::Manifest;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_terminal::output::DataFormat;
use pillion_terminal::{Status, Terminal};

use self::documents::Chunk;
use self::object::{Said, Shape, Verdict};
use self::output::{Form, Printer};
use crate::commands::prepared::Prepared;
use crate::preview::{Inputs, Preview, Situation};

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
///
/// # Errors
/// If something cannot be read, the policy gives no answer, or `stdout` takes no more.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let prepared = Prepared::<Chunk>::read(&args.inputs, &args.situation, terminal)?;
    let Some(Prepared { given, settings, preview, doubts, .. }) = prepared else { return Ok(Status::Failed) };
    if !settings.has_sidecar_sets() {
        terminal.warn("no SidecarSets: give them among the manifests, with --sidecar-sets, or with --settings");
    }
    for doubt in doubts {
        terminal.warn(doubt);
    }
    if json::text(&settings.value, &["role"]) == "Assert" {
        terminal
            .warn("the settings have the role Assert: such a policy judges Pods after injection, and injects nothing");
    }
    inject(args, &given, &preview, terminal)
}

fn inject(args: &Args, given: &[Chunk], preview: &Preview, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let form = match (args.diff, args.output) {
        (true, _) => Form::Diff,
        (false, DataFormat::Yaml) => Form::Yaml,
        (false, DataFormat::Json) => Form::Json,
    };
    let shape = if args.as_pods { Shape::Pods } else { Shape::Objects };
    let mut printer = Printer::new(form, shape == Shape::Objects);
    let mut counts = Counts::default();
    for chunk in given {
        let mut outcomes = Vec::new();
        for document in &chunk.documents {
            let mut of_document = Vec::new();
            for object in &document.objects {
                let outcome = object::inject(object, preview, shape, args.now)?;
                for namespace in preview.assumed() {
                    terminal.warn(format_args!(
                        "Namespace {namespace} is {}; it is assumed to exist, with {}",
                        preview.missing_in(),
                        labels(&args.situation.namespace_labels)
                    ));
                }
                for note in preview.notes() {
                    terminal.warn(note);
                }
                for doubt in &outcome.doubts {
                    terminal.warn(doubt);
                }
                for said in &outcome.said {
                    counts.add(&said.verdict);
                    tell(said, object, args.quiet, terminal);
                }
                of_document.push(outcome);
            }
            outcomes.push((document, of_document));
        }
        printer.chunk(chunk, outcomes, terminal)?;
    }
    printer.finish(terminal)?;
    if counts == Counts::default() {
        terminal.warn("no Pod and nothing that makes Pods among the manifests");
    } else if !args.quiet {
        writeln!(terminal.err(), "{counts}")?;
    }
    Ok(if counts.refused > 0 { Status::Refused } else { Status::Done })
}

/// Numbers of Pods by outcome.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    injected: usize,
    unchanged: usize,
    refused: usize,
}

impl Counts {
    fn add(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Injected(_) => self.injected += 1,
            Verdict::Present(_) | Verdict::Unmatched | Verdict::NotAsked(_) | Verdict::Ignored(_) => {
                self.unchanged += 1;
            }
            Verdict::Refused(..) | Verdict::Forbidden(_) | Verdict::Malformed(_) => self.refused += 1,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} injected, {} unchanged, {} refused", self.injected, self.unchanged, self.refused)
    }
}

/// Prints the verdict on one Pod. Ignores write errors: there is no other stream to report them.
fn tell(said: &Said, object: &Manifest, quiet: bool, terminal: &mut Terminal) {
    let Said { label, verdict, identities, warnings } = said;
    for warning in warnings {
        terminal.warn(format_args!("{label}: {warning}"));
    }
    let place = || format!("{}:{}", object.source.name, object.line());
    let line = match verdict {
        Verdict::Malformed(errors) => {
            for error in errors {
                terminal.error(&anyhow!("{error} ({label})"));
            }
            return;
        }
        Verdict::Refused(code, message) => {
            terminal.error(&anyhow!("{}: {label}: refused ({code}): {message}", place()));
            return;
        }
        Verdict::Forbidden(why) => {
            terminal.error(&anyhow!("{}: {label}: the policy server refuses it: {why}", place()));
            return;
        }
        Verdict::Ignored(reasons) => {
            terminal.warn(format_args!(
                "{label}: nothing happens, since the policy is not asked or not heeded: {}",
                reasons.join("; ")
            ));
            return;
        }
        Verdict::Injected(sidecars) if sidecars.is_empty() => "annotations patched".to_owned(),
        Verdict::Injected(sidecars) => format!("injected {sidecars}"),
        Verdict::Present(sidecars) => format!("already has {sidecars}"),
        Verdict::Unmatched => "no SidecarSet is for it".to_owned(),
        Verdict::NotAsked(why) => why.clone(),
    };
    let with = if identities.is_empty() { "" } else { ", with the ServiceAccounts " };
    if !quiet {
        let _ = writeln!(terminal.err(), "{label}: {line}{with}{identities}");
    }
}

fn labels(labels: &[(String, String)]) -> String {
    if labels.is_empty() {
        return "no labels but its name; add its manifest, or its labels with --namespace-labels".to_owned();
    }
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("the labels {}", labels.join(","))
}

fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).ok_or_else(|| "a time is written as RFC 3339 has it, 2026-01-02T03:04:05Z".to_owned())
}
