#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use std::time::Duration;

use pillion_identity::rules::Rules;
use pillion_kubernetes::authorizer::{Authorizer, Question};
use pillion_kubernetes::lookup::{Answer, Failure};
use pillion_kubernetes::time::Timestamp;
use pillion_samples::lookups::FakeObjects;
use pillion_sidecarset::gates::Gates;
use pillion_sidecarset::sidecar_set::SidecarSet;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::settings::Settings;

/// Returns a cluster without objects.
fn empty() -> FakeObjects {
    FakeObjects::answering(Ok(None))
}

/// Returns a cluster with this object alone.
fn having((object, answer): (&str, Answer)) -> FakeObjects {
    empty().with(object, answer)
}

struct Nobody;

impl Authorizer for Nobody {
    fn allows(&self, question: &Question) -> Result<bool, String> {
        panic!("guards ask for nobody's rights: {question:?}")
    }
}

fn web(labels: &Value) -> (&'static str, Answer) {
    let metadata = json!({"name": "web", "labels": labels});
    ("Namespace web", Ok(Some(json!({"metadata": metadata, "status": {"phase": "Active"}}))))
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

fn judged(request: &Request, settings: &Settings, cluster: &FakeObjects) -> Outcome {
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
    let cluster = having(web(&json!({})));
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
    let cluster = empty();
    assert_eq!(judged(&request, &settings(), &cluster), Verdict::Unchanged.into());
    assert_eq!(cluster.asked(), [""; 0]);
}

fn token(annotations: Value) -> Request {
    let object = json!({
        "type": "kubernetes.io/service-account-token", "metadata": {"name": "t", "annotations": annotations},
    });
    request(("", "Secret"), "CREATE", object, Value::Null)
}

fn account_of_uid_7() -> FakeObjects {
    having(("ServiceAccount web/a", Ok(Some(json!({"metadata": {"name": "a", "uid": "7"}})))))
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
    assert_eq!(cluster.asked(), ["ServiceAccount web/a"], "asked once for both");
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
    let cluster = having(web(&labels));
    let expected = if user.is_empty() {
        "accepted".to_owned()
    } else {
        format!(
            "403 metadata.name: ServiceAccount \"log-agent\" is in use by the SidecarSets \"{user}\"; name another account \
             there first"
        )
    };
    assert_eq!(shown(judged(&deletion(), &settings, &cluster)), expected);
    let asked = cluster.asked();
    assert!(asked.iter().filter(|asked| *asked == "Namespace web").count() <= 1, "{asked:?}");

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
    let cluster = having(web(&json!({})));
    let text = shown(judged(&deletion(), &settings, &cluster));
    assert!(text.contains("in use by the SidecarSets \"a\", \"z\";"), "{text}");
}

/// A Namespace that cannot be read could match or be in deletion, so the user must try again.
#[test]
fn mrg8_an_unreadable_namespace_is_asked_for_again() {
    let mut settings = settings();
    settings.sidecar_sets = vec![set("logs", "log-agent", &json!({"matchLabels": {"env": "prod"}}))];
    let cluster = having(("Namespace web", Err(Failure::Timeout)));
    assert_eq!(
        shown(judged(&deletion(), &settings, &cluster)),
        "503 metadata.namespace: Namespace \"web\" could not be read: no answer in time; try again"
    );
    assert_eq!(cluster.asked(), ["Namespace web"]);
}

#[rstest]
#[case::terminating(Ok(Some(json!({"metadata": {"name": "web"}, "status": {"phase": "Terminating"}}))))]
#[case::gone(Ok(None))]
fn set8_nothing_keeps_a_namespace_from_going(#[case] namespace: Answer) {
    let mut settings = settings();
    settings.sidecar_sets = vec![set("logs", "log-agent", &Value::Null)];
    for name in ["log-agent", "default", MERGED] {
        let cluster = having(("Namespace web", namespace.clone()));
        let request = request(("", "ServiceAccount"), "DELETE", Value::Null, json!({"metadata": {"name": name}}));
        assert_eq!(shown(judged(&request, &settings, &cluster)), "accepted", "{name}");
    }
}

/// A user who may request the tokens of these accounts.
struct May(&'static [&'static str]);

impl Authorizer for May {
    fn allows(&self, question: &Question) -> Result<bool, String> {
        let Question { namespace, atom, .. } = question;
        assert_eq!(
            (namespace.as_str(), atom.verb.as_str(), atom.resource.as_str()),
            ("web", "create", "serviceaccounts/token")
        );
        Ok(atom.name.as_deref().is_some_and(|name| self.0.contains(&name)))
    }
}

/// A Pod with an isolated sidecar of the account `log-agent`.
fn isolated() -> (&'static str, Answer) {
    let volume = "sidecarset-sa-b077d031c6eaa197";
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "app"}, {"name": "agent", "image": "agent:1", "volumeMounts": [{"name": volume, "mountPath": "/t"}]}],
        "volumes": [{"name": volume, "projected": {"sources": [{"secret": {"name": "sidecarset-token-b077d031c6eaa197"}}]}}],
    }});
    ("Pod web/p", Ok(Some(pod)))
}

fn guarded() -> Settings {
    let set = json!({"metadata": {"name": "logs"}, "spec": {"serviceAccountName": "log-agent", "selector": {}}});
    let mut settings = Settings { sidecar_sets: vec![SidecarSet::from_decoded(set)], ..settings() };
    let guards = &mut settings.service_accounts.guards;
    (guards.exec, guards.token_requests, guards.images) = (true, true, true);
    settings
}

