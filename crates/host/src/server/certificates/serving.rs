//! From certificates to what rustls serves.

use rustls::crypto::ring;
use rustls::sign::CertifiedKey;

use super::api::Problem;
use super::authority::Pair;
use super::time::Time;
use super::x509;

/// A pair as rustls takes it, and when it expires; long ago where it is no certificate.
pub(super) fn certified(pair: &Pair) -> Result<(CertifiedKey, Time), Problem> {
    let chain = vec![pair.certificate.clone()];
    let key = CertifiedKey::from_der(chain, pair.key.der(), &ring::default_provider())
        .map_err(|error| Problem::Unusable(error.to_string()))?;
    Ok((key, x509::expiry(&pair.certificate).unwrap_or(Time(0))))
}
