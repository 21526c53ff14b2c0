//! `Live` against an HTTP server with a few objects on a loopback address.

use std::net::TcpListener;
use std::sync::Arc;

use pillion_testkit::http;
use serde_json::{Value, json};

use super::*;
use crate::cluster::ResourceAttributes;

/// A cluster whose API server answers with `handler`.
fn cluster(handler: impl Fn(&str, &Value) -> (u16, Value) + Send + Sync + 'static) -> Live {
    let address = http::start(move |request, body| handler(request, &serde_json::from_slice(body).unwrap_or_default()));
    Live::new(Config::new(format!("http://{address}").parse().unwrap())).unwrap()
}

fn api(request: &str, body: &Value) -> (u16, Value) {
    let resource = |name: &str, kind: &str, namespaced: bool| json!({"name": name, "singularName": "", "kind": kind, "namespaced": namespaced, "verbs": ["get"]});
    match request {
        "GET /api/v1" => {
            let resources =
                [resource("pods/status", "Pod", true), resource("pods", "Pod", true), resource("nodes", "Node", false)];
            (200, json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": resources}))
        }
        "GET /api/v1/namespaces/n/pods/p" => (200, pod(true)),
        "GET /api/v1/nodes/n" => {
            (200, json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": []}}))
        }
        "GET /api/v1/nodes/forbidden" => (403, status(403, "Forbidden", "nodes \"forbidden\" is forbidden")),
        "GET /api/v1/nodes/later" => (503, status(503, "ServiceUnavailable", "try again later")),
        "GET /api/v1/pods?&fieldSelector=spec.nodeName%3Dx&labelSelector=a%3Db" | "GET /api/v1/namespaces/n/pods?" => (
            200,
            json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": [pod(false)]}),
        ),
        "POST /apis/authorization.k8s.io/v1/subjectaccessreviews?" => {
            let mut review = body.clone();
            review["status"] = json!({"allowed": body["spec"]["user"] == "good", "reason": body["spec"].to_string()});
            (201, review)
        }
        other => (404, status(404, "NotFound", other)),
    }
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message})
}

/// A Pod; `types` adds `apiVersion` and `kind`, which items of lists lack.
fn pod(types: bool) -> Value {
    let mut pod = json!({
        "metadata": {
            "name": "p", "namespace": "n", "generation": 7,
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"},
            "managedFields": [{"manager": "m"}],
        },
        "spec": {"priority": 12_345, "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running"},
    });
    if types {
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
    }
    pod
}

fn get(kind: &str, name: &str, namespace: Option<&str>, masks: &[&str]) -> ResourceRequest {
    let masks = (!masks.is_empty()).then(|| masks.iter().map(ToString::to_string).collect());
    ResourceRequest {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
        disable_cache: true,
        field_masks: masks,
    }
}

fn list(kind: &str, namespace: Option<&str>) -> ListRequest {
    ListRequest {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        label_selector: None,
        field_selector: None,
        field_masks: None,
    }
}

fn value(answer: Result<Vec<u8>, ClusterError>) -> Value {
    serde_json::from_slice(&answer.unwrap()).unwrap()
}

fn text(answer: Result<Vec<u8>, ClusterError>) -> String {
    match answer.unwrap_err() {
        ClusterError::Failed(text) => text,
        other => panic!("{other:?}"),
    }
}

