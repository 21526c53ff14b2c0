//! `/convert`: converts SidecarSets between versions, with `ConversionReview` of `apiextensions.k8s.io/v1`.

use pillion_kubernetes::json;
use pillion_sidecarset::sidecar_set::convert;
use pillion_sidecarset::sidecar_set::version::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const API_VERSION: &str = "apiextensions.k8s.io/v1";
const KIND: &str = "ConversionReview";

/// Why a body is not a `ConversionReview`. Without a uid there cannot be a response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConversionError {
    #[error("not a ConversionReview: {0}")]
    Json(serde_json::Error),
    #[error("not a ConversionReview of apiextensions.k8s.io/v1")]
    Kind,
    #[error("invalid ConversionReview: request.uid: required value")]
    NoUid,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<Request>,
}

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    uid: String,
    #[serde(default, rename = "desiredAPIVersion")]
    desired: String,
    #[serde(default)]
    objects: Vec<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    api_version: &'static str,
    kind: &'static str,
    response: Response,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: String,
    result: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    converted_objects: Option<Vec<Value>>,
}

#[derive(Serialize)]
struct Outcome {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// Converts all objects of a review in order, or none of them. The second part of the result tells whether it
/// succeeded.
///
/// # Errors
/// [`ConversionError`] if the body is not a review.
pub(crate) fn answer(body: &[u8]) -> Result<(Vec<u8>, bool), ConversionError> {
    let review: Review = serde_json::from_slice(body).map_err(ConversionError::Json)?;
    if review.kind != KIND || review.api_version != API_VERSION {
        return Err(ConversionError::Kind);
    }
    let Some(Request { uid, desired, objects }) = review.request.filter(|request| !request.uid.is_empty()) else {
        return Err(ConversionError::NoUid);
    };
    let converted = objects.into_iter().map(|object| converted(object, &desired)).collect::<Result<Vec<_>, _>>();
    let is_done = converted.is_ok();
    let (result, converted_objects) = match converted {
        Ok(objects) => (Outcome { status: "Success", message: None }, Some(objects)),
        Err(message) => (Outcome { status: "Failure", message: Some(message) }, None),
    };
    let response = Response { uid, result, converted_objects };
    let answer = serde_json::to_vec(&Answer { api_version: API_VERSION, kind: KIND, response });
    Ok((answer.map_err(ConversionError::Json)?, is_done))
}

/// Converts one object to the desired version. It is not decoded, so any stored object can be converted, and unknown
/// fields stay.
fn converted(mut object: Value, desired: &str) -> Result<Value, String> {
    let supported = Version::ALL.map(Version::api_version).join("\" or \"");
    let Some(to) = Version::parse(desired) else {
        return Err(format!("desiredAPIVersion {desired:?}: must be \"{supported}\""));
    };
    let name = json::text(&object, &["metadata", "name"]);
    let kind = json::text(&object, &["kind"]);
    if kind != "SidecarSet" {
        return Err(format!("{kind} {name:?}: only SidecarSets are converted here"));
    }
    let Some(from) = Version::parse(json::text(&object, &["apiVersion"])) else {
        let api_version = json::text(&object, &["apiVersion"]);
        return Err(format!("SidecarSet {name:?}: apiVersion {api_version:?}: must be \"{supported}\""));
    };
    match (from, to) {
        (Version::V1Alpha1, Version::V1Beta1) => convert::to_v1beta1(&mut object),
        (Version::V1Beta1, Version::V1Alpha1) => convert::to_v1alpha1(&mut object),
        (Version::V1Alpha1, Version::V1Alpha1) | (Version::V1Beta1, Version::V1Beta1) => {}
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const ALPHA: &str = "apps.kruise.io/v1alpha1";
    const BETA: &str = "apps.kruise.io/v1beta1";

    fn ask(objects: &[Value], desired: &str) -> Value {
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": desired, "objects": objects},
        });
        let (answer, is_done) = answer(&serde_json::to_vec(&review).unwrap()).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["response"]["uid"], "u");
        assert_eq!(answer["response"]["result"]["status"], if is_done { "Success" } else { "Failure" });
        answer["response"].clone()
    }

    fn beta() -> Value {
        json!({
            "apiVersion": BETA, "kind": "SidecarSet",
            "metadata": {"name": "s", "uid": "1", "labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {
                "customVersion": "v2", "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ns"}},
                "containers": [{"name": "x", "newField": [1.50, null]}], "unknown": {"deep": 12_345_678_901_234_567_890_u64},
            },
            "status": {"matchedPods": 1, "new": true},
        })
    }

    #[test]
    fn api10_api11_there_and_back_is_the_same() {
        let there = ask(&[beta()], ALPHA)["convertedObjects"][0].clone();
        assert_eq!(there["apiVersion"], ALPHA);
        assert_eq!(there["metadata"]["labels"]["apps.kruise.io/sidecarset-custom-version"], "v2");
        assert_eq!(ask(&[there], BETA)["convertedObjects"][0], beta());
    }

    #[test]
    fn api12_a_namespace_comes_back_as_a_selector() {
        let object =
            json!({"apiVersion": ALPHA, "kind": "SidecarSet", "metadata": {"name": "s"}, "spec": {"namespace": "ns"}});
        let there = ask(&[object], BETA)["convertedObjects"][0].clone();
        let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": "ns"}});
        assert_eq!(there["spec"], json!({"namespaceSelector": selector}));
        assert_eq!(ask(&[there], ALPHA)["convertedObjects"][0]["spec"], json!({"namespaceSelector": selector}));
    }

    #[test]
    fn the_order_stays_and_what_is_there_already_is_left() {
        let named = |name: &str, version: &str| json!({"apiVersion": version, "kind": "SidecarSet", "metadata": {"name": name}, "spec": {}});
        let answer = ask(&[named("b", ALPHA), named("a", BETA)], BETA);
        assert_eq!(answer["convertedObjects"], json!([named("b", BETA), named("a", BETA)]));
        assert_eq!(ask(&[], BETA)["convertedObjects"], json!([]));
    }

    #[rstest]
    #[case::another_kind(json!({"apiVersion": ALPHA, "kind": "Pod", "metadata": {"name": "p"}}), BETA,
        r#"Pod "p": only SidecarSets are converted here"#)]
    #[case::another_version(json!({"apiVersion": "apps.kruise.io/v2", "kind": "SidecarSet", "metadata": {"name": "s"}}), BETA,
        r#"SidecarSet "s": apiVersion "apps.kruise.io/v2": must be "apps.kruise.io/v1alpha1" or "apps.kruise.io/v1beta1""#)]
    #[case::to_another_version(json!({"apiVersion": ALPHA, "kind": "SidecarSet"}), "apps.kruise.io/v2",
        r#"desiredAPIVersion "apps.kruise.io/v2": must be "apps.kruise.io/v1alpha1" or "apps.kruise.io/v1beta1""#)]
    fn one_that_fails_fails_all(#[case] object: Value, #[case] desired: &str, #[case] message: &str) {
        let answer = ask(&[beta(), object], desired);
        // If the desired version is unsupported, the first object fails, too.
        assert_eq!(answer["result"]["message"], message);
        assert_eq!(answer.get("convertedObjects"), None);
    }

    #[rstest]
    #[case::no_json(b"hello" as &[u8], "not a ConversionReview: expected value")]
    #[case::another_kind(br#"{"kind": "AdmissionReview"}"#, "not a ConversionReview of apiextensions.k8s.io/v1")]
    #[case::an_older_version(
        br#"{"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "ConversionReview"}"#,
        "not a ConversionReview of apiextensions.k8s.io/v1"
    )]
    #[case::no_request(
        br#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}"#,
        "request.uid: required value"
    )]
    #[case::no_uid(
        br#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {}}"#,
        "request.uid: required value"
    )]
    fn what_is_no_review_has_no_answer(#[case] body: &[u8], #[case] expected: &str) {
        let message = answer(body).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}
