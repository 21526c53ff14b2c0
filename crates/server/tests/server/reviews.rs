//! Requests and their answers.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Method;
use pillion_host::paths;
use pillion_server::Limits;
use pillion_server::client::{Client, Protocol};
use pillion_testkit::FakeCluster;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Setup, added_images, ask, limits, patch, pod_review, review, web};

#[rstest]
#[case(Protocol::Http2)]
#[case(Protocol::Http1)]
#[tokio::test]
async fn a_pod_gets_its_sidecar_and_loses_nothing(#[case] protocol: Protocol) {
    let server = Setup::default().start().await;
    let mut client = Client::connect(&server.target(), protocol).await.unwrap();
    let response = ask(&mut client, "/mutate?timeout=10s", &pod_review("u1", &web())).await;
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("u1"), &json!(true)));
    assert_eq!(response["patchType"], "JSONPatch");
    assert_eq!(added_images(&response), ["agent:1"]);
    let removed = patch(&response).as_array().unwrap().iter().any(|operation| operation["op"] == "remove");
    assert!(!removed, "{}", patch(&response));
    // The connection stays open, and a Pod that matches no SidecarSet is not changed.
    let response = ask(&mut client, "/mutate", &pod_review("u2", &json!({}))).await;
    assert_eq!(response, json!({"uid": "u2", "allowed": true, "auditAnnotations": null, "warnings": null}));
}

#[tokio::test]
async fn ans2_a_refusal_has_the_code_and_the_message_of_the_policy() {
    let server = Setup::default().start().await;
    let mut review = pod_review("u", &web());
    review["request"]["object"]["spec"]["containers"][0]["name"] = json!("log-agent");
    let response = ask(&mut server.client().await, paths::MUTATE, &review).await;
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(403)));
    assert!(response["status"]["message"].as_str().unwrap().contains("log-agent"), "{response}");
    assert_eq!(patch(&response), Value::Null);
    assert_eq!(response["auditAnnotations"]["refused-by"], "log-agent");
}

#[tokio::test]
async fn what_only_validates_never_patches() {
    let server = Setup::default().start().await;
    let mut client = server.client().await;
    let response = ask(&mut client, paths::VALIDATE, &pod_review("u", &web())).await;
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(403)));
    assert!(response["status"]["message"].as_str().unwrap().contains(r#""/mutate""#), "{response}");
    let response = ask(&mut client, paths::VALIDATE, &pod_review("u", &json!({}))).await;
    assert_eq!(response["allowed"], json!(true));
    // The twin injects nothing, so it accepts a Pod without its sidecar.
    let response = ask(&mut client, paths::ASSERT, &pod_review("u", &web())).await;
    assert_eq!((&response["allowed"], response.get("patch")), (&json!(true), None));
}

#[tokio::test]
async fn look_ups_are_answered_by_the_cluster() {
    let mut settings = crate::support::settings();
    settings["sidecarSets"][0]["spec"]["namespaceSelector"] = json!({"matchLabels": {"logs": "on"}});
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"logs": "on"}}});
    let cluster = Arc::new(FakeCluster::with([namespace]));
    let server = Setup { settings: settings.clone(), cluster: cluster.clone(), ..Setup::default() }.start().await;
    let response = ask(&mut server.client().await, paths::MUTATE, &pod_review("u", &web())).await;
    assert_eq!(added_images(&response), ["agent:1"]);
    assert_eq!(cluster.asked(), ["v1/Namespace default"]);
    // Without a cluster the client must retry.
    let server = Setup { settings, ..Setup::default() }.start().await;
    let response = ask(&mut server.client().await, paths::MUTATE, &pod_review("u", &web())).await;
    assert_eq!(response["status"]["code"], 503);
}

#[tokio::test]
async fn sidecar_sets_are_defaulted_and_guards_answer() {
    let server = Setup::default().start().await;
    let mut client = server.client().await;
    let set = review(&json!({
        "uid": "s", "operation": "CREATE", "userInfo": {"username": "dev"},
        "kind": {"group": "apps.kruise.io", "version": "v1beta1", "kind": "SidecarSet"},
        "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "sidecarsets"},
        "object": {
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "metrics"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "metrics", "image": "agent:1"}]},
        },
    }));
    let response = ask(&mut client, paths::MUTATE, &set).await;
    assert_eq!(response["allowed"], json!(true), "{response}");
    assert!(patch(&response).to_string().contains("kruise.io/sidecarset-hash"), "{response}");
    let mut deletion = set.clone();
    deletion["request"]["operation"] = json!("DELETE");
    deletion["request"]["object"] = Value::Null;
    assert_eq!(ask(&mut client, paths::VALIDATE, &deletion).await["allowed"], json!(true));
}

