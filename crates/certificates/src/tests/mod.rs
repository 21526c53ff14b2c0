//! Tests of the self-signed source on a stand-in API server, and of files.

mod bundle;
mod files;
mod keeper;
mod plan;
mod rotation;
mod secret;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pillion_testkit::api_server::ApiServer;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::{Value, json};

use crate::time::Time;
use crate::{Clock, pem};

pub(super) const NOW: Time = Time(1_800_000_000);
pub(super) const SECRET: &str = "/api/v1/namespaces/sys/secrets/pillion-serve-tls";
pub(super) const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/pillion";
pub(super) const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/sidecarsets.apps.kruise.io";

/// A clock that tests advance.
#[derive(Clone)]
pub(super) struct TestClock(Arc<AtomicI64>);

impl TestClock {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicI64::new(NOW.0)))
    }

    pub(super) fn advance(&self, length: Duration) {
        self.0.fetch_add(i64::try_from(length.as_secs()).unwrap(), Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> Time {
        Time(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn clock(&self) -> Clock {
        let clock = self.clone();
        Arc::new(move || clock.now().into())
    }
}

/// Verifies a certificate as the API server does: with the roots of a bundle, for the Service's name.
pub(super) fn verify(certificate: &CertificateDer<'static>, bundle: &[u8], at: Time) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for authority in pem::certificates(bundle).0 {
        roots.add(authority).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let verifier = verifier.map_err(|error| error.to_string())?;
    let name = ServerName::try_from("pillion.sys.svc").unwrap();
    let at = UnixTime::since_unix_epoch(Duration::from_secs(at.0.unsigned_abs()));
    verifier.verify_server_cert(certificate, &[], &name, &[], at).map(|_| ()).map_err(|error| error.to_string())
}

/// Returns a configuration with two of our webhooks and one of another owner.
pub(super) fn hooks() -> Value {
    let ours = |name: &str| json!({"name": name, "clientConfig": {"service": {"name": "pillion", "namespace": "sys", "path": "/mutate"}}});
    let other =
        json!({"name": "x", "clientConfig": {"service": {"name": "x", "namespace": "sys"}, "caBundle": "eA=="}});
    json!({"metadata": {"name": "pillion"}, "webhooks": [ours("a"), other, ours("b")]})
}

pub(super) fn crd() -> Value {
    let config = json!({"service": {"name": "pillion", "namespace": "sys", "path": "/convert"}});
    let conversion = json!({"strategy": "Webhook", "webhook": {"clientConfig": config}});
    json!({"metadata": {"name": "sidecarsets.apps.kruise.io"}, "spec": {"conversion": conversion}})
}

/// Returns the bundle at a JSON pointer; empty if absent.
pub(super) fn bundle_at(server: &ApiServer, path: &str, pointer: &str) -> Vec<u8> {
    let object = server.object(path).unwrap_or_default();
    let text = object.pointer(&format!("{pointer}/caBundle")).and_then(Value::as_str).unwrap_or_default();
    STANDARD.decode(text).unwrap()
}

/// Returns all of our bundles that exist.
pub(super) fn bundles(server: &ApiServer) -> Vec<Vec<u8>> {
    let places = [
        (HOOKS, "/webhooks/0/clientConfig"),
        (HOOKS, "/webhooks/2/clientConfig"),
        (CRD, "/spec/conversion/webhook/clientConfig"),
    ];
    let there = places.into_iter().filter(|(path, _)| server.object(path).is_some());
    there.map(|(path, pointer)| bundle_at(server, path, pointer)).collect()
}
