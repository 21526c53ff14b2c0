//! The cache with a stand-in API server. The live cluster fails with "live". Time passes when nothing else happens, so that
//! a slow machine changes no result.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pillion_host::{
    AccessRequest, AccessReview, Cluster, ClusterError, ListRequest, ResourceAttributes, ResourceRequest,
};
use pillion_testkit::api_server::{ApiServer, eventually};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::{Instant, advance, sleep};

use super::kind::{Json, Kind};
use super::{Cache, Options, StalenessError, WatchStatus, Watched};

/// The shortest bound: watches are opened again every two seconds.
const BOUND: Duration = Duration::from_secs(3);

/// Answers everything with one text, and counts the questions.
#[derive(Default)]
struct Behind(Mutex<usize>);

impl Behind {
    fn answer(&self) -> Result<Vec<u8>, ClusterError> {
        *self.0.lock() += 1;
        Err(ClusterError::Failed("live".to_owned()))
    }
}

impl Cluster for Behind {
    fn get(&self, _: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        self.answer()
    }

    fn list(&self, _: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        self.answer()
    }

    fn can_i(&self, _: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        self.answer()
    }
}

fn live() -> Result<Vec<u8>, ClusterError> {
    Err(ClusterError::Failed("live".to_owned()))
}

/// A request for all fields of an object of the core group.
fn get(kind: &str, namespace: Option<&str>, name: &str) -> ResourceRequest {
    ResourceRequest {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
        disable_cache: true,
        field_masks: None,
    }
}

fn namespace(name: &str, labels: &Value) -> Value {
    json!({"metadata": {
        "name": name, "uid": "u", "labels": labels, "creationTimestamp": "2026-11-21T00:00:00Z",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"},
        "managedFields": [{"manager": "kubectl"}],
    }, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})
}

fn account(namespace: &str, name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": namespace, "uid": "a3d1f2c4-5b6e-4f70-8a91-b2c3d4e5f607",
        "creationTimestamp": "2026-11-21T00:00:00Z", "managedFields": [{"manager": "kube-controller-manager"}]}})
}

fn put_namespace(server: &ApiServer, name: &str, labels: &Value) {
    server.put(&format!("/api/v1/namespaces/{name}"), namespace(name, labels));
}

fn put_account(server: &ApiServer, namespace: &str, name: &str) {
    server.put(&format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}"), account(namespace, name));
}

fn start(server: &ApiServer, watched: &[&str]) -> Cache {
    let watched = watched.iter().map(|text| text.parse().unwrap()).collect();
    let options = Options { watched, max_staleness: BOUND };
    Cache::start(&server.client(), Arc::new(Behind::default()), options).unwrap()
}

fn only(cache: &Cache) -> WatchStatus {
    let [status] = <[WatchStatus; 1]>::try_from(cache.status()).unwrap();
    status
}

async fn synced(cache: &Cache) {
    eventually("all is synced", || cache.status().iter().all(|status| status.synced)).await;
}

fn labels(cache: &Cache, name: &str) -> Value {
    let found = cache.get(&get("Namespace", None, name));
    found.map_or(json!("live"), |bytes| serde_json::from_slice::<Value>(&bytes).unwrap()["metadata"]["labels"].clone())
}

#[tokio::test(start_paused = true)]
async fn a_watched_object_is_answered_as_a_live_read_would() {
    let server = ApiServer::new();
    put_namespace(&server, "n", &json!({"team": "a"}));
    put_account(&server, "n", "default");
    let cache = start(&server, &["v1/Namespace", "v1/ServiceAccount"]);
    synced(&cache).await;
    let value = |request: &ResourceRequest| serde_json::from_slice::<Value>(&cache.get(request).unwrap()).unwrap();
    let mut expected = namespace("n", &json!({"team": "a"}));
    (expected["apiVersion"], expected["kind"]) = (json!("v1"), json!("Namespace"));
    expected["metadata"]["resourceVersion"] = json!("2");
    expected["metadata"]["annotations"] = json!({"a": "b"});
    expected["metadata"].as_object_mut().unwrap().remove("managedFields");
    assert_eq!(value(&get("Namespace", None, "n")), expected);
    // The namespace is ignored for a cluster-wide kind.
    assert_eq!(value(&get("Namespace", Some("x"), "n")), expected);
    let mut masked = get("Namespace", None, "n");
    masked.field_masks = Some(["status.phase".to_owned()].into());
    expected.as_object_mut().unwrap().remove("spec");
    assert_eq!(value(&masked), expected);
    assert_eq!(value(&get("ServiceAccount", Some("n"), "default"))["metadata"]["name"], "default");
    let answered: Vec<_> = cache.status().iter().map(|status| (status.answered, status.passed_on)).collect();
    assert_eq!(answered, [(3, 0), (1, 0)]);
}

