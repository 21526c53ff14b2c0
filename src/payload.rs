//! The payloads of the policy's functions.

use std::ops::Range;

use pillion_core::bundle::Text;
use pillion_core::field::{FieldError, FieldPath};
use pillion_core::json::{self, ParseError, Reader};
use pillion_core::outcome::{Code, Reason, Refusal};
use pillion_core::settings::Settings;
use serde_json::Value;

/// What of a request says whether any rule speaks of it; little.
const NOW: [&str; 7] = ["uid", "kind", "subResource", "name", "namespace", "operation", "dryRun"];
/// What a rule needs then; nearly all of it. Everything else is passed over.
const LATER: [&str; 3] = ["object", "oldObject", "userInfo"];
/// The setting of which no copy is made.
const BUNDLE: &str = "bundle";

/// `{"request": ..., "settings": ...}`, read once from its beginning to its end, of which no value was made yet that not
/// every request needs.
pub struct Payload<'a> {
    text: &'a [u8],
    envelope: Value,
    /// Where the parts of the request are that are not in the envelope.
    request: Vec<(String, Range<usize>)>,
    /// The object, where it was read at once.
    object: Option<Value>,
    settings: Settled,
    /// Where the text of a bundle is, as long as it needs no reading.
    bundle: Option<Range<usize>>,
}

/// Where the settings are.
enum Settled {
    /// No object; an error, unless it is null or missing.
    Whole(Range<usize>),
    /// One by one.
    Each(Vec<(String, Range<usize>)>),
}

impl<'a> Payload<'a> {
    /// Reads a payload.
    ///
    /// # Errors
    /// Code 400 where it is no JSON.
    pub fn read(text: &'a [u8]) -> Result<Self, Refusal> {
        let mut envelope = Value::Null;
        let mut request = Vec::new();
        let mut object = None;
        let mut settings = Settled::Whole(0..0);
        let mut bundle = None;
        let mut reader = Reader::new(text);
        let read = reader.entries(&mut |key, reader| {
            match key.as_str() {
                "request" if reader.is_at_object() => {
                    let mut now = json::Object::new();
                    request.clear();
                    object = None;
                    reader.entries(&mut |key, reader| {
                        if NOW.contains(&key.as_str()) {
                            now.insert(key, reader.value()?);
                            return Ok(());
                        }
                        // A Pod's creation is what the policy is there for: it need not be passed over first. Hosts that
                        // sort keys have the operation behind the object; of a Pod it mostly is the one.
                        if key == "object" && may_be_new_pod(&now) {
                            object = Some(reader.value()?);
                            return Ok(());
                        }
                        let range = reader.skip()?;
                        if LATER.contains(&key.as_str()) {
                            request.push((key, range));
                        }
                        Ok(())
                    })?;
                    envelope = Value::Object(now);
                }
                "request" => envelope = reader.value()?,
                "settings" if reader.is_at_object() => {
                    let mut each = Vec::new();
                    reader.entries(&mut |key, reader| {
                        if key == BUNDLE {
                            bundle = reader.skip_plain_text();
                            if bundle.is_some() {
                                return Ok(());
                            }
                        }
                        each.push((key, reader.skip()?));
                        Ok(())
                    })?;
                    settings = Settled::Each(each);
                }
                "settings" => settings = Settled::Whole(reader.skip()?),
                _ => {
                    reader.skip()?;
                }
            }
            Ok(())
        });
        read.and_then(|()| reader.end()).map_err(|error| no_json(&error))?;
        Ok(Self { text, envelope, request, object, settings, bundle })
    }

    /// The request without what is for [`Payload::request`]; only once.
    pub fn envelope(&mut self) -> Value {
        self.envelope.take()
    }

    /// The object of the request; only once.
    ///
    /// # Errors
    /// As [`Payload::request`].
    pub fn object(&mut self) -> Result<Value, Refusal> {
        self.object.take().map_or_else(|| self.request("object"), Ok)
    }

    /// The value of one of [`LATER`]; null where it is missing.
    ///
    /// # Errors
    /// None: it was read before.
    pub fn request(&self, key: &str) -> Result<Value, Refusal> {
        self.request.iter().rfind(|(own, _)| own == key).map_or(Ok(Value::Null), |(_, range)| self.value(range))
    }

    fn value(&self, range: &Range<usize>) -> Result<Value, Refusal> {
        json::parse(self.text.get(range.clone()).unwrap_or_default()).map_err(|error| no_json(&error))
    }

    /// The settings as admission uses them: decoded, not validated. The text of a bundle is copied once.
    ///
    /// # Errors
    /// Code 400 with every error. A policy server refuses such settings when it starts, so only hosts that skip
    /// `validate_settings` get here.
    pub fn settings(self) -> Result<Settings, Refusal> {
        let settings = match &self.settings {
            Settled::Whole(range) if range.is_empty() => Value::Null,
            Settled::Whole(range) => self.value(range)?,
            Settled::Each(each) => {
                let mut settings = json::Object::new();
                for (key, range) in each {
                    settings.insert(key.clone(), self.value(range)?);
                }
                Value::Object(settings)
            }
        };
        let bundle = self.bundle.and_then(|range| self.text.get(range));
        let bundle = bundle.map(|bundle| Text::part(bundle.to_vec(), 0..bundle.len()));
        Settings::with_bundle(settings, bundle).map_err(|errors| {
            let root = FieldPath::new("settings");
            let reasons = errors.into_iter().map(|error| {
                let path = error.clone().below(&root).path;
                reason(path, FieldError { path: FieldPath::default(), ..error }.to_string())
            });
            // There is no failure without an error; were there one, it would still be a refusal.
            Refusal::of(reasons).unwrap_or_else(|| undecodable(root.clone(), "cannot be decoded".to_owned()))
        })
    }
}

/// Whether this is about a Pod, and not known to be anything else than its creation.
fn may_be_new_pod(request: &json::Object) -> bool {
    let kind = request.get("kind").map_or("", |kind| json::text(kind, &["kind"]));
    kind == "Pod" && request.get("operation").is_none_or(|operation| operation == "CREATE")
}

fn no_json(error: &ParseError) -> Refusal {
    let problem = if error.is_too_dense() {
        "the payload costs too much to read; shorten its lists and objects"
    } else {
        "the payload is not valid JSON"
    };
    undecodable(FieldPath::default(), format!("{problem}: {error}"))
}

/// Everything that is wrong with settings: decoding first, and validation where that succeeds.
pub fn settings_errors(payload: &[u8]) -> Vec<FieldError> {
    let settings = match json::parse(payload) {
        Ok(settings) => settings,
        Err(error) => {
            let problem = if error.is_too_dense() {
                "the settings cost too much to read; shorten their lists and objects"
            } else {
                "the settings are not valid JSON"
            };
            return vec![FieldError::invalid(&FieldPath::default(), error, problem)];
        }
    };
    match Settings::decode(settings) {
        Ok(settings) => settings.validate(),
        Err(errors) => errors,
    }
}

fn undecodable(field: FieldPath, problem: String) -> Refusal {
    reason(field, problem).into()
}

fn reason(field: FieldPath, problem: String) -> Reason {
    Reason { sidecar_set: None, field, problem, remedy: String::new(), code: Code::Undecodable }
}
