#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use std::cell::RefCell;
use std::time::Duration;

use pillion_identity::rules::Rules;
use pillion_kubernetes::authorizer::{Authorizer, Question};
use pillion_kubernetes::lookup::{Answer, Failure, ObjectRef};
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::gates::Gates;
use pillion_sidecarset::sidecar_set::SidecarSet;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::settings::Settings;

/// A cluster with only these objects, by `Kind/name`.
#[derive(Default)]
struct Cluster {
    answers: Vec<(&'static str, Answer)>,
    asked: RefCell<Vec<String>>,
}

impl Lookup for Cluster {
    fn get(&self, object: &ObjectRef) -> Answer {
        let key = format!("{}/{}", object.kind, object.name);
        let answer = self.answers.iter().find(|(name, _)| *name == key).map_or(Ok(None), |(_, a)| a.clone());
        self.asked.borrow_mut().push(key);
        answer
    }
}

struct Nobody;

impl Authorizer for Nobody {
    fn allows(&self, question: &Question) -> Result<bool, String> {
        panic!("guards ask for nobody's rights: {question:?}")
    }
}

fn web(labels: &Value) -> (&'static str, Answer) {
    let metadata = json!({"name": "web", "labels": labels});
    ("Namespace/web", Ok(Some(json!({"metadata": metadata, "status": {"phase": "Active"}}))))
}

fn request((group, kind): (&str, &str), operation: &str, object: Value, old_object: Value) -> Request {
    let sub_resource = if kind == "Pod" { "ephemeralcontainers" } else { "" };
    Request::decode(json!({
        "uid": "u", "operation": operation, "subResource": sub_resource, "namespace": "web",
        "kind": {"group": group, "version": "v1", "kind": kind}, "userInfo": {"username": "ann"},
        "object": object, "oldObject": old_object,
    }))
    .unwrap()
}

fn settings() -> Settings {
    Settings {
        gates: Gates { service_account_injection: true, ..Gates::default() },
        service_accounts: Rules { protect_default: true, protect_in_use: true, ..Rules::default() },
        ..Settings::default()
    }
}

fn judged(request: &Request, settings: &Settings, cluster: &Cluster) -> Outcome {
    let world = World { lookup: cluster, authorizer: &Nobody, now: Timestamp(0), elapsed: &Duration::default };
    admit(request, request.target(), settings, world).unwrap_or_else(|refused| refused)
}

/// Returns the code and the message of a refusal, `accepted`, or the changed object.
fn shown(outcome: Outcome) -> String {
    match outcome.verdict {
        Verdict::Unchanged => "accepted".to_owned(),
        Verdict::Mutated(object) => object.to_string(),
        Verdict::Refused(refusal) => format!("{} {}", refusal.code().as_u16(), refusal.message()),
    }
}

/// The merged name of the SidecarSets `a` and `b`.
const MERGED: &str = "sidecarset-merged-7e18f737311b2dc3";

#[rstest]
#[case::e7_ephemeral(
    request(("", "Pod"), "UPDATE",
        json!({"spec": {"containers": [], "ephemeralContainers": [
            {"name": "debug", "volumeMounts": [{"name": "sidecarset-sa-7e18f737311b2dc3", "mountPath": "/t"}]}
        ]}}),
        json!({"spec": {"containers": []}})),
    "403 spec.ephemeralContainers[0]: "
)]
#[case::e6_template(
    request(("apps", "Deployment"), "CREATE",
        json!({"spec": {"template": {"spec": {"serviceAccountName": MERGED}}}}), Value::Null),
    "403 spec.template.spec.serviceAccountName: "
)]
#[case::mrg8_account(
    request(("", "ServiceAccount"), "DELETE", Value::Null, json!({"metadata": {"name": MERGED, "annotations": {"pillion.dev/sidecarsets": "a,b"}}})),
    "403 metadata.name: "
)]
#[case::mrg8_role(
    request(("rbac.authorization.k8s.io", "Role"), "UPDATE",
        json!({"metadata": {"name": MERGED}, "rules": []}), json!({"metadata": {"name": MERGED, "annotations": {"pillion.dev/sidecarsets": "a,b"}}})),
    "403 metadata.name: "
)]
#[case::run1_default(
    request(("", "ServiceAccount"), "DELETE", Value::Null, json!({"metadata": {"name": "default"}})),
    "403 metadata.name: every Pod of namespace \"web\" needs the ServiceAccount \"default\""
)]
#[case::run3_token_of_nobody(
    request(("", "Secret"), "CREATE", json!({
        "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "gone"}},
    }), Value::Null),
    "403 metadata.annotations[kubernetes.io/service-account.name]: "
)]
fn each_guard_answers_its_requests(#[case] request: Request, #[case] begins: &str) {
    let cluster = Cluster { answers: vec![web(&json!({}))], ..Cluster::default() };
    let text = shown(judged(&request, &settings(), &cluster));
    assert!(text.starts_with(begins), "{text}");
}

