//! `legacy-token-cleaner`: invalidates tokens that never expire and have been unused for a year, and deletes them after
//! another year (CLN-2).
//!
//! It runs once a day, so it lists the objects that it needs in pages, instead of watching them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret as SecretObject, ServiceAccount};
use kube::api::ListParams;
use kube::{Api, Client};
use pillion_plan::legacy_token_cleaner::{
    Secret, TRACKING, TRACKING_NAMESPACE, Verdict, is_tracked, is_unused, mounted, verdict,
};
use pillion_plan::token_controller::{Account, TOKEN_TYPE};
use serde_json::json;
use tokio::time::sleep;

use crate::backoff::Backoff;
use crate::context::Context;
use crate::preview::Preview;
use crate::read::{one, pages};
use crate::selection::Name;
use crate::write::{WriteProblem, carry_out};

/// The controller's name.
pub const CONTROLLER: &str = "legacy-token-cleaner";
/// The first delay after a failed round.
const RETRY: Duration = Duration::from_mins(1);

/// The controller's options.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long a token must be unused before it becomes invalid, and invalid before it is deleted.
    pub period: Duration,
    /// The interval between rounds.
    pub interval: Duration,
}

impl Default for Options {
    /// A period of one year and an interval of one day, as in kube-controller-manager.
    fn default() -> Self {
        Self { period: Duration::from_hours(365 * 24), interval: Duration::from_hours(24) }
    }
}

/// Works for as long as it is polled.
pub async fn run(context: Context, options: Options) {
    let mut failures = 0_u32;
    let progress = context.cluster.progress(CONTROLLER, "the last round");
    loop {
        let started = Instant::now();
        let problem = clean(&context, options.period).await.err();
        let result = if problem.is_some() { "error" } else { "ok" };
        context.metrics.reconciled(CONTROLLER, result, started.elapsed());
        let Some(problem) = problem else {
            failures = 0;
            progress.done();
            sleep(options.interval).await;
            continue;
        };
        tracing::warn!(controller = CONTROLLER, %problem, "a round was not completed");
        progress.fail(format!("not completed: {problem}"));
        sleep(Backoff { first: RETRY, most: options.interval }.after(failures)).await;
        failures = failures.saturating_add(1);
    }
}

/// Runs one round. A failed write does not stop the others.
///
/// # Errors
/// The first problem. A change by another client in the meantime is none: the next round sees it.
pub async fn clean(context: &Context, period: Duration) -> Result<(), WriteProblem> {
    let mut first = None;
    for (namespace, secrets) in unused(context, period).await? {
        match judged(context, &namespace, secrets, period).await {
            Ok(judged) => {
                for (secret, verdict) in judged {
                    if let Err(problem) = carry_out_verdict(context, &secret, &verdict).await {
                        first.get_or_insert(problem);
                    }
                }
            }
            Err(problem) => {
                first.get_or_insert(problem);
            }
        }
    }
    first.map_or(Ok(()), Err)
}

/// Adds the steps that are due now (`pillion plan`).
///
/// # Errors
/// An object that the decision depends on could not be read.
pub(crate) async fn preview(context: &Context, options: &Options, all: &mut Preview) -> Result<(), WriteProblem> {
    for (namespace, secrets) in unused(context, options.period).await? {
        for (secret, verdict) in judged(context, &namespace, secrets, options.period).await? {
            let (step, why) = match verdict {
                Verdict::Kept(_) => continue,
                Verdict::Invalidate(step) => (step, "was not used, and becomes invalid"),
                Verdict::Delete(step) => (step, "was invalid for long"),
            };
            let why = format!("the token of ServiceAccount \"{}\" {why}", secret.account);
            all.steps(Name::LegacyTokenCleaner, &[step], &why);
        }
    }
    Ok(())
}

fn seconds(period: Duration) -> i64 {
    i64::try_from(period.as_secs()).unwrap_or(i64::MAX)
}

