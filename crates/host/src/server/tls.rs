//! The server's side of TLS.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

/// The newest certificate, for each handshake: connections that are open stay as they are.
#[derive(Debug)]
struct Newest(watch::Receiver<Arc<CertifiedKey>>);

impl ResolvesServerCert for Newest {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.borrow()))
    }
}

/// TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1. Who calls is not asked: whether the API server authenticates itself is
/// configured there, and what is answered here is no secret.
///
/// # Errors
/// Where the crypto provider has no suites for these versions, which the build would have to have broken.
pub(super) fn config(certificates: watch::Receiver<Arc<CertifiedKey>>) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Newest(certificates)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
