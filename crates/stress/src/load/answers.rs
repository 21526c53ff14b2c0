//! The reviews to send, and the expected answers.

use std::iter;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use pillion_bench::corpus::random::Random;
use pillion_host::admission::{AdmissionRequest, AdmissionResponse};
use pillion_host::{Module, NoCluster};
use pillion_server::Endpoint;
use serde_json::{Value, json};

use super::destination::Destination;
use super::mix::Sample;
use super::subject::Subject;

/// Placeholder of the uid.
const UID: &str = "@uid@";
/// Text before the time in a record within a patch. Two correct answers may differ in this time.
const TIME: &str = "updateTimestamp\\\":\\\"";

/// How an answer is compared with that of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Answers {
    /// The whole response, except for times in the patch.
    Exact,
    /// The uid, whether the object is allowed, and the number of patch operations.
    Alike,
    /// The uid, and that the object is allowed or refused.
    Any,
}

/// What an answer is worth.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It says what the module says.
    Same,
    /// It is right, but its patch has other operations than the module's.
    Differs,
    /// It is wrong; the text says why.
    Wrong(String),
}

/// One request, ready to be sent repeatedly.
pub(super) struct Case {
    path: String,
    before_uid: String,
    after_uid: String,
    /// The response of the module, with its patch decoded.
    expected: Value,
}

/// All requests of a subject.
pub(super) struct Cases(Vec<Case>);

impl Cases {
    /// Computes the expected answers of a server with the subject's settings by asking the module.
    ///
    /// # Errors
    /// If the module refuses the settings or fails.
    pub(super) fn new(module: &Module, subject: Subject, destination: &Destination) -> anyhow::Result<Self> {
        let Subject { settings, samples } = subject;
        let verdict = module.validate_settings(&settings)?;
        if !verdict.valid {
            return Err(anyhow!("the settings are not valid: {}", verdict.message.unwrap_or_default()));
        }
        let mut twin = settings.clone();
        if let Some(fields) = twin.as_object_mut() {
            fields.insert("role".to_owned(), json!("Assert"));
        }
        let case = |sample: Sample| {
            let settings = if sample.endpoint == Endpoint::Assert { &twin } else { &settings };
            let path = destination.path(sample.endpoint);
            Case::new(module, settings, path, sample.request)
        };
        let cases: Vec<Case> = samples.into_iter().map(case).collect::<Result<_, _>>()?;
        if cases.is_empty() { Err(anyhow!("there is nothing to send")) } else { Ok(Self(cases)) }
    }

    /// Returns the position of one of the cases.
    pub(super) fn draw(&self, random: &mut Random) -> usize {
        random.below(self.0.len())
    }

    pub(super) fn get(&self, position: usize) -> Option<&Case> {
        self.0.get(position)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Case> {
        self.0.iter()
    }
}

impl Case {
    fn new(module: &Module, settings: &Value, path: String, mut request: Value) -> anyhow::Result<Self> {
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
        Ok(Self { path, before_uid: before_uid.to_owned(), after_uid: after_uid.to_owned(), expected })
    }

    /// Returns the path to send it to, with its query.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the body of a review with this uid.
    pub(super) fn body(&self, uid: &str) -> String {
        format!("{}{uid}{}", self.before_uid, self.after_uid)
    }

    /// Compares the answer to the review with this uid.
    pub(super) fn judge(&self, answers: Answers, uid: &str, body: &[u8]) -> Verdict {
        self.compared(answers, uid, body).unwrap_or_else(Verdict::Wrong)
    }

