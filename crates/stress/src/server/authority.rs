//! An authority for the servers of a run, and certificates in files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::RootCertStore;

/// The name in the certificates.
pub(super) const NAME: &str = "localhost";

/// An authority that exists only in memory.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// Returns a new authority.
    ///
    /// # Errors
    /// Its key cannot be made.
    pub fn new() -> anyhow::Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    pub(crate) fn roots(&self) -> anyhow::Result<Arc<RootCertStore>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone())?;
        Ok(Arc::new(roots))
    }

    /// Writes a new certificate and its key into the folder, in place of older ones. Returns both paths.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<[PathBuf; 2]> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![NAME.to_owned()])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.0)?;
        let paths = [folder.join("tls.crt"), folder.join("tls.key")];
        for (path, text) in paths.iter().zip([certificate.pem(), key.serialize_pem()]) {
            std::fs::write(path, text).with_context(|| path.display().to_string())?;
        }
        Ok(paths)
    }
}