#[tokio::test(start_paused = true)]
async fn everything_else_is_read_live() {
    let server = ApiServer::new();
    put_namespace(&server, "n", &json!({}));
    put_account(&server, "n", "default");
    put_account(&server, "other", "default");
    let cache = start(&server, &["v1/Namespace", "v1/ServiceAccount@n"]);
    synced(&cache).await;
    assert!(cache.get(&get("ServiceAccount", Some("n"), "default")).is_ok());
    assert_eq!(cache.get(&get("Namespace", None, "made-just-now")), live(), "what is not known may be new");
    assert_eq!(cache.get(&get("ServiceAccount", Some("n"), "x")), live());
    assert_eq!(cache.get(&get("ServiceAccount", None, "default")), live(), "the live read says what is wrong");
    assert_eq!(cache.get(&get("ServiceAccount", Some("other"), "default")), live(), "only \"n\" is watched");
    assert_eq!(cache.get(&get("ConfigMap", Some("n"), "c")), live());
    let api_version = "example.com/v1".to_owned();
    assert_eq!(cache.get(&ResourceRequest { api_version, ..get("Namespace", None, "n") }), live());
    let list = ListRequest {
        api_version: "v1".to_owned(),
        kind: "Namespace".to_owned(),
        namespace: None,
        label_selector: None,
        field_selector: None,
        field_masks: None,
    };
    assert_eq!(cache.list(&list), live());
    let resource_attributes = ResourceAttributes {
        group: None,
        name: None,
        namespace: None,
        resource: "pods".to_owned(),
        subresource: None,
        verb: "create".to_owned(),
        version: None,
    };
    let subject_access_review = AccessReview { groups: None, resource_attributes, user: "u".to_owned() };
    assert_eq!(cache.can_i(&AccessRequest { subject_access_review, disable_cache: false }), live());
}

