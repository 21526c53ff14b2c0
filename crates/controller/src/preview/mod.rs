//! What the controllers would do, without doing it: `pillion plan`.
//!
//! The controllers' own watches and plans, once, on a client that cannot write ([`client`]): what it shows is the cluster,
//! or what manifests say ([`Situation`]), or the cluster as it would be with them.

mod difference;
mod objects;
mod server;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::{Client, ResourceExt as _};
use pillion_admission::settings::Settings;
use pillion_plan::Step;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::bundle;
use crate::context::{Clock, Context};
use crate::default_account;
use crate::legacy_token;
use crate::merged;
use crate::root_ca;
use crate::run::{self, Options};
use crate::selection::Name;
use crate::token_secret;
use crate::tokens;
use crate::watch::Cluster;
use crate::write::target;

pub use self::difference::differences;
pub use self::objects::{Situation, problem};
pub use self::server::client;

/// How long the cluster may take to list what is looked at.
const PATIENCE: Duration = Duration::from_mins(2);
/// How often it is looked whether something keeps it from that.
const LOOK: Duration = Duration::from_millis(200);

/// What would be done, in the order in which it would be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// By controller and namespace; the bundle comes first.
    pub changes: Vec<Change>,
    /// What cannot be done, or was not asked for, and somebody should know.
    pub problems: Vec<Remark>,
    /// What will be done later if nothing changes until then.
    pub later: Vec<Remark>,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Who would do it.
    pub controller: Name,
    /// What.
    pub verb: Verb,
    /// The object's `apiVersion`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, where it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// What for, in a few words.
    pub why: String,
    /// What would be sent: the object, or the merge patch. Never a token.
    pub body: Option<Value>,
}

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// It is made.
    Create,
    /// It is changed.
    Change,
    /// It is deleted.
    Delete,
    /// A token is asked for, and written into it.
    Mint,
}

impl Verb {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Delete => "delete",
            Self::Mint => "mint",
        }
    }
}

/// Something to know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    /// Whose it is.
    pub controller: Name,
    /// Where.
    pub namespace: Option<String>,
    /// What, in a sentence without a full stop.
    pub text: String,
}

/// Why there is no preview.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Something could not be read.
    #[error("the cluster could not be read: {0}")]
    Unreadable(String),
    /// It took too long.
    #[error("the cluster was not listed within {} s", PATIENCE.as_secs())]
    Silent,
}

/// What these controllers would do now.
///
/// # Errors
/// [`Problem`].
pub async fn preview(
    client: Client,
    settings: Arc<Settings>,
    names: &BTreeSet<Name>,
    options: Options,
    clock: Clock,
) -> Result<Preview, Problem> {
    // Settings that never change: the sender is gone.
    let settings = watch::channel(settings).1;
    let context = Context { clock, ..Context::new(client, run::wanted(names), settings) };
    let cluster = Arc::clone(&context.cluster);
    let seen = async {
        cluster.listed().await;
        let mut all = Preview::default();
        // The others wait for what is in the bundle.
        let (bundle, others): (Vec<&Name>, Vec<&Name>) = names.iter().partition(|name| **name == Name::Bundle);
        for name in bundle.into_iter().chain(others) {
            of(*name, &context, &options, &mut all).await?;
        }
        Ok(all)
    };
    tokio::select! {
        preview = seen => preview,
        problem = hindered(&cluster) => Err(Problem::Unreadable(problem)),
        () = sleep(PATIENCE) => Err(Problem::Silent),
    }
}

async fn of(name: Name, context: &Context, options: &Options, all: &mut Preview) -> Result<(), Problem> {
    match name {
        Name::MergedServiceAccounts => merged::preview(context, &options.merged, all).await,
        Name::SidecarTokens => tokens::preview(context, &options.tokens, all).await,
        Name::Bundle => bundle::preview(context, &options.bundle, all).await.map_err(Problem::Unreadable)?,
        Name::ServiceAccount => default_account::preview(context, all).await,
        Name::ServiceAccountToken => token_secret::preview(context, &options.token_secret, all).await,
        Name::RootCaPublisher => {
            if let Some(options) = &options.root_ca {
                root_ca::preview(context, options, all).await;
            }
        }
        Name::LegacyTokenCleaner => legacy_token::preview(context, &options.legacy_token, all)
            .await
            .map_err(|problem| Problem::Unreadable(problem.to_string()))?,
    }
    Ok(())
}

async fn hindered(cluster: &Cluster) -> String {
    loop {
        sleep(LOOK).await;
        if let Some(problem) = cluster.failures().into_iter().next() {
            return problem;
        }
    }
}

/// The names of all namespaces, ascending.
pub(crate) fn namespaces(context: &Context) -> Vec<Arc<k8s_openapi::api::core::v1::Namespace>> {
    let mut all = context.cluster.namespaces.state();
    all.sort_by_key(|namespace| namespace.name_any());
    all
}

impl Preview {
    /// Adds steps of one plan. What is made and then applied is one change to whoever reads it.
    pub(crate) fn steps(&mut self, controller: Name, steps: &[Step], why: &str) {
        let first = self.changes.len();
        for step in steps {
            let object = target(step);
            let (verb, body) = match step {
                Step::Create(body) => (Verb::Create, Some(body.clone())),
                Step::Apply(body) => (Verb::Change, Some(body.clone())),
                Step::Patch { patch, .. } => (Verb::Change, Some(patch.clone())),
                Step::Delete { .. } => (Verb::Delete, None),
            };
            let same = self.changes.iter_mut().skip(first).rfind(|change| {
                (change.verb, change.kind.as_str(), change.namespace.as_deref(), change.name.as_str())
                    == (Verb::Create, &object.kind, object.namespace.as_deref(), &object.name)
            });
            match (same, step) {
                (Some(made), Step::Apply(_)) => made.body = body,
                _ => self.changes.push(Change {
                    controller,
                    verb,
                    api_version: object.api_version,
                    kind: object.kind,
                    namespace: object.namespace,
                    name: object.name,
                    why: why.to_owned(),
                    body,
                }),
            }
        }
    }

    pub(crate) fn problem(&mut self, controller: Name, namespace: Option<&str>, text: impl Into<String>) {
        let namespace = namespace.map(str::to_owned);
        self.problems.push(Remark { controller, namespace, text: text.into() });
    }

    pub(crate) fn later(&mut self, controller: Name, namespace: Option<&str>, text: impl Into<String>) {
        let namespace = namespace.map(str::to_owned);
        self.later.push(Remark { controller, namespace, text: text.into() });
    }
}