/// A request about the running Pod `web/p`, changed by `edit`.
fn running(edit: impl FnOnce(&mut Value)) -> Request {
    let mut request = json!({
        "uid": "u", "operation": "CONNECT", "subResource": "exec", "namespace": "web", "name": "p",
        "kind": {"group": "", "version": "v1", "kind": "PodExecOptions"}, "userInfo": {"username": "ann"},
        "object": {"container": "app"}, "oldObject": null,
    });
    edit(&mut request);
    Request::decode(request).unwrap()
}

fn judged_for(request: &Request, settings: &Settings, cluster: &FakeObjects, may: &'static [&'static str]) -> Outcome {
    let world = World { lookup: cluster, authorizer: &May(may), now: Timestamp(0), elapsed: &Duration::default };
    admit(request, request.target(), settings, world).unwrap_or_else(|refused| refused)
}

#[rstest]
#[case::the_sidecar(running(|r| r["object"]["container"] = json!("agent")))]
#[case::attach(running(|r| {
    r["subResource"] = json!("attach");
    r["kind"]["kind"] = json!("PodAttachOptions");
    r["object"]["container"] = json!("agent");
}))]
#[case::a_forwarded_port(running(|r| {
    r["subResource"] = json!("portforward");
    r["kind"]["kind"] = json!("PodPortForwardOptions");
    r["object"] = json!({"ports": [8080]});
}))]
// Nothing says for sure which container is meant: the whole Pod counts.
#[case::a_forwarded_port_that_names_the_app(running(|r| {
    r["subResource"] = json!("portforward");
    r["kind"]["kind"] = json!("PodPortForwardOptions");
}))]
#[case::a_forwarded_port_in_the_clothes_of_exec(running(|r| r["subResource"] = json!("portforward")))]
#[case::exec_with_other_options(running(|r| r["kind"]["kind"] = json!("PodPortForwardOptions")))]
#[case::a_kind_of_tomorrow(running(|r| r["kind"]["kind"] = json!("PodShellOptions")))]
#[case::a_subresource_of_tomorrow(running(|r| r["subResource"] = json!("shell")))]
#[case::another_version(running(|r| {
    r["kind"]["version"] = json!("v2");
    r["object"]["container"] = json!("agent");
}))]
#[case::options_that_are_no_object(running(|r| r["object"] = json!(["app"])))]
#[case::no_options(running(|r| r["object"] = Value::Null))]
fn aft2_connections_are_judged_whatever_they_are_called(#[case] request: Request) {
    let cluster = || having(isolated());
    let text = shown(judged_for(&request, &guarded(), &cluster(), &[]));
    assert!(text.starts_with("403 ") && text.contains("may not request its tokens"), "{text}");
    assert_eq!(shown(judged_for(&request, &guarded(), &cluster(), &["log-agent"])), "accepted");
    let (off, unasked) = (settings(), empty());
    assert_eq!(shown(judged_for(&request, &off, &unasked, &[])), "accepted");
    assert_eq!(unasked.asked(), [""; 0]);
}

#[test]
fn aft2_the_app_is_open() {
    let cluster = having(isolated());
    assert_eq!(shown(judged_for(&running(|_| ()), &guarded(), &cluster, &[])), "accepted");
    assert_eq!(cluster.asked(), ["Pod web/p"]);
}

/// AFT-4: the SidecarSets of the bundle say whose the Secret is.
#[test]
fn aft5_without_the_bundle_it_is_503() {
    let mut settings = guarded();
    settings.sidecar_sets.clear();
    let with_bundle = json!({"bundleRef": {"namespace": "pillion-system", "name": "bundle"}});
    settings.bundle_source = Settings::decode(with_bundle).unwrap().bundle_source;
    let cluster = having(isolated());
    let request = running(|r| r["object"]["container"] = json!("agent"));
    let text = shown(judged_for(&request, &settings, &cluster, &["log-agent"]));
    assert!(text.starts_with("503 settings.bundleRef: "), "{text}");
    // A Pod without tokens from Secrets needs no bundle.
    let app = shown(judged_for(&running(|_| ()), &settings, &cluster, &[]));
    assert_eq!(app, "accepted");
}

#[test]
fn aft6_the_name_of_the_request_counts() {
    let request = |name: &str, object: Value| {
        Request::decode(json!({
            "uid": "u", "operation": "CREATE", "subResource": "token", "namespace": "web", "name": name,
            "kind": {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"},
            "userInfo": {"username": "ann", "groups": ["system:nodes"]}, "object": object,
        }))
        .unwrap()
    };
    let judged = |request: &Request| shown(judged_for(request, &guarded(), &empty(), &[]));
    let text = judged(&request(MERGED, json!({"metadata": {"name": "web"}, "spec": {"audiences": ["x"]}})));
    assert!(text.starts_with("403 metadata.name: only nodes and Pillion's controller "), "{text}");
    assert_eq!(judged(&request("web", json!({"metadata": {"generateName": MERGED}}))), "accepted");
    assert!(judged(&request("", json!({"metadata": {"name": "web"}}))).starts_with("400 request.name: "));
}

#[test]
fn aft7_an_update_of_a_pod_is_judged() {
    let (_, pod) = isolated();
    let old = pod.unwrap().unwrap();
    let mut new = old.clone();
    new["spec"]["containers"][1]["image"] = json!("agent:2");
    let update = |sub_resource: &str| {
        running(|r| {
            r["operation"] = json!("UPDATE");
            r["subResource"] = json!(sub_resource);
            r["kind"]["kind"] = json!("Pod");
            r["object"] = new.clone();
            r["oldObject"] = old.clone();
        })
    };
    let judged = |settings: &Settings| shown(judged_for(&update(""), settings, &empty(), &[]));
    assert!(judged(&guarded()).starts_with("403 spec: container \"agent\" holds the identity of a sidecar"));
    assert_eq!(judged(&settings()), "accepted");
}
