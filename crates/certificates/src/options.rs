//! The options of a self-signed authority.

use std::time::Duration;

use crate::authority::Lifetimes;
use crate::bundle::{CaBundleTarget, Service};
use crate::names::{NameError, ServerNames};

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
    pub targets: Vec<CaBundleTarget>,
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
    pub fn for_service(name: &str, namespace: &str, targets: Vec<CaBundleTarget>) -> Result<Self, NameError> {
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
