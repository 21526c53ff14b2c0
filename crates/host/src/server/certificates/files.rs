//! A certificate in files: one of your own, or what cert-manager writes into a mounted Secret.
//!
//! The contents are read every few seconds and compared. Watching the file system would not do: Kubernetes swaps a
//! symbolic link two folders up.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::sign::CertifiedKey;

use super::names::ServerNames;
use super::pem::{self, PrivateKey};
use super::time::Time;
use super::{Clock, Handout, x509};

/// Where a certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate, followed by the authorities between it and one that clients know; PEM.
    pub certificate: PathBuf,
    /// Its private key; PEM (PKCS#8, PKCS#1 or SEC1), not encrypted.
    pub key: PathBuf,
    /// What the API server will call; a certificate that is not for all of these is served, and told of.
    pub names: ServerNames,
    /// How often the files are read.
    pub interval: Duration,
}

impl Files {
    /// How often the files are read where nothing else is said.
    pub const INTERVAL: Duration = Duration::from_secs(5);
}

/// Why files hold no certificate that can be served.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// One of them cannot be read.
    #[error("cannot read \"{}\": {error}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is no certificate in it.
    #[error(
        "\"{}\" holds no certificate: it should be PEM, from \"-----BEGIN CERTIFICATE-----\" on", .0.display()
    )]
    NoCertificate(PathBuf),
    /// There is no key in it.
    #[error(
        "\"{}\" holds no private key: it should be PEM, from \"-----BEGIN PRIVATE KEY-----\" on, and not encrypted",
        .0.display()
    )]
    NoKey(PathBuf),
    /// They do not belong together.
    #[error(
        "the key in \"{}\" is not the key of the first certificate in \"{}\"", key.display(), certificate.display()
    )]
    Mismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// It is an authority's, or for something else.
    #[error("the first certificate in \"{}\" is not a server's: {reason}", path.display())]
    NoServer {
        /// The file of the certificate.
        path: PathBuf,
        /// What it is.
        reason: String,
    },
    /// It is not valid now.
    #[error("the certificate in \"{}\" {problem}: renew it", path.display())]
    NotNow {
        /// The file of the certificate.
        path: PathBuf,
        /// Expired, or not valid yet.
        problem: &'static str,
    },
}

/// A certificate from files.
struct Loaded {
    key: CertifiedKey,
    expires: Time,
    names: ServerNames,
}

/// Reads the files again and again.
pub(super) struct Watcher {
    files: Files,
    clock: Clock,
    /// What is served, as it was read.
    last: (Vec<u8>, Vec<u8>),
    /// What there is to say of the certificate that is served, as long as it is.
    complaints: Vec<String>,
    pub(super) handout: Arc<Handout>,
}

impl Watcher {
    /// A watcher of files that hold a usable certificate now.
    pub(super) fn new(files: Files, clock: Clock) -> Result<Self, FileError> {
        let last = contents(&files)?;
        let loaded = load(&files, &last, clock().into())?;
        let complaints = complaints(&files, &loaded.names);
        let handout = Arc::new(Handout::new(loaded.key, loaded.expires, true));
        let watcher = Self { files, clock, last, complaints, handout };
        watcher.tell(watcher.complaints.clone());
        Ok(watcher)
    }

    /// Watches until it is stopped from outside.
    pub(super) async fn run(mut self) {
        loop {
            tokio::time::sleep(self.files.interval).await;
            self.look();
        }
    }

    fn look(&mut self) {
        let now: Time = (self.clock)().into();
        let new = contents(&self.files).and_then(|read| {
            let is_new = read != self.last;
            is_new.then(|| load(&self.files, &read, now).map(|loaded| (read, loaded))).transpose()
        });
        let mut problems = Vec::new();
        match new {
            Ok(None) => {}
            Ok(Some((read, loaded))) => {
                self.last = read;
                self.complaints = complaints(&self.files, &loaded.names);
                self.handout.replace(loaded.key, loaded.expires);
                tracing::info!("certificates: serving the new certificate in \"{}\"", self.files.certificate.display());
            }
            // Not remembered: files that are half written are good in a moment.
            Err(error) => problems.push(format!("{error}; the certificate before it is served on")),
        }
        problems.extend(self.complaints.iter().cloned());
        if Time::from(self.handout.status.borrow().expires) <= now {
            problems.push("the certificate that is served has expired: renew it".to_owned());
        }
        self.tell(problems);
    }

    fn tell(&self, problems: Vec<String>) {
        self.handout.status.send_if_modified(|status| {
            for problem in problems.iter().filter(|problem| !status.problems.contains(problem)) {
                tracing::warn!("certificates: {problem}");
            }
            let changed = status.problems != problems;
            status.problems = problems;
            changed
        });
    }
}

/// What is in both files. Of two that are swapped while they are read, both are from after.
fn contents(files: &Files) -> Result<(Vec<u8>, Vec<u8>), FileError> {
    let read = |path: &Path| fs::read(path).map_err(|error| FileError::Unreadable { path: path.to_owned(), error });
    let first = read(&files.certificate)?;
    let key = read(&files.key)?;
    let certificate = read(&files.certificate)?;
    if certificate == first { Ok((certificate, key)) } else { Ok((certificate, read(&files.key)?)) }
}

fn load(files: &Files, (certificate, key): &(Vec<u8>, Vec<u8>), now: Time) -> Result<Loaded, FileError> {
    let path = || files.certificate.clone();
    let (chain, broken) = pem::certificates(certificate);
    let facts = chain.first().filter(|_| !broken).and_then(x509::read);
    let facts = facts.ok_or_else(|| FileError::NoCertificate(path()))?;
    let key = PrivateKey::read(key).ok_or_else(|| FileError::NoKey(files.key.clone()))?;
    let mismatch = || FileError::Mismatch { certificate: path(), key: files.key.clone() };
    let signer = ring::sign::any_supported_type(&key.der()).map_err(|_| FileError::NoKey(files.key.clone()))?;
    let key = CertifiedKey::new(chain, signer);
    if facts.is_authority || !facts.is_server {
        let reason = if facts.is_authority {
            "it is an authority's; the server's own comes first, then those that signed it"
        } else {
            "its extended key usage is not serverAuth"
        };
        return Err(FileError::NoServer { path: path(), reason: reason.to_owned() });
    }
    key.keys_match().map_err(|_| mismatch())?;
    if !facts.validity.holds(now) {
        let problem = if facts.validity.until <= now { "has expired" } else { "is not valid yet" };
        return Err(FileError::NotNow { path: path(), problem });
    }
    Ok(Loaded { key, expires: facts.validity.until, names: facts.names })
}

/// What should be told of a certificate that can be served.
fn complaints(files: &Files, names: &ServerNames) -> Vec<String> {
    if names.cover(&files.names) {
        return Vec::new();
    }
    vec![format!(
        "the certificate in \"{}\" is for {names}, the API server calls {}",
        files.certificate.display(),
        files.names
    )]
}
