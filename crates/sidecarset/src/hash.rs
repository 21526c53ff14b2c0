//! The hashes of a `SidecarSet` (H-1 to H-10) and the digests in the names of its revisions.

use std::ops::Range;

use pillion_kubernetes::json;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::schema::{self, REVISION_SPEC, SIDECAR_CONTAINER, Style};
use crate::sidecar::is_native;

/// The two hashes that are stored in annotations of a `SidecarSet` (H-1); 64 characters each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashes {
    /// `kruise.io/sidecarset-hash`.
    pub hash: String,
    /// `kruise.io/sidecarset-hash-without-image`: the same with every image left out (H-4).
    pub without_image: String,
}

/// The hashes of a decoded and defaulted `spec` (H-10), of either version (H-9).
pub fn hashes(spec: &Value) -> Hashes {
    Hashes::of_digests(&digests(spec))
}

/// Bytes of both digests.
pub const DIGESTS: usize = 64;

/// The SHA-256 of both texts, the one without images behind the other.
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
    /// The hashes whose digests these are (H-8).
    pub fn of_digests(digests: &[u8; DIGESTS]) -> Self {
        let (hash, without_image) = digests.split_at(DIGESTS / 2);
        Self { hash: encoded(hash), without_image: encoded(without_image) }
    }
}

/// The text that is hashed (H-2, H-3), and where in it the images of the containers are.
fn preimage(spec: &Value) -> (String, Vec<Range<usize>>) {
    let mut out = String::from("{\"containers\":");
    let mut images = Vec::new();
    let mut write = |out: &mut String, key| {
        let list = json::at(spec, &[key]);
        images.extend(schema::write_objects_finding(out, list, &SIDECAR_CONTAINER, "image"));
    };
    write(&mut out, "containers");
    if json::items(spec, &["initContainers"]).iter().any(is_native) {
        out.push_str(",\"initContainers\":");
        write(&mut out, "initContainers");
    }
    out.push('}');
    (out, images)
}

/// The SHA-256 of a text, as 64 hexadecimal digits.
pub fn sha256(text: &[u8]) -> String {
    hex(&Sha256::digest(text))
}

fn hex(bytes: &[u8]) -> String {
    digits_of(bytes, b"0123456789abcdef")
}

/// What [`safe_encode`] makes of [`hex`].
fn encoded(digest: &[u8]) -> String {
    digits_of(digest, b"456789bcdfvwxz24")
}

/// Each half of a byte as one of these ASCII digits.
fn digits_of(bytes: &[u8], digits: &[u8; 16]) -> String {
    let mut text = Vec::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for half in [byte >> 4, byte & 0xf] {
            text.extend(digits.get(usize::from(half)));
        }
    }
    String::from_utf8(text).unwrap_or_default()
}

/// Kubernetes' alphabet for generated names: no vowels and no digits that look like them.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Maps every byte of `text` into that alphabet (H-8). Different texts may come out alike.
pub fn safe_encode(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            let index = usize::from(byte) % ALPHABET.len();
            ALPHABET.get(index).copied().map_or('b', char::from)
        })
        .collect()
}

/// The `data` of the revision of a decoded `spec`, as it is stored.
pub fn revision_data(spec: &Value) -> String {
    let mut out = String::from("{\"spec\":{\"$patch\":\"replace\"");
    for field in REVISION_SPEC.fields {
        out.push_str(",\"");
        out.push_str(field.name);
        out.push_str("\":");
        // The reference copies the keys of a spec in which empty lists have been left out.
        let list = json::at(spec, &[field.name]).filter(|list| !json::items(list, &[]).is_empty());
        if let schema::Kind::Objects(schema) = field.kind {
            schema::write_objects(&mut out, list, schema, Style::Generic);
        }
    }
    out.push_str("}}");
    out
}

/// The longest prefix of a revision's name, in characters.
const PREFIX_MAX: usize = 223;

/// The name of a revision and the value of its label `controller.kubernetes.io/hash`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionName {
    /// `<set>-<hash>`.
    pub name: String,
    /// The hash alone.
    pub hash: String,
}

/// The name of the revision of the `SidecarSet` named `set` whose data is `data`.
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
