//! A stand-in for an API server, over HTTP on a loopback address.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use axum::Router;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// A stand-in that answers requests. Dropping it closes all connections, without waiting for their end.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::*;

    /// Sends a request over a connection that stays open, and returns the start of the answer.
    async fn answer(stream: &mut TcpStream) -> String {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = vec![0; 15];
        stream.read_exact(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn open_connections_end_with_it_and_it_can_come_back() {
        let stand_in = StandIn::start(([127, 0, 0, 1], 0).into(), Router::new().fallback(async || "here")).unwrap();
        let address = stand_in.address();
        let mut stream = TcpStream::connect(address).await.unwrap();
        assert_eq!(answer(&mut stream).await, "HTTP/1.1 200 OK");
        drop(stand_in);
        // The end of the connection, or its reset.
        let _ = timeout(Duration::from_secs(10), stream.read_to_end(&mut Vec::new())).await.unwrap();
        // Its threads end on their own, soon.
        let ended = async { while TcpStream::connect(address).await.is_ok() {} };
        timeout(Duration::from_secs(10), ended).await.unwrap();
        let _again = StandIn::start(address, Router::new().fallback(async || "again")).unwrap();
        assert_eq!(answer(&mut TcpStream::connect(address).await.unwrap()).await, "HTTP/1.1 200 OK");
    }
}
