//! The server's side of TLS.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

/// Resolves each handshake to the newest certificate. Open connections keep theirs.
#[derive(Debug)]
struct Newest(watch::Receiver<Arc<CertifiedKey>>);

impl ResolvesServerCert for Newest {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.borrow()))
    }
}

/// Returns the configuration: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1. Clients are not authenticated: the answers are not
/// secret, and the API server presents a client certificate only if configured to.
///
/// # Errors
/// If the crypto provider has no suites for these versions, which only a broken build can cause.
pub(crate) fn config(certificates: watch::Receiver<Arc<CertifiedKey>>) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Newest(certificates)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
