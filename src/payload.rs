//! Reads the payloads of the policy's functions.

use pillion_admission::pod::PodRequest;
use pillion_admission::request::{Request, RequestTarget};
use pillion_admission::settings::{BorrowedSettings, SIDECAR_SETS, Settings, matching};
use pillion_bundle::PREFIX;
use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::json::{self, Budget, ParseError, Part, Partial};
use pillion_kubernetes::outcome::{Code, Reason, Refusal};
use pillion_sidecarset::sidecar_set::compiled::HEAD;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::shortened::Shortened;

/// The member of an object's metadata that no rule for new Pods reads. It is often a third of a Pod.
pub const MANAGED_FIELDS: &str = "managedFields";

/// What is parsed of a payload at once: what decides whether a rule applies, the object, which nearly every rule reads,
/// and what decides whether a SidecarSet may match a Pod.
const PARSED: Part = Part::Members(&[
    (
        "request",
        Part::Members(&[
            ("uid", Part::Whole),
            ("kind", Part::Whole),
            ("subResource", Part::Whole),
            ("namespace", Part::Whole),
            ("name", Part::Whole),
            ("operation", Part::Whole),
            ("object", Part::Except(&["metadata", MANAGED_FIELDS])),
        ]),
    ),
    ("settings", Part::Members(&[(SIDECAR_SETS, Part::Items(&HEAD))])),
]);

/// `{"request": ..., "settings": ...}`, read in one pass.
pub struct Payload<'a> {
    request: Partial<'a>,
    settings: Partial<'a>,
    /// The text of the setting `bundle`, if it was cut out.
    bundle: Option<&'a [u8]>,
    budget: Budget,
}

impl<'a> Payload<'a> {
    /// Reads a payload from which the bundle may have been cut out.
    ///
    /// # Errors
    /// Code 400 if the payload is not JSON.
    pub fn read(whole: &'a [u8], shortened: &'a Shortened<'a>) -> Result<Self, Refusal> {
        if let Some(bundle) = shortened.bundle
            && let Ok(mut payload) = Self::parse(&shortened.text, Budget::for_text(whole))
            && let Some(Partial::Text(rest)) = payload.settings.take("bundle")
            && rest.get().trim_matches('"') == PREFIX
        {
            payload.bundle = Some(bundle);
            return Ok(payload);
        }
        Self::parse(whole, Budget::for_text(whole))
    }

    fn parse(text: &'a [u8], budget: Budget) -> Result<Self, Refusal> {
        let mut payload = Partial::read(text, PARSED, &budget).map_err(|error| unreadable(&error))?;
        if !matches!(payload, Partial::Members(_)) {
            let problem = "the payload cannot be read: it must be an object with request and settings";
            return Err(undecodable(String::new(), problem.to_owned()));
        }
        let mut part = |name| payload.take(name).unwrap_or(Partial::Value(Value::Null));
        Ok(Self { request: part("request"), settings: part("settings"), bundle: None, budget })
    }

    /// Takes the request, without `oldObject` and `userInfo`, and the text of what the object lacks: a new Pod has no
    /// [`MANAGED_FIELDS`].
    ///
    /// # Errors
    /// As [`Request::decode`].
    pub fn request(&mut self) -> Result<(Request, Option<&'a RawValue>), Refusal> {
        let mut object = self.request.take("object").unwrap_or(Partial::Value(Value::Null));
        let request = Request::decode(self.request.parsed().unwrap_or_default())?;
        let metadata = object.get_mut("metadata").filter(|_| request.target() == RequestTarget::PodCreate);
        let managed_fields = match metadata.and_then(|metadata| metadata.take(MANAGED_FIELDS)) {
            Some(Partial::Text(text)) => Some(text),
            _ => None,
        };
        let object = object.complete(&self.budget).map_err(|error| unreadable(&error))?;
        Ok((Request { object, ..request }, managed_fields))
    }

    /// Takes a part of the request; null if it is missing.
    ///
    /// # Errors
    /// Code 400 if the part costs too much to read.
    pub fn part(&mut self, name: &str) -> Result<Value, Refusal> {
        let part = self.request.take(name).unwrap_or(Partial::Value(Value::Null));
        part.complete(&self.budget).map_err(|error| unreadable(&error))
    }

    /// Decodes the settings for admission, without validating them. For a new Pod, reads only the SidecarSets that may
    /// match it, if nothing is wrong with them.
    ///
    /// # Errors
    /// Code 400 with every error. A policy server refuses such settings when it starts, so only hosts that skip
    /// `validate_settings` get here.
    pub fn settings(mut self, new_pod: Option<PodRequest<'_>>) -> Result<BorrowedSettings<'a>, Refusal> {
        let sets = new_pod
            .zip(self.settings.get(SIDECAR_SETS))
            .and_then(|(pod, manifests)| matching(manifests, &self.budget, pod.namespace(), pod.labels()));
        if sets.is_some() {
            self.settings.take(SIDECAR_SETS);
        }
        let settings = self.settings.complete(&self.budget).map_err(|error| unreadable(&error))?;
        let settings = BorrowedSettings::with_bundle(settings, self.bundle.map(Into::into)).map_err(|errors| {
            let reasons = errors.into_iter().map(|error| Reason::of_field(Code::Undecodable, error.below("settings")));
            // A failure without an error would be a bug; refuse the request in that case.
            Refusal::from_reasons(reasons)
                .unwrap_or_else(|| undecodable("settings".to_owned(), "cannot be decoded".to_owned()))
        })?;
        Ok(match sets {
            Some(sidecar_sets) => BorrowedSettings { sidecar_sets, ..settings },
            None => settings,
        })
    }
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
