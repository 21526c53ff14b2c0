//! `pillion rollout undo`: writes the sidecars of a stored revision into a SidecarSet.

use anyhow::{Context as _, anyhow};
use pillion_cluster::rollouts::sets::SetName;
use pillion_cluster::{Change, DryRun, Forced, Kind, Refusal, Writer, Writing, concluded};
use pillion_documents::diff;
use pillion_install::installation::SystemNamespace;
use pillion_kubernetes::field::joined;
use pillion_kubernetes::json;
use pillion_rollout::history::{self, Revision};
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::hash::revision_data;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use pillion_terminal::{Status, Terminal};
use pillion_yaml::{self as yaml, Tree};
use serde_json::{Map, Value, json};

const ABOUT: &str = "\
Write the sidecars of an earlier revision into a SidecarSet.

The revisions are the ControllerRevisions that the rollout controller stores in the system namespace. A revision has \
containers, initContainers, volumes, imagePullSecrets and patchPodMetadata; all other fields stay as they are. Without \
--to-revision, it is the newest one that differs from the SidecarSet. The difference is shown; with --dry-run, nothing \
else happens. The rollout then goes on by the updateStrategy, as after any other edit.

A SidecarSet that Argo CD, Flux or Helm owns is not changed without --force, since the tool would set it back.

Exit codes: 0 done; 1 if there is nothing to undo or no such revision, a tool owns the SidecarSet, or the cluster refuses \
the change; 2 for errors.";

const EXAMPLES: &str = "\
Examples:
  pillion rollout undo log-agent
  pillion rollout undo log-agent --to-revision 3 --dry-run=server";

/// The fields that a revision has (REV-2).
const FIELDS: [&str; 5] = ["containers", "imagePullSecrets", "initContainers", "patchPodMetadata", "volumes"];

/// The arguments of `pillion rollout undo`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// The name of the SidecarSet.
    #[arg(value_name = "NAME")]
    sidecar_set: SetName,
    /// The number of the revision; 0 is the one before.
    #[arg(long, value_name = "N", default_value_t = 0)]
    to_revision: i64,
    #[command(flatten)]
    namespace: SystemNamespace,
    #[command(flatten)]
    forced: Forced,
    #[command(flatten)]
    writing: Writing,
}

/// Runs `pillion rollout undo`.
///
/// # Errors
/// If the command could not do its work.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let done = undo(args, terminal);
    concluded(done, terminal)
}

fn undo(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let writing = &args.writing;
    let (runtime, writer) = writing.writer()?;
    let set = runtime.block_on(writer.sidecar_set(&args.sidecar_set.0))?;
    args.forced.check(&set)?;
    let reader = writing.kubeconfig.reader()?;
    let system_namespace = args.namespace.read(&reader, terminal)?;
    runtime.block_on(async {
        let stored = stored(args, &system_namespace, &writer).await?;
        let of_set =
            decode(set.clone()).map_err(|errors| anyhow!("SidecarSet {}: {}", args.sidecar_set.0, joined(&errors)))?;
        let now = of_set.into_sidecar_set();
        let uid = json::text(&set, &["metadata", "uid"]);
        let present = Present { uid, set: &now, system_namespace: &system_namespace };
        let chosen = match chosen(args, &present, &stored)? {
            Choice::Revision(chosen) => chosen,
            Choice::Same(number) => {
                let done = format!("skipped rollback (current spec already matches revision {number})");
                writing.print(&set, &done, terminal)?;
                return Ok(Status::Done);
            }
        };
        let number = chosen.head.revision();
        let earlier = of_revision(chosen).map_err(|problem| {
            anyhow!("revision {number} of SidecarSet {} cannot be read: {problem}", args.sidecar_set.0)
        })?;
        let changed = Change::new(&set, operations(&set, &earlier)).make(&writer, writing.dry_run).await?;

        let is_data = writing.dry_run != DryRun::None && writing.output.is_none();
        let out = if is_data { terminal.out() } else { terminal.err() };
        let names = (format!("SidecarSet {}", args.sidecar_set.0), format!("revision {number} ({})", chosen.name()));
        diff::write(out, &names.0, &names.1, &text(&set), &text(&changed))?;
        for warning in warnings(&set) {
            terminal.warn(warning);
        }
        writing.print(&changed, "rolled back", terminal)?;
        Ok(Status::Done)
    })
}

/// Returns the stored revisions with the name of the SidecarSet, those of another one of this name included. A
/// ControllerRevision that cannot be read has no data.
async fn stored(args: &Args, system_namespace: &str, writer: &Writer) -> anyhow::Result<Vec<Revision>> {
    let labels = format!("{}={}", names::SIDECAR_SET_NAME_LABEL, args.sidecar_set.0);
    let found = writer.list(Kind("apps/v1", "ControllerRevision"), Some(system_namespace), &labels).await?;
    let of = |object: Value| Revision::from_controller_revision(&ControllerRevision::from_decoded(object));
    Ok(found.context("the cluster does not serve ControllerRevisions")?.into_iter().map(of).collect())
}

