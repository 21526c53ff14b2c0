//! Where the reviews go: the address and the path in a URL.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use http::Uri;
use pillion_server::Endpoint;
use pillion_server::client::{Client, ClientError, Protocol, TlsServer};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// The timeout that the API server names in the URL of each review.
const TIMEOUT: &str = "timeout=30s";

/// A server, and the path of its webhook.
#[derive(Debug)]
pub(super) struct Destination {
    transport: Transport,
    /// The only path to send reviews to, with its query. Without it, the server has the paths of `pillion serve`.
    path: Option<String>,
}

#[derive(Debug)]
enum Transport {
    Tls(TlsServer),
    /// Host and port of a server without TLS.
    Plain(String),
}

impl From<TlsServer> for Destination {
    /// The paths of `pillion serve` at this address.
    fn from(target: TlsServer) -> Self {
        Self { transport: Transport::Tls(target), path: None }
    }
}

impl Destination {
    /// Reads a URL. `ca` is the file with the authorities of the server's certificate, `name` the name in that
    /// certificate, if it is another one than the URL's.
    ///
    /// # Errors
    /// If the URL is not one of a server, or the file contains no authority.
    pub(super) fn new(url: &str, ca: Option<&Path>, name: Option<&str>) -> anyhow::Result<Self> {
        let wrong = || format!("--url {url:?}: must be https://host:port or http://host:port, and may name a path");
        let uri: Uri = url.parse().with_context(wrong)?;
        let host = uri.host().filter(|host| !host.is_empty()).with_context(wrong)?;
        let address = |port| format!("{host}:{}", uri.port_u16().unwrap_or(port));
        let transport = match (uri.scheme_str(), ca, name) {
            (Some("https"), Some(ca), name) => Transport::Tls(TlsServer {
                address: address(443),
                name: name.unwrap_or_else(|| host.trim_matches(['[', ']'])).to_owned(),
                roots: Arc::new(roots(ca)?),
            }),
            (Some("https"), None, _) => {
                bail!(
                    "--url {url:?}: needs --ca, the authority of the server's certificate; `pillion serve --ca-file` \
                       writes its own, the caBundle of a webhook configuration contains that of an installed one"
                )
            }
            (Some("http"), None, None) => Transport::Plain(address(80)),
            (Some("http"), ..) => {
                bail!("--url {url:?}: a server without TLS has no certificate, so leave out --ca and --tls-name")
            }
            _ => bail!(wrong()),
        };
        let path = uri.path_and_query().filter(|path| !matches!(path.as_str(), "" | "/")).map(|path| {
            let separator = if path.query().is_some() { '&' } else { '?' };
            format!("{path}{separator}{TIMEOUT}")
        });
        Ok(Self { transport, path })
    }

    /// Returns whether all reviews go to one path, that of a webhook for Pods.
    pub(super) const fn is_one_path(&self) -> bool {
        self.path.is_some()
    }

    /// Returns the name of the server in a table: its path, or the program that has several.
    pub(super) fn name(&self) -> &str {
        self.path.as_deref().and_then(|path| path.split('?').next()).unwrap_or("pillion serve")
    }

    /// Returns the path for reviews of an endpoint, with its query.
    pub(super) fn path(&self, endpoint: Endpoint) -> String {
        self.path.clone().unwrap_or_else(|| format!("{}?{TIMEOUT}", endpoint.path()))
    }

    /// Connects: with TLS in the HTTP version that the server prefers, without TLS with HTTP/1.1.
    ///
    /// # Errors
    /// If no server listens there, or its certificate is not valid.
    pub(super) async fn connect(&self) -> Result<Client, ClientError> {
        match &self.transport {
            Transport::Tls(target) => Client::connect(target, Protocol::Negotiated).await,
            Transport::Plain(address) => Client::connect_plain(address).await,
        }
    }
}

/// Reads the authorities in a PEM file.
fn roots(ca: &Path) -> anyhow::Result<RootCertStore> {
    let name = || ca.display().to_string();
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).with_context(name)? {
        roots.add(certificate.with_context(name)?).with_context(name)?;
    }
    if roots.is_empty() {
        bail!("{}: no certificate in it", name());
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn some_ca() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        std::fs::write(&path, pillion_certificates::TemporaryAuthority::new().unwrap().pem()).unwrap();
        (folder, path)
    }

    #[rstest]
    #[case("https://localhost:8443", None, "localhost:8443", "localhost")]
    #[case("https://localhost/", None, "localhost:443", "localhost")]
    #[case("https://[::1]:8443", None, "[::1]:8443", "::1")]
    #[case(
        "https://127.0.0.1:9876/mutate-pod",
        Some("webhook.kruise-system.svc"),
        "127.0.0.1:9876",
        "webhook.kruise-system.svc"
    )]
    fn urls_name_host_and_port(
        #[case] url: &str,
        #[case] tls_name: Option<&str>,
        #[case] address: &str,
        #[case] name: &str,
    ) {
        let (_folder, ca) = some_ca();
        let Transport::Tls(target) = Destination::new(url, Some(&ca), tls_name).unwrap().transport else {
            panic!("{url}")
        };
        assert_eq!((target.address.as_str(), target.name.as_str(), target.roots.len()), (address, name, 1));
    }

    #[rstest]
    #[case("http://localhost:3000/validate/sidecars", "localhost:3000")]
    #[case("http://localhost", "localhost:80")]
    fn a_server_may_have_no_tls(#[case] url: &str, #[case] expected: &str) {
        let Transport::Plain(address) = Destination::new(url, None, None).unwrap().transport else { panic!("{url}") };
        assert_eq!(address, expected);
    }

    #[rstest]
    #[case::of_the_endpoint("http://localhost", "/mutate?timeout=30s", "pillion serve")]
    #[case::of_the_endpoint("http://localhost/", "/mutate?timeout=30s", "pillion serve")]
    #[case::of_the_url("http://localhost/mutate-pod", "/mutate-pod?timeout=30s", "/mutate-pod")]
    #[case::with_a_query("http://localhost/validate/a?b=c", "/validate/a?b=c&timeout=30s", "/validate/a")]
    fn the_path_is_that_of_the_url_or_that_of_the_endpoint(#[case] url: &str, #[case] path: &str, #[case] name: &str) {
        let destination = Destination::new(url, None, None).unwrap();
        assert_eq!((destination.path(Endpoint::Mutate).as_str(), destination.name()), (path, name));
        assert_eq!(destination.is_one_path(), name != "pillion serve");
    }

    #[rstest]
    #[case("ftp://localhost", "may name a path")]
    #[case("https://", "may name a path")]
    #[case("localhost:8443", "may name a path")]
    #[case("https://localhost/mutate", "needs --ca")]
    fn other_urls_are_refused(#[case] url: &str, #[case] says: &str) {
        let error = format!("{:#}", Destination::new(url, None, None).unwrap_err());
        assert!(error.contains("--url") && error.contains(says), "{error}");
    }

    #[test]
    fn a_server_without_tls_has_no_authority() {
        let (_folder, ca) = some_ca();
        let error = Destination::new("http://localhost", Some(&ca), None).unwrap_err();
        assert!(error.to_string().contains("leave out --ca"), "{error}");
    }

    #[test]
    fn an_authority_without_a_certificate_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        assert!(Destination::new("https://localhost", Some(&path), None).is_err());
        std::fs::write(&path, "nothing").unwrap();
        let error = Destination::new("https://localhost", Some(&path), None).unwrap_err();
        assert!(error.to_string().ends_with("no certificate in it"));
    }
}