#[rstest]
#[case::no_json("hello", 400, "not an AdmissionReview: expected value at line 1 column 1")]
#[case::nothing("", 400, "not an AdmissionReview: EOF while parsing a value at line 1 column 0")]
#[case::another_kind(r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {}}"#, 400, "kind must be \"AdmissionReview\"")]
#[case::an_old_version(
    r#"{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}"#,
    400,
    "list v1 in admissionReviewVersions"
)]
#[case::no_request(
    r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}"#,
    400,
    "request: required value"
)]
#[case::no_uid(
    r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {}}"#,
    400,
    "request.uid: required value"
)]
#[case::no_kind(
    r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u"}}"#,
    400,
    "missing field `kind`"
)]
#[tokio::test]
async fn what_is_no_review_is_refused(#[case] body: &str, #[case] status: u16, #[case] text: &str) {
    let server = Setup::default().start().await;
    let answer = server.client().await.post(paths::MUTATE, body.to_owned()).await.unwrap();
    let said = String::from_utf8(answer.body).unwrap();
    assert_eq!(answer.status, status, "{said}");
    assert!(said.contains(text), "{said}");
    assert!(server.metrics.text().contains(r#"pillion_http_rejections_total{reason="malformed"} 1"#));
}

#[rstest]
#[case::get_of_a_webhook(Method::GET, "/mutate", "", 405)]
#[case::post_to_a_probe(Method::POST, "/healthz", "application/json", 405)]
#[case::nowhere(Method::POST, "/", "application/json", 404)]
#[case::below(Method::POST, "/mutate/pods", "application/json", 404)]
#[case::no_content_type(Method::POST, "/mutate", "", 415)]
#[case::another_content_type(Method::POST, "/convert", "application/yaml", 415)]
#[case::parameters_do_not_matter(Method::POST, "/mutate", "application/json; charset=utf-8", 200)]
#[case::a_timeout_that_is_none(Method::POST, "/mutate?timeout=soon", "application/json", 400)]
#[tokio::test]
async fn paths_methods_and_content_types_count(
    #[case] method: Method,
    #[case] path: &str,
    #[case] content_type: &str,
    #[case] status: u16,
) {
    let server = Setup::default().start().await;
    let body = Body::from(pod_review("u", &web()).to_string());
    let answer = server.client().await.send(method, path, content_type, body).await.unwrap();
    assert_eq!(answer.status, status, "{}", String::from_utf8_lossy(&answer.body));
}

#[tokio::test]
async fn bodies_have_a_limit() {
    let server = Setup { limits: Limits { body: 2_000, ..limits() }, ..Setup::default() }.start().await;
    let mut client = server.client().await;
    let mut review = pod_review("u", &web());
    assert_eq!(client.post(paths::MUTATE, review.to_string()).await.unwrap().status, 200);
    review["request"]["object"]["metadata"]["annotations"] = json!({"long": "x".repeat(2_000)});
    let answer = client.post(paths::MUTATE, review.to_string()).await.unwrap();
    assert_eq!((answer.status, answer.body), (413, b"the body has more than 2000 bytes\n".to_vec()));
    // The same body without a declared length.
    let stream = Body::new(Chunks(2));
    let answer = client.post(paths::MUTATE, stream).await.unwrap();
    assert_eq!((answer.status, answer.body), (413, b"the body has more than 2000 bytes\n".to_vec()));
    assert_eq!(ask(&mut client, paths::MUTATE, &pod_review("u", &web())).await["allowed"], json!(true));
}

/// A body of unknown length: this many chunks of 1,500 spaces.
struct Chunks(usize);

impl axum::body::HttpBody for Chunks {
    type Data = axum::body::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or_default();
        std::task::Poll::Ready(left.map(|_| Ok(hyper::body::Frame::data(vec![b' '; 1_500].into()))))
    }
}

#[tokio::test]
async fn both_versions_of_a_sidecar_set_become_each_other() {
    let server = Setup::default().start().await;
    let mut client = server.client().await;
    let beta = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "s", "uid": "1"},
        "spec": {"customVersion": "v2", "unknown": {"a": null}},
    });
    let mut convert = async |object: &Value, version: &str| {
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "c", "desiredAPIVersion": version, "objects": [object]},
        });
        let answer = client.post(paths::CONVERT, review.to_string()).await.unwrap();
        assert_eq!(answer.status, 200);
        let review: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(review["response"]["uid"], "c");
        review["response"].clone()
    };
    let alpha = convert(&beta, "apps.kruise.io/v1alpha1").await["convertedObjects"][0].clone();
    assert_eq!(alpha["metadata"]["labels"], json!({"apps.kruise.io/sidecarset-custom-version": "v2"}));
    assert_eq!(convert(&alpha, "apps.kruise.io/v1beta1").await["convertedObjects"][0], beta);
    let failure = convert(&beta, "apps.kruise.io/v9").await;
    assert_eq!(failure["result"]["status"], "Failure");
    let text = server.metrics.text();
    assert!(text.contains(r#"pillion_conversions_total{result="failure"} 1"#), "{text}");
    assert!(text.contains(r#"pillion_conversions_total{result="success"} 2"#), "{text}");
}
