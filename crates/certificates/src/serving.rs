//! Converts certificates to the form that rustls serves.

use rustls::crypto::ring;
use rustls::sign::CertifiedKey;

use crate::api::CertificateError;
use crate::authority::Pair;
use crate::time::Time;
use crate::x509;

/// Returns a pair in rustls' form and when it expires. An unreadable certificate counts as long expired.
pub(crate) fn certified(pair: &Pair) -> Result<(CertifiedKey, Time), CertificateError> {
    let chain = vec![pair.certificate.clone()];
    let key = CertifiedKey::from_der(chain, pair.key.der(), &ring::default_provider())
        .map_err(|error| CertificateError::Unusable(error.to_string()))?;
    Ok((key, x509::expiry(&pair.certificate).unwrap_or(Time(0))))
}
