//! Reads the payloads of the policy's functions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use pillion_admission::settings::{BorrowedSettings, SIDECAR_SETS, Settings};
use pillion_bundle::PREFIX;
use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::json::{self, Budget, Object, ParseError, Partial, Partials};
use pillion_kubernetes::outcome::{Code, Reason, Refusal};
use pillion_sidecarset::sidecar_set::compiled::HEAD;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::shortened::Shortened;

/// Parts of a request that decide whether a rule applies. They are short and are parsed at once.
const NOW: [&str; 7] = ["uid", "kind", "subResource", "name", "namespace", "operation", "dryRun"];
/// Parts that rules read. They are most of a request and are parsed only when needed.
const LATER: [&str; 3] = ["object", "oldObject", "userInfo"];

/// `{"request": ..., "settings": ...}`, read in one pass. Only the parts that every request needs are parsed into
/// values.
#[derive(Default)]
pub struct Payload<'a> {
    request: Option<Parts<'a>>,
    settings: SettingsParts<'a>,
}

/// The parts of a request.
#[derive(Default)]
struct Parts<'a> {
    /// The parts in [`NOW`].
    envelope: Object,
    /// The object, if it was parsed at once.
    object: Option<Value>,
    /// The texts of the parts in [`LATER`].
    texts: BTreeMap<String, &'a RawValue>,
}

/// The settings, as separate texts.
#[derive(Default)]
struct SettingsParts<'a> {
    texts: BTreeMap<String, &'a RawValue>,
    /// `sidecarSets`, if they are read in parts.
    manifests: Option<Vec<Partial<'a>>>,
    /// The text of `bundle`.
    bundle: Option<Cow<'a, [u8]>>,
}

impl<'a> Payload<'a> {
    /// Reads a payload from which the bundle may have been cut out. `in_parts` is whether to read the manifests of
    /// SidecarSets in parts, if the request may create a Pod.
    ///
    /// # Errors
    /// Code 400 if the payload is not JSON, or if the request or the settings are not an object.
    pub fn read(whole: &'a [u8], shortened: &'a Shortened<'a>, in_parts: bool) -> Result<Self, Refusal> {
        if let Some(bundle) = shortened.bundle
            && let Ok(mut payload) = Self::parse(&shortened.text, &Budget::of(whole), in_parts)
            && matches!(payload.settings.bundle, Some(Cow::Borrowed(text)) if text == PREFIX.as_bytes())
        {
            payload.settings.bundle = Some(bundle.into());
            return Ok(payload);
        }
        Self::parse(whole, &Budget::of(whole), in_parts)
    }

    fn parse(text: &'a [u8], budget: &Budget, in_parts: bool) -> Result<Self, Refusal> {
        let payload = json::utf8(text).and_then(|text| {
            let mut deserializer = serde_json::Deserializer::from_str(text);
            let payload = deserializer.deserialize_map(PayloadVisitor { budget, in_parts })?;
            deserializer.end().map(|()| payload)
        });
        payload.map_err(|error| unreadable(&budget.error(error)))
    }

    /// Takes the request without the parts in [`LATER`]. A second call returns an empty object.
    pub fn envelope(&mut self) -> Value {
        self.request.as_mut().map_or(Value::Null, |request| Value::Object(std::mem::take(&mut request.envelope)))
    }

    /// Takes the object of the request. May be called once.
    ///
    /// # Errors
    /// As [`Payload::request`].
    pub fn object(&mut self) -> Result<Value, Refusal> {
        let object = self.request.as_mut().and_then(|request| request.object.take());
        object.map_or_else(|| self.request("object"), Ok)
    }

    /// Parses one of the parts in [`LATER`]; null if it is missing.
    ///
    /// # Errors
    /// Code 400 if the part is too expensive to read.
    pub fn request(&self, key: &str) -> Result<Value, Refusal> {
        self.request.as_ref().and_then(|request| request.texts.get(key)).map_or(Ok(Value::Null), |text| value(text))
    }

    /// Takes the manifests of SidecarSets, if they were read in parts.
    pub fn manifests(&mut self) -> Option<Vec<Partial<'a>>> {
        self.settings.manifests.take()
    }

    /// Decodes the settings for admission, without validating them, and without manifests that were read in parts.
    ///
    /// # Errors
    /// Code 400 with every error. A policy server refuses such settings when it starts, so only hosts that skip
    /// `validate_settings` get here.
    pub fn settings(self) -> Result<BorrowedSettings<'a>, Refusal> {
        let SettingsParts { texts, bundle, .. } = self.settings;
        let settings =
            texts.into_iter().map(|(key, text)| Ok((key, value(text)?))).collect::<Result<Vec<_>, Refusal>>()?;
        // Collect from a list, as the parser does for long objects: the module already contains the sort of this
        // iterator.
        let settings = Object::from_iter(settings);
        BorrowedSettings::with_bundle(settings.into(), bundle).map_err(|errors| {
            let reasons = errors.into_iter().map(|error| Reason::of_field(Code::Undecodable, error.below("settings")));
            // A failure without an error would be a bug; refuse the request in that case.
            Refusal::of(reasons).unwrap_or_else(|| undecodable("settings".to_owned(), "cannot be decoded".to_owned()))
        })
    }
}

