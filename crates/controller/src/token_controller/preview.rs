//! Previews the steps for token Secrets (`pillion plan`).

use kube::ResourceExt as _;
use pillion_plan::token_controller::{Fill, Secret, Task};

use super::watches::TokenSecretWatches;
use super::{Options, check, plan_of};
use crate::context::Context;
use crate::preview::{Change, Preview, Verb, namespaces};
use crate::selection::Name;

const NAME: Name = Name::ServiceAccountToken;

/// Adds the steps that a start would carry out in every namespace.
pub(crate) async fn preview(context: &Context, options: &Options, all: &mut Preview) {
    if !options.force
        && let Err(refusal) = check(&context.client, context.clock.now()).await
    {
        all.problem(NAME, None, format!("nothing is done: {refusal}"));
        return;
    }
    let seen = TokenSecretWatches::watch(context, options.authority.clone()).await;
    for namespace in namespaces(context) {
        let plan = plan_of(&seen, &namespace, context.clock.now());
        all.changes.extend(plan.tasks.iter().map(|task| of(task, &namespace.name_any())));
    }
}

fn of(task: &Task, namespace: &str) -> Change {
    let (verb, kind, name, why) = match task {
        Task::Delete(Secret { name, account, .. }) => {
            (Verb::Delete, "Secret", name, format!("ServiceAccount \"{account}\" is gone, or another one by now"))
        }
        Task::Fill(Fill { secret: Secret { name, account, .. }, token: true, .. }) => {
            (Verb::Mint, "Secret", name, format!("a token of ServiceAccount \"{account}\""))
        }
        Task::Fill(Fill { secret: Secret { name, account, .. }, .. }) => {
            (Verb::Change, "Secret", name, format!("what the token of ServiceAccount \"{account}\" needs beside it"))
        }
        Task::Dereference { account, secret, .. } => {
            (Verb::Change, "ServiceAccount", account, format!("names the Secret \"{secret}\", which is gone"))
        }
    };
    Change {
        controller: NAME,
        verb,
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: Some(namespace.to_owned()),
        name: name.clone(),
        why,
        body: None,
    }
}