#[rstest]
#[case::ephemeral(request(("", "Pod"), "UPDATE", json!({"spec": {"ephemeralContainers": [{"name": "debug"}]}}), json!({})))]
#[case::template(request(("batch", "CronJob"), "UPDATE", json!({"spec": {}}), json!({})))]
#[case::account(request(("", "ServiceAccount"), "UPDATE", json!({"metadata": {"name": "a"}}), json!({"metadata": {"name": "a"}})))]
#[case::binding(request(("rbac.authorization.k8s.io", "RoleBinding"), "DELETE", Value::Null, json!({"metadata": {"name": "a"}})))]
#[case::secret(request(("", "Secret"), "CREATE", json!({"type": "Opaque", "metadata": {"name": "s"}}), Value::Null))]
fn what_no_guard_minds_is_accepted_unasked(#[case] request: Request) {
    let cluster = Cluster::default();
    assert_eq!(judged(&request, &settings(), &cluster), Verdict::Unchanged.into());
    assert_eq!(*cluster.asked.borrow(), [""; 0]);
}

fn token(annotations: Value) -> Request {
    let object = json!({
        "type": "kubernetes.io/service-account-token", "metadata": {"name": "t", "annotations": annotations},
    });
    request(("", "Secret"), "CREATE", object, Value::Null)
}

fn account_of_uid_7() -> Cluster {
    Cluster {
        answers: vec![("ServiceAccount/a", Ok(Some(json!({"metadata": {"name": "a", "uid": "7"}}))))],
        ..Cluster::default()
    }
}

/// RUN-3: a token Secret gets the UID of its account, so that it does not become a token of a later one.
#[test]
fn run3_a_token_secret_is_bound_to_its_account() {
    let cluster = account_of_uid_7();
    let outcome = judged(&token(json!({"kubernetes.io/service-account.name": "a"})), &settings(), &cluster);
    assert_eq!(outcome.warnings.len(), 1, "{:?}", outcome.warnings);
    let Verdict::Mutated(secret) = outcome.verdict else { panic!("{outcome:?}") };
    assert_eq!(
        secret["metadata"]["annotations"],
        json!({"kubernetes.io/service-account.name": "a", "kubernetes.io/service-account.uid": "7"})
    );
    assert_eq!(*cluster.asked.borrow(), ["ServiceAccount/a"], "asked once for both");
}

#[rstest]
#[case::says_so(json!({"kubernetes.io/service-account.name": "a", "kubernetes.io/service-account.uid": "7"}), "accepted")]
#[case::another(
    json!({"kubernetes.io/service-account.name": "a", "kubernetes.io/service-account.uid": "8"}),
    "403 metadata.annotations[kubernetes.io/service-account.name]: ServiceAccount \"a\" has another UID than \"8\"; leave the annotation with the UID out: it is filled in"
)]
fn run3_a_token_secret_with_a_uid(#[case] annotations: Value, #[case] result: &str) {
    assert_eq!(shown(judged(&token(annotations), &settings(), &account_of_uid_7())), result);
}

/// Returns a set that names an account; in every namespace if the selector is null.
fn set(name: &str, account: &str, selector: &Value) -> SidecarSet {
    let mut spec = json!({"selector": {"matchLabels": {"app": "web"}}, "serviceAccountName": account});
    if !selector.is_null() {
        spec["namespaceSelector"] = selector.clone();
    }
    SidecarSet::from_decoded(json!({"metadata": {"name": name}, "spec": spec}))
}