/// The caller has a deadline and retries itself.
#[test]
fn an_api_server_that_says_later_is_not_asked_again() {
    let started = std::time::Instant::now();
    let answer = text(cluster(api).get(&get("Node", "later", None, &[])));
    assert!(answer.contains("try again later"), "{answer}");
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn objects_are_read_whole_or_as_the_masks_say() {
    let cluster = cluster(api);
    assert_eq!(value(cluster.get(&get("Pod", "p", Some("n"), &[]))), pod(true));
    let masked = value(cluster.get(&get("Pod", "p", Some("n"), &["metadata.name", "spec.containers.image"])));
    assert_eq!(masked["spec"], json!({"containers": [{"image": "i"}]}));
    assert_eq!((&masked["metadata"], &masked["kind"]), (&pod(true)["metadata"], &json!("Pod")), "metadata stays whole");
    assert_eq!(masked.get("status"), None);
    // The namespace is ignored for a cluster-wide kind, as in the policy server.
    assert_eq!(value(cluster.get(&get("Node", "n", Some("x"), &[])))["metadata"]["name"], "n");
}

#[test]
fn lists_come_without_what_only_the_api_server_needs() {
    let cluster = cluster(api);
    let mut item = pod(false);
    item["metadata"]["managedFields"] = json!([]);
    item["metadata"]["annotations"] = json!({"a": "b"});
    let expected = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [item]});
    assert_eq!(value(cluster.list(&list("Pod", Some("n")))), expected);
    let mut request = list("Pod", None);
    request.label_selector = Some("a=b".to_owned());
    request.field_selector = Some("spec.nodeName=x".to_owned());
    request.field_masks = Some(BTreeSet::from(["spec.containers.name".to_owned()]));
    let masked = value(cluster.list(&request));
    assert_eq!(masked["items"][0]["spec"], json!({"containers": [{"name": "c"}]}));
}

#[test]
fn access_is_asked_with_a_subject_access_review() {
    let cluster = cluster(api);
    let ask = |user: &str| {
        let resource_attributes = ResourceAttributes {
            group: Some(String::new()),
            name: None,
            namespace: Some("n".to_owned()),
            resource: "pods".to_owned(),
            subresource: None,
            verb: "create".to_owned(),
            version: None,
        };
        let subject_access_review =
            AccessReview { groups: Some(vec!["g".to_owned()]), resource_attributes, user: user.to_owned() };
        value(cluster.can_i(&AccessRequest { subject_access_review, disable_cache: true }))
    };
    let good = ask("good");
    assert_eq!(good["allowed"], true);
    let spec: Value = serde_json::from_str(good["reason"].as_str().unwrap()).unwrap();
    let attributes = json!({"group": "", "namespace": "n", "resource": "pods", "verb": "create"});
    assert_eq!(spec, json!({"user": "good", "groups": ["g"], "resourceAttributes": attributes}));
    assert_eq!(ask("bad")["allowed"], false);
}

#[test]
fn failures_are_worded_as_the_policy_server_words_them() {
    let cluster = cluster(api);
    assert_eq!(cluster.get(&get("Pod", "gone", Some("n"), &[])), Err(ClusterError::NotFound));
    assert_eq!(
        text(cluster.get(&get("Pod", "p", None, &[]))),
        "Resource v1/Pod is namespaced, but no namespace was provided"
    );
    assert_eq!(text(cluster.get(&get("Ghost", "g", None, &[]))), "Cannot find resource v1/Ghost");
    assert_eq!(
        text(cluster.list(&list("Node", Some("n")))),
        "resource v1/Node is cluster wide. Cannot search for it inside of a namespace"
    );
    let forbidden = text(cluster.get(&get("Node", "forbidden", None, &[])));
    assert!(forbidden.starts_with("ApiError: nodes \"forbidden\" is forbidden: Forbidden (Status {"), "{forbidden}");
    assert!(forbidden.ends_with("\n\nCaused by:\n    nodes \"forbidden\" is forbidden: Forbidden"), "{forbidden}");
    let unknown = ResourceRequest { api_version: "apps/v9".to_owned(), ..get("Nope", "n", None, &[]) };
    let unknown = text(cluster.get(&unknown));
    assert!(unknown.starts_with("error finding resource apps/v9 / Nope: ApiError: "), "{unknown}");
}

#[test]
fn a_cluster_that_does_not_answer_is_a_failure_with_its_causes() {
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = Live::new(Config::new(format!("http://{address}").parse().unwrap())).unwrap();
    let message = text(gone.get(&get("Pod", "p", Some("n"), &[])));
    assert!(message.contains("\n\nCaused by:\n    0: "), "{message}");
    assert!(message.to_lowercase().contains("connection refused"), "{message}");
}

#[test]
fn several_threads_may_ask_at_once() {
    let cluster = Arc::new(cluster(api));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let cluster = Arc::clone(&cluster);
            std::thread::spawn(move || value(cluster.get(&get("Pod", "p", Some("n"), &[]))))
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), pod(true));
    }
}

#[tokio::test]
async fn it_may_be_dropped_where_it_must_not_be_asked() {
    drop(cluster(api));
}
