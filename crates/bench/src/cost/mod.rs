//! No input costs more than its length (`serviceaccounts.md` E18).
//!
//! [`samples`] are inputs of every kind, [`place`] finds each list, map, text and number in them, [`grow`] makes one of
//! these longer, [`mix`] several of them at once, [`survey`] evaluates the module with the results, [`judge`] says what they
//! may take. Nothing names a field: one that is added to a sample, or to the core's tables of fields, grows like the others.

pub mod grow;
pub mod judge;
pub mod mix;
pub mod place;
pub mod samples;
pub mod survey;

use serde_json::{Map, Value, json};

use self::place::Place;
use crate::objects::Objects;
use crate::scenario::bundle_of;

/// The payload of a call, as one document: `request`, `settings`, `objects` (what can be looked up) and `bundle`
/// (the SidecarSets that `settings.bundle` holds, before they are compressed).
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    name: String,
    function: &'static str,
    document: Value,
    /// The parts of the document that other samples do not have as well.
    about: &'static [&'static str],
    /// The parts that do not grow alone, as another part is just like them.
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

    /// The same with this part of the document.
    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        if let Some(document) = self.document.as_object_mut() {
            document.insert(key.to_owned(), value);
        }
        self
    }

    /// The same, about these parts of the document alone: JSON pointers.
    #[must_use]
    pub fn about(self, about: &'static [&'static str]) -> Self {
        Self { about, ..self }
    }

    /// The same sample, of which these parts do not grow alone: JSON pointers.
    #[must_use]
    pub fn apart_from(self, apart_from: &'static [&'static str]) -> Self {
        Self { apart_from, ..self }
    }

    /// Whether the place grows alone in this sample, if each grows in one sample.
    pub fn grows_alone(&self, place: &Place) -> bool {
        self.is_about(place) && !self.apart_from.iter().any(|part| place.pointer.starts_with(part))
    }

    /// Whether the place is among the parts that the sample is about.
    pub fn is_about(&self, place: &Place) -> bool {
        self.about.iter().any(|part| place.pointer.starts_with(part))
    }

    /// The same with another document.
    #[must_use]
    pub fn of(&self, document: Value) -> Self {
        Self { document, ..self.clone() }
    }

    /// The name of the sample: a kind and what happens to it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The function of the policy.
    pub const fn function(&self) -> &'static str {
        self.function
    }

    /// Everything that can grow.
    pub const fn document(&self) -> &Value {
        &self.document
    }

    /// The bytes that the function gets.
    ///
    /// # Errors
    /// The document cannot be written.
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

    /// The objects that the policy can look up.
    pub fn objects(&self) -> Objects {
        Objects::new(self.document.get("objects").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// The length of all that the policy can read, in bytes: the payload with the bundle before its compression, and what
    /// can be looked up. A bundle of many short SidecarSets is longer than they are; then the payload as it is counts.
    ///
    /// # Errors
    /// The document cannot be written.
    pub fn length(&self) -> anyhow::Result<u64> {
        let document = serde_json::to_vec(&self.document)?.len();
        let payload = if self.document.get("bundle").is_some() { self.payload()?.len() } else { 0 };
        Ok(document.max(payload) as u64)
    }
}
