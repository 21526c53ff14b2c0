//! `legacy-token-cleaner`: invalidates tokens that never expire and have been unused for a year, and deletes them after
//! another year (CLN-2).
//!
//! It runs once a day, so it lists the objects that it needs in pages, instead of watching them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret as SecretObject, ServiceAccount};
use kube::api::ListParams;
use kube::{Api, Client};
use pillion_plan::legacy_token_cleaner::{
    Secret, TRACKING, TRACKING_NAMESPACE, Verdict, is_tracked, is_unused, mounted, verdict,
};
use pillion_plan::token_controller::{Account, TOKEN_TYPE};
use pillion_runtime::context::Context;
use pillion_runtime::controller::{Controller, Done, Failure, NOT_SEEN_YET, Pace};
use pillion_runtime::problem::WriteProblem;
use pillion_runtime::read::{one, pages};
use pillion_runtime::rights::{Right, Scope, Situation};
use pillion_runtime::store::Progress;
use pillion_runtime::wakes::Wakes;
use serde_json::json;

const CONTROLLER: &str = LegacyTokenCleaner::NAME;
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

/// The controller. Its only key is [`Round`].
pub struct LegacyTokenCleaner {
    context: Context,
    options: Options,
    progress: Progress,
}

/// The round through all token Secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Round;

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the round")
    }
}

impl Controller for LegacyTokenCleaner {
    const NAME: &'static str = "legacy-token-cleaner";
    const IS_ON_BY_DEFAULT: bool = false;

    type Options = Options;
    type Key = Round;
    type KeyState = ();

    /// It depends on the time alone, so nothing wakes it.
    async fn start(context: Context, options: Options, _: Wakes<Round>) -> Self {
        let progress = context.store.progress(format!("{}: the last round", Self::NAME));
        Self { context, options, progress }
    }

    fn keys(&self) -> Vec<Round> {
        vec![Round]
    }

    fn exists(&self, _: &Round) -> bool {
        true
    }

    async fn reconcile(&self, _: &Round, (): &mut ()) -> Result<Done, Failure> {
        match clean(&self.context, self.options.period).await {
            Ok(is_complete) => {
                self.progress.done();
                Ok(Done::LookAgain(if is_complete { self.options.interval } else { NOT_SEEN_YET }))
            }
            Err(problem) => {
                self.progress.fail(format!("not completed: {problem}"));
                let retry_after = problem.retry_after();
                Err(Failure { text: format!("a round was not completed: {problem}"), retry_after })
            }
        }
    }

    fn pace(&self) -> Pace {
        Pace { longest_delay: self.options.interval, ..Pace::default() }
    }

    fn rights(_: &Situation) -> Vec<Right> {
        let secrets = "Unused token Secrets, once a day.";
        let account = "Which ServiceAccount refers to them.";
        let tracking = "Since when the API server has written down which tokens are used.";
        vec![
            Right::new(Scope::EverySecret, "", &["secrets"], &["list", "patch", "delete"], secrets),
            Right::new(Scope::EverySecret, "", &["serviceaccounts"], &["get"], account),
            Right::new(Scope::EverySecret, "", &["pods"], &["list"], "Whether a Pod mounts them."),
            Right::new(Scope::KubeSystem, "", &["configmaps"], &["get"], tracking).named(&[TRACKING]),
        ]
    }
}

/// Runs one round. A failed write does not stop the others. Returns false if another client changed an object at the
/// same time: another round sees the change.
///
/// # Errors
/// The first problem.
pub async fn clean(context: &Context, period: Duration) -> Result<bool, WriteProblem> {
    let (mut first, mut is_complete) = (None, true);
    for (namespace, secrets) in unused(context, period).await? {
        match judged(context, &namespace, secrets, period).await {
            Ok(judged) => {
                for (secret, verdict) in judged {
                    match carry_out_verdict(context, &secret, &verdict).await {
                        Ok(is_done) => is_complete &= is_done,
                        Err(problem) => drop(first.get_or_insert(problem)),
                    }
                }
            }
            Err(problem) => {
                first.get_or_insert(problem);
            }
        }
    }
    first.map_or(Ok(is_complete), Err)
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
            accounts.insert(secret.account.clone(), account.map(|account| Account::from_object(&account)));
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

/// Returns false if another client was faster.
async fn carry_out_verdict(context: &Context, secret: &Secret, verdict: &Verdict) -> Result<bool, WriteProblem> {
    let (step, reason, what) = match verdict {
        Verdict::Kept(_) => return Ok(true),
        Verdict::Invalidate(step) => (step, "LegacyTokenInvalidated", "its token was not used and is invalid now"),
        Verdict::Delete(step) => (step, "LegacyTokenDeleted", "its token was invalid for long and is gone now"),
    };
    let Secret { namespace, name, account, .. } = secret;
    let why = match verdict {
        Verdict::Delete(_) => format!("the token of ServiceAccount \"{account}\" was invalid for long"),
        _ => format!("the token of ServiceAccount \"{account}\" was not used, and becomes invalid"),
    };
    match context.effects(CONTROLLER).settle(step, &why).await {
        Ok(true) => {
            tracing::info!(controller = CONTROLLER, namespace, secret = name, account, reason, "cleaned");
            let object = json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": namespace, "uid": secret.account_uid}
            });
            context.events.normal(&object, "Clean", reason, format!("Secret \"{name}\": {what}")).await;
            Ok(true)
        }
        Ok(false) => Ok(false),
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
    serde_json::to_value(bare).ok().map(|secret| Secret::from_object(&secret))
}