#[tokio::test(start_paused = true)]
async fn changes_are_followed() {
    let server = ApiServer::new();
    put_namespace(&server, "n", &json!({}));
    let cache = start(&server, &["v1/Namespace"]);
    synced(&cache).await;
    put_namespace(&server, "n", &json!({"team": "b"}));
    eventually("the label is seen", || labels(&cache, "n") == json!({"team": "b"})).await;
    put_namespace(&server, "new", &json!({"team": "c"}));
    eventually("the new one is seen", || labels(&cache, "new") == json!({"team": "c"})).await;
    server.delete("/api/v1/namespaces/n");
    eventually("the deleted one is not answered", || labels(&cache, "n") == "live").await;
    assert_eq!(only(&cache).objects, 1);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_stays_fresh_even_without_bookmarks() {
    let server = ApiServer::new();
    server.fail(|faults| faults.no_bookmarks = true);
    put_namespace(&server, "n", &json!({"team": "a"}));
    let cache = start(&server, &["v1/Namespace"]);
    synced(&cache).await;
    let end = Instant::now() + BOUND * 2;
    while Instant::now() < end {
        assert_eq!(labels(&cache, "n"), json!({"team": "a"}));
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(server.count("GET /api/v1/namespaces"), 1, "it was listed once");
    let watches = server.count("WATCH");
    assert!((3..=6).contains(&watches), "{watches} watches in six seconds");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_went_silent_answers_no_longer_than_the_bound() {
    let server = ApiServer::new();
    put_namespace(&server, "n", &json!({"team": "a"}));
    let cache = start(&server, &["v1/Namespace"]);
    synced(&cache).await;
    server.fail(|faults| faults.frozen = true);
    put_namespace(&server, "n", &json!({"team": "b"}));
    let since = Instant::now();
    eventually("it is read live", || labels(&cache, "n") == "live").await;
    assert!(since.elapsed() <= BOUND + Duration::from_secs(1), "{:?}", since.elapsed());
    assert!(!only(&cache).synced && only(&cache).age > Some(BOUND));
    server.fail(|faults| faults.frozen = false);
    let known = || labels(&cache, "n") == json!({"team": "b"});
    // First the silent watch and then the unanswered request must time out.
    for _ in 0..2 {
        if !known() {
            sleep(Duration::from_secs(5)).await;
        }
    }
    eventually("it is watched again", known).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_is_taken_up_where_it_was() {
    let server = ApiServer::new();
    put_namespace(&server, "n", &json!({"team": "a"}));
    let cache = start(&server, &["v1/Namespace"]);
    synced(&cache).await;
    server.cut();
    put_namespace(&server, "n", &json!({"team": "b"}));
    eventually("the label is seen", || labels(&cache, "n") == json!({"team": "b"})).await;
    assert_eq!(server.count("GET /api/v1/namespaces"), 1, "it was listed once");
    eventually("and all is well", || only(&cache).problem.is_none()).await;
    server.fail(|faults| faults.down = true);
    server.cut();
    let refused = || only(&cache).problem.is_some_and(|problem| problem.contains("connection refused"));
    eventually("the failure is known", refused).await;
    eventually("it is read live", || labels(&cache, "n") == "live").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fell_behind_is_listed_again() {
    let server = ApiServer::new();
    put_namespace(&server, "n", &json!({"team": "a"}));
    put_namespace(&server, "gone", &json!({}));
    let cache = start(&server, &["v1/Namespace"]);
    synced(&cache).await;
    // While the connection is down, one namespace is deleted and another changes; then the server drops its history.
    server.fail(|faults| faults.down = true);
    server.cut();
    server.delete("/api/v1/namespaces/gone");
    put_namespace(&server, "n", &json!({"team": "b"}));
    server.fail(|faults| (faults.down, faults.oldest) = (false, 5));
    eventually("the label is seen", || labels(&cache, "n") == json!({"team": "b"})).await;
    assert_eq!((only(&cache).objects, labels(&cache, "gone")), (1, json!("live")));
    assert_eq!(server.count("GET /api/v1/namespaces"), 2);
}

/// The API server answers each attempt, and no answer shows what has changed.
#[tokio::test(start_paused = true)]
async fn a_refused_watch_is_no_sign_of_life() {
    let server = ApiServer::new();
    put_namespace(&server, "n", &json!({"team": "a"}));
    let cache = start(&server, &["v1/Namespace"]);
    synced(&cache).await;
    server.fail(|faults| faults.forbidden = vec!["WATCH".to_owned()]);
    server.cut();
    put_namespace(&server, "n", &json!({"team": "b"}));
    let since = Instant::now();
    eventually("it is read live", || labels(&cache, "n") == "live").await;
    assert!(since.elapsed() <= BOUND + Duration::from_secs(1), "{:?}", since.elapsed());
    server.fail(|faults| faults.forbidden.clear());
    eventually("it is watched again", || labels(&cache, "n") == json!({"team": "b"})).await;
}

#[rstest]
#[case::list("GET /api/v1/namespaces?", "list")]
#[case::watch("WATCH", "watch")]
#[tokio::test(start_paused = true)]
async fn a_missing_permission_blocks_nothing_and_is_named(#[case] start_of: &str, #[case] verb: &str) {
    let server = ApiServer::new();
    put_namespace(&server, "n", &json!({"team": "a"}));
    server.fail(|faults| faults.forbidden = vec![start_of.to_owned()]);
    let cache = start(&server, &["v1/Namespace"]);
    eventually("the problem is known", || only(&cache).problem.is_some()).await;
    let expected = format!(
        "pillion may not {verb} namespaces: add the verbs \"get\", \"list\" and \"watch\" for \"namespaces\" to a role \
         of its ServiceAccount"
    );
    assert_eq!(only(&cache).problem, Some(expected));
    if verb == "list" {
        assert_eq!(labels(&cache, "n"), "live");
    }
    server.fail(|faults| faults.forbidden.clear());
    eventually("it is watched", || only(&cache).problem.is_none() && only(&cache).synced).await;
    assert_eq!(labels(&cache, "n"), json!({"team": "a"}));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_read_live() {
    let server = ApiServer::new();
    let cache = start(&server, &["v1/Ghost"]);
    eventually("the problem is known", || only(&cache).problem.is_some()).await;
    assert_eq!(only(&cache).problem.unwrap(), "Cannot find resource v1/Ghost");
    assert_eq!(cache.get(&get("Ghost", None, "g")), live());
}

#[tokio::test(start_paused = true)]
async fn no_staleness_means_no_cache() {
    let server = ApiServer::new();
    put_namespace(&server, "n", &json!({}));
    let start = |max_staleness| {
        let options = Options { max_staleness, ..Options::default() };
        Cache::start(&server.client(), Arc::new(Behind::default()), options)
    };
    let cache = start(Duration::ZERO).unwrap();
    sleep(Duration::from_millis(100)).await;
    assert_eq!((labels(&cache, "n"), cache.status(), server.requests()), (json!("live"), vec![], vec![]));
    let error = start(Duration::from_millis(2900)).unwrap_err();
    assert_eq!(error, StalenessError(Duration::from_millis(2900)));
    assert_eq!(error.to_string(), "answers cannot be held to 2900 ms of age: allow at least 3 s, or 0 for no cache");
}

#[tokio::test(start_paused = true)]
async fn a_large_cluster_is_listed_in_pages_and_stays_small() {
    let server = ApiServer::new();
    for number in 0..1200 {
        put_account(&server, &format!("team-{number:04}"), "default");
    }
    let mut cache = start(&server, &["v1/ServiceAccount"]);
    synced(&cache).await;
    let WatchStatus { objects, bytes, .. } = only(&cache);
    assert_eq!((objects, server.count("GET /api/v1/serviceaccounts?")), (1200, 3));
    // The server sends twice as many bytes of each object.
    assert!(bytes / objects < 243, "{} bytes each", bytes / objects);
    assert!(cache.get(&get("ServiceAccount", Some("team-0815"), "default")).is_ok());
    cache.stop().await;
    let requests = server.requests().len();
    sleep(BOUND + Duration::from_millis(200)).await;
    assert_eq!(server.requests().len(), requests, "nothing runs any more");
    assert_eq!(cache.get(&get("ServiceAccount", Some("team-0815"), "default")), live());
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_given_up_to_the_bound() {
    let kind = Kind::new("v1/Namespace".parse().unwrap());
    let request = get("Namespace", None, "n");
    let start = Instant::now();
    let at = async |seconds| {
        advance(start + Duration::from_secs(seconds) - Instant::now()).await;
        kind.answer(&request, BOUND)
    };
    let found = || Some(Arc::from(*b"{}"));
    kind.namespaced.set(false).unwrap();
    kind.table.put_for_test("", "n", 1, Json(Arc::from(*b"{}")));
    assert_eq!(at(0).await, None, "there was no list yet");
    kind.table.progress().alive(start);
    assert_eq!((at(0).await, at(3).await), (found(), found()));
    advance(Duration::from_millis(1)).await;
    assert_eq!(kind.answer(&request, BOUND), None);
    assert_eq!(at(4).await, None);
    kind.table.progress().alive(start + Duration::from_secs(2));
    kind.table.progress().alive(start + Duration::from_secs(1));
    assert_eq!((at(5).await, at(6).await), (found(), None), "the last one counts");
}

#[rstest]
#[case("v1/Namespace", "v1", "Namespace", None)]
#[case("apps/v1/ControllerRevision@kruise-system", "apps/v1", "ControllerRevision", Some("kruise-system"))]
#[case("apps.kruise.io/v1beta1/SidecarSet", "apps.kruise.io/v1beta1", "SidecarSet", None)]
fn a_kind_is_written_with_its_version(
    #[case] text: &str,
    #[case] api_version: &str,
    #[case] kind: &str,
    #[case] namespace: Option<&str>,
) {
    let watched: Watched = text.parse().unwrap();
    let expected =
        Watched { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: namespace.map(str::to_owned) };
    assert_eq!(watched, expected);
    assert_eq!(watched.to_string(), text);
}

#[rstest]
#[case("")]
#[case("Namespace")]
#[case("v1/")]
#[case("v1/namespaces")]
#[case("/v1/Namespace")]
#[case("a/b/v1/Namespace")]
#[case("v1/Namespace@")]
fn what_names_no_kind_is_refused(#[case] text: &str) {
    let expected = format!(
        "\"{text}\" is no kind to watch: write it as \"v1/Namespace\" or \"apps/v1/ControllerRevision@kruise-system\""
    );
    assert_eq!(text.parse::<Watched>().unwrap_err().to_string(), expected);
}
