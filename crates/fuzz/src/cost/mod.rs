//! No input costs more than its length (E18).
//!
//! [`samples`] are inputs of every kind, [`place`] finds each list, map, text and number in them, [`grow`] makes one of
//! these longer, [`mix`] several at once, [`survey`] evaluates the module with the results, [`judge`] decides what they
//! may take. The harness names no field: a new field in a sample or in the core's tables grows like the others.

pub mod grow;
pub mod judge;
pub mod mix;
pub mod place;
pub mod samples;
pub mod survey;

use pillion_bench::objects::Objects;
use pillion_bench::scenario::bundle_of;
use serde_json::{Map, Value, json};

use self::place::DocumentPlace;

/// The payload of a call, as one document: `request`, `settings`, `objects` (what can be looked up) and `bundle`
/// (the SidecarSets that `settings.bundle` holds, before they are compressed).
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    name: String,
    function: &'static str,
    document: Value,
    /// The parts of the document that this sample covers: JSON pointers. Other samples cover the other parts.
    about: &'static [&'static str],
    /// The parts that do not grow alone because another part is just like them: JSON pointers.
    apart_from: &'static [&'static str],
}

/// Every part of a document.
const WHOLE: &[&str] = &["/request", "/settings", "/objects", "/bundle"];

#[allow(clippy::needless_pass_by_value, reason = "json! makes values")]
impl Input {
    /// A call of `validate` for this request.
    pub fn validate(name: &str, request: Value) -> Self {
        Self::new(name, "validate", json!({"request": request}))
    }

    /// A call of `validate_settings` for these settings.
    pub fn settings(name: &str, settings: Value) -> Self {
        Self::new(name, "validate_settings", json!({"settings": settings}))
    }

    fn new(name: &str, function: &'static str, document: Value) -> Self {
        Self { name: name.to_owned(), function, document, about: WHOLE, apart_from: &[] }
    }

    /// Sets a part of the document.
    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        if let Some(document) = self.document.as_object_mut() {
            document.insert(key.to_owned(), value);
        }
        self
    }

    /// Limits the sample to these parts of the document: JSON pointers.
    #[must_use]
    pub fn about(self, about: &'static [&'static str]) -> Self {
        Self { about, ..self }
    }

    /// Excludes these parts from growing alone: JSON pointers.
    #[must_use]
    pub fn apart_from(self, apart_from: &'static [&'static str]) -> Self {
        Self { apart_from, ..self }
    }

    /// Whether the place grows alone in this sample when each place grows in one sample only.
    pub fn grows_alone(&self, place: &DocumentPlace) -> bool {
        self.is_about(place) && !self.apart_from.iter().any(|part| place.pointer.starts_with(part))
    }

    /// Whether the place is in the parts that the sample covers.
    pub fn is_about(&self, place: &DocumentPlace) -> bool {
        self.about.iter().any(|part| place.pointer.starts_with(part))
    }

    /// Returns the same sample with another document.
    #[must_use]
    pub fn with_document(&self, document: Value) -> Self {
        Self { document, ..self.clone() }
    }

    /// Returns the name of the sample: a kind and an operation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the policy's function.
    pub const fn function(&self) -> &'static str {
        self.function
    }

    /// Returns the document, which is everything that can grow.
    pub const fn document(&self) -> &Value {
        &self.document
    }

    /// Returns the payload of the function.
    ///
    /// # Errors
    /// If the document cannot be serialized.
    pub fn payload(&self) -> anyhow::Result<Vec<u8>> {
        let part = |key: &str| self.document.get(key).cloned();
        let mut settings = part("settings").unwrap_or_else(|| Value::Object(Map::new()));
        if let (Some(Value::Array(sets)), Some(settings)) = (part("bundle"), settings.as_object_mut()) {
            settings.insert("bundle".to_owned(), bundle_of(&sets).into());
        }
        let payload = match part("request") {
            Some(request) => json!({"request": request, "settings": settings}),
            None => settings,
        };
        Ok(serde_json::to_vec(&payload)?)
    }

    /// Returns the objects that the policy can look up.
    pub fn objects(&self) -> Objects {
        Objects::new(self.document.get("objects").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// Returns the length of everything that the policy can read, in bytes: the payload with the bundle before its
    /// compression, and the objects that can be looked up. A bundle of many short SidecarSets is longer than the
    /// SidecarSets; then the actual payload counts.
    ///
    /// # Errors
    /// If the document cannot be serialized.
    pub fn length(&self) -> anyhow::Result<u64> {
        let document = serde_json::to_vec(&self.document)?.len();
        let payload = if self.document.get("bundle").is_some() { self.payload()?.len() } else { 0 };
        Ok(document.max(payload) as u64)
    }
}