/// Returns the Secrets with unused tokens, by namespace; none while the API server has not recorded uses for long
/// enough.
async fn unused(context: &Context, period: Duration) -> Result<BTreeMap<String, Vec<Secret>>, WriteProblem> {
    let (now, period) = (context.clock.now(), seconds(period));
    let client = &context.client;
    let mut namespaces = BTreeMap::<String, Vec<Secret>>::new();
    let tracking = one(&Api::<ConfigMap>::namespaced(client.clone(), TRACKING_NAMESPACE), TRACKING).await?;
    if let Err(reason) = is_tracked(&json!({"data": tracking.and_then(|map| map.data)}), period, now) {
        tracing::info!(controller = CONTROLLER, %reason, "nothing can be cleaned yet");
        return Ok(namespaces);
    }
    let selection = ListParams::default().fields(&format!("type={TOKEN_TYPE}"));
    pages(&Api::<SecretObject>::all(client.clone()), selection, |secret| {
        let Some(secret) = view(secret).filter(|secret| is_unused(secret, period, now).is_ok()) else { return };
        namespaces.entry(secret.namespace.clone()).or_default().push(secret);
    })
    .await?;
    Ok(namespaces)
}

/// Decides on Secrets of one namespace.
async fn judged(
    context: &Context,
    namespace: &str,
    secrets: Vec<Secret>,
    period: Duration,
) -> Result<Vec<(Secret, Verdict)>, WriteProblem> {
    let (now, period) = (context.clock.now(), seconds(period));
    let mut accounts = BTreeMap::<String, Option<Account>>::new();
    let api = Api::<ServiceAccount>::namespaced(context.client.clone(), namespace);
    for secret in secrets.iter().filter(|secret| !secret.account.is_empty()) {
        if !accounts.contains_key(&secret.account) {
            let account = one(&api, &secret.account).await?;
            let account = account.and_then(|account| serde_json::to_value(account).ok());
            accounts.insert(secret.account.clone(), account.map(|account| Account::of(&account)));
        }
    }
    let judge = |secret: &Secret, mounted: &BTreeSet<String>| {
        let account = accounts.get(&secret.account).and_then(Option::as_ref);
        verdict(secret, account, mounted, period, now)
    };
    // List Pods only if some Secret would be invalidated or deleted without them.
    let nobody = BTreeSet::new();
    if secrets.iter().all(|secret| matches!(judge(secret, &nobody), Verdict::Kept(_))) {
        return Ok(Vec::new());
    }
    let mounted = mounted_in(&context.client, namespace).await?;
    let judged = secrets.into_iter().map(|secret| {
        let verdict = judge(&secret, &mounted);
        (secret, verdict)
    });
    Ok(judged.collect())
}

async fn carry_out_verdict(context: &Context, secret: &Secret, verdict: &Verdict) -> Result<(), WriteProblem> {
    let (step, reason, what) = match verdict {
        Verdict::Kept(_) => return Ok(()),
        Verdict::Invalidate(step) => (step, "LegacyTokenInvalidated", "its token was not used and is invalid now"),
        Verdict::Delete(step) => (step, "LegacyTokenDeleted", "its token was invalid for long and is gone now"),
    };
    let Secret { namespace, name, account, .. } = secret;
    match carry_out(&context.client, step).await {
        Ok(_) => {
            tracing::info!(controller = CONTROLLER, namespace, secret = name, account, reason, "cleaned");
            let object = json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": namespace, "uid": secret.account_uid}
            });
            context.events.warning(&object, "Clean", reason, format!("Secret \"{name}\": {what}")).await;
            Ok(())
        }
        Err(error) if error.problem.is_overtaken() => Ok(()),
        Err(error) => {
            tracing::warn!(controller = CONTROLLER, namespace, secret = name, %error, "not cleaned");
            Err(error.problem)
        }
    }
}

/// Returns the Secrets that Pods of a namespace use now.
async fn mounted_in(client: &Client, namespace: &str) -> Result<BTreeSet<String>, WriteProblem> {
    let mut names = BTreeSet::new();
    pages(&Api::<Pod>::namespaced(client.clone(), namespace), ListParams::default(), |pod| {
        if let Ok(pod) = serde_json::to_value(pod) {
            mounted::add(&pod, &mut names);
        }
    })
    .await?;
    Ok(names)
}

/// Reads a Secret. Drops its data first.
fn view(secret: SecretObject) -> Option<Secret> {
    let bare = SecretObject { metadata: secret.metadata, ..SecretObject::default() };
    serde_json::to_value(bare).ok().map(|secret| Secret::of(&secret))
}
