//! Runs the chosen controllers side by side.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::task::JoinSet;

use crate::bundle;
use crate::context::Context;
use crate::default_account;
use crate::legacy_token_cleaner;
use crate::merged;
use crate::root_ca;
use crate::selection::Name;
use crate::sidecar_tokens;
use crate::token_controller;
use crate::watch::{Cluster, Report, Wanted};

/// The options of the controllers.
#[derive(Clone, Default)]
pub struct Options {
    /// `merged-serviceaccounts`.
    pub merged: merged::Options,
    /// `sidecar-tokens`.
    pub sidecar_tokens: sidecar_tokens::Options,
    /// `bundle`.
    pub bundle: bundle::Options,
    /// `serviceaccount-token`.
    pub token_controller: token_controller::Options,
    /// `root-ca-publisher`, which does not run without options.
    pub root_ca: Option<root_ca::Options>,
    /// `legacy-token-cleaner`.
    pub legacy_token_cleaner: legacy_token_cleaner::Options,
}

/// Returns the shared watches that these controllers need.
pub fn wanted(names: &BTreeSet<Name>) -> Wanted {
    let is_any_of = |of: &[Name]| of.iter().any(|name| names.contains(name));
    let about_sets = is_any_of(&[Name::MergedServiceAccounts, Name::SidecarTokens, Name::Bundle]);
    Wanted { sidecar_sets: about_sets, subjects: about_sets }
}

/// Runs the controllers for as long as it is polled. They never end by themselves; if one does, returns its name.
pub async fn run(context: Context, names: &BTreeSet<Name>, options: Options) -> Name {
    let mut tasks = JoinSet::new();
    let runs = |name: Name| names.contains(&name).then(|| context.clone());
    if names.contains(&Name::Bundle) {
        context.cluster.bundled.await_it();
    }
    if let Some(context) = runs(Name::MergedServiceAccounts) {
        start(&mut tasks, Name::MergedServiceAccounts, merged::run(context, options.merged));
    }
    if let Some(context) = runs(Name::SidecarTokens) {
        start(&mut tasks, Name::SidecarTokens, sidecar_tokens::run(context, options.sidecar_tokens));
    }
    if let Some(context) = runs(Name::Bundle) {
        start(&mut tasks, Name::Bundle, bundle::run(context, options.bundle));
    }
    if let Some(context) = runs(Name::ServiceAccount) {
        start(&mut tasks, Name::ServiceAccount, default_account::run(context));
    }
    if let Some(context) = runs(Name::ServiceAccountToken) {
        start(&mut tasks, Name::ServiceAccountToken, token_controller::run(context, options.token_controller));
    }
    if let (Some(context), Some(options)) = (runs(Name::RootCaPublisher), options.root_ca) {
        start(&mut tasks, Name::RootCaPublisher, root_ca::run(context, options));
    }
    if let Some(context) = runs(Name::LegacyTokenCleaner) {
        start(&mut tasks, Name::LegacyTokenCleaner, legacy_token_cleaner::run(context, options.legacy_token_cleaner));
    }
    match tasks.join_next_with_id().await {
        Some(Ok((_, name))) => name,
        // A controller that panics ends the process, which is then restarted.
        Some(Err(error)) => {
            tracing::error!(%error, "a controller ended");
            names.first().copied().unwrap_or(Name::Bundle)
        }
        None => std::future::pending().await,
    }
}

fn start(tasks: &mut JoinSet<Name>, name: Name, controller: impl Future<Output = ()> + Send + 'static) {
    tracing::info!(controller = %name, "started");
    tasks.spawn(async move {
        controller.await;
        name
    });
}

/// Whether this process is ready. A process that waits for the Lease is ready. A process that works is ready once it
/// has seen the cluster.
#[derive(Clone, Default)]
pub struct Readiness {
    cluster: Arc<RwLock<Option<Arc<Cluster>>>>,
    bundle: bundle::Health,
}

impl Readiness {
    /// Returns the readiness of a process that does not work yet.
    pub fn new(bundle: bundle::Health) -> Self {
        Self { cluster: Arc::default(), bundle }
    }

    /// Records that the process works from now on, with these watches.
    pub fn works(&self, cluster: Arc<Cluster>) {
        *self.cluster.write().unwrap_or_else(PoisonError::into_inner) = Some(cluster);
    }

    /// Returns the reasons why the process is not ready, and remarks.
    pub fn report(&self) -> Report {
        let cluster = self.cluster.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(cluster) = cluster else { return Report::default() };
        let mut report = cluster.report();
        report.problems.extend(self.bundle.problem().map(|problem| format!("bundle: {problem}")));
        report
    }
}
