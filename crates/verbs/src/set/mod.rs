//! `pillion set`: single fields of a SidecarSet.

use clap::Subcommand;
use pillion_cluster::rollouts::sets::SetName;
use pillion_cluster::rollouts::strategy;
use pillion_cluster::{Change, Forced, Refusal, Writing, concluded};
use pillion_kubernetes::field::{FieldError, joined};
use pillion_kubernetes::json;
use pillion_rollout::amount::Amount;
use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_sidecarset::validation;
use pillion_terminal::{Status, Terminal};
use serde_json::{Value, json};

const ABOUT: &str = "\
Set a field of the updateStrategy of a SidecarSet, as `kubectl set` does for other objects.

The SidecarSet is one of the cluster of the kubeconfig. The value is checked as its admission would, before it is sent.";

const EXAMPLES: &str = "\
Examples:
  pillion set partition log-agent 90%
  pillion set max-unavailable log-agent 3";

const PARTITION: &str = "\
Set spec.updateStrategy.partition: so many Pods keep their version.

A lower value goes on with the rollout, 0 or 0% lets it reach all Pods. A higher value does not bring Pods back.

Exit codes: 0 set; 1 if the value is invalid, a tool owns the SidecarSet, or the cluster refuses the change; 2 for errors.";

const PARTITION_EXAMPLES: &str = "\
Examples:
  pillion set partition log-agent 90%
  pillion set partition log-agent 0 --dry-run=client -o yaml";

const MAX_UNAVAILABLE: &str = "\
Set spec.updateStrategy.maxUnavailable: so many Pods may be unavailable at the same time.

A percentage is one of all Pods of the SidecarSet, rounded up. With 0, no Pod that is ready is upgraded.

Exit codes: 0 set; 1 if the value is invalid, a tool owns the SidecarSet, or the cluster refuses the change; 2 for errors.";

const MAX_UNAVAILABLE_EXAMPLES: &str = "\
Examples:
  pillion set max-unavailable log-agent 3
  pillion set max-unavailable log-agent 10% --dry-run=server";

/// The arguments of `pillion set`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    field: Field,
}

#[derive(Debug, Subcommand)]
enum Field {
    /// Set how many Pods keep their version.
    #[command(long_about = PARTITION, after_help = PARTITION_EXAMPLES)]
    Partition(FieldArgs),
    /// Set how many Pods may be unavailable at the same time.
    #[command(long_about = MAX_UNAVAILABLE, after_help = MAX_UNAVAILABLE_EXAMPLES)]
    MaxUnavailable(FieldArgs),
}

#[derive(Debug, clap::Args)]
struct FieldArgs {
    /// The name of the SidecarSet.
    #[arg(value_name = "NAME")]
    sidecar_set: SetName,
    /// A number of Pods, or a percentage such as 10%.
    #[arg(value_name = "VALUE", value_parser = strategy::parse_amount, allow_hyphen_values = true)]
    value: Value,
    #[command(flatten)]
    forced: Forced,
    #[command(flatten)]
    writing: Writing,
}

/// Runs `pillion set`.
///
/// # Errors
/// If the command could not do its work.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let done = match &args.field {
        Field::Partition(args) => write(args, "partition", "partition", terminal),
        Field::MaxUnavailable(args) => write(args, "maxUnavailable", "max-unavailable", terminal),
    };
    concluded(done, terminal)
}

fn write(args: &FieldArgs, field: &str, name: &str, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let writing = &args.writing;
    let (runtime, writer) = writing.writer()?;
    runtime.block_on(async {
        let set = writer.sidecar_set(&args.sidecar_set.0).await?;
        if let Some(consequence) = stops(field, &args.value, &set) {
            terminal.warn(consequence);
        }
        if json::at(&set, &["spec", "updateStrategy", field]) == Some(&args.value) {
            writing.print(&set, &format!("{name} updated (no change)"), terminal)?;
            return Ok(Status::Done);
        }
        args.forced.check(&set)?;
        let operation = strategy::set_field(&set, field, &args.value);
        if let Some(wrong) = beyond_all(field, &args.value) {
            return Err(Refusal(format!("SidecarSet {}: {wrong}", args.sidecar_set.0)).into());
        }
        let errors = new_errors(&set, &operation);
        if !errors.is_empty() {
            return Err(Refusal(format!("SidecarSet {}: {}", args.sidecar_set.0, joined(&errors))).into());
        }
        let changed = Change::new(&set, vec![operation]).make(&writer, writing.dry_run).await?;
        if json::text(&set, &["spec", "updateStrategy", "type"]) == "NotUpdate" {
            terminal.warn(format_args!(
                "updateStrategy.type of SidecarSet {} is NotUpdate, so running Pods keep their version whatever {field} is",
                args.sidecar_set.0
            ));
        }
        writing.print(&changed, &format!("{name} updated"), terminal)?;
        Ok(Status::Done)
    })
}

/// Returns what is wrong with a percentage of more than all Pods. OpenKruise and admission accept it (VAL-7), but nobody
/// means it.
fn beyond_all(field: &str, value: &Value) -> Option<String> {
    let Ok(Amount::Percent(percent @ 101..)) = Amount::try_from(value) else { return None };
    let (all, other) = match field {
        "partition" => ("keeps every Pod at its version", "0 lets the rollout reach all Pods"),
        _ => ("lets all Pods be unavailable at the same time", "10% is one in ten"),
    };
    Some(format!(
        "spec.updateStrategy.{field}: {percent}% is more than all Pods, so nothing was written; 100% {all}, {other}"
    ))
}

/// Returns what to expect of a value that stops the rollout (ROLL-34, ROLL-35).
fn stops(field: &str, value: &Value, set: &Value) -> Option<String> {
    let amount = Amount::try_from(value).ok()?;
    let matched = json::at(set, &["status", "matchedPods"]).and_then(Value::as_i64).filter(|matched| *matched > 0);
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match (field, amount) {
        ("partition", Amount::Percent(100)) => Some(
            "with partition 100%, every running Pod keeps its version, so the rollout stops; a lower value goes on".to_owned(),
        ),
        ("partition", Amount::Number(kept)) => matched.filter(|matched| kept >= *matched).map(|matched| {
            format!(
                "with partition {shown}, every running Pod keeps its version, so the rollout stops: the SidecarSet has {matched} \
                 Pods; a lower value goes on"
            )
        }),
        ("maxUnavailable", Amount::Number(0) | Amount::Percent(0)) => Some(format!(
            "with maxUnavailable {shown}, no Pod that is ready is upgraded, so the rollout stops; a value of 1 or more goes on"
        )),
        _ => None,
    }
}

/// Returns the errors that a SidecarSet has only with a change (VAL-7).
fn new_errors(set: &Value, operation: &Value) -> Vec<FieldError> {
    let mut changed = set.clone();
    let patch = serde_json::from_value::<json_patch::Patch>(json!([operation]));
    if patch.is_ok_and(|patch| json_patch::patch(&mut changed, &patch).is_err()) {
        return Vec::new();
    }
    let errors = |object: Value| match decode(object) {
        Ok(decoded) => validation::validate(&decoded.into_sidecar_set()),
        Err(errors) => errors,
    };
    let before = errors(set.clone());
    errors(changed).into_iter().filter(|error| !before.contains(error)).collect()
}
