//! The reviews to send, and the expected answers.

use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pillion_host::admission::{AdmissionRequest, AdmissionResponse};
use pillion_host::server::Endpoint;
use pillion_host::{Module, NoCluster};
use serde_json::{Value, json};

use super::mix::{self, Sample};

/// Placeholder of the uid.
const UID: &str = "@uid@";
/// Text before the time in a record within a patch. Two correct answers may differ in this time.
const TIME: &str = "updateTimestamp\\\":\\\"";

/// One request, ready to be sent repeatedly.
pub(super) struct Case {
    pub(super) endpoint: Endpoint,
    before_uid: String,
    after_uid: String,
    expected: Value,
}

/// All requests of the mix.
pub(super) struct Cases(Vec<Case>);

impl Cases {
    /// Computes the expected answers of a server with these settings by asking the module.
    ///
    /// # Errors
    /// If the module refuses the settings or fails.
    pub(super) fn new(module: &Module, settings: &Value, seed: u64) -> anyhow::Result<Self> {
        let verdict = module.validate_settings(settings)?;
        if !verdict.valid {
            return Err(anyhow!("the settings are not valid: {}", verdict.message.unwrap_or_default()));
        }
        let mut twin = settings.clone();
        if let Some(fields) = twin.as_object_mut() {
            fields.insert("role".to_owned(), json!("Assert"));
        }
        let case = |sample: Sample| {
            let settings = if sample.endpoint == Endpoint::Assert { &twin } else { settings };
            Case::new(module, settings, sample)
        };
        Ok(Self(mix::samples(seed).into_iter().map(case).collect::<Result<_, _>>()?))
    }

    /// Returns the case with this number, modulo the number of cases.
    pub(super) fn get(&self, number: u64) -> Option<&Case> {
        let count = u64::try_from(self.0.len()).ok().filter(|count| *count > 0)?;
        self.0.get(usize::try_from(number % count).ok()?)
    }
}

impl Case {
    fn new(module: &Module, settings: &Value, sample: Sample) -> anyhow::Result<Self> {
        let Sample { endpoint, mut request } = sample;
        if let Some(fields) = request.as_object_mut() {
            fields.insert("uid".to_owned(), json!(UID));
        }
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let read = AdmissionRequest::from_json(&review)?;
        let seen = serde_json::to_value(&read)?;
        let decision = module.validate(&seen, settings, Arc::new(NoCluster))?;
        let expected = AdmissionResponse::new(&read.uid, read.object.as_ref(), decision);
        let expected = comparable(serde_json::to_value(&expected)?).context("the module's own answer")?;
        let body = review.to_string();
        let (before_uid, after_uid) = body.split_once(UID).context("a request without uid")?;
        Ok(Self { endpoint, before_uid: before_uid.to_owned(), after_uid: after_uid.to_owned(), expected })
    }

    /// Returns the body of a review with this uid.
    pub(super) fn body(&self, uid: &str) -> String {
        [&self.before_uid, uid, &self.after_uid].concat()
    }

    /// Returns why an answer to the review with this uid is wrong, or `None` if it is right.
    pub(super) fn problem(&self, uid: &str, body: &[u8]) -> Option<String> {
        let Ok(mut review) = serde_json::from_slice::<Value>(body) else { return Some("no JSON".to_owned()) };
        let mut response = review.pointer_mut("/response").map(Value::take).unwrap_or_default();
        match response.get_mut("uid") {
            Some(answered) if answered == uid => *answered = json!(UID),
            other => return Some(format!("answers {other:?}, not {uid:?}")),
        }
        match comparable(response) {
            Some(response) if response == self.expected => None,
            Some(response) => Some(format!("answers {response}, not {}", self.expected)),
            None => Some("a patch that cannot be read".to_owned()),
        }
    }
}

/// Returns a response with its patch decoded and without times, or `None` if the patch cannot be decoded.
fn comparable(mut response: Value) -> Option<Value> {
    if let Some(patch) = response.get_mut("patch") {
        let text = String::from_utf8(STANDARD.decode(patch.as_str()?).ok()?).ok()?;
        *patch = Value::String(timeless(&text));
    }
    Some(response)
}

fn timeless(patch: &str) -> String {
    let mut parts = patch.split(TIME);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(TIME);
        text.push_str(part.trim_start_matches(|letter: char| letter != '\\'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases() -> Cases {
        Cases::new(pillion_testkit::module::module(), &mix::settings(1), 1).unwrap()
    }

    #[test]
    fn times_do_not_count() {
        let patch =
            |time: &str| format!(r#"[{{"value":"{{\"a\":{{\"updateTimestamp\":\"{time}\",\"hash\":\"x\"}}}}"}}]"#);
        assert_eq!(timeless(&patch("2026-01-02T03:04:05Z")), timeless(&patch("2027-01-02T03:04:05Z")));
        assert!(timeless(&patch("2026")).contains(r#"\"hash\":\"x\""#));
    }

    /// The mix would prove little if the module injected and refused nothing.
    #[test]
    fn the_mix_injects_and_refuses() {
        let cases = cases();
        let count = |wanted: fn(&Case) -> bool| cases.0.iter().filter(|case| wanted(case)).count();
        assert!(count(|case| case.expected.get("patch").is_some()) >= 15);
        assert!(count(|case| case.expected["allowed"] == json!(false)) >= 3);
        assert_eq!(count(|case| case.expected["status"]["code"] == json!(503)), 0, "nothing has to be looked up");
    }

    #[test]
    fn wrong_answers_are_found() {
        let cases = cases();
        let case = cases.get(1).unwrap();
        let mut right = case.expected.clone();
        right["uid"] = json!("u");
        let patch = right["patch"].as_str().map(|text| STANDARD.encode(text));
        if let Some(patch) = patch {
            right["patch"] = json!(patch);
        }
        let problem = |response: &Value| case.problem("u", json!({ "response": response }).to_string().as_bytes());
        assert_eq!(problem(&right), None);
        assert!(problem(&json!({"uid": "v", "allowed": true})).unwrap().contains("not \"u\""));
        let mut other = right.clone();
        other["allowed"] = json!(!right["allowed"].as_bool().unwrap());
        assert!(problem(&other).is_some());
        other = right.clone();
        other["patch"] = json!("%");
        assert_eq!(problem(&other).as_deref(), Some("a patch that cannot be read"));
        assert_eq!(case.problem("u", b"").as_deref(), Some("no JSON"));
    }
}
