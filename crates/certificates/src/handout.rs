//! Channels that publish the served certificate and its status.

use std::sync::Arc;
use std::time::SystemTime;

use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::time::Time;

/// The status of the served certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The time of expiry.
    pub expires: SystemTime,
    /// Whether the certificate is kept. A self-signed certificate that is not yet kept in its Secret is served too, so
    /// that probes are answered, but webhook calls fail because the API server does not know it.
    pub ready: bool,
    /// The problems of the last attempt to maintain the certificate; empty if there are none.
    pub problems: Vec<String>,
    /// Objects that have no `caBundle` to write yet.
    pub waiting: Vec<String>,
}

/// Publishes a certificate and its status.
pub(crate) struct Handout {
    pub(crate) certificate: watch::Sender<Arc<CertifiedKey>>,
    pub(crate) status: watch::Sender<Status>,
}

impl Handout {
    pub(crate) fn new(key: CertifiedKey, expires: Time, ready: bool) -> Self {
        let status = Status { expires: expires.into(), ready, problems: Vec::new(), waiting: Vec::new() };
        Self { certificate: watch::Sender::new(Arc::new(key)), status: watch::Sender::new(status) }
    }

    /// Publishes another certificate, which is kept.
    pub(crate) fn replace(&self, key: CertifiedKey, expires: Time) {
        self.certificate.send_replace(Arc::new(key));
        self.status.send_modify(|status| (status.expires, status.ready) = (expires.into(), true));
    }

    /// Spawns `work` and returns the receivers of the certificate and the status.
    pub(crate) fn during(&self, work: impl Future<Output = ()> + Send + 'static) -> Certificates {
        let (certificate, status) = (self.certificate.subscribe(), self.status.subscribe());
        Certificates { certificate, status, task: tokio::spawn(work) }
    }
}

/// A maintained certificate. Dropping this ends the maintenance.
#[derive(Debug)]
pub struct Certificates {
    certificate: watch::Receiver<Arc<CertifiedKey>>,
    status: watch::Receiver<Status>,
    task: JoinHandle<()>,
}

impl Certificates {
    /// Returns a receiver of the newest certificate and key.
    pub fn certificate(&self) -> watch::Receiver<Arc<CertifiedKey>> {
        self.certificate.clone()
    }

    /// Returns a receiver of the status.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Ends the maintenance and returns when its task has ended.
    pub async fn stop(mut self) {
        self.task.abort();
        // The expected result is "cancelled"; a panic has already been printed.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        self.task.abort();
    }
}
