//! `legacy-token-cleaner`: tokens that never expire and that nobody has used for a year become invalid, and go after
//! another year (`serviceaccounts.md` C3).
//!
//! It looks once a day, so it lists what it needs then, in pages, instead of keeping it all the time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret as SecretObject, ServiceAccount};
use kube::api::ListParams;
use kube::{Api, Client};
use pillion_core::plan::legacy_token::{
    Secret, TRACKING, TRACKING_NAMESPACE, Verdict, is_tracked, is_unused, mounted, verdict,
};
use pillion_core::plan::token_secret::{Account, TOKEN_TYPE};
use pillion_core::time::Timestamp;
use serde_json::json;
use tokio::time::sleep;

use crate::backoff::Backoff;
use crate::context::Context;
use crate::read::{one, pages};
use crate::write::{Problem, carry_out};

/// Its name.
pub const CONTROLLER: &str = "legacy-token-cleaner";
/// After a round that failed.
const RETRY: Duration = Duration::from_mins(1);

/// What it is told.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long a token has to be unused before it becomes invalid, and invalid before it goes.
    pub period: Duration,
    /// How often to look.
    pub interval: Duration,
}

impl Default for Options {
    /// A year, and a day: kube-controller-manager's.
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

/// One round. What cannot be written keeps nothing else from being written.
///
/// # Errors
/// The first problem. What somebody else changed in the meantime is none: it is seen in the next round.
pub async fn clean(context: &Context, period: Duration) -> Result<(), Problem> {
    let now = context.clock.now();
    let period = i64::try_from(period.as_secs()).unwrap_or(i64::MAX);
    let client = &context.client;
    let tracking = one(&Api::<ConfigMap>::namespaced(client.clone(), TRACKING_NAMESPACE), TRACKING).await?;
    if let Err(reason) = is_tracked(&json!({"data": tracking.and_then(|map| map.data)}), period, now) {
        tracing::info!(controller = CONTROLLER, %reason, "nothing can be cleaned yet");
        return Ok(());
    }
    let mut namespaces = BTreeMap::<String, Vec<Secret>>::new();
    let selection = ListParams::default().fields(&format!("type={TOKEN_TYPE}"));
    pages(&Api::<SecretObject>::all(client.clone()), selection, |secret| {
        let Some(secret) = view(secret).filter(|secret| is_unused(secret, period, now).is_ok()) else { return };
        namespaces.entry(secret.namespace.clone()).or_default().push(secret);
    })
    .await?;
    let mut first = None;
    for (namespace, secrets) in namespaces {
        if let Err(problem) = clean_namespace(context, &namespace, &secrets, period, now).await {
            first.get_or_insert(problem);
        }
    }
    first.map_or(Ok(()), Err)
}

async fn clean_namespace(
    context: &Context,
    namespace: &str,
    secrets: &[Secret],
    period: i64,
    now: Timestamp,
) -> Result<(), Problem> {
    let mut accounts = BTreeMap::<&str, Option<Account>>::new();
    let api = Api::<ServiceAccount>::namespaced(context.client.clone(), namespace);
    for secret in secrets.iter().filter(|secret| !secret.account.is_empty()) {
        if !accounts.contains_key(secret.account.as_str()) {
            let account = one(&api, &secret.account).await?;
            let account = account.and_then(|account| serde_json::to_value(account).ok());
            accounts.insert(&secret.account, account.map(|account| Account::of(&account)));
        }
    }
    let judged = |secret: &Secret, mounted: &BTreeSet<String>| {
        let account = accounts.get(secret.account.as_str()).and_then(Option::as_ref);
        verdict(secret, account, mounted, period, now)
    };
    // Pods are looked at only for what would go without them.
    let nobody = BTreeSet::new();
    if secrets.iter().all(|secret| matches!(judged(secret, &nobody), Verdict::Kept(_))) {
        return Ok(());
    }
    let mounted = mounted_in(&context.client, namespace).await?;
    let mut first = None;
    for secret in secrets {
        let (step, reason, what) = match judged(secret, &mounted) {
            Verdict::Kept(_) => continue,
            Verdict::Invalidate(step) => (step, "LegacyTokenInvalidated", "its token was not used and is invalid now"),
            Verdict::Delete(step) => (step, "LegacyTokenDeleted", "its token was invalid for long and is gone now"),
        };
        let Secret { name, account, .. } = secret;
        match carry_out(&context.client, &step).await {
            Ok(_) => {
                tracing::info!(controller = CONTROLLER, namespace, secret = name, account, reason, "cleaned");
                let object = json!({
                    "apiVersion": "v1", "kind": "ServiceAccount",
                    "metadata": {"name": account, "namespace": namespace, "uid": secret.account_uid}
                });
                context.events.warning(&object, "Clean", reason, format!("Secret \"{name}\": {what}")).await;
            }
            Err(error) if error.problem.is_overtaken() => {}
            Err(error) => {
                tracing::warn!(controller = CONTROLLER, namespace, secret = name, %error, "not cleaned");
                first.get_or_insert(error.problem);
            }
        }
    }
    first.map_or(Ok(()), Err)
}

/// The Secrets that Pods of a namespace use now.
async fn mounted_in(client: &Client, namespace: &str) -> Result<BTreeSet<String>, Problem> {
    let mut names = BTreeSet::new();
    pages(&Api::<Pod>::namespaced(client.clone(), namespace), ListParams::default(), |pod| {
        if let Ok(pod) = serde_json::to_value(pod) {
            mounted::add(&pod, &mut names);
        }
    })
    .await?;
    Ok(names)
}

/// Without what is secret in it, before anything else is done.
fn view(secret: SecretObject) -> Option<Secret> {
    let bare = SecretObject { metadata: secret.metadata, ..SecretObject::default() };
    serde_json::to_value(bare).ok().map(|secret| Secret::of(&secret))
}
