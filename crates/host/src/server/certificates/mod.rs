//! Where the server's certificate comes from, and who makes the API server trust it.
//!
//! | way | who makes certificates | who writes `caBundle` |
//! | --- | --- | --- |
//! | [`self_signed`] (the default) | this server, kept in a Secret that all replicas share | this server |
//! | [`from_files`] | whoever writes the files | whoever made the webhook configuration |
//! | cert-manager | cert-manager, into a Secret that is mounted: [`from_files`] | its ca-injector |
//!
//! Each of them hands out the newest certificate through a channel, so that a server reads it for each handshake and
//! drops nothing when it changes, and beside it what there is to tell of it. `docs/certificates.md` is for users.

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

pub use self::api::Problem;
pub use self::authority::{Lifetimes, MakeError};
pub use self::bundle::{Service, Target};
pub use self::files::{FileError, Files};
use self::keeper::Keeper;
pub use self::names::{NameError, ServerNames};
pub use self::secret::NotOurs;
use self::time::Time;

/// Tells the time; [`system_clock`] outside tests.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// The clock of this machine.
pub fn system_clock() -> Clock {
    Arc::new(SystemTime::now)
}

/// What there is to tell of the certificate that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// When it expires.
    pub expires: SystemTime,
    /// Whether the API server can know it. A self-signed certificate that could not be kept in its Secret yet is
    /// served too, so that probes are answered, but no webhook call will get through.
    pub ready: bool,
    /// What went wrong the last time that certificates were looked after; empty where all is well.
    pub problems: Vec<String>,
    /// Objects that have no `caBundle` to write yet.
    pub waiting: Vec<String>,
}

/// When a certificate that is served expires; `None` where it cannot be read.
pub(super) fn expiry(key: &CertifiedKey) -> Option<SystemTime> {
    x509::expiry(key.cert.first()?).map(SystemTime::from)
}

/// Where a certificate is handed out, and what there is to tell of it.
struct Handout {
    certificate: watch::Sender<Arc<CertifiedKey>>,
    status: watch::Sender<Status>,
}

impl Handout {
    fn new(key: CertifiedKey, expires: Time, ready: bool) -> Self {
        let status = Status { expires: expires.into(), ready, problems: Vec::new(), waiting: Vec::new() };
        Self { certificate: watch::Sender::new(Arc::new(key)), status: watch::Sender::new(status) }
    }

    /// Hands out another one, which the API server can know.
    fn replace(&self, key: CertifiedKey, expires: Time) {
        self.certificate.send_replace(Arc::new(key));
        self.status.send_modify(|status| (status.expires, status.ready) = (expires.into(), true));
    }

    /// What is handed out, while `work` goes on.
    fn during(&self, work: impl Future<Output = ()> + Send + 'static) -> Certificates {
        let (certificate, status) = (self.certificate.subscribe(), self.status.subscribe());
        Certificates { certificate, status, task: tokio::spawn(work) }
    }
}

/// A certificate that somebody looks after, until this is dropped.
#[derive(Debug)]
pub struct Certificates {
    certificate: watch::Receiver<Arc<CertifiedKey>>,
    status: watch::Receiver<Status>,
    task: JoinHandle<()>,
}

impl Certificates {
    /// The certificate and key to serve; always the newest.
    pub fn certificate(&self) -> watch::Receiver<Arc<CertifiedKey>> {
        self.certificate.clone()
    }

    /// What there is to tell of it.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Looks after it no longer; returns when nothing runs any more.
    pub async fn stop(mut self) {
        self.task.abort();
        // Cancelled is what it should be; a panic was printed.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How to keep a self-signed authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfSigned {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The Secret in which the authority and the certificate are kept. It is made where it is not there.
    pub secret: String,
    /// The Service that the API server calls.
    pub service: Service,
    /// What the certificate is for: usually [`ServerNames::of_service`] of that Service.
    pub names: ServerNames,
    /// The objects whose `caBundle` is written.
    pub targets: Vec<Target>,
    /// How often all of it is looked at: for so long a `caBundle` that somebody reset stays so.
    pub interval: Duration,
    /// How long certificates live.
    pub life: Lifetimes,
}

impl SelfSigned {
    /// The name of the Secret where none is given.
    pub const SECRET: &str = "pillion-serve-tls";
    /// How often it looks where nothing else is said.
    pub const INTERVAL: Duration = Duration::from_secs(10);

    /// For a Service in the namespace that this runs in, with the defaults for the rest.
    ///
    /// # Errors
    /// [`NameError`] where the Service or the namespace cannot be named so.
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

/// Keeps a self-signed authority, and a server certificate of it: makes both where they are not there, renews them in
/// time, and writes the authority into every `caBundle` it is told of.
///
/// Returns at once with a certificate that only this process knows; [`Status::ready`] tells when it was replaced by
/// the one of the Secret. Whatever fails later is in [`Status::problems`] and in the log, and is tried again; what is
/// there is served as long as it lasts. The client's timeouts do not matter.
///
/// # Errors
/// [`Problem`] where no certificate can be made: there is no randomness, or a name is impossible.
///
/// # Panics
/// Outside a tokio runtime.
pub fn self_signed(client: Client, options: SelfSigned, clock: Clock) -> Result<Certificates, Problem> {
    let keeper = Keeper::new(client, options, clock)?;
    Ok(Arc::clone(&keeper.handout).during(keeper.run()))
}

/// Serves a certificate from files, and reads them again when they change.
///
/// # Errors
/// [`FileError`] where there is no usable certificate to begin with. Later, one that cannot be used is told of in
/// [`Status::problems`] and in the log, and the one before is served on.
///
/// # Panics
/// Outside a tokio runtime.
pub fn from_files(options: Files, clock: Clock) -> Result<Certificates, FileError> {
    let watcher = files::Watcher::new(options, clock)?;
    Ok(Arc::clone(&watcher.handout).during(watcher.run()))
}
