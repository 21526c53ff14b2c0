//! Bundles of changed SidecarSets, and bundles damaged in their text or in the bytes that the text encodes.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pillion_bundle::{Bundle, BundleError, PREFIX};
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::corpus::Named;
use crate::json::changes;
use crate::pool::{Pool, Spot};
use crate::sequence::{Edit, edits};

/// The maximum number of changes of the SidecarSets, and of the bundle.
const CHANGES_MAX: usize = 4;
/// The key of the SidecarSets in a document.
const BUNDLE: &str = "bundle";
/// The length of the checksum of a bundle, in hexadecimal digits.
const CHECKSUM: usize = 32;
/// Numbers, tags and lengths that may occur in a section.
const WORDS: [&[u8]; 12] = [
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x01\0\0\0",
    b"\0\0\x01\0",
    b"\x40\0\0\0",
    b"ANCH",
    b"ROWS",
    b"SETS",
    b"hash",
    b"more",
    b"More",
];
/// Parts of the text of a bundle.
const TEXTS: [&[u8]; 8] = [b"A", b"AAAA", b"____", b"-", b":", b"=", b"pillion-bundle-3:", b"\x7f"];

/// A change of a finished bundle.
#[derive(Clone, Debug)]
enum Damage {
    /// Changes of its text.
    Text(Vec<Edit<u8>>),
    /// Changes of the encoded bytes, followed by a correct checksum.
    Opened(Vec<Edit<u8>>),
}

impl Damage {
    fn any() -> impl Strategy<Value = Self> {
        let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
        prop_oneof![
            1 => vec(edits(words(&TEXTS), 0..0x80_u8), 1..=CHANGES_MAX).prop_map(Self::Text),
            3 => vec(edits(words(&WORDS), any::<u8>()), 1..=CHANGES_MAX).prop_map(Self::Opened),
        ]
    }

