//! The Secret that holds a self-signed authority and its certificate.
//!
//! | key | content |
//! | --- | --- |
//! | `tls.crt`, `tls.key` | the served certificate and its key, as in every Secret of type `kubernetes.io/tls` |
//! | `ca.crt` | every authority that clients should trust: the content of `caBundle` |
//! | `ca.key` | the key of the authority that signs |
//! | `next-ca.key` | during a rotation: the key of the authority that will sign next |

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use crate::authority::{self, Pair};
use crate::contents::{Authority, Contents};
use crate::pem::{self, PrivateKey};
use crate::time::Time;
use crate::x509::{self, Id};

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITIES: &str = "ca.crt";
const SIGNING_KEY: &str = "ca.key";
const NEXT_KEY: &str = "next-ca.key";
const KEYS: [&str; 5] = [CERTIFICATE, KEY, AUTHORITIES, SIGNING_KEY, NEXT_KEY];

/// The label that marks a Secret as pillion's.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "pillion");
/// Until when authorities that no longer sign are needed: `<SHA-256>=<seconds since 1970>`, separated by commas.
const RETIRED: &str = "pillion.dev/retired-authorities";

/// Why a Secret is left alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOurs {
    /// The Secret lacks pillion's label.
    #[error(
        "it is not labelled app.kubernetes.io/managed-by=pillion: delete it, label it so that pillion may overwrite \
         it, or name another Secret"
    )]
    Label,
    /// The Secret is immutable.
    #[error("it is immutable: delete it, or name another Secret")]
    Immutable,
}

/// Returns the usable contents of a Secret.
///
/// # Errors
/// [`NotOurs`] if pillion must not change the Secret.
pub(crate) fn read(secret: &Secret) -> Result<Contents, NotOurs> {
    let label = secret.metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY.0));
    if label.is_none_or(|value| value != MANAGED_BY.1) {
        return Err(NotOurs::Label);
    }
    if secret.immutable == Some(true) {
        return Err(NotOurs::Immutable);
    }
    let get = |key: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice());
        bytes.filter(|bytes| !bytes.is_empty())
    };
    let annotation = secret.metadata.annotations.as_ref().and_then(|annotations| annotations.get(RETIRED));
    Ok(salvage(get, annotation.map(String::as_str).unwrap_or_default()))
}

fn salvage<'a>(get: impl Fn(&str) -> Option<&'a [u8]>, retired: &str) -> Contents {
    let mut damage = Vec::new();
    let (found, mut broken) = pem::certificates(get(AUTHORITIES).unwrap_or_default());
    let mut trusted: Vec<Authority> = Vec::new();
    for certificate in found {
        match x509::read(&certificate).filter(|facts| facts.is_authority) {
            Some(facts) if trusted.iter().any(|other| other.facts.id == facts.id) => broken = true,
            Some(facts) => trusted.push(Authority { certificate, facts }),
            None => broken = true,
        }
    }
    if broken {
        damage.push(AUTHORITIES);
    }
    let mut signer = |name: &'static str| {
        let bytes = get(name)?;
        let pair = PrivateKey::read(bytes).and_then(|key| {
            let public = authority::public_key(&key)?;
            let authority = trusted.iter().find(|authority| authority.facts.public_key == public)?;
            Some(Pair { certificate: authority.certificate.clone(), key })
        });
        if pair.is_none() {
            damage.push(name);
        }
        pair
    };
    let (signing, mut next) = (signer(SIGNING_KEY), signer(NEXT_KEY));
    if next.is_some() && next == signing {
        next = None;
        damage.push(NEXT_KEY);
    }
    let server = get(CERTIFICATE).zip(get(KEY)).and_then(|(certificate, key)| server(certificate, key));
    if server.is_none() && (get(CERTIFICATE).is_some() || get(KEY).is_some()) {
        damage.push(CERTIFICATE);
    }
    let contents = Contents { trusted, signing, next, server, retired: times(retired), damage: Vec::new() };
    Contents { damage, ..contents.tidied() }
}

/// Returns the served certificate, if it is a server certificate and the key matches it.
fn server(certificate: &[u8], key: &[u8]) -> Option<Pair> {
    let certificate = pem::certificates(certificate).0.into_iter().next()?;
    let key = PrivateKey::read(key)?;
    let facts = x509::read(&certificate)?;
    let fits = facts.is_server && authority::public_key(&key)? == facts.public_key;
    fits.then_some(Pair { certificate, key })
}

/// Returns the Secret with these contents. Everything else in `base` stays: labels, other keys, resourceVersion.
pub(crate) fn write(mut base: Secret, contents: &Contents) -> Secret {
    let data = base.data.get_or_insert_default();
    data.retain(|key, _| !KEYS.contains(&key.as_str()));
    let mut put = |key: &str, text: String| data.insert(key.to_owned(), ByteString(text.into_bytes()));
    put(AUTHORITIES, contents.bundle());
    if let Some(pair) = &contents.server {
        put(CERTIFICATE, pem::shown([&pair.certificate]));
        put(KEY, pair.key.pem());
    }
    if let Some(pair) = &contents.signing {
        put(SIGNING_KEY, pair.key.pem());
    }
    if let Some(pair) = &contents.next {
        put(NEXT_KEY, pair.key.pem());
    }
    let labels = base.metadata.labels.get_or_insert_default();
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    let annotations = base.metadata.annotations.get_or_insert_default();
    if contents.retired.is_empty() {
        annotations.remove(RETIRED);
    } else {
        let retired: Vec<_> = contents.retired.iter().map(|(id, until)| format!("{id}={}", until.0)).collect();
        annotations.insert(RETIRED.to_owned(), retired.join(","));
    }
    base
}

/// Returns an empty Secret for the first certificates.
pub(crate) fn new(namespace: &str, name: &str) -> Secret {
    let mut secret = Secret { type_: Some("kubernetes.io/tls".to_owned()), ..Secret::default() };
    secret.metadata.namespace = Some(namespace.to_owned());
    secret.metadata.name = Some(name.to_owned());
    secret
}

/// Parses the annotation; invalid entries are skipped.
fn times(annotation: &str) -> BTreeMap<Id, Time> {
    let entry = |entry: &str| {
        let (id, time) = entry.trim().split_once('=')?;
        Some((parse_id(id)?, Time(time.parse().ok()?)))
    };
    annotation.split(',').filter_map(entry).collect()
}

fn parse_id(text: &str) -> Option<Id> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(Id(bytes))
}
