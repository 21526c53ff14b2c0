//! Previews the steps for merged accounts (`pillion plan`).

use k8s_openapi::api::core::v1::Namespace;
use pillion_kubernetes::json;

use super::carry::{self, Failure};
use super::{Controller, Options};
use crate::context::Context;
use crate::preview::{Preview, namespaces};
use crate::selection::Name;

const NAME: Name = Name::MergedServiceAccounts;

/// Adds the steps that are due now in every namespace.
pub(crate) async fn preview(context: &Context, options: &Options, all: &mut Preview) {
    let controller = Controller::new(context.clone(), options.clone()).await;
    let sets = context.sets();
    // If this process keeps a bundle, the bundle's preview reports the sets that are not in it.
    let is_bundled = context.cluster.bundled.sets().is_some();
    for refused in sets.refused.iter().filter(|_| !is_bundled) {
        all.problem(NAME, None, format!("SidecarSet \"{}\": {}", refused.name, refused.why));
    }
    if let Some(problem) = &sets.problem {
        all.problem(NAME, None, problem.clone());
    }
    for namespace in namespaces(context) {
        of_namespace(&controller, &namespace, all).await;
    }
}

async fn of_namespace(controller: &Controller, namespace: &Namespace, all: &mut Preview) {
    let namespace = serde_json::to_value(namespace).unwrap_or_default();
    let name = json::text(&namespace, &["metadata", "name"]);
    let sets = controller.context.sets();
    let plan = controller.plan(&namespace, name, &sets);
    let mut notices = plan.notices;
    for group in &plan.groups {
        match carry::preview(&controller.context.client, name, group).await {
            Ok((steps, notice)) => {
                notices.extend(notice);
                all.steps(NAME, &steps, &why(&group.sets));
            }
            Err(Failure::Foreign(notice)) => notices.push(notice),
            Err(failure) => all.problem(NAME, Some(name), failure.to_string()),
        }
    }
    for notice in notices {
        all.problem(NAME, Some(name), notice.to_string());
    }
    let after = controller.options.times.idle;
    // An object that is being collected has a step, or waits with a mark.
    for idle in plan.idle.keys().filter(|idle| plan.groups.iter().all(|group| group.name != **idle)) {
        let text = format!("\"{idle}\" is not needed: it is collected {after} s after the controller saw that");
        all.later(NAME, Some(name), text);
    }
}

fn why(sets: &[String]) -> String {
    if sets.is_empty() { "not needed any more".to_owned() } else { format!("for the SidecarSets {}", sets.join(", ")) }
}
