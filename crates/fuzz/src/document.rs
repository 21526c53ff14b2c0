//! Inputs of the module in the form of documents, which the corpus stores.
//!
//! `{"request", "settings", "objects", "bundle"}` is a call of `validate`; without `request` it is a call of
//! `validate_settings`. `objects` can be looked up. `bundle` lists SidecarSets, which become the setting of that name.
//! `{"function", "bytes", "objects"}` is a call with an arbitrary payload: each character, below U+0100, is one byte.

use pillion_bench::objects::Objects;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::corpus::Named;
use crate::cost::Input;
use crate::json::changes;
use crate::pool::{Pool, Spot};
use crate::sequence::{Edit, edits};

/// The maximum number of changes of a document.
const CHANGES_MAX: usize = 8;
/// Parts of JSON to insert between the bytes of a payload.
const WORDS: [&[u8]; 24] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b",",
    b":",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\\udc00\\ud800",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\0",
    b" ",
    b"null",
    b"-",
    b"1e999",
    b"1E+",
    b"[[[[[[[[",
    b"{\"a\":{\"a\":",
    b"\"request\":{},",
];

/// A call of the module.
#[derive(Clone, Debug)]
pub struct Call {
    /// `validate` or `validate_settings`.
    pub function: String,
    /// The payload of the call.
    pub payload: Vec<u8>,
    /// The objects that the module can look up.
    pub objects: Objects,
    /// The length of everything that the policy can read, in bytes.
    pub length: u64,
}

impl Call {
    /// Turns a document into a call.
    ///
    /// # Errors
    /// If the document cannot be serialized.
    pub fn from_document(document: &Value) -> anyhow::Result<Self> {
        let input = input(document);
        let (function, payload, length) = match document.get("bytes").and_then(Value::as_str) {
            Some(bytes) => {
                let payload: Vec<u8> = bytes.chars().filter_map(|byte| u8::try_from(u32::from(byte)).ok()).collect();
                let objects = document.get("objects").map_or(0, |objects| objects.to_string().len());
                let function = document.get("function").and_then(Value::as_str).unwrap_or("validate");
                let length = payload.len() + objects;
                (function, payload, length as u64)
            }
            None => (input.function(), input.payload()?, input.length()?),
        };
        Ok(Self { function: function.to_owned(), payload, objects: input.objects(), length })
    }
}

fn input(document: &Value) -> Input {
    let input = match document.get("request") {
        Some(_) => Input::validate("document", Value::Null),
        None => Input::settings("document", Value::Null),
    };
    input.with_document(document.clone())
}

/// Returns the call of a document with changed bytes.
fn damaged(document: &Value, edits: &[Edit<u8>], others: &[Vec<u8>]) -> anyhow::Result<Value> {
    let Call { function, mut payload, .. } = Call::from_document(document)?;
    for edit in edits {
        edit.apply(&mut payload, others);
    }
    let bytes: String = payload.into_iter().map(char::from).collect();
    let objects = document.get("objects").cloned().unwrap_or_else(|| json!([]));
    Ok(json!({"function": function, "bytes": bytes, "objects": objects}))
}

/// Generates documents that differ from one of `corpus` by some changes. In one of eight, the bytes of the payload
/// change, too.
pub fn documents<'a>(corpus: &'a [Named], pool: &'a Pool) -> impl Strategy<Value = Value> + 'a {
    let words: Vec<Vec<u8>> = WORDS.iter().map(|word| word.to_vec()).collect();
    let bytes = prop_oneof![7 => Just(Vec::new()), 1 => vec(edits(words, any::<u8>()), 1..4)];
    (Spot::any(), changes(CHANGES_MAX), bytes).prop_map(|(which, changes, bytes)| {
        let mut document = which.pick(corpus).map(|named| named.input.clone()).unwrap_or_default();
        for change in &changes {
            change.apply(&mut document, pool);
        }
        if bytes.is_empty() { document } else { damaged(&document, &bytes, &[]).unwrap_or(document) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_a_call() {
        let call = Call::from_document(&json!({"request": {"uid": "x"}, "settings": {"role": "Inject"}})).unwrap();
        assert_eq!((call.function.as_str(), call.payload.len() as u64), ("validate", 52));
        let call = Call::from_document(&json!({"settings": {"role": "Inject"}})).unwrap();
        assert_eq!(
            (call.function.as_str(), call.payload.as_slice()),
            ("validate_settings", &br#"{"role":"Inject"}"#[..])
        );
    }

    #[test]
    fn bytes_of_a_payload_survive_in_a_document() {
        let document = damaged(&json!({"settings": {}}), &[Edit::Insert(Spot(0), (0..=255).collect())], &[]).unwrap();
        let call = Call::from_document(&document).unwrap();
        assert_eq!(call.function, "validate_settings");
        assert_eq!(call.payload, (0..=255).chain(*b"{}").collect::<Vec<u8>>());
    }
}
