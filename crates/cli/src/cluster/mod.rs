//! The cluster of the kubeconfig, for commands that look at one: the options that choose it, and reads that each
//! command makes the same way.

mod reader;
mod trouble;

use std::sync::Arc;

use anyhow::Context as _;
use kube::Config;
use kube::config::KubeConfigOptions;

pub use self::reader::{Kind, Reader};
pub use self::trouble::Trouble;

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

impl Connection {
    /// Returns the configuration of the chosen cluster, or `None` without `--cluster`. Sends no request.
    ///
    /// # Errors
    /// If neither a kubeconfig nor the environment of a Pod names a cluster, or the context does not exist.
    pub async fn config(&self) -> anyhow::Result<Option<Config>> {
        if !self.cluster {
            return Ok(None);
        }
        let Some(context) = &self.context else { return Config::infer().await.context("no cluster").map(Some) };
        let options = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
        Config::from_kubeconfig(&options).await.with_context(|| format!("no cluster: --context {context}")).map(Some)
    }

    /// Returns a reader of the chosen cluster, or `None` without `--cluster`. Sends no request.
    ///
    /// # Errors
    /// Those of [`Self::config`], and if the configuration is not usable.
    pub fn reader(&self) -> anyhow::Result<Option<Arc<Reader>>> {
        if !self.cluster {
            return Ok(None);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("the event loop")?;
        let Some(config) = runtime.block_on(self.config())? else { return Ok(None) };
        let reader = Reader::new(runtime, config).context("the cluster cannot be asked")?;
        Ok(Some(Arc::new(reader)))
    }
}
