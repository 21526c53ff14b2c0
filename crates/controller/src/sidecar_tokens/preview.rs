//! Previews the steps for tokens of isolated sidecars (`pillion plan`).

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use pillion_identity::names;
use pillion_plan::Step;
use pillion_plan::sidecar_tokens::{LINGER, Move, Why, delete, seed};

use super::report::Trouble;
use super::requests::in_the_way;
use super::watches::{Place, TokenWatches};
use super::{Options, is_terminating, plan_of};
use crate::context::Context;
use crate::preview::{Change, Preview, Verb, namespaces};
use crate::selection::Name;

const NAME: Name = Name::SidecarTokens;

/// Adds the steps that are due now in every namespace.
pub(crate) async fn preview(context: &Context, options: &Options, all: &mut Preview) {
    let seen = TokenWatches::watch(context, options.namespaces.clone());
    seen.listed().await;
    for namespace in namespaces(context) {
        if !is_terminating(&namespace) {
            of_namespace(context, &seen, &namespace, all).await;
        }
    }
}

async fn of_namespace(context: &Context, seen: &TokenWatches, namespace: &Namespace, all: &mut Preview) {
    let name = namespace.name_any();
    let needed = super::needed(context, namespace, &|account| seen.is_there(&name, account));
    let secrets = match seen.secrets(&name) {
        Place::Listed(secrets) => secrets,
        Place::NotListed(_) | Place::NotGiven => {
            for account in &needed.needs.accounts {
                all.problem(NAME, Some(&name), Trouble::NotGiven.note(account));
            }
            return;
        }
    };
    let plan = plan_of(context, seen, &name, &needed, &secrets);
    for (account, what) in &plan.moves {
        // The watch does not show foreign Secrets.
        let foreign = match what {
            Move::Create { .. } => in_the_way(context, &name, account).await,
            _ => Ok(None),
        };
        match foreign {
            Ok(None) => {}
            Ok(Some(foreign)) => {
                all.problem(NAME, Some(&name), Trouble::Foreign(foreign).note(account));
                continue;
            }
            Err(error) => {
                all.problem(NAME, Some(&name), error.to_string());
                continue;
            }
        }
        of_account(&name, account, what, all);
    }
    for (account, lack) in &plan.lacks {
        all.problem(NAME, Some(&name), Trouble::Lack(*lack).note(account));
    }
    for secret in secrets.values() {
        let is_left = plan.moves.iter().all(|(account, _)| *account != secret.account);
        if let Some(since) = secret.unneeded_since.filter(|_| is_left) {
            let text =
                format!("Secret \"{}\" is not needed since {since}: it is deleted {LINGER} s later", secret.name);
            all.later(NAME, Some(&name), text);
        }
    }
}

fn of_account(namespace: &str, account: &str, what: &Move, all: &mut Preview) {
    let of = |what: &str| format!("{what} ServiceAccount \"{account}\"");
    match what {
        Move::Create { .. } => {
            let wanted = names::token_secret(account);
            all.steps(NAME, &[Step::Create(seed(namespace, account))], &of("the token of"));
            all.changes.push(token(namespace, &wanted, of("a first token of")));
        }
        Move::Mint { secret, why, .. } => {
            let why = match why {
                Why::Empty => of("a first token of"),
                Why::Edited => of("an edit replaced the token of"),
                Why::NewAccount => of("the token is of an older"),
                Why::Due => of("in time, another token of"),
            };
            all.changes.push(token(namespace, &secret.name, why));
        }
        Move::Write(step) => {
            let why = match step {
                Step::Delete { .. } => of("no client can write the token of"),
                _ => of("notes whether a Pod needs the token of"),
            };
            all.steps(NAME, std::slice::from_ref(step), &why);
        }
        Move::Collect(secret) => all.steps(NAME, &[delete(secret)], &of("no Pod needs the token of")),
    }
}

fn token(namespace: &str, secret: &str, why: String) -> Change {
    Change {
        controller: NAME,
        verb: Verb::Mint,
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: Some(namespace.to_owned()),
        name: secret.to_owned(),
        why,
        body: None,
    }
}