enum Choice<'a> {
    Revision(&'a Revision),
    /// The SidecarSet is as the revision of this number has it.
    Same(i64),
}

/// The SidecarSet as it is.
struct Present<'a> {
    uid: &'a str,
    set: &'a SidecarSet,
    /// The namespace of its revisions.
    system_namespace: &'a str,
}

/// Chooses one of the revisions of the system namespace.
fn chosen<'a>(args: &Args, present: &Present<'_>, stored: &'a [Revision]) -> Result<Choice<'a>, Refusal> {
    let Present { uid, set: now, system_namespace } = *present;
    let SetName(name) = &args.sidecar_set;
    let own = history::ascending(uid, stored);
    if own.is_empty() {
        let others =
            if stored.is_empty() { "" } else { " (those that are there belong to an earlier SidecarSet of this name)" };
        return Err(Refusal(format!(
            "namespace {system_namespace} has no stored revision of SidecarSet {name}{others}; the controller \
             sidecarset-rollout stores them, and --system-namespace names another namespace"
        )));
    }
    if args.to_revision != 0 {
        let is_it = |revision: &Revision| revision.head.revision() == args.to_revision;
        let Some(found) = own.iter().rev().find(|revision| is_it(revision)) else {
            if stored.iter().any(is_it) {
                return Err(Refusal(format!(
                    "revision {} belongs to an earlier SidecarSet {name}, which was deleted",
                    args.to_revision
                )));
            }
            let known: Vec<String> = own.iter().map(|revision| revision.head.revision().to_string()).collect();
            return Err(Refusal(format!(
                "SidecarSet {name} has no revision {}; it has {}",
                args.to_revision,
                known.join(", ")
            )));
        };
        return Ok(if is_as(now, found) { Choice::Same(args.to_revision) } else { Choice::Revision(found) });
    }
    let other = own.iter().rev().find(|revision| !is_as(now, revision));
    let none = || Refusal(format!("SidecarSet {name} has no earlier revision, so there is nothing to undo"));
    other.map(|revision| Choice::Revision(revision)).ok_or_else(none)
}

/// Whether a SidecarSet is as a revision has it. A revision has the defaults of the sidecars, and a SidecarSet has them
/// if admission wrote them.
fn is_as(now: &SidecarSet, revision: &Revision) -> bool {
    let data = |set: &SidecarSet| revision_data(prepared(set).spec(&[]).unwrap_or(&Value::Null));
    let data_now = data(now);
    let with_fields = |earlier: Value| {
        let mut then = now.clone();
        let spec = then.as_value_mut().get_mut("spec")?.as_object_mut()?;
        for field in FIELDS {
            match json::at(&earlier, &[field]) {
                Some(value) => spec.insert(field.to_owned(), value.clone()),
                None => spec.remove(field),
            };
        }
        Some(then)
    };
    revision.data == data_now
        || of_revision(revision).ok().and_then(with_fields).is_some_and(|then| data(&then) == data_now)
}

/// Returns the fields that a revision has.
fn of_revision(revision: &Revision) -> Result<Value, String> {
    revision.whole().spec().map_err(|errors| joined(&errors))
}

/// Returns the operations that give a SidecarSet the fields of a revision.
fn operations(set: &Value, earlier: &Value) -> Vec<Value> {
    let operation = |field: &&str| {
        let path = format!("/spec/{field}");
        let (now, then) = (json::at(set, &["spec", field]), json::at(earlier, &[field]));
        match (now, then) {
            (now, Some(then)) if now != Some(then) => Some(json!({"op": "add", "path": path, "value": then})),
            (Some(_), None) => Some(json!({"op": "remove", "path": path})),
            _ => None,
        }
    };
    FIELDS.iter().filter_map(operation).collect()
}

/// Returns the fields of [`FIELDS`] as a document.
fn text(set: &Value) -> String {
    let field = |name: &&str| Some(((*name).to_owned(), json::at(set, &["spec", name])?.clone()));
    let fields: Map<String, Value> = FIELDS.iter().filter_map(field).collect();
    yaml::print(&Tree::conventional(&json!({"spec": fields})))
}

/// Returns what the user may not expect.
fn warnings(set: &Value) -> Vec<String> {
    let text = |path: &[&str]| json::text(set, path);
    let mut warnings = Vec::new();
    let label = json::at(set, &["metadata", "labels", names::CUSTOM_VERSION_LABEL]).and_then(Value::as_str);
    let version = Some(text(&["spec", "customVersion"])).filter(|version| !version.is_empty()).or(label);
    if let Some(version) = version {
        warnings.push(format!(
            "customVersion stays \"{version}\", and the revision gets it as its label; change it if it names the sidecars"
        ));
    }
    if json::object(set, &["spec", "injectionStrategy", "revision"]).is_some() {
        warnings.push(
            "injectionStrategy.revision stays as it is, so new Pods get the revision that it asks for".to_owned(),
        );
    }
    warnings
}
