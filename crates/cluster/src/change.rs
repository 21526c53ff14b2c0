//! What the commands that change a SidecarSet have in common: kubectl's flags, its lines, and its exit codes.

use clap::ValueEnum;
use pillion_kubernetes::json;
use pillion_terminal::output::DataFormat;
use pillion_terminal::{Status, Terminal};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::git_ops;
use super::writer::{WriteError, Writer};
use super::{Kind, Kubeconfig};

/// The kind of SidecarSets with their group, as kubectl names objects.
const SIDECAR_SET: &str = "sidecarset.apps.kruise.io";

/// Whether a command writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    /// It does.
    #[default]
    None,
    /// It only says what it would write.
    Client,
    /// The cluster validates and admits the change, and does not store it.
    Server,
}

/// How a command prints the object that it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectFormat {
    /// As `sidecarset.apps.kruise.io/log-agent`.
    Name,
    /// The whole object.
    Json,
    /// The whole object.
    Yaml,
}

/// The options of commands that write, as kubectl has them.
#[derive(Clone, Debug, clap::Args)]
pub struct Writing {
    /// The cluster.
    #[command(flatten)]
    pub kubeconfig: Kubeconfig,
    /// Write nothing: client says what would be written, server lets the cluster validate and admit it, too.
    #[arg(long, value_enum, default_value_t, value_name = "none|client|server", hide_possible_values = true)]
    pub dry_run: DryRun,
    /// Print the SidecarSet instead of a sentence.
    #[arg(short, long, value_enum, value_name = "name|json|yaml", hide_possible_values = true)]
    pub output: Option<ObjectFormat>,
    /// The name under which the cluster records who set which field.
    #[arg(long, value_name = "NAME", default_value = "kubectl-pillion")]
    pub field_manager: String,
}

/// The option to change a SidecarSet that Git or a chart owns.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Forced {
    /// Also change a SidecarSet that Argo CD, Flux or Helm owns, which may set it back.
    #[arg(long)]
    force: bool,
}

/// The command did nothing, because a rule or the state of the cluster is against it: exit code 1.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// Returns the exit code of a command: a [`Refusal`], and a write that the cluster refuses or that was overtaken, are 1.
/// Their errors are printed here.
///
/// # Errors
/// Any other error.
pub fn concluded(done: anyhow::Result<Status>, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let error = match done {
        Ok(status) => return Ok(status),
        Err(error) => error,
    };
    let is_write = matches!(error.downcast_ref(), Some(WriteError::Changed(_) | WriteError::Ruled { .. }));
    if error.downcast_ref::<Refusal>().is_none() && !is_write {
        return Err(error);
    }
    terminal.finish()?;
    terminal.error(&error);
    Ok(Status::Refused)
}

impl Forced {
    /// Refuses to change a SidecarSet that a tool owns, unless forced.
    ///
    /// # Errors
    /// The refusal, with the tool and the remedy.
    pub fn check(self, set: &Value) -> Result<(), Refusal> {
        match git_ops::owner(set) {
            Some(owner) if !self.force => Err(Refusal(format!(
                "SidecarSet {} belongs to {} ({}), which would set it back; {}, or change it here with --force",
                json::text(set, &["metadata", "name"]),
                owner.tool,
                owner.sign,
                owner.remedy
            ))),
            _ => Ok(()),
        }
    }
}

/// A change of a SidecarSet that was read before.
pub struct Change<'a> {
    set: &'a Value,
    operations: Vec<Value>,
}

impl<'a> Change<'a> {
    /// Returns a change with these operations of a JSON Patch. It is not made if the object or its spec is another one by
    /// then.
    pub fn new(set: &'a Value, operations: Vec<Value>) -> Self {
        let of = |key: &str| json::at(set, &["metadata", key]);
        let test = |key: &str| Some(json!({"op": "test", "path": format!("/metadata/{key}"), "value": of(key)?}));
        // The generation changes with the spec alone, and so not with each report of a rollout in the status.
        let version = test("generation").or_else(|| test("resourceVersion"));
        Self { set, operations: test("uid").into_iter().chain(version).chain(operations).collect() }
    }

    /// The same for a change of metadata, which has no generation.
    pub fn of_metadata(set: &'a Value, operations: Vec<Value>) -> Self {
        let of = |key: &str| json::at(set, &["metadata", key]);
        let test = |key: &str| Some(json!({"op": "test", "path": format!("/metadata/{key}"), "value": of(key)?}));
        Self { set, operations: test("uid").into_iter().chain(test("resourceVersion")).chain(operations).collect() }
    }

    /// Makes the change, or says what it would be, and returns the SidecarSet as it is then.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn make(&self, writer: &Writer, dry_run: DryRun) -> Result<Value, WriteError> {
        let text = |path: &[&str]| json::text(self.set, path);
        let (kind, name) = (Kind(text(&["apiVersion"]), "SidecarSet"), text(&["metadata", "name"]));
        if dry_run != DryRun::Client {
            return writer.patch(kind, name, &self.operations, dry_run == DryRun::Server).await;
        }
        let mut changed = self.set.clone();
        let unusable = |message: String| WriteError::Ruled { object: format!("SidecarSet {name}"), message };
        let patch = serde_json::from_value::<json_patch::Patch>(Value::Array(self.operations.clone()));
        let patch = patch.map_err(|error| unusable(error.to_string()))?;
        json_patch::patch(&mut changed, &patch).map_err(|error| unusable(error.to_string()))?;
        Ok(changed)
    }
}

impl Writing {
    /// Returns an event loop, and a writer that the user named on the command line.
    ///
    /// # Errors
    /// If there is no cluster.
    pub fn writer(&self) -> anyhow::Result<(Runtime, Writer)> {
        Writer::new(&self.kubeconfig, &self.field_manager)
    }

    /// Prints what was done to a SidecarSet, as kubectl does: `done` is a text such as `paused`.
    ///
    /// # Errors
    /// If `stdout` takes no more.
    pub fn print(&self, set: &Value, done: &str, terminal: &mut Terminal) -> anyhow::Result<()> {
        let name = json::text(set, &["metadata", "name"]);
        let out = terminal.out();
        match self.output {
            None => writeln!(out, "{SIDECAR_SET}/{name} {done}{}", self.suffix())?,
            Some(ObjectFormat::Name) => writeln!(out, "{SIDECAR_SET}/{name}")?,
            Some(ObjectFormat::Json) => write!(out, "{}", DataFormat::Json.print(shown(set))?)?,
            Some(ObjectFormat::Yaml) => write!(out, "{}", DataFormat::Yaml.print(shown(set))?)?,
        }
        Ok(())
    }

    /// Returns the end of kubectl's sentences.
    pub fn suffix(&self) -> &'static str {
        match self.dry_run {
            DryRun::None => "",
            DryRun::Client => " (dry run)",
            DryRun::Server => " (server dry run)",
        }
    }
}

/// Returns an object as kubectl shows it: without the record of who set which field.
fn shown(set: &Value) -> Value {
    let mut set = set.clone();
    if let Some(metadata) = set.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    set
}
