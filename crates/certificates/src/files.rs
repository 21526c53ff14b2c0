//! A certificate in files: the user's own, or one that cert-manager writes into a mounted Secret.
//!
//! The contents are read every few seconds and compared. File system events do not help: Kubernetes swaps a symbolic
//! link two folders up.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::sign::CertifiedKey;

use crate::handout::Handout;
use crate::names::ServerNames;
use crate::pem::{self, PrivateKey};
use crate::time::{Clock, Time};
use crate::x509;

/// The files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate, followed by the intermediate authorities up to one that clients know; PEM.
    pub certificate: PathBuf,
    /// Its private key; PEM (PKCS#8, PKCS#1 or SEC1), not encrypted.
    pub key: PathBuf,
    /// The names that the API server calls. A certificate that lacks some of them is served, but reported.
    pub names: ServerNames,
    /// The interval at which the files are read.
    pub interval: Duration,
}

impl Files {
    /// The default interval.
    pub const INTERVAL: Duration = Duration::from_secs(5);
}

/// Why the files hold no usable certificate.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file cannot be read.
    #[error("cannot read \"{}\": {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The file holds no certificate.
    #[error(
        "\"{}\" holds no certificate: it should be PEM, from \"-----BEGIN CERTIFICATE-----\" on", .0.display()
    )]
    NoCertificate(PathBuf),
    /// The file holds no key.
    #[error(
        "\"{}\" holds no private key: it should be PEM, from \"-----BEGIN PRIVATE KEY-----\" on, and not encrypted",
        .0.display()
    )]
    NoKey(PathBuf),
    /// The certificate and the key do not belong together.
    #[error(
        "the key in \"{}\" is not the key of the first certificate in \"{}\"", key.display(), certificate.display()
    )]
    Mismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// The certificate belongs to an authority, or is for another purpose.
    #[error("the first certificate in \"{}\" is not a server's: {reason}", path.display())]
    NoServer {
        /// The file of the certificate.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The certificate is not valid now.
    #[error("the certificate in \"{}\" {problem}: renew it", path.display())]
    NotNow {
        /// The file of the certificate.
        path: PathBuf,
        /// Expired, or not yet valid.
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
pub(crate) struct Watcher {
    files: Files,
    clock: Clock,
    /// The contents of the files of the served certificate.
    last: FileContents,
    /// The problems of the served certificate itself.
    complaints: Vec<String>,
    pub(crate) handout: Arc<Handout>,
}

impl Watcher {
    /// Creates a watcher. The files must hold a usable certificate.
    pub(crate) fn new(files: Files, clock: Clock) -> Result<Self, FileError> {
        let last = contents(&files)?;
        let loaded = load(&files, &last, clock().into())?;
        let complaints = complaints(&files, &loaded.names);
        let handout = Arc::new(Handout::new(loaded.key, loaded.expires, true));
        let watcher = Self { files, clock, last, complaints, handout };
        watcher.tell(watcher.complaints.clone());
        Ok(watcher)
    }

    /// Watches until the task is aborted.
    pub(crate) async fn run(mut self) {
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
            // The contents are not remembered: half-written files may be complete soon.
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

/// The contents of both files.
#[derive(PartialEq, Eq)]
struct FileContents {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Returns the contents of both files. If they are swapped during the read, both are from after the swap.
fn contents(files: &Files) -> Result<FileContents, FileError> {
    let read = |path: &Path| fs::read(path).map_err(|error| FileError::Unreadable { path: path.to_owned(), error });
    let first = read(&files.certificate)?;
    let key = read(&files.key)?;
    let certificate = read(&files.certificate)?;
    let key = if certificate == first { key } else { read(&files.key)? };
    Ok(FileContents { certificate, key })
}

fn load(files: &Files, read: &FileContents, now: Time) -> Result<Loaded, FileError> {
    let FileContents { certificate, key } = read;
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

/// Returns the problems of a certificate that is usable nevertheless.
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
