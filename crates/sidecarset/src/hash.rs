//! The hashes of a `SidecarSet` (HASH-1 to HASH-10) and the digests in the names of its revisions (REV-3).

use std::ops::Range;

use pillion_kubernetes::json;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::sidecar::is_native;
use crate::tables::{self, REVISION_SPEC, SIDECAR_CONTAINER, Style};

/// The two hashes in the annotations of a `SidecarSet` (HASH-1), 64 characters each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashes {
    /// The value of `kruise.io/sidecarset-hash`.
    pub hash: String,
    /// The value of `kruise.io/sidecarset-hash-without-image`: the hash computed without the images (HASH-4).
    pub without_image: String,
}

/// Returns the hashes of a decoded and defaulted `spec` (HASH-10), of either version (HASH-9).
///
/// # Examples
/// ```
/// use pillion_sidecarset::hash::hashes;
/// use serde_json::json;
///
/// let native = json!({"name": "container1", "image": "test-image", "restartPolicy": "Always"});
/// let containers = json!([{"name": "container1", "image": "test-image"}]);
/// for (spec, hash) in [
///     (json!({}), "x5vwx9w6vv4dv72c9w4c2f6v74fbwx545b45bbfz6z2dvf8w887xw86fvcb4cf48"),
///     (json!({"containers": containers}), "w26c4x8fz245642fdv499b464248f974xddx4x55z5dw55bc6x66464fxz77dc78"),
///     (
///         json!({"containers": containers, "initContainers": [native]}),
///         "4xwx4d4844vd4v9x79wb4xbxf4xb29475cc4446v8cz2c2f2f5c5bw448vd42z8w",
///     ),
/// ] {
///     assert_eq!(hashes(&spec).hash, hash);
/// }
/// ```
pub fn hashes(spec: &Value) -> Hashes {
    Hashes::of_digests(&digests(spec))
}

/// The length of both digests together, in bytes.
pub const DIGESTS: usize = 64;

/// Returns the SHA-256 digests of the hashed text with the images, followed by that without images.
pub fn digests(spec: &Value) -> [u8; DIGESTS] {
    let (text, images) = preimage(spec);
    let mut without_image = String::with_capacity(text.len());
    let mut end = 0;
    for image in images {
        without_image.push_str(text.get(end..image.start).unwrap_or_default());
        end = image.end;
    }
    without_image.push_str(text.get(end..).unwrap_or_default());
    let mut both = [0; DIGESTS];
    let digests = [text, without_image].map(|text| Sha256::digest(text.as_bytes()));
    for (byte, digest) in both.iter_mut().zip(digests.iter().flatten()) {
        *byte = *digest;
    }
    both
}

impl Hashes {
    /// Encodes digests as hashes (HASH-8).
    pub fn of_digests(digests: &[u8; DIGESTS]) -> Self {
        let (hash, without_image) = digests.split_at(DIGESTS / 2);
        Self { hash: encoded(hash), without_image: encoded(without_image) }
    }
}

/// Returns the text that is hashed (HASH-2, HASH-3), and the ranges of the containers' images in it.
fn preimage(spec: &Value) -> (String, Vec<Range<usize>>) {
    let mut out = String::from("{\"containers\":");
    let mut images = Vec::new();
    let mut write = |out: &mut String, key| {
        let list = json::at(spec, &[key]);
        images.extend(tables::write_objects_finding(out, list, &SIDECAR_CONTAINER, "image"));
    };
    write(&mut out, "containers");
    if json::items(spec, &["initContainers"]).iter().any(is_native) {
        out.push_str(",\"initContainers\":");
        write(&mut out, "initContainers");
    }
    out.push('}');
    (out, images)
}

/// Returns the SHA-256 digest of a text as 64 hexadecimal digits.
pub fn sha256(text: &[u8]) -> String {
    hex(&Sha256::digest(text))
}

fn hex(bytes: &[u8]) -> String {
    digits_of(bytes, b"0123456789abcdef")
}

/// Returns [`safe_encode`] of the result of [`hex`].
fn encoded(digest: &[u8]) -> String {
    digits_of(digest, b"456789bcdfvwxz24")
}

/// Writes each half of a byte as one of these ASCII digits.
fn digits_of(bytes: &[u8], digits: &[u8; 16]) -> String {
    let mut text = Vec::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for half in [byte >> 4, byte & 0xf] {
            text.extend(digits.get(usize::from(half)));
        }
    }
    String::from_utf8(text).unwrap_or_default()
}

/// Kubernetes' alphabet for generated names: no vowels, and no digits that resemble vowels.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Maps every byte of `text` to a character of that alphabet (HASH-8). Different texts may have the same result.
pub fn safe_encode(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            let index = usize::from(byte) % ALPHABET.len();
            ALPHABET.get(index).copied().map_or('b', char::from)
        })
        .collect()
}

/// Returns the `data` of the revision of a decoded `spec`, as it is stored (REV-2).
pub fn revision_data(spec: &Value) -> String {
    let mut out = String::from("{\"spec\":{\"$patch\":\"replace\"");
    for field in REVISION_SPEC.fields {
        out.push_str(",\"");
        out.push_str(field.name);
        out.push_str("\":");
        // The reference copies the keys of a spec without empty lists.
        let list = json::at(spec, &[field.name]).filter(|list| !json::items(list, &[]).is_empty());
        if let tables::Kind::Objects(table) = field.kind {
            tables::write_objects(&mut out, list, table, Style::Generic);
        }
    }
    out.push_str("}}");
    out
}

/// The maximum length of the prefix of a revision's name, in characters (REV-3).
const PREFIX_MAX: usize = 223;

/// The name of a revision and the value of its label `controller.kubernetes.io/hash` (REV-3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionName {
    /// `<set>-<hash>`.
    pub name: String,
    /// The hash alone.
    pub hash: String,
}

/// Returns the name of the revision with the data `data` of the `SidecarSet` named `set` (REV-3).
pub fn revision_name(set: &str, data: &str, collision_count: i32) -> RevisionName {
    let digest = data
        .bytes()
        .chain(collision_count.to_string().bytes())
        .fold(0x811c_9dc5_u32, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte));
    let hash = safe_encode(&digest.to_string());
    let prefix: String = set.chars().take(PREFIX_MAX).collect();
    RevisionName { name: format!("{prefix}-{hash}"), hash }
}

#[cfg(test)]
mod tests;
