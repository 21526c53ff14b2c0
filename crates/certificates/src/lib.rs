//! The admission server's certificates: their sources, their renewal, and how the API server comes to trust them.
//!
//! | source | certificates made by | `caBundle` written by |
//! | --- | --- | --- |
//! | [`self_signed`] (the default) | this server, kept in a Secret that all replicas share | this server |
//! | [`from_files`] | the author of the files | the author of the webhook configuration |
//! | cert-manager | cert-manager, into a Secret that is mounted: [`from_files`] | its ca-injector |
//! | [`TemporaryAuthority`] | this process, for a server without a cluster, tests and load generation | nobody |
//!
//! The first two sources publish the newest certificate and its status through channels ([`Certificates`]). The server
//! reads the certificate for each handshake, so a change drops no connection. `docs/certificates.md` is for users.
//!
//! The decisions are pure functions (`plan.rs`) of the contents of the Secret, of the `caBundle`s and of the time. rcgen
//! makes certificates, rustls serves them, x509-parser reads them.
//!
//! It never serves a request, and knows no policy. Start with [`Certificates`] and [`self_signed`].
#![forbid(unsafe_code)]

mod api;
mod authority;
mod bundle;
mod contents;
mod files;
mod handout;
mod keeper;
mod names;
mod options;
mod pem;
mod plan;
mod secret;
mod serving;
mod temporary;
#[cfg(test)]
mod tests;
mod time;
mod x509;

use std::sync::Arc;
use std::time::SystemTime;

use kube::Client;
use rustls::sign::CertifiedKey;

pub use api::CertificateError;
pub use authority::{Lifetimes, MakeError};
pub use bundle::{CaBundleTarget, Service};
pub use files::{FileError, Files};
pub use handout::{Certificates, Status};
pub use names::{NameError, ServerNames};
pub use options::SelfSigned;
pub use secret::NotOurs;
pub use temporary::{TemporaryAuthority, TemporaryError};
pub use time::{Clock, system_clock};

use keeper::Keeper;

/// Returns when a certificate expires; `None` if it cannot be read.
pub fn expiry(key: &CertifiedKey) -> Option<SystemTime> {
    x509::expiry(key.cert.first()?).map(SystemTime::from)
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
