//! The writes that the chosen controllers would carry out now.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use pillion_admission::settings::Settings;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::bundle;
use crate::context::{Clock, Context};
use crate::default_account;
use crate::legacy_token_cleaner;
use crate::merged;
use crate::preview::{PATIENCE, Preview, PreviewError};
use crate::root_ca;
use crate::run::{self, Options};
use crate::selection::Name;
use crate::sidecar_tokens;
use crate::token_controller;
use crate::watch::Cluster;

/// The interval between checks for failed watches.
const LOOK: Duration = Duration::from_millis(200);

/// Returns the writes that these controllers would carry out now.
///
/// # Errors
/// [`PreviewError`].
pub async fn preview(
    client: Client,
    settings: Arc<Settings>,
    names: &BTreeSet<Name>,
    options: Options,
    clock: Clock,
) -> Result<Preview, PreviewError> {
    // These settings never change, because the sender is dropped.
    let settings = watch::channel(settings).1;
    let context = Context { clock, ..Context::new(client, run::wanted(names), settings) };
    let cluster = Arc::clone(&context.cluster);
    let seen = async {
        cluster.listed().await;
        let mut all = Preview::default();
        // The other controllers depend on the contents of the bundle.
        let (bundle, others): (Vec<&Name>, Vec<&Name>) = names.iter().partition(|name| **name == Name::Bundle);
        for name in bundle.into_iter().chain(others) {
            of(*name, &context, &options, &mut all).await?;
        }
        Ok(all)
    };
    tokio::select! {
        preview = seen => preview,
        problem = hindered(&cluster) => Err(PreviewError::Unreadable(problem)),
        () = sleep(PATIENCE) => Err(PreviewError::Silent),
    }
}

async fn of(name: Name, context: &Context, options: &Options, all: &mut Preview) -> Result<(), PreviewError> {
    match name {
        Name::MergedServiceAccounts => merged::preview(context, &options.merged, all).await,
        Name::SidecarTokens => sidecar_tokens::preview(context, &options.sidecar_tokens, all).await,
        Name::Bundle => bundle::preview(context, &options.bundle, all).await.map_err(PreviewError::Unreadable)?,
        Name::ServiceAccount => default_account::preview(context, all).await,
        Name::ServiceAccountToken => token_controller::preview(context, &options.token_controller, all).await,
        Name::RootCaPublisher => {
            if let Some(options) = &options.root_ca {
                root_ca::preview(context, options, all).await;
            }
        }
        Name::LegacyTokenCleaner => legacy_token_cleaner::preview(context, &options.legacy_token_cleaner, all)
            .await
            .map_err(|problem| PreviewError::Unreadable(problem.to_string()))?,
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
