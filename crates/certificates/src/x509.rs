//! Parses certificates.

use std::fmt;
use std::net::IpAddr;

use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::names::ServerNames;
use crate::time::Time;

/// How far the clock that made a certificate may be ahead of ours.
const AHEAD: std::time::Duration = std::time::Duration::from_hours(1);

/// Identifies a certificate: the SHA-256 of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(pub [u8; 32]);

impl Id {
    pub(crate) fn from_certificate(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.8}", hex::encode(self.0))
    }
}

/// The period in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) from: Time,
    pub(crate) until: Time,
}

impl Validity {
    /// Whether the certificate is usable now. Its start may lie up to `AHEAD` in the future.
    pub(crate) fn holds(&self, now: Time) -> bool {
        self.from <= now + AHEAD && now < self.until
    }
}

/// The relevant facts of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) id: Id,
    pub(crate) validity: Validity,
    /// Whether it may sign certificates (`basicConstraints`, `keyUsage`).
    pub(crate) is_authority: bool,
    /// Whether a server may use it (`extendedKeyUsage`; a certificate without that extension is suitable).
    pub(crate) is_server: bool,
    pub(crate) names: ServerNames,
    /// The public key, as `SubjectPublicKeyInfo`.
    pub(crate) public_key: Vec<u8>,
}

/// Reads a certificate; `None` if the bytes are not one.
pub(crate) fn read(der: &CertificateDer<'_>) -> Option<Facts> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let validity = certificate.validity();
    let usage = certificate.key_usage().ok()?.is_none_or(|usage| usage.value.key_cert_sign());
    let extended = certificate.extended_key_usage().ok()?;
    let names = certificate.subject_alternative_name().ok()?;
    let names = names.map(|found| found.value.general_names.iter()).into_iter().flatten();
    let (mut dns, mut addresses) = (Vec::new(), Vec::new());
    for name in names {
        match name {
            GeneralName::DNSName(name) => dns.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => addresses.extend(address(bytes)),
            _ => {}
        }
    }
    Some(Facts {
        id: Id::from_certificate(der),
        validity: Validity { from: Time(validity.not_before.timestamp()), until: Time(validity.not_after.timestamp()) },
        is_authority: certificate.is_ca() && usage,
        is_server: extended.is_none_or(|usage| usage.value.server_auth || usage.value.any),
        names: ServerNames::read(dns, addresses),
        public_key: certificate.public_key().raw.to_vec(),
    })
}

/// Returns when a certificate expires; `None` if the bytes are not one.
pub(crate) fn expiry(der: &CertificateDer<'_>) -> Option<Time> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Some(Time(certificate.validity().not_after.timestamp()))
}

/// Whether `issuer` signed `certificate`.
pub(crate) fn signed(certificate: &CertificateDer<'_>, issuer: &CertificateDer<'_>) -> bool {
    let parsed = (X509Certificate::from_der(certificate), X509Certificate::from_der(issuer));
    let (Ok((_, certificate)), Ok((_, issuer))) = parsed else { return false };
    certificate.issuer() == issuer.subject() && certificate.verify_signature(Some(issuer.public_key())).is_ok()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four: Result<[u8; 4], _> = bytes.try_into();
    let sixteen: Result<[u8; 16], _> = bytes.try_into();
    four.map(IpAddr::from).ok().or_else(|| sixteen.map(IpAddr::from).ok())
}
