//! Values of a type.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use super::{Document, documents};
use crate::pointer::token;
use crate::problem::Problem;

/// Reads the one document of a text as a value of a type. A text without a document is null.
///
/// # Errors
/// If the text is not YAML, has several documents, or a value has another type. The message begins with the path of that
/// value.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    let mut documents = documents(text).into_iter();
    let document = documents.next().transpose()?;
    if let Some(next) = documents.next() {
        return Err(Problem::new("there is a second document", next?.places.document()));
    }
    let Some(Document { value, places }) = document else {
        return serde_json::from_value(Value::Null).map_err(|error| Problem::new(error.to_string(), 0..0));
    };
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let range = pointer(&error).and_then(|pointer| places.value(&pointer)).unwrap_or_else(|| places.document());
        let said = in_words(&error.inner().to_string());
        let message = if path == "." { said } else { format!("{path}: {said}") };
        Problem::new(message, range)
    })
}

/// Replaces what serde calls types of Rust by what users call them.
fn in_words(message: &str) -> String {
    let Some((said, expected)) = message.rsplit_once("expected ") else { return message.to_owned() };
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a sequence" => "a list",
        "a map" => "an object",
        other if other.starts_with("struct ") => "an object",
        other => other,
    };
    let said = said
        .replace("invalid type: sequence", "invalid type: list")
        .replace("invalid type: map", "invalid type: object");
    format!("{said}expected {expected}")
}

fn pointer<E>(error: &serde_path_to_error::Error<E>) -> Option<String> {
    let segment = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(format!("/{index}")),
        Segment::Map { key } => Some(format!("/{}", token(key))),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    error.path().iter().map(segment).collect()
}
