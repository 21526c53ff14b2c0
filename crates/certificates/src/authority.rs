//! Creates authorities, and server certificates signed by them.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::names::{NameError, ServerNames};
use crate::pem::PrivateKey;
use crate::time::Time;

/// How long certificates live, and how rotation is paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// How long an authority (CA) is valid. A new one is introduced when a third of this is left.
    pub authority: Duration,
    /// How long a server certificate is valid; it is renewed when a third of this is left. At most a third of the
    /// authority's life, so that an authority's end does not shorten the certificates that it signs.
    pub server: Duration,
    /// How long before its creation a certificate is already valid, for clients whose clocks are behind.
    pub backdate: Duration,
    /// How long every `caBundle` must have held a new authority before that authority signs the served certificate. An
    /// API server takes some seconds to notice a change, and there may be several API servers.
    pub settle: Duration,
}

impl Default for Lifetimes {
    /// A year for authorities, ninety days for server certificates, five minutes of backdating, a minute to settle.
    fn default() -> Self {
        const DAY: Duration = Duration::from_hours(24);
        Self {
            authority: DAY * 365,
            server: DAY * 90,
            backdate: Duration::from_mins(5),
            settle: Duration::from_mins(1),
        }
    }
}

/// Why a certificate cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MakeError {
    /// The error of the library: there is no randomness, or a key cannot sign.
    #[error("no certificate can be made: {0}")]
    Library(#[from] rcgen::Error),
    /// A name that certificates cannot hold.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pair {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKey,
}

/// Creates an authority: ECDSA on P-256, only for signing server certificates.
pub(crate) fn create(now: Time, life: &Lifetimes) -> Result<Pair, MakeError> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = within(now - life.backdate, now + life.authority);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    // If two authorities had the same name, clients would try the wrong one first.
    let id = params.key_identifier(&key);
    let name = format!("pillion authority {}", hex::encode(id.get(..8).unwrap_or(&id)));
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.self_signed(&key)?.into();
    Ok(Pair { certificate, key: PrivateKey::from(PrivateKeyDer::Pkcs8(key.serialize_der().into())) })
}

/// Creates a server certificate signed by an authority. It expires at `authority_until` at the latest.
pub(crate) fn issue(
    authority: &Pair,
    authority_until: Time,
    names: &ServerNames,
    now: Time,
    life: &Lifetimes,
) -> Result<Pair, MakeError> {
    let signer = KeyPair::try_from(&authority.key.der())?;
    let issuer = Issuer::from_ca_cert_der(&authority.certificate, signer)?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = within(now - life.backdate, (now + life.server).min(authority_until));
    for name in names.dns() {
        let name = name.to_owned().try_into().map_err(|_| NameError::Other(name.to_owned()))?;
        params.subject_alt_names.push(SanType::DnsName(name));
    }
    params.subject_alt_names.extend(names.addresses().map(SanType::IpAddress));
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    params.distinguished_name.push(DnType::CommonName, "pillion serve");
    let certificate = params.signed_by(&key, &issuer)?.into();
    Ok(Pair { certificate, key: PrivateKey::from(PrivateKeyDer::Pkcs8(key.serialize_der().into())) })
}

/// Returns the public key of a private key as `SubjectPublicKeyInfo`; `None` if the key cannot sign here.
pub(crate) fn public_key(key: &PrivateKey) -> Option<Vec<u8>> {
    let signer = rustls::crypto::ring::sign::any_supported_type(&key.der()).ok()?;
    signer.public_key().map(|key| key.to_vec())
}

fn within(from: Time, until: Time) -> CertificateParams {
    // rcgen takes times in a type of its own.
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let at = |time: Time| epoch + Duration::from_secs(time.0.max(0).unsigned_abs());
    let mut params = CertificateParams::default();
    params.not_before = at(from);
    params.not_after = at(until);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::{ServerName, UnixTime};
    use rustls::{CertificateError, Error, RootCertStore};

    use super::*;
    use crate::x509;

    const NOW: Time = Time(1_800_000_000);

    fn verify(pair: &Pair, authority: &Pair, name: &str, at: Time) -> Result<(), Error> {
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(at.0.unsigned_abs()));
        verifier.verify_server_cert(&pair.certificate, &[], &name, &[], at).map(|_| ())
    }

    #[test]
    fn a_client_that_trusts_the_authority_trusts_the_server_for_its_life() {
        let life = Lifetimes::default();
        let authority = create(NOW, &life).unwrap();
        let names = ServerNames::of_service("pillion", "sys").unwrap().and("10.0.0.7").unwrap();
        let facts = x509::read(&authority.certificate).unwrap();
        let server = issue(&authority, facts.validity.until, &names, NOW, &life).unwrap();
        for name in ["pillion.sys", "pillion.sys.svc", "pillion.sys.svc.cluster.local", "10.0.0.7"] {
            verify(&server, &authority, name, NOW).unwrap();
        }
        verify(&server, &authority, "pillion.sys.svc", NOW - life.backdate).unwrap();
        verify(&server, &authority, "pillion.sys.svc", NOW + life.server).unwrap();
        let late = verify(&server, &authority, "pillion.sys.svc", NOW + life.server + Duration::from_secs(1));
        assert!(matches!(late, Err(Error::InvalidCertificate(CertificateError::ExpiredContext { .. }))), "{late:?}");
        let other = verify(&server, &authority, "other.sys.svc", NOW).unwrap_err();
        assert!(other.to_string().contains("not valid for name"), "{other}");
        let stranger = verify(&server, &create(NOW, &life).unwrap(), "pillion.sys.svc", NOW).unwrap_err();
        assert!(stranger.to_string().contains("UnknownIssuer"), "{stranger}");
    }

    #[test]
    fn certificates_say_what_they_are_for() {
        let life = Lifetimes::default();
        let authority = create(NOW, &life).unwrap();
        let facts = x509::read(&authority.certificate).unwrap();
        assert!(facts.is_authority);
        assert_eq!((facts.validity.from, facts.validity.until), (NOW - life.backdate, NOW + life.authority));
        let names = ServerNames::of_service("a", "b").unwrap().and("::1").unwrap();
        let server = issue(&authority, facts.validity.until, &names, NOW, &life).unwrap();
        let facts = x509::read(&server.certificate).unwrap();
        assert!(facts.is_server && !facts.is_authority);
        assert_eq!(facts.names, names);
        assert_eq!(Some(facts.public_key), public_key(&server.key));
        assert!(x509::signed(&server.certificate, &authority.certificate));
        assert!(!x509::signed(&server.certificate, &create(NOW, &life).unwrap().certificate));
    }

    #[test]
    fn no_server_certificate_outlives_its_authority() {
        let life = Lifetimes::default();
        let authority = create(NOW, &life).unwrap();
        let late = NOW + life.authority - Duration::from_mins(1);
        let names = ServerNames::of_service("a", "b").unwrap();
        let server = issue(&authority, NOW + life.authority, &names, late, &life).unwrap();
        assert_eq!(x509::read(&server.certificate).unwrap().validity.until, NOW + life.authority);
    }

    #[test]
    fn keys_do_not_show_themselves() {
        let authority = create(NOW, &Lifetimes::default()).unwrap();
        let shown = format!("{authority:?}");
        assert!(shown.contains("PrivateKey(redacted)"), "{shown}");
        let pem = authority.key.pem();
        let (_, secret) = pem.split_once('\n').unwrap();
        assert!(!shown.contains(secret.get(..20).unwrap()));
        assert_eq!(PrivateKey::read(pem.as_bytes()), Some(authority.key));
    }
}
