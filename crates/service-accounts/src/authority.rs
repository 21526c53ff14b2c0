//! The certificates with which clients verify the API server.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Config;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// The length of lines in PEM.
const LINE: usize = 64;

/// One or more certificates in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority(String);

/// Why a text is not an [`Authority`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAuthority {
    /// The certificates cannot be read.
    #[error("the certificates of the API server's authority cannot be read: {0}")]
    Unreadable(String),
    /// The text contains no certificate.
    #[error("there is no certificate in PEM among the certificates of the API server's authority")]
    Empty,
}

impl Authority {
    /// Takes certificates in PEM unchanged, including any text around them.
    ///
    /// # Errors
    /// The text contains no certificate, or an invalid one.
    pub fn from_pem(pem: String) -> Result<Self, NoAuthority> {
        let mut count = 0_usize;
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            certificate.map_err(|error| NoAuthority::Unreadable(error.to_string()))?;
            count += 1;
        }
        if count == 0 { Err(NoAuthority::Empty) } else { Ok(Self(pem)) }
    }

    /// Returns the certificates with which a client of this configuration verifies the API server: those of its
    /// kubeconfig, or of the Pod in which it runs.
    ///
    /// # Errors
    /// The configuration names no certificates, so the client uses those that its system trusts; or they cannot be
    /// read.
    pub fn from_config(config: &Config) -> Result<Self, NoAuthority> {
        if let Some(file) = &config.root_cert_file {
            return Self::from_pem(
                fs::read_to_string(file).map_err(|error| NoAuthority::Unreadable(error.to_string()))?,
            );
        }
        Self::from_pem(config.root_cert.iter().flatten().map(|certificate| pem(certificate)).collect())
    }

    /// Returns the certificates in PEM.
    pub fn as_pem(&self) -> &str {
        &self.0
    }
}

fn pem(certificate: &[u8]) -> String {
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for (index, character) in STANDARD.encode(certificate).chars().enumerate() {
        if index > 0 && index % LINE == 0 {
            text.push('\n');
        }
        text.push(character);
    }
    text.push_str("\n-----END CERTIFICATE-----\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run6_the_certificates_of_a_configuration_are_those_that_it_was_given() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = rcgen::CertificateParams::default().self_signed(&key).expect("a certificate");
        let mut config = Config::new("https://127.0.0.1".parse().expect("a URL"));
        assert_eq!(Authority::from_config(&config), Err(NoAuthority::Empty));
        config.root_cert = Some(vec![certificate.der().to_vec(), certificate.der().to_vec()]);
        let both = Authority::from_config(&config).expect("an authority");
        let given = Authority::from_pem(certificate.pem().replace("\r\n", "\n")).expect("an authority");
        assert_eq!(both.as_pem(), given.as_pem().repeat(2));
    }

    #[test]
    fn run6_something_else_is_no_authority() {
        assert_eq!(Authority::from_pem("none".to_owned()), Err(NoAuthority::Empty));
    }
}
