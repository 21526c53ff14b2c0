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
        let message = if path == "." { error.inner().to_string() } else { format!("{path}: {}", error.inner()) };
        Problem::new(message, range)
    })
}

fn pointer<E>(error: &serde_path_to_error::Error<E>) -> Option<String> {
    let segment = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(format!("/{index}")),
        Segment::Map { key } => Some(format!("/{}", token(key))),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    error.path().iter().map(segment).collect()
}
