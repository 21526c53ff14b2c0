//! A cluster as commands see it.
//!
//! Here are the options that choose a cluster of the kubeconfig, and the requests that each command makes the same
//! way: reads ([`Reader`]), watches ([`Reader::watch`]) and writes ([`Writer`], [`Change`]). [`rollouts`] sums up how
//! far the rollouts of SidecarSets are.
//!
//! It never decides what a rollout does next: [`pillion_rollout`] does. It never reads settings or a file other than
//! the kubeconfig, and prints only how a write ended ([`Writing`], [`concluded`]) and that a cluster is slow to
//! answer.
//!
//! Start with [`Kubeconfig`] and [`Reader`]; for rollouts, with [`rollouts::report`].
#![forbid(unsafe_code)]

mod change;
mod git_ops;
mod kind;
pub mod manifests;
mod reader;
pub mod rollouts;
mod trouble;
mod watch;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use kube::Config;
use kube::config::{KubeConfigOptions, KubeconfigError};

pub use self::change::{Change, DryRun, Forced, Refusal, Writing, concluded};
pub use self::git_ops::{Owner, owner};
pub use self::kind::Kind;
pub use self::reader::Reader;
pub use self::trouble::{NO_DEFINITION, Trouble};
pub use self::watch::{Ended, Event};
pub use self::writer::{Evicted, WriteError, Writer};

/// The options that choose a cluster.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Connection {
    /// Look at the cluster of the kubeconfig, with the manifests as if they had been applied.
    #[arg(long)]
    pub cluster: bool,
    /// With --cluster: the context of the kubeconfig.
    #[arg(long, value_name = "NAME", requires = "cluster")]
    pub context: Option<String>,
}

/// The options of commands that always look at a cluster, as kubectl has them.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Kubeconfig {
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The kubeconfig; by default, the file that KUBECONFIG names, or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

impl Kubeconfig {
    /// Returns the configuration of the chosen cluster. Sends no request.
    ///
    /// # Errors
    /// If neither a kubeconfig nor the environment of a Pod names a cluster, or the context does not exist.
    pub async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        match (&self.kubeconfig, &self.context) {
            (Some(file), _) => {
                let read = kube::config::Kubeconfig::read_from(file).map_err(|error| no_cluster(&error))?;
                let named = |error: KubeconfigError| anyhow!("no cluster: {}: {}", file.display(), message(&error));
                Config::from_custom_kubeconfig(read, &options).await.map_err(named)
            }
            (None, Some(context)) => {
                let named = |error: KubeconfigError| anyhow!("no cluster: --context {context}: {}", message(&error));
                Config::from_kubeconfig(&options).await.map_err(named)
            }
            // As `Config::infer`, whose error has the same text several times.
            (None, None) => match Config::from_kubeconfig(&options).await {
                Ok(config) => Ok(config),
                Err(of_file) => Config::incluster().map_err(|of_pod| match std::env::var_os(IN_A_POD) {
                    Some(_) => anyhow!("{}; the account of this Pod cannot be used: {of_pod}", no_cluster(&of_file)),
                    None => no_cluster(&of_file),
                }),
            },
        }
    }

    /// Returns a reader of the chosen cluster. Sends no request.
    ///
    /// # Errors
    /// Those of [`Self::config`], and if the configuration is not usable.
    pub fn reader(&self) -> anyhow::Result<Arc<Reader>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("the event loop")?;
        let config = runtime.block_on(self.config())?;
        let reader = Reader::new(runtime, config).context("the cluster cannot be asked")?;
        Ok(Arc::new(reader))
    }
}

/// The variable that the kubelet sets in every container.
const IN_A_POD: &str = "KUBERNETES_SERVICE_HOST";

fn no_cluster(error: &KubeconfigError) -> anyhow::Error {
    anyhow!("no cluster: {}", message(error))
}

/// Returns the text of an error about a kubeconfig. It has that of the causes already.
fn message(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(why, file) => format!("the kubeconfig {} cannot be read: {why}", file.display()),
        other => other.to_string(),
    }
}

impl Connection {
    /// Returns the configuration of the chosen cluster, or `None` without `--cluster`. Sends no request.
    ///
    /// # Errors
    /// If neither a kubeconfig nor the environment of a Pod names a cluster, or the context does not exist.
    pub async fn config(&self) -> anyhow::Result<Option<Config>> {
        if self.cluster { self.kubeconfig().config().await.map(Some) } else { Ok(None) }
    }

    fn kubeconfig(&self) -> Kubeconfig {
        Kubeconfig { context: self.context.clone(), kubeconfig: None }
    }

    /// Returns a reader of the chosen cluster, or `None` without `--cluster`. Sends no request.
    ///
    /// # Errors
    /// Those of [`Self::config`], and if the configuration is not usable.
    pub fn reader(&self) -> anyhow::Result<Option<Arc<Reader>>> {
        if !self.cluster {
            return Ok(None);
        }
        self.kubeconfig().reader().map(Some)
    }
}
