use std::sync::Arc;

use rstest::rstest;

use super::*;
use crate::cluster::{
    AccessRequest, AccessReview, Cluster, ClusterError, ListRequest, ResourceAttributes, ResourceRequest,
};

/// The output of kwctl 1.36.
const SESSION: &str = r#"- type: Exchange
  request: |
    !KubernetesGetResource
    api_version: v1
    kind: Namespace
    name: default
    namespace: null
    disable_cache: true
    field_masks:
    - status.phase
  response:
    type: Success
    payload: '{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"it''s":"q"},"name":"default"}}'
- type: Exchange
  request: |
    !KubernetesGetResource
    api_version: v1
    kind: Pod
    name: gone
    namespace: it's
    disable_cache: false
    field_masks: null
  response:
    type: Error
    message: Cannot find v1/Pod named 'gone' inside of namespace 'Some("it's")'
- type: Exchange
  request: |
    !KubernetesListResourceAll
    api_version: v1
    kind: Pod
    label_selector: a=b
    field_selector: null
    field_masks: null
  response:
    type: Success
    payload: '{"apiVersion":"v1","kind":"PodList","metadata":{},"items":[]}'
- type: Exchange
  request: |
    !KubernetesListResourceNamespace
    api_version: v1
    kind: Namespace
    namespace: default
    label_selector: null
    field_selector: null
    field_masks: null
  response:
    type: Error
    message: 'ApiError: no: Forbidden (Status { message: "no" })'
- type: Exchange
  request: |
    !KubernetesCanI
    request:
      groups:
      - g
      resource_attributes:
        group: ''
        name: null
        namespace: n
        resource: pods
        subresource: null
        verb: create
        version: null
      user: 'bad: #x'
    disable_cache: true
  response:
    type: Success
    payload: '{"allowed":true,"reason":"because it''s so"}'
"#;

/// Returns answers from a list, in order, for any question.
struct Scripted(parking_lot::Mutex<Vec<Result<Vec<u8>, ClusterError>>>);

impl Scripted {
    fn next(&self) -> Result<Vec<u8>, ClusterError> {
        self.0.lock().remove(0)
    }
}

impl Cluster for Scripted {
    fn get(&self, _: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        self.next()
    }

    fn list(&self, _: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        self.next()
    }

    fn can_i(&self, _: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        self.next()
    }
}

fn get(kind: &str, name: &str, namespace: Option<&str>, masks: Option<&str>) -> ResourceRequest {
    ResourceRequest {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
        disable_cache: masks.is_some(),
        field_masks: masks.map(|mask| [mask.to_owned()].into()),
    }
}

fn list(kind: &str, namespace: Option<&str>, labels: Option<&str>) -> ListRequest {
    ListRequest {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        label_selector: labels.map(str::to_owned),
        field_selector: None,
        field_masks: None,
    }
}

fn can_i() -> AccessRequest {
    let resource_attributes = ResourceAttributes {
        group: Some(String::new()),
        name: None,
        namespace: Some("n".to_owned()),
        resource: "pods".to_owned(),
        subresource: None,
        verb: "create".to_owned(),
        version: None,
    };
    let review = AccessReview { groups: Some(vec!["g".to_owned()]), resource_attributes, user: "bad: #x".to_owned() };
    AccessRequest { subject_access_review: review, disable_cache: true }
}

/// Asks the questions of `SESSION`, in order.
fn ask_all(cluster: &dyn Cluster) -> Vec<Result<Vec<u8>, ClusterError>> {
    vec![
        cluster.get(&get("Namespace", "default", None, Some("status.phase"))),
        cluster.get(&get("Pod", "gone", Some("it's"), None)),
        cluster.list(&list("Pod", None, Some("a=b"))),
        cluster.list(&list("Namespace", Some("default"), None)),
        cluster.can_i(&can_i()),
    ]
}

fn failed(text: &str) -> ClusterError {
    ClusterError::Failed(text.to_owned())
}

#[test]
fn a_session_is_read_and_written_to_the_byte() {
    assert_eq!(to_text(&parse(SESSION).unwrap()), SESSION);
}