    fn compared(&self, answers: Answers, uid: &str, body: &[u8]) -> Result<Verdict, String> {
        let mut review: Value = serde_json::from_slice(body).map_err(|_| "no JSON".to_owned())?;
        let mut response = review.pointer_mut("/response").map(Value::take).unwrap_or_default();
        match response.get_mut("uid") {
            Some(answered) if answered == uid => *answered = json!(UID),
            other => return Err(format!("answers {other:?}, not {uid:?}")),
        }
        let response = comparable(response).ok_or("a patch that cannot be read")?;
        if response == self.expected {
            return Ok(Verdict::Same);
        }
        let differs = || format!("answers {response}, not {}", self.expected);
        if answers == Answers::Exact {
            return Err(differs());
        }
        let allowed = |response: &Value| response.get("allowed").and_then(Value::as_bool);
        let (operations, expected) = (operations(&response)?, operations(&self.expected)?);
        let is_alike = allowed(&response) == allowed(&self.expected) && operations.len() == expected.len();
        if answers == Answers::Alike && !is_alike || allowed(&response).is_none() {
            return Err(differs());
        }
        // Servers list independent operations in different orders.
        let is_same = is_alike && expected.iter().all(|operation| operations.contains(operation));
        Ok(if is_same { Verdict::Same } else { Verdict::Differs })
    }
}

/// Returns the operations of a decoded patch; none without a patch.
fn operations(response: &Value) -> Result<Vec<Value>, String> {
    match response.get("patch").and_then(Value::as_str) {
        None | Some("") => Ok(Vec::new()),
        Some(patch) => serde_json::from_str(patch).map_err(|error| format!("a patch that is no list: {error}")),
    }
}

/// Returns a response with its patch decoded and without times, or `None` if the patch cannot be decoded.
fn comparable(mut response: Value) -> Option<Value> {
    if let Some(patch) = response.get_mut("patch").filter(|patch| !patch.is_null()) {
        let text = String::from_utf8(STANDARD.decode(patch.as_str()?).ok()?).ok()?;
        *patch = Value::String(timeless(&text));
    }
    Some(response)
}

fn timeless(patch: &str) -> String {
    let mut parts = patch.split(TIME);
    let first = parts.next().unwrap_or_default();
    let others = parts.map(|part| part.trim_start_matches(|letter: char| letter != '\\'));
    iter::once(first).chain(others).collect::<Vec<_>>().join(TIME)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::load::subject::SettingsForm;

    fn cases(subject: Subject) -> Cases {
        let destination = Destination::new("http://localhost", None, None).unwrap();
        Cases::new(pillion_testkit::module::module(), subject, &destination).unwrap()
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
        let cases = cases(Subject::mix(None, 1));
        let count = |wanted: fn(&Case) -> bool| cases.iter().filter(|case| wanted(case)).count();
        assert!(count(|case| case.expected.get("patch").is_some()) >= 15);
        assert!(count(|case| case.expected["allowed"] == json!(false)) >= 3);
        assert_eq!(count(|case| case.expected["status"]["code"] == json!(503)), 0, "nothing has to be looked up");
    }

    /// A comparison would mean little if the answers depended on the number of SidecarSets, or on the form of the
    /// settings.
    #[test]
    fn the_answer_is_the_same_beside_any_number_of_sets() {
        let answer = |count, form| {
            let cases = cases(Subject::beside(count, form));
            assert_eq!(cases.iter().count(), 1);
            let case = cases.get(cases.draw(&mut Random::new(7))).unwrap();
            assert!((10_000..12_000).contains(&case.body("").len()), "{}", case.body("").len());
            case.expected.clone()
        };
        let first = answer(1, SettingsForm::Manifests);
        assert!(operations(&first).unwrap().len() > 10, "{first}");
        for (count, form) in [(10, SettingsForm::Manifests), (10, SettingsForm::Bundle), (100, SettingsForm::Bundle)] {
            assert_eq!(answer(count, form), first, "{count} {form:?}");
        }
    }

    /// Returns a case that injects, and the module's answer to the review `u`.
    fn injecting() -> (Cases, Value) {
        let cases = cases(Subject::beside(1, SettingsForm::Manifests));
        let mut right = cases.get(0).unwrap().expected.clone();
        right["uid"] = json!("u");
        (cases, right)
    }

    fn judged(cases: &Cases, answers: Answers, response: &Value) -> Verdict {
        let mut response = response.clone();
        if let Some(patch) = response.get_mut("patch").filter(|patch| patch.as_str().is_some_and(|text| text != "%")) {
            *patch = json!(STANDARD.encode(patch.as_str().unwrap()));
        }
        cases.get(0).unwrap().judge(answers, "u", json!({ "response": response }).to_string().as_bytes())
    }

    #[rstest]
    fn the_answer_of_the_module_is_right(#[values(Answers::Exact, Answers::Alike, Answers::Any)] answers: Answers) {
        let (cases, right) = injecting();
        assert_eq!(judged(&cases, answers, &right), Verdict::Same);
    }

    #[rstest]
    fn no_answer_is_wrong(#[values(Answers::Exact, Answers::Alike, Answers::Any)] answers: Answers) {
        let (cases, mut other) = injecting();
        other["patch"] = json!("%");
        assert_eq!(judged(&cases, answers, &other), Verdict::Wrong("a patch that cannot be read".to_owned()));
        let Verdict::Wrong(problem) = judged(&cases, answers, &json!({"uid": "v", "allowed": true})) else { panic!() };
        assert!(problem.contains("not \"u\""), "{problem}");
        assert!(matches!(judged(&cases, answers, &json!({"uid": "u"})), Verdict::Wrong(_)));
        assert_eq!(cases.get(0).unwrap().judge(answers, "u", b""), Verdict::Wrong("no JSON".to_owned()));
    }

    #[derive(Debug, PartialEq)]
    enum Worth {
        Same,
        Differs,
        Wrong,
    }

    #[rstest]
    #[case::refused(
        |answer: &mut Value| answer["allowed"] = json!(false),
        [Worth::Wrong, Worth::Wrong, Worth::Differs]
    )]
    #[case::without_a_patch(
        |answer: &mut Value| answer["patch"] = json!(null),
        [Worth::Wrong, Worth::Wrong, Worth::Differs]
    )]
    #[case::another_order(
        |answer: &mut Value| answer["patch"] = edited(answer, |list| list.reverse()),
        [Worth::Wrong, Worth::Same, Worth::Same]
    )]
    #[case::another_value(
        |answer: &mut Value| answer["patch"] = edited(answer, |list| list[0]["value"] = json!("other")),
        [Worth::Wrong, Worth::Differs, Worth::Differs]
    )]
    #[case::one_operation_less(
        |answer: &mut Value| answer["patch"] = edited(answer, |list| drop(list.pop())),
        [Worth::Wrong, Worth::Wrong, Worth::Differs]
    )]
    #[case::a_warning_more(
        |answer: &mut Value| answer["warnings"] = json!(["w"]),
        [Worth::Wrong, Worth::Same, Worth::Same]
    )]
    fn other_answers_are_judged_as_strictly_as_wanted(#[case] edit: fn(&mut Value), #[case] worth: [Worth; 3]) {
        let (cases, mut other) = injecting();
        edit(&mut other);
        let found =
            [Answers::Exact, Answers::Alike, Answers::Any].map(|answers| match judged(&cases, answers, &other) {
                Verdict::Same => Worth::Same,
                Verdict::Differs => Worth::Differs,
                Verdict::Wrong(_) => Worth::Wrong,
            });
        assert_eq!(found, worth);
    }

    /// Returns the patch of an answer with other operations.
    fn edited(answer: &Value, edit: impl FnOnce(&mut Vec<Value>)) -> Value {
        let mut list = operations(answer).unwrap();
        edit(&mut list);
        json!(Value::Array(list).to_string())
    }
}
