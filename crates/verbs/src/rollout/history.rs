//! `pillion rollout history`: the stored revisions of a SidecarSet.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::{anyhow, bail};
use pillion_cluster::rollouts::inventory::{self, Pods};
use pillion_cluster::rollouts::report::Field;
use pillion_cluster::rollouts::sets::{self, SetName};
use pillion_cluster::rollouts::summary::decoded;
use pillion_cluster::rollouts::table::{Cell, Table};
use pillion_cluster::{Kubeconfig, Reader, Trouble};
use pillion_documents::diff;
use pillion_kubernetes::field::joined;
use pillion_kubernetes::json;
use pillion_plan::restored::restored;
use pillion_rollout::difference::differences;
use pillion_rollout::history::Revision;
use pillion_rollout::target::RolloutTarget;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::upgrades::is_native_upgrade;
use pillion_terminal::output::DataFormat;
use pillion_terminal::{Status, Terminal};
use pillion_yaml::{self as yaml, Tree};
use serde::Serialize;
use serde_json::{Value, json};

use crate::status::{RolloutContext, or_warning};

/// The long description.
pub(super) const ABOUT: &str = "\
Show the stored revisions of a SidecarSet, the oldest first, with the Pods that use them.

A controller for rollouts stores each version of a SidecarSet as a ControllerRevision in the system namespace. A version \
that comes back keeps its revision, which gets the next number; DATE is when it was stored first. IN FORCE marks the \
version that new Pods get.

--revision prints the SidecarSet with the containers, volumes, secrets and metadata patches of a revision; everything else \
is as it is now. --diff prints what differs between two revisions; with -o json or yaml, field by field, each with what it \
takes to bring it to a Pod that runs: `inPlace`, `resize`, `recreate`, or `newPods` where only new Pods get it.

-o json and -o yaml print an object with the list `revisions`, each with `revision`, `name`, `createdAt`, `images`, \
`customVersion`, `pods` and `inForce`. `pods` is absent if the Pods may not be listed.

Exit codes: 0 done; 2 for errors.";

const EXAMPLES: &str = "\
Examples:
  pillion rollout history log-agent
  # the SidecarSet as it was
  pillion rollout history log-agent --revision 2
  # what came with the third?
  pillion rollout history log-agent --diff 2 3";

/// The arguments of `pillion rollout history`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The SidecarSet.
    #[arg(value_name = "NAME")]
    sidecar_set: SetName,
    /// Print the SidecarSet as this revision has it, as YAML.
    #[arg(long, value_name = "N", conflicts_with = "diff")]
    revision: Option<i64>,
    /// Print what differs between two revisions.
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    diff: Vec<i64>,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    #[command(flatten)]
    context: RolloutContext,
    /// The format; absent: text for people.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<DataFormat>,
}

/// A revision in one row.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    revision: i64,
    name: String,
    created_at: String,
    images: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    custom_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pods: Option<usize>,
    in_force: bool,
}

/// Runs `pillion rollout history`.
///
/// # Errors
/// If the cluster cannot be read, a revision does not exist, or `stdout` takes no more.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let reader = args.kubeconfig.reader()?;
    let (object, _) = sets::one(&reader, &args.sidecar_set)?;
    let (system_namespace, _) = args.context.read(&reader, terminal)?;
    let set = decoded(&object)?;
    let stored = inventory::revisions(&reader, &system_namespace, Some(set.name()))?;
    let revisions = inventory::revisions_of(&set, &stored);
    if let Some(number) = args.revision {
        one(&set, find(&revisions, number, &system_namespace)?, args.output, terminal.out())?;
    } else if let [before, after] = args.diff.as_slice() {
        let [before, after] = [before, after].map(|number| find(&revisions, *number, &system_namespace));
        let pair = RevisionPair { before: before?, after: after? };
        difference(&set, pair, args.output, terminal.out())?;
    } else {
        let rows = rows(&set, &revisions, &reader, terminal)?;
        match args.output {
            None if rows.is_empty() => {
                let name = set.name();
                writeln!(
                    terminal.err(),
                    "SidecarSet \"{name}\" has no revisions in namespace \"{system_namespace}\": the controller \
                     sidecarset-rollout stores them; --system-namespace names another namespace"
                )?;
            }
            None => table(&rows, terminal.out())?,
            Some(format) => write!(terminal.out(), "{}", format.print(BTreeMap::from([("revisions", rows)]))?)?,
        }
    }
    Ok(Status::Done)
}

fn find<'a>(revisions: &[&'a Revision], number: i64, system_namespace: &str) -> anyhow::Result<&'a Revision> {
    if let Some(found) = revisions.iter().find(|revision| revision.head.revision() == number) {
        return Ok(found);
    }
    let known: Vec<String> = revisions.iter().map(|revision| revision.head.revision().to_string()).collect();
    match known.as_slice() {
        [] => bail!("there are no revisions in namespace \"{system_namespace}\"; --system-namespace names another one"),
        known => bail!("revision {number} does not exist; those that do are {}", known.join(", ")),
    }
}

