//! Certificates and keys in PEM.

use std::fmt;

use ::pem::{EncodeConfig, LineEnding, Pem, encode_config};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A private key. Its `Debug` form shows no secret, so logs cannot leak it.
pub(crate) struct PrivateKey(PrivateKeyDer<'static>);

impl PrivateKey {
    /// Reads the first private key of a text.
    pub(crate) fn read(pem: &[u8]) -> Option<Self> {
        PrivateKeyDer::from_pem_slice(pem).ok().map(Self)
    }

    pub(crate) fn der(&self) -> PrivateKeyDer<'static> {
        self.0.clone_key()
    }

    pub(crate) fn pem(&self) -> String {
        let label = match &self.0 {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        block(label, self.0.secret_der())
    }
}

impl From<PrivateKeyDer<'static>> for PrivateKey {
    fn from(key: PrivateKeyDer<'static>) -> Self {
        Self(key)
    }
}

impl Clone for PrivateKey {
    fn clone(&self) -> Self {
        Self(self.der())
    }
}

impl PartialEq for PrivateKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.secret_der() == other.0.secret_der()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(redacted)")
    }
}

/// Returns the certificates of a text, in order, and whether any block is unreadable.
pub(crate) fn certificates(pem: &[u8]) -> (Vec<CertificateDer<'static>>, bool) {
    let (mut found, mut broken) = (Vec::new(), false);
    // Each block is parsed on its own, so a broken block does not affect the next.
    for block in String::from_utf8_lossy(pem).split("-----BEGIN ").filter(|it| it.starts_with("CERTIFICATE-----")) {
        match CertificateDer::from_pem_slice(format!("-----BEGIN {block}").as_bytes()) {
            Ok(certificate) => found.push(certificate),
            Err(_) => broken = true,
        }
    }
    (found, broken)
}

/// Returns certificates as PEM, one after the other.
pub(crate) fn shown<'a>(certificates: impl IntoIterator<Item = &'a CertificateDer<'static>>) -> String {
    certificates.into_iter().map(|certificate| block("CERTIFICATE", certificate)).collect()
}

fn block(label: &str, der: &[u8]) -> String {
    encode_config(&Pem::new(label, der), EncodeConfig::new().set_line_ending(LineEnding::LF))
}
