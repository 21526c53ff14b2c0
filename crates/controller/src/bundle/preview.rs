//! Previews the steps for the bundle (`pillion plan`).

use pillion_plan::Step;
use pillion_plan::bundle::Place;
use serde_json::Value;

use super::{Keeper, Options, Where, planning};
use crate::context::Context;
use crate::preview::Preview;
use crate::selection::Name;

const NAME: Name = Name::Bundle;

/// Adds the steps that are due now.
///
/// # Errors
/// An object that the plan depends on could not be read.
pub(crate) async fn preview(context: &Context, options: &Options, all: &mut Preview) -> Result<(), String> {
    let settings = context.settings.borrow().clone();
    let Some(place) = Where::of(&settings) else {
        let sets = context.cluster.sidecar_sets.len();
        if sets > 0 {
            let text =
                format!("the settings have no bundleRef, so the policy sees none of the cluster's {sets} SidecarSets");
            all.problem(NAME, None, text);
        }
        return Ok(());
    };
    let namespace = place.at.namespace.clone();
    let mut keeper = Keeper::new(context, options, place);
    keeper.sources.listed().await;
    let mut inputs = keeper.sources.inputs(context, &settings, &mut keeper.written);
    let mut plan = keeper.plan(&inputs).await.map_err(|failure| failure.to_string())?;
    let mut steps = std::mem::take(&mut plan.steps);
    if steps.iter().any(|step| matches!(step, Step::Create(_))) {
        // A new ConfigMap is filled by the next plan, which must see that it exists.
        for step in &steps {
            keeper.written.note(step, made(step), &mut inputs.config_maps);
        }
        plan = keeper.plan(&inputs).await.map_err(|failure| failure.to_string())?;
        steps.append(&mut plan.steps);
    }
    let within = plan.verdicts.iter().filter(|verdict| verdict.place != Place::Out).count();
    // The future contents of the bundle decide about the identities that Pods need.
    for step in &steps {
        let written = match step {
            Step::Apply(object) => Some(object.clone()),
            Step::Delete { .. } => None,
            Step::Create(_) | Step::Patch { .. } => continue,
        };
        keeper.written.note(step, written, &mut inputs.config_maps);
    }
    context.cluster.bundled.put(planning::stored(&keeper.place.at, &inputs.config_maps));
    all.steps(NAME, &steps, &format!("{within} SidecarSets in {} bytes", plan.length));
    if let Some(obstacle) = plan.obstacle {
        all.problem(NAME, Some(&namespace), obstacle.to_string());
    }
    for verdict in plan.verdicts.iter().filter(|verdict| verdict.place != Place::In) {
        let place = if verdict.place == Place::Kept { "stays as it was" } else { "is left out" };
        all.problem(NAME, None, format!("SidecarSet \"{}\" {place}: {}", verdict.name, verdict.message));
    }
    Ok(())
}

/// Returns the API server's answer to a creation.
fn made(step: &Step) -> Option<Value> {
    let Step::Create(object) = step else { return None };
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("uid".to_owned(), "new".into());
        metadata.insert("resourceVersion".to_owned(), "1".into());
    }
    Some(object)
}
