//! Converts certificates to the form that rustls serves.

use rustls::crypto::ring;
use rustls::sign::CertifiedKey;

use super::api::CertificateError;
use super::authority::Pair;
use super::time::Time;
use super::x509;

/// Returns a pair in rustls' form and when it expires. An unreadable certificate counts as long expired.
pub(super) fn certified(pair: &Pair) -> Result<(CertifiedKey, Time), CertificateError> {
    let chain = vec![pair.certificate.clone()];
    let key = CertifiedKey::from_der(chain, pair.key.der(), &ring::default_provider())
        .map_err(|error| CertificateError::Unusable(error.to_string()))?;
    Ok((key, x509::expiry(&pair.certificate).unwrap_or(Time(0))))
}
