//! Sources of the server's certificate, and how the API server comes to trust it.
//!
//! | source | certificates made by | `caBundle` written by |
//! | --- | --- | --- |
//! | [`self_signed`] (the default) | this server, kept in a Secret that all replicas share | this server |
//! | [`from_files`] | the author of the files | the author of the webhook configuration |
//! | cert-manager | cert-manager, into a Secret that is mounted: [`from_files`] | its ca-injector |
//!
//! Each source publishes the newest certificate and its status through channels. The server reads the certificate for
//! each handshake, so a change drops no connection. `docs/certificates.md` is for users.

mod api;
mod authority;
mod bundle;
mod contents;
mod files;
mod keeper;
mod names;
mod pem;
mod plan;
mod secret;
mod serving;
#[cfg(test)]
mod tests;
mod time;
mod x509;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kube::Client;
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::api::CertificateError;
pub use self::authority::{Lifetimes, MakeError};
pub use self::bundle::{Service, Target};
pub use self::files::{FileError, Files};
use self::keeper::Keeper;
pub use self::names::{NameError, ServerNames};
pub use self::secret::NotOurs;
use self::time::Time;

/// Returns the current time; [`system_clock`] outside tests.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Returns the clock of this machine.
pub fn system_clock() -> Clock {
    Arc::new(SystemTime::now)
}

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

/// Returns when a certificate expires; `None` if it cannot be read.
pub(super) fn expiry(key: &CertifiedKey) -> Option<SystemTime> {
    x509::expiry(key.cert.first()?).map(SystemTime::from)
}

/// Publishes a certificate and its status.
struct Handout {
    certificate: watch::Sender<Arc<CertifiedKey>>,
    status: watch::Sender<Status>,
}

impl Handout {
    fn new(key: CertifiedKey, expires: Time, ready: bool) -> Self {
        let status = Status { expires: expires.into(), ready, problems: Vec::new(), waiting: Vec::new() };
        Self { certificate: watch::Sender::new(Arc::new(key)), status: watch::Sender::new(status) }
    }

    /// Publishes another certificate, which is kept.
    fn replace(&self, key: CertifiedKey, expires: Time) {
        self.certificate.send_replace(Arc::new(key));
        self.status.send_modify(|status| (status.expires, status.ready) = (expires.into(), true));
    }

    /// Spawns `work` and returns the receivers of the certificate and the status.
    fn during(&self, work: impl Future<Output = ()> + Send + 'static) -> Certificates {
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

/// How to maintain a self-signed authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfSigned {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret that holds the authority and the certificate. It is created if absent.
    pub secret: String,
    /// The Service that the API server calls.
    pub service: Service,
    /// The names in the certificate, usually [`ServerNames::of_service`] of that Service.
    pub names: ServerNames,
    /// The objects whose `caBundle` is written.
    pub targets: Vec<Target>,
    /// The interval between rounds. If another client resets a `caBundle`, the next round repairs it.
    pub interval: Duration,
    /// The lifetimes of certificates.
    pub life: Lifetimes,
}

impl SelfSigned {
    /// The default name of the Secret.
    pub const SECRET: &str = "pillion-serve-tls";
    /// The default interval.
    pub const INTERVAL: Duration = Duration::from_secs(10);

    /// Returns the options for a Service in the namespace of this process, with the defaults for the rest.
    ///
    /// # Errors
    /// [`NameError`] if the name of the Service or the namespace is invalid.
    pub fn for_service(name: &str, namespace: &str, targets: Vec<Target>) -> Result<Self, NameError> {
        Ok(Self {
            namespace: namespace.to_owned(),
            secret: Self::SECRET.to_owned(),
            service: Service { name: name.to_owned(), namespace: namespace.to_owned() },
            names: ServerNames::of_service(name, namespace)?,
            targets,
            interval: Self::INTERVAL,
            life: Lifetimes::default(),
        })
    }
}

/// Maintains a self-signed authority and a server certificate signed by it: creates them if absent, renews them in
/// time, and writes the authority into the `caBundle` of every target.
///
/// Returns at once with a certificate that only this process knows; [`Status::ready`] turns true once the one of the
/// Secret replaces it. Later failures appear in [`Status::problems`] and in the log, and are retried; meanwhile the
/// current certificate is served as long as it is valid. The client's timeouts do not matter.
///
/// # Errors
/// [`CertificateError`] if no certificate can be created: there is no randomness, or a name is invalid.
///
/// # Panics
/// Outside a tokio runtime.
pub fn self_signed(client: Client, options: SelfSigned, clock: Clock) -> Result<Certificates, CertificateError> {
    let keeper = Keeper::new(client, options, clock)?;
    Ok(Arc::clone(&keeper.handout).during(keeper.run()))
}

/// Serves a certificate from files, and reads them again when they change.
///
/// # Errors
/// [`FileError`] if the files hold no usable certificate at the start. Later, an unusable certificate is reported in
/// [`Status::problems`] and in the log, and the previous one stays in use.
///
/// # Panics
/// Outside a tokio runtime.
pub fn from_files(options: Files, clock: Clock) -> Result<Certificates, FileError> {
    let watcher = files::Watcher::new(options, clock)?;
    Ok(Arc::clone(&watcher.handout).during(watcher.run()))
}