    /// Damages the text of a bundle.
    fn apply(&self, text: String) -> String {
        match self {
            Self::Text(edits) => {
                let mut bytes = text.into_bytes();
                for edit in edits {
                    edit.apply(&mut bytes, &[]);
                }
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Self::Opened(edits) => match opened(&text) {
                Some(mut bytes) => {
                    for edit in edits {
                        edit.apply(&mut bytes, &[]);
                    }
                    closed(&bytes)
                }
                None => text,
            },
        }
    }
}

/// Decodes the text of a bundle into bytes.
fn opened(text: &str) -> Option<Vec<u8>> {
    let (_, data) = text.strip_prefix(PREFIX)?.split_once(':')?;
    URL_SAFE_NO_PAD.decode(data).ok()
}

/// Encodes bytes as the text of a bundle.
fn closed(bytes: &[u8]) -> String {
    let data = URL_SAFE_NO_PAD.encode(bytes);
    let digest = format!("{:x}", Sha256::digest(data.as_bytes()));
    format!("{PREFIX}{}:{data}", digest.get(..CHECKSUM).unwrap_or_default())
}

/// Returns the SidecarSets of a document.
fn manifests(document: &Value) -> &[Value] {
    document.get(BUNDLE).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Generates documents with bundles that differ from those of `corpus`. Half of them change the SidecarSets and the
/// rest of the document; the others also damage the resulting bundle.
pub fn documents<'a>(corpus: &'a [Named], pool: &'a Pool) -> impl Strategy<Value = Value> + 'a {
    let damage = prop_oneof![Just(None), Damage::any().prop_map(Some)];
    (Spot::any(), changes(CHANGES_MAX), damage).prop_map(|(which, changes, damage)| {
        let mut document = which.pick(corpus).map(|named| named.input.clone()).unwrap_or_default();
        for change in &changes {
            change.apply(&mut document, pool);
        }
        let Some(damage) = damage else { return document };
        let sets: Vec<SidecarSet> = manifests(&document).iter().cloned().map(SidecarSet::from_decoded).collect();
        with_bundle(document, &damage.apply(pillion_bundle::write(&sets)))
    })
}

/// Returns the document with this text as its bundle.
fn with_bundle(mut document: Value, text: &str) -> Value {
    if let Some(members) = document.as_object_mut() {
        members.remove(BUNDLE);
        let settings = members.entry("settings").or_insert_with(|| json!({}));
        match settings.as_object_mut() {
            Some(settings) => drop(settings.insert(BUNDLE.to_owned(), text.into())),
            None => *settings = json!({BUNDLE: text}),
        }
    }
    document
}

/// Reads the bundle of a document in every way. A damaged bundle may be refused; a bundle just written must be
/// readable.
///
/// # Errors
/// If reading yields other SidecarSets than were written.
pub fn check(document: &Value) -> anyhow::Result<()> {
    if let Some(text) = document.pointer("/settings/bundle").and_then(Value::as_str) {
        if let Ok(bundle) = Bundle::read(text.as_bytes()) {
            let labels = document.pointer("/request/object/metadata/labels").and_then(Value::as_object);
            // Errors are fine here. Only a panic is a failure.
            drop((bundle.verify(), bundle.sets_for("shop", labels)));
        }
        return Ok(());
    }
    let Some(sets) = decoded(document) else { return Ok(()) };
    let text = pillion_bundle::write(&sets.values().cloned().collect::<Vec<_>>());
    let read = Bundle::read(text.as_bytes()).and_then(|bundle| bundle.verify());
    match read {
        Ok(read) => {
            let expected: Vec<SidecarSet> = sets.values().map(prepared).collect();
            anyhow::ensure!(read == expected, "other SidecarSets are read than were written:\n{read:?}\n{expected:?}");
            Ok(())
        }
        Err(BundleError::TooLong | BundleError::TooDense | BundleError::TooLongExpressions) => Ok(()),
        Err(error) => anyhow::bail!("a bundle that was just written {error}"),
    }
}

/// Returns the SidecarSets of a document by name, or `None` if one cannot be bundled or two have the same name.
fn decoded(document: &Value) -> Option<BTreeMap<String, SidecarSet>> {
    let sets = manifests(document).iter().map(|manifest| Some(decode(manifest.clone()).ok()?.into_sidecar_set()));
    let sets: BTreeMap<String, SidecarSet> =
        sets.map(|set| set.map(|set| (set.name().to_owned(), set))).collect::<Option<_>>()?;
    (sets.len() == manifests(document).len()).then_some(sets)
}

/// Returns the document twice: with a bundle of the SidecarSets, and with the same SidecarSets in the settings. `None`
/// if a bundle cannot hold them.
pub fn both_ways(document: &Value) -> Option<[Value; 2]> {
    let sets: Vec<SidecarSet> = decoded(document)?.into_values().collect();
    let mut unbundled = document.clone();
    let manifests = unbundled.as_object_mut()?.remove(BUNDLE)?;
    let settings = unbundled.get_mut("settings")?.as_object_mut()?;
    let is_new = settings.insert("sidecarSets".to_owned(), manifests).is_none();
    is_new.then(|| [with_bundle(document.clone(), &pillion_bundle::write(&sets)), unbundled])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        let set = |name: &str| {
            json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
                "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "c", "image": "i:1"}]},
            })
        };
        json!({"request": {}, "settings": {}, "bundle": [set("a"), set("b")]})
    }

    #[test]
    fn what_is_opened_can_be_closed() {
        let sets: Vec<SidecarSet> = decoded(&document()).unwrap().into_values().collect();
        let text = pillion_bundle::write(&sets);
        assert_eq!(closed(&opened(&text).unwrap()), text);
        check(&document()).unwrap();
    }

    #[test]
    fn damage_below_the_checksum_is_found_by_the_reader() {
        let sets: Vec<SidecarSet> = decoded(&document()).unwrap().into_values().collect();
        let damaged =
            Damage::Opened(vec![Edit::Remove(Spot(u32::MAX / 2), Spot(u32::MAX))]).apply(pillion_bundle::write(&sets));
        let error = Bundle::read(damaged.as_bytes()).map(|bundle| bundle.verify()).unwrap_err();
        assert_eq!(error, BundleError::Damaged("it ends early"));
        let document = with_bundle(document(), &damaged);
        assert_eq!(document["settings"]["bundle"], damaged.as_str());
        assert!(document.get("bundle").is_none());
    }

    #[test]
    fn the_same_sets_can_stand_in_the_settings() {
        let [bundled, unbundled] = both_ways(&document()).unwrap();
        assert!(bundled["settings"]["bundle"].as_str().unwrap().starts_with(PREFIX));
        assert_eq!(unbundled["settings"]["sidecarSets"], document()["bundle"]);
        assert!(unbundled.get("bundle").is_none());
    }
}