fn rows(
    set: &SidecarSet,
    revisions: &[&Revision],
    reader: &Reader,
    terminal: &mut Terminal,
) -> anyhow::Result<Vec<Row>> {
    let (version, in_force) = inventory::in_force(set, revisions);
    let target = RolloutTarget::new(&version, set);
    let pods: Result<Pods<'_>, Trouble> = Pods::read(reader, None, Some(set));
    let pods = or_warning(pods, "the Pods that use a revision are not counted", terminal);
    let pods = pods.as_ref().map(|pods| pods.selected_by(&target)).transpose()?;
    // A Pod that was injected before its revision was stored records the hash alone. Several revisions may have it: the
    // newest counts.
    let of_hash = |hash: &str| revisions.iter().rfind(|revision| revision.head.annotation(names::HASH) == hash);
    let uses = |revision: &Revision| {
        let pods = pods.as_ref()?.iter().filter_map(|pod| pod.records().get(set.name()));
        let used = pods.filter(|record| {
            let named = revisions.iter().find(|known| known.name() == record.revision);
            named.or_else(|| of_hash(&record.hash)).is_some_and(|used| used.name() == revision.name())
        });
        Some(used.count())
    };
    let row = |revision: &&Revision| {
        let spec = json::parse(revision.data.as_bytes()).unwrap_or_default();
        let containers = ["initContainers", "containers"].map(|list| json::items(&spec, &["spec", list]));
        let images = containers.into_iter().flatten().map(|container| json::text(container, &["image"]).to_owned());
        Row {
            revision: revision.head.revision(),
            name: revision.name().to_owned(),
            created_at: json::text(revision.head.as_value(), &["metadata", "creationTimestamp"]).to_owned(),
            images: images.collect(),
            custom_version: revision.head.label(names::CUSTOM_VERSION_LABEL).map(str::to_owned),
            pods: uses(revision),
            in_force: in_force.is_some_and(|it| it.name() == revision.name()),
        }
    };
    Ok(revisions.iter().map(row).collect())
}

fn table(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let has_versions = rows.iter().any(|row| row.custom_version.is_some());
    let mut headings = vec!["REVISION", "NAME", "DATE", "PODS", "IN FORCE", "IMAGES"];
    if has_versions {
        headings.insert(3, "VERSION");
    }
    let cells = |row: &Row| {
        let mut cells: Vec<Cell> =
            vec![row.revision.to_string().into(), row.name.as_str().into(), row.created_at.as_str().into()];
        if has_versions {
            cells.push(row.custom_version.as_deref().unwrap_or("-").into());
        }
        cells.push(row.pods.map_or_else(|| "-".to_owned(), |pods| pods.to_string()).into());
        cells.push(if row.in_force { "yes" } else { "" }.into());
        cells.push(row.images.join(", ").into());
        cells
    };
    Table::new(&headings, 0).print(&rows.iter().map(cells).collect::<Vec<_>>(), out)
}

/// Returns the SidecarSet with the spec of a revision, as a manifest: without its status, and without what the API server
/// and admission write.
fn manifest(set: &SidecarSet, revision: &Revision) -> anyhow::Result<Value> {
    let restored = restored(set, &revision.whole())
        .map_err(|errors| anyhow!("ControllerRevision \"{}\" cannot be read: {}", revision.name(), joined(&errors)))?;
    let mut metadata = json::Object::new();
    metadata.insert("name".to_owned(), set.name().into());
    if let Some(labels) = json::object(restored.as_value(), &["metadata", "labels"]) {
        metadata.insert("labels".to_owned(), labels.clone().into());
    }
    let written = [names::HASH, names::HASH_WITHOUT_IMAGE, "kubectl.kubernetes.io/last-applied-configuration"];
    let annotations = json::object(restored.as_value(), &["metadata", "annotations"]).into_iter().flatten();
    let annotations: json::Object = annotations
        .filter(|(key, _)| !written.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
    Ok(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": sets::KIND, "metadata": metadata,
        "spec": restored.spec(&[]).cloned().unwrap_or_default(),
    }))
}

fn one(set: &SidecarSet, revision: &Revision, format: Option<DataFormat>, out: &mut dyn Write) -> anyhow::Result<()> {
    Ok(write!(out, "{}", format.unwrap_or_default().print(&manifest(set, revision)?)?)?)
}

/// Two revisions that are compared.
#[derive(Clone, Copy)]
struct RevisionPair<'a> {
    before: &'a Revision,
    after: &'a Revision,
}

fn difference(
    set: &SidecarSet,
    RevisionPair { before, after }: RevisionPair<'_>,
    format: Option<DataFormat>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let named = |revision: &Revision| format!("revision {}", revision.head.revision());
    let Some(format) = format else {
        let text = |revision| manifest(set, revision).map(|manifest| yaml::print(&Tree::conventional(&manifest)));
        diff::write(out, &named(before), &named(after), &text(before)?, &text(after)?)?;
        return Ok(());
    };
    let data = |revision: &Revision| json::parse(revision.data.as_bytes()).unwrap_or_default();
    let found = differences(&data(before), &data(after));
    let fields: Vec<Field> = found.iter().map(|found| Field::new(found, is_native_upgrade(set))).collect();
    let object = json!({
        "from": before.head.revision(), "to": after.head.revision(), "fields": serde_json::to_value(fields)?,
    });
    Ok(write!(out, "{}", format.print(&object)?)?)
}