#[test]
fn what_is_recorded_is_replayed() {
    let answers = vec![
        Ok(br#"{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"it's":"q"},"name":"default"}}"#.to_vec()),
        Err(ClusterError::NotFound),
        Ok(br#"{"apiVersion":"v1","kind":"PodList","metadata":{},"items":[]}"#.to_vec()),
        Err(failed("ApiError: no: Forbidden (Status { message: \"no\" })")),
        Ok(br#"{"allowed":true,"reason":"because it's so"}"#.to_vec()),
    ];
    let recorder = Recorder::new(Arc::new(Scripted(parking_lot::Mutex::new(answers.clone()))));
    assert_eq!(ask_all(&recorder), answers);
    assert_eq!(to_text(&recorder.exchanges()), SESSION);

    let replay = Replay::new(parse(SESSION).unwrap());
    let replayed = ask_all(&replay);
    for (replayed, recorded) in replayed.iter().zip(&answers) {
        match recorded {
            Err(ClusterError::NotFound) => {
                let text = "Cannot find v1/Pod named 'gone' inside of namespace 'Some(\"it's\")'";
                assert_eq!(*replayed, Err(failed(text)));
            }
            _ => assert_eq!(replayed, recorded),
        }
    }
    assert_eq!(replay.left_over(), []);
}

#[test]
fn what_was_not_let_through_is_not_recorded() {
    let recorder = Recorder::new(Arc::new(Scripted(parking_lot::Mutex::new(vec![Err(ClusterError::NotGranted)]))));
    assert_eq!(recorder.can_i(&can_i()), Err(ClusterError::NotGranted));
    assert_eq!(to_text(&recorder.exchanges()), "[]\n");
}

#[test]
fn exchanges_are_replayed_in_order_once_and_to_the_very_question() {
    let replay = Replay::new(parse(SESSION).unwrap());
    // `disable_cache` is part of the question.
    let other = get("Namespace", "default", None, None);
    assert_eq!(
        replay.get(&other),
        Err(failed(
            "Replay error: unexpected request. Was expecting KubernetesGetResource { api_version: \"v1\", kind: \
             \"Namespace\", name: \"default\", namespace: None, disable_cache: true, field_masks: \
             Some({\"status.phase\"}) }, got KubernetesGetResource { api_version: \"v1\", kind: \"Namespace\", name: \
             \"default\", namespace: None, disable_cache: false, field_masks: None } instead"
        ))
    );
    assert_eq!(replay.left_over().len(), 4, "a wrong question uses an exchange up");
    let replay = Replay::new(Vec::new());
    assert_eq!(replay.can_i(&can_i()), Err(failed("the list of recorded responses is empty")));
}

#[rstest]
#[case::without_optional_fields(
    "!KubernetesGetResource\napi_version: v1\nkind: Pod\nname: gone\nnamespace: it's\ndisable_cache: false\n"
)]
#[case::in_one_line(
    "!KubernetesGetResource {api_version: v1, kind: Pod, name: gone, namespace: \"it's\", disable_cache: false}"
)]
fn requests_are_read_in_any_form_of_yaml(#[case] text: &str) {
    assert_eq!(Question::parse(text), Ok(Question::from(&get("Pod", "gone", Some("it's"), None))));
}

#[rstest]
#[case::no_list("hello: world", "not a session of host capabilities: ")]
#[case::no_response("- type: Exchange\n  request: x\n", "not a session of host capabilities: ")]
#[case::another_capability(
    "- type: Exchange\n  request: |\n    !OciManifestDigest\n    image: a\n  response:\n    type: Success\n    payload: b\n",
    "not a session of host capabilities: exchange 1: request: "
)]
fn other_files_are_refused(#[case] text: &str, #[case] start: &str) {
    let error = parse(text).unwrap_err().to_string();
    assert!(error.starts_with(start), "{error}");
}

#[rstest]
#[case::plain("abc")]
#[case::empty("")]
#[case::null("null")]
#[case::boolean("true")]
#[case::old_boolean("Yes")]
#[case::number("12e3")]
#[case::date("2026-11-21")]
#[case::comment("a #b")]
#[case::key("a: b")]
#[case::ends_with_a_colon("a:")]
#[case::spaces("  a ")]
#[case::single_quotes("it's 'so'")]
#[case::double_quotes("\"so\"")]
#[case::backslashes("a\\nb")]
#[case::indicators("!a &b *c |d >e @f `g %h ? - [ ] { } ,")]
#[case::lines("a\nb")]
#[case::line_at_the_end("a\nb\n")]
#[case::lines_at_the_end("a\nb\n\n")]
#[case::empty_lines("a\n\n  b\n")]
#[case::leading_space_in_lines(" a\nb")]
#[case::causes("ServiceError: no\n\nCaused by:\n    0: client error\n    1: refused")]
#[case::tab("a\tb\nc")]
#[case::control("a\u{0}\u{7f}b\nc\r")]
#[case::unicode_line_breaks("a\u{85}b\u{2028}c\u{2029}d\u{feff}")]
#[case::emoji("a\u{1f600}b")]
fn every_text_survives_the_file(#[case] text: &str) {
    let question = Question::from(&get("Pod", text, Some(text), Some("a")));
    let exchanges = vec![
        Exchange { question: question.clone(), response: Response::Success { payload: text.to_owned() } },
        Exchange { question, response: Response::Error { message: text.to_owned() } },
    ];
    assert_eq!(parse(&to_text(&exchanges)).unwrap(), exchanges, "{}", to_text(&exchanges));
}
