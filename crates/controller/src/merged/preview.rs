//! What would be done about merged accounts (`pillion plan`).

use k8s_openapi::api::core::v1::Namespace;
use pillion_core::json;
use pillion_core::plan::merged::{Group, Notice};
use tokio::task::JoinSet;

use super::{Controller, Options};
use crate::context::Context;
use crate::preview::{Preview, namespaces};
use crate::selection::Name;

const NAME: Name = Name::MergedServiceAccounts;

/// Adds what would be done now in every namespace.
pub(crate) async fn preview(context: &Context, options: &Options, all: &mut Preview) {
    let mut tasks = JoinSet::new();
    let controller = Controller::new(context.clone(), options.clone(), &mut tasks).await;
    let sets = context.cluster.sets.get(context);
    for refused in &sets.refused {
        all.problem(NAME, None, format!("SidecarSet \"{}\": {}", refused.name, refused.why));
    }
    if let Some(problem) = &sets.problem {
        all.problem(NAME, None, problem.clone());
    }
    for namespace in namespaces(context) {
        of_namespace(&controller, &namespace, all);
    }
}

fn of_namespace(controller: &Controller, namespace: &Namespace, all: &mut Preview) {
    let namespace = serde_json::to_value(namespace).unwrap_or_default();
    let name = json::text(&namespace, &["metadata", "name"]);
    let sets = controller.context.cluster.sets.get(&controller.context);
    let (plan, used) = controller.plan(&namespace, name, &sets);
    let mut notices = plan.notices;
    for group in &plan.groups {
        notices.extend(of_group(group, used.contains(&group.name), all));
    }
    for notice in notices {
        all.problem(NAME, Some(name), notice.to_string());
    }
    let after = controller.options.times.idle;
    // What is being collected has a step or is waiting, and says so by its mark.
    for idle in plan.idle.keys().filter(|idle| plan.groups.iter().all(|group| group.name != **idle)) {
        let text = format!("\"{idle}\" is not needed: it is collected {after} s after the controller saw that");
        all.later(NAME, Some(name), text);
    }
}

fn of_group(group: &Group, is_used: bool, all: &mut Preview) -> Option<Notice> {
    let sets = group.sets.join(", ");
    let why =
        if group.sets.len() > 1 { format!("for the SidecarSets {sets}") } else { "for nobody any more".to_owned() };
    all.steps(NAME, &group.steps, &why);
    all.steps(NAME, if is_used { &group.if_used } else { &group.if_unused }, &why);
    group.notice_if_used.clone().filter(|_| is_used)
}