fn deletion() -> Request {
    request(("", "ServiceAccount"), "DELETE", Value::Null, json!({"metadata": {"name": "log-agent"}}))
}

/// `protectInUse`: a set that names the account and can match in the namespace prevents its deletion.
#[rstest]
#[case::everywhere(json!(null), "logs")]
#[case::by_name(json!({"matchLabels": {"kubernetes.io/metadata.name": "web"}}), "logs")]
#[case::another_by_name(json!({"matchLabels": {"kubernetes.io/metadata.name": "ci"}}), "")]
#[case::by_label(json!({"matchLabels": {"env": "prod"}}), "logs")]
#[case::another_label(json!({"matchLabels": {"env": "dev"}}), "")]
fn mrg8_accounts_in_use_stay(#[case] selector: Value, #[case] user: &str) {
    let mut settings = settings();
    let mut selector = selector;
    if selector["matchLabels"]["kubernetes.io/metadata.name"] == "web" {
        selector["matchLabels"]["env"] = json!("prod");
    }
    settings.sidecar_sets = vec![set("logs", "log-agent", &selector), set("mesh", "mesh", &json!(null))];
    let labels = json!({"env": "prod", "kubernetes.io/metadata.name": "web"});
    let cluster = Cluster { answers: vec![web(&labels)], ..Cluster::default() };
    let expected = if user.is_empty() {
        "accepted".to_owned()
    } else {
        format!(
            "403 metadata.name: ServiceAccount \"log-agent\" is in use by the SidecarSets \"{user}\"; name another account \
             there first"
        )
    };
    assert_eq!(shown(judged(&deletion(), &settings, &cluster)), expected);
    let asked = cluster.asked.borrow();
    assert!(asked.iter().filter(|asked| *asked == "Namespace/web").count() <= 1, "{asked:?}");

    settings.gates.service_account_injection = false;
    assert_eq!(shown(judged(&deletion(), &settings, &cluster)), "accepted", "nobody uses it without the feature");
    settings.gates.service_account_injection = true;
    settings.service_accounts.protect_in_use = false;
    assert_eq!(shown(judged(&deletion(), &settings, &cluster)), "accepted", "unless it is protected");
}

#[test]
fn mrg8_every_set_that_uses_it_is_named() {
    let mut settings = settings();
    settings.sidecar_sets = vec![
        set("z", "log-agent", &Value::Null),
        set("mesh", "mesh", &Value::Null),
        set("a", "log-agent", &Value::Null),
    ];
    let cluster = Cluster { answers: vec![web(&json!({}))], ..Cluster::default() };
    let text = shown(judged(&deletion(), &settings, &cluster));
    assert!(text.contains("in use by the SidecarSets \"a\", \"z\";"), "{text}");
}

/// A Namespace that cannot be read could match or be in deletion, so the user must try again.
#[test]
fn mrg8_an_unreadable_namespace_is_asked_for_again() {
    let mut settings = settings();
    settings.sidecar_sets = vec![set("logs", "log-agent", &json!({"matchLabels": {"env": "prod"}}))];
    let cluster = Cluster { answers: vec![("Namespace/web", Err(Failure::Timeout))], ..Cluster::default() };
    assert_eq!(
        shown(judged(&deletion(), &settings, &cluster)),
        "503 metadata.namespace: Namespace \"web\" could not be read: no answer in time; try again"
    );
    assert_eq!(*cluster.asked.borrow(), ["Namespace/web"]);
}

#[rstest]
#[case::terminating(Ok(Some(json!({"metadata": {"name": "web"}, "status": {"phase": "Terminating"}}))))]
#[case::gone(Ok(None))]
fn set8_nothing_keeps_a_namespace_from_going(#[case] namespace: Answer) {
    let mut settings = settings();
    settings.sidecar_sets = vec![set("logs", "log-agent", &Value::Null)];
    for name in ["log-agent", "default", MERGED] {
        let cluster = Cluster { answers: vec![("Namespace/web", namespace.clone())], ..Cluster::default() };
        let request = request(("", "ServiceAccount"), "DELETE", Value::Null, json!({"metadata": {"name": name}}));
        assert_eq!(shown(judged(&request, &settings, &cluster)), "accepted", "{name}");
    }
}
