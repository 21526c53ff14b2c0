//! From certificates to what rustls serves.

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;

use super::api::Problem;
use super::authority::Pair;
use super::time::Time;
use super::x509;

/// A pair as rustls takes it, and when it expires.
pub(super) fn certified(pair: &Pair) -> Result<(CertifiedKey, Time), Problem> {
    let expires = expires(&pair.certificate);
    let chain = vec![pair.certificate.clone()];
    let key = CertifiedKey::from_der(chain, pair.key.der(), &ring::default_provider())
        .map_err(|error| Problem::Unusable(error.to_string()))?;
    Ok((key, expires))
}

/// When a certificate expires; long ago where it is none.
fn expires(certificate: &CertificateDer<'_>) -> Time {
    x509::read(certificate).map_or(Time(0), |facts| facts.validity.until)
}