struct PayloadVisitor<'b> {
    budget: &'b Budget,
    in_parts: bool,
}

impl<'de> Visitor<'de> for PayloadVisitor<'_> {
    type Value = Payload<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with request and settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Payload<'de>, A::Error> {
        let mut payload = Payload::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "request" => payload.request = map.next_value_seed(PartsSeed(self.budget))?,
                "settings" => {
                    // Only a new Pod can do without some of them. Policy servers write the request first.
                    let is_new_pod = payload.request.as_ref().is_some_and(|request| may_be_new_pod(&request.envelope));
                    let budget = Some(self.budget).filter(|_| self.in_parts && is_new_pod);
                    payload.settings = map.next_value_seed(SettingsSeed(budget))?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(payload)
    }
}

/// Reads a request. Null means none.
struct PartsSeed<'b>(&'b Budget);

impl<'de> DeserializeSeed<'de> for PartsSeed<'_> {
    type Value = Option<Parts<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for PartsSeed<'_> {
    type Value = Option<Parts<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an AdmissionRequest")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut parts = Parts::default();
        while let Some(key) = map.next_key::<String>()? {
            if NOW.contains(&key.as_str()) {
                parts.envelope.insert(key, map.next_value_seed(self.0.seed())?);
            } else if key == "object" && may_be_new_pod(&parts.envelope) {
                // Creations of Pods need their object in any case, so parse it at once instead of skipping its text
                // first. In payloads with sorted keys, the operation follows the object.
                parts.object = Some(map.next_value_seed(self.0.seed())?);
            } else if LATER.contains(&key.as_str()) {
                // Of two objects, the last counts.
                parts.object = parts.object.filter(|_| key != "object");
                parts.texts.insert(key, map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Some(parts))
    }
}

/// Reads settings. Null means none. With a budget, reads manifests of SidecarSets in parts.
struct SettingsSeed<'b>(Option<&'b Budget>);

impl<'de> DeserializeSeed<'de> for SettingsSeed<'_> {
    type Value = SettingsParts<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for SettingsSeed<'_> {
    type Value = SettingsParts<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of settings")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(SettingsParts::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut parts = SettingsParts::default();
        while let Some(key) = map.next_key::<String>()? {
            if key == "bundle" {
                parts.bundle = map.next_value::<Option<Borrowed<'_>>>()?.map(|Borrowed(text)| match text {
                    Cow::Borrowed(text) => text.as_bytes().into(),
                    Cow::Owned(text) => text.into_bytes().into(),
                });
            } else if let Some(budget) = self.0
                && key == SIDECAR_SETS
            {
                parts.manifests = Some(map.next_value_seed(Partials(budget, HEAD))?);
            } else {
                parts.texts.insert(key, map.next_value()?);
            }
        }
        Ok(parts)
    }
}

/// A text that is copied only if it has escapes.
#[derive(Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

/// Whether a request is about a Pod and may be its creation, as far as is known.
fn may_be_new_pod(request: &Object) -> bool {
    let kind = request.get("kind").map_or("", |kind| json::text(kind, &["kind"]));
    kind == "Pod" && request.get("operation").is_none_or(|operation| operation == "CREATE")
}

fn value(text: &RawValue) -> Result<Value, Refusal> {
    json::parse(text.get().as_bytes()).map_err(|error| unreadable(&error))
}

fn unreadable(error: &ParseError) -> Refusal {
    let problem = if error.is_too_dense() {
        "the payload costs too much to read; shorten its lists and objects"
    } else {
        "the payload cannot be read"
    };
    undecodable(String::new(), format!("{problem}: {error}"))
}

/// Returns all errors of settings: those of decoding, or else those of validation.
pub fn settings_errors(payload: &[u8]) -> Vec<FieldError> {
    let settings = match json::parse(payload) {
        Ok(settings) => settings,
        Err(error) => {
            let problem = if error.is_too_dense() {
                "the settings cost too much to read; shorten their lists and objects"
            } else {
                "the settings are not valid JSON"
            };
            return vec![FieldError::invalid("", error, problem)];
        }
    };
    match Settings::decode(settings) {
        Ok(settings) => settings.validate(),
        Err(errors) => errors,
    }
}

fn undecodable(field: String, problem: String) -> Refusal {
    Reason::new(Code::Undecodable, field, problem, "").into()
}
