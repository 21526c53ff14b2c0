//! An ordinary review, and what is right about its answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pillion_server::client::Answer;
use serde_json::{Value, json};

/// The images of the injected containers start like this.
const IMAGE: &str = "registry.example.com/agent";
/// How many `SidecarSet`s match a heavy Pod.
const SETS: u64 = 40;

/// How much work a Pod makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// One `SidecarSet` matches.
    Light,
    /// All `SidecarSet`s match.
    Heavy,
}

/// What a server made of a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The right answer.
    Right,
    /// 503: the API server applies the `failurePolicy`.
    Busy,
    /// Anything else.
    Wrong(String),
}

/// Returns settings in which the agent has this version.
pub(super) fn settings(version: u32) -> Value {
    let set = |number: u64| {
        let (name, label) = (format!("agent-{number:02}"), if number == 0 { "light" } else { "heavy" });
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {label: "yes"}},
                "containers": [{"name": name, "image": format!("{IMAGE}:{version}"), "podInjectPolicy": "AfterAppContainer"}],
            },
        })
    };
    json!({"sidecarSets": (0..SETS).map(set).collect::<Vec<_>>()})
}

/// Returns settings whose only `SidecarSet` matches the labels of the Pod's namespace.
pub(super) fn settings_with_look_up() -> Value {
    let mut settings = settings(1);
    if let Some(sets) = settings.pointer_mut("/sidecarSets").and_then(Value::as_array_mut) {
        sets.truncate(1);
    }
    if let Some(spec) = settings.pointer_mut("/sidecarSets/0/spec").and_then(Value::as_object_mut) {
        spec.insert("namespaceSelector".to_owned(), json!({"matchLabels": {"team": "a"}}));
    }
    settings
}

/// Returns the body of a review for a Pod with an argument of `padding` bytes; annotations may not be so long.
pub(super) fn body(uid: &str, weight: Weight, padding: usize) -> String {
    let labels = match weight {
        Weight::Light => json!({"light": "yes"}),
        Weight::Heavy => json!({"light": "yes", "heavy": "yes"}),
    };
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": uid, "operation": "CREATE", "namespace": "default", "name": "web", "userInfo": {"username": "dev"},
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default", "labels": labels},
            "spec": {"containers": [{"name": "web", "image": "nginx", "args": ["x".repeat(padding)]}]},
        },
    }})
    .to_string()
}

/// Returns what the answer to the review with this uid is.
pub(super) fn verdict(uid: &str, answer: &Answer) -> Verdict {
    match answer.status {
        200 => {}
        503 => return Verdict::Busy,
        status => {
            return Verdict::Wrong(format!("{status} {}", String::from_utf8_lossy(&answer.body).trim()));
        }
    }
    let review: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let response = review.get("response").cloned().unwrap_or_default();
    if response.get("uid").and_then(Value::as_str) != Some(uid) {
        return Verdict::Wrong(format!("an answer for {:?}, not for {uid:?}", response.get("uid")));
    }
    if response.pointer("/status/code").and_then(Value::as_u64) == Some(503) {
        return Verdict::Busy;
    }
    let patch = response.get("patch").and_then(Value::as_str).and_then(|patch| STANDARD.decode(patch).ok());
    let patch: Value = patch.and_then(|patch| serde_json::from_slice(&patch).ok()).unwrap_or_default();
    let is_agent = |operation: &Value| {
        operation.pointer("/value/image").and_then(Value::as_str).is_some_and(|image| image.starts_with(IMAGE))
    };
    if patch.as_array().is_some_and(|operations| operations.iter().any(is_agent)) {
        Verdict::Right
    } else {
        Verdict::Wrong(format!("no agent in {response}"))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn answer(status: u16, response: &Value) -> Answer {
        Answer { status, retry_after: None, body: json!({ "response": response }).to_string().into_bytes() }
    }

    fn patch(image: &str) -> Value {
        let patch = json!([{"op": "add", "path": "/spec/containers/1", "value": {"image": image}}]).to_string();
        json!({"uid": "u", "allowed": true, "patch": STANDARD.encode(patch)})
    }

    #[rstest]
    #[case::injected(200, patch("registry.example.com/agent:2"), Some(Verdict::Right))]
    #[case::overloaded(503, Value::Null, Some(Verdict::Busy))]
    #[case::refused_for_lack_of_time(200, json!({"uid": "u", "status": {"code": 503}}), Some(Verdict::Busy))]
    #[case::of_another(200, json!({"uid": "v"}), None)]
    #[case::nothing_injected(200, patch("nginx"), None)]
    #[case::not_patched(200, json!({"uid": "u", "allowed": true}), None)]
    #[case::too_large(413, Value::Null, None)]
    fn answers_are_told_apart(#[case] status: u16, #[case] response: Value, #[case] expected: Option<Verdict>) {
        let verdict = verdict("u", &answer(status, &response));
        match expected {
            Some(expected) => assert_eq!(verdict, expected),
            None => assert!(matches!(verdict, Verdict::Wrong(_)), "{verdict:?}"),
        }
    }

    #[test]
    fn a_body_is_padded() {
        let (short, long) = (body("u", Weight::Light, 0), body("u", Weight::Heavy, 1_000));
        assert!(short.len() < 700 && long.len() > 1_000 + short.len());
    }
}
