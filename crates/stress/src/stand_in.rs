//! A stand-in for an API server, over HTTP on a loopback address.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use axum::Router;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// A stand-in that answers requests. Dropping it closes all connections.
pub struct StandIn {
    address: SocketAddr,
    /// Runs it and its connections, which end with this.
    runtime: Option<Runtime>,
}

impl StandIn {
    /// Starts a stand-in at an address; port 0 is any that is free.
    ///
    /// # Errors
    /// The address is taken.
    pub fn start(address: SocketAddr, router: Router) -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind(address).context("a stand-in API server")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = Runtime::new().context("a stand-in API server")?;
        runtime.spawn(async move { axum::serve(TcpListener::from_std(listener)?, router).await });
        Ok(Self { address, runtime: Some(runtime) })
    }

    /// Returns its address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Writes a kubeconfig whose user has this token, and returns its path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn kubeconfig(&self, folder: &Path, token: &str) -> anyhow::Result<PathBuf> {
        let file = folder.join(format!("{token}.kubeconfig"));
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "stand-in",
            "clusters": [{"name": "stand-in", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "stand-in", "user": {"token": token}}],
            "contexts": [{"name": "stand-in", "context": {"cluster": "stand-in", "user": "stand-in"}}]
        });
        std::fs::write(&file, config.to_string()).with_context(|| file.display().to_string())?;
        Ok(file)
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
