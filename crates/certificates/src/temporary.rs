//! Certificates that last as long as a process, for trying a server without a cluster, for tests and for load
//! generation.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;

/// Why a certificate cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum TemporaryError {
    /// There is no randomness, or a name is invalid.
    #[error("a certificate cannot be made: {0}")]
    Make(#[from] rcgen::Error),
    /// TLS does not support the kind of key.
    #[error("a certificate cannot be used: {0}")]
    Use(#[from] rustls::Error),
}

/// An authority that exists only in memory.
pub struct TemporaryAuthority(CertifiedIssuer<'static, KeyPair>);

impl TemporaryAuthority {
    /// Creates an authority.
    ///
    /// # Errors
    /// [`TemporaryError::Make`] if there is no randomness.
    pub fn new() -> Result<Self, TemporaryError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "pillion, temporary");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    /// Returns a certificate for these DNS names and IP addresses.
    ///
    /// # Errors
    /// [`TemporaryError`] if a name is invalid.
    pub fn certificate(&self, names: &[&str]) -> Result<Arc<CertifiedKey>, TemporaryError> {
        let key = KeyPair::generate()?;
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.0)?;
        let key = PrivateKeyDer::from(key);
        let key = CertifiedKey::from_der(vec![certificate.der().clone()], key, &ring::default_provider())?;
        Ok(Arc::new(key))
    }

    /// Returns the authority's own certificate in PEM, for the `caBundle` of a client.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Returns the authority as root certificates, for clients in this process.
    ///
    /// # Errors
    /// [`TemporaryError::Use`], never in practice: the certificate is an authority's.
    pub fn roots(&self) -> Result<Arc<RootCertStore>, TemporaryError> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone())?;
        Ok(Arc::new(roots))
    }
}

impl std::fmt::Debug for TemporaryAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TemporaryAuthority").finish_non_exhaustive()
    }
}
