//! `pillion run`: identities with kwctl's session files, and with assumed accounts.

use std::fs;
use std::path::Path;

use pillion_host::session;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Run, policy};

const METADATA: &str = "
protocolVersion: v1
rules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
mutating: true
contextAwareResources:
- {apiVersion: v1, kind: Namespace}
- {apiVersion: v1, kind: ServiceAccount}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: Role}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding}
";

fn folder() -> tempfile::TempDir {
    policy::folder(METADATA)
}

fn run(folder: &Path, request: &Value, settings: &Value, args: &[&str]) -> Run {
    let settings = settings.to_string();
    let given = ["-r", "-", "--settings-json", settings.as_str()];
    policy::run(folder, "no-kubeconfig", &[&given, args].concat(), &request.to_string())
}

fn replayed(folder: &Path, request: &Value, settings: &Value, exchanges: &[String]) -> Run {
    fs::write(folder.join("session.yml"), exchanges.concat()).unwrap();
    let args = ["--allow-context-aware", "--replay-host-capabilities-interactions", "session.yml", "annotated.wasm"];
    run(folder, request, settings, &args)
}

/// Returns a request in which `ann` creates an object in namespace `shop`.
fn creation(group: &str, version: &str, kind: &str, resource: &str, object: &Value) -> Value {
    json!({
        "uid": "u", "operation": "CREATE", "namespace": "shop", "object": object,
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": resource},
        "userInfo": {"username": "ann", "groups": ["devs"]}
    })
}

fn pod() -> Value {
    creation(
        "",
        "v1",
        "Pod",
        "pods",
        &json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "web"}},
            "spec": {"serviceAccountName": "default", "containers": [{"name": "web", "image": "i:1"}]}
        }),
    )
}

fn set(name: &str, account: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": name, "image": "i:1"}],
            "serviceAccountName": account, "behaviorWhenServiceAccountInjection": "Merge",
            "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
        }
    })
}

fn settings(sets: &[Value]) -> Value {
    json!({"featureGates": {"SidecarSetServiceAccountInjection": true}, "sidecarSets": sets})
}

/// Returns a look-up in namespace `shop`, in the format of kwctl's session files, with its answer: an object or an
/// error.
fn get(kind: &str, name: &str, answer: Result<Value, &str>) -> String {
    let response = match answer {
        Ok(object) => format!("    type: Success\n    payload: '{object}'\n"),
        Err(message) => format!("    type: Error\n    message: \"{message}\"\n"),
    };
    format!(
        "- type: Exchange
  request: |
    !KubernetesGetResource
    api_version: v1
    kind: {kind}
    name: {name}
    namespace: shop
    disable_cache: true
    field_masks: null
  response:
{response}"
    )
}

/// Returns a SubjectAccessReview that allows or denies `ann` to do `verb` on `resource` (`pods`,
/// `serviceaccounts/token`).
fn can_i((namespace, verb, group, resource, name): (&str, &str, &str, &str, &str), allowed: bool) -> String {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, "null"));
    format!(
        "- type: Exchange
  request: |
    !KubernetesCanI
    request:
      groups: [devs]
      resource_attributes:
        group: '{group}'
        name: {name}
        namespace: {namespace}
        resource: '{resource}'
        subresource: {subresource}
        verb: '{verb}'
        version: null
      user: ann
    disable_cache: true
  response:
    type: Success
    payload: '{{\"allowed\":{allowed}}}'
"
    )
}

const GONE: &str = "Cannot find v1/ServiceAccount named 'log-agent' inside of namespace 'Some(\\\"shop\\\")'";
const FORBIDDEN: &str =
    "ApiError: serviceaccounts \\\"log-agent\\\" is forbidden: Forbidden (ErrorResponse { code: 403 })";

fn account(metadata: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
}

#[test]
fn idv3_an_account_that_a_session_has_is_given_to_the_sidecar() {
    let found = get("ServiceAccount", "log-agent", Ok(account(&json!({"name": "log-agent"}))));
    let folder = folder();
    let run = replayed(folder.path(), &pod(), &settings(&[set("agent", "log-agent")]), &[found]);
    let response = run.response();
    assert_eq!(response["auditAnnotations"]["injected-serviceaccounts"], "agent/log-agent", "{}", run.out);
    assert_eq!(run.err, "");
}

#[rstest]
#[case::missing(Err(GONE), 403, "ServiceAccount \"log-agent\" does not exist in namespace \"shop\"")]
#[case::forbidden(
    Err(FORBIDDEN),
    503,
    "ServiceAccount \"log-agent\" could not be read in namespace \"shop\": not allowed"
)]
#[case::terminating(
    Ok(account(&json!({"name": "log-agent", "deletionTimestamp": "2026-01-02T03:04:05Z"}))),
    403, "ServiceAccount \"log-agent\" is being deleted in namespace \"shop\""
)]
fn idv3_a_pod_is_refused_where_the_session_says_that_its_account_is(
    #[case] answer: Result<Value, &str>,
    #[case] code: u64,
    #[case] message: &str,
) {
    let folder = folder();
    let exchanges = [get("ServiceAccount", "log-agent", answer)];
    let run = replayed(folder.path(), &pod(), &settings(&[set("agent", "log-agent")]), &exchanges);
    let (found, text) = run.refusal();
    assert_eq!(found, code, "{text}");
    assert!(text.contains(message), "{text}");
    assert_eq!(run.err, "");
}

/// Returns a request of `ann` to create a SidecarSet for namespace `shop` only, and settings in which accounts have to
/// exist and E5 causes no questions.
fn wanted() -> (Value, Value) {
    let mut set = set("agent", "log-agent");
    set["spec"]["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": "shop"}});
    let mut settings = settings(&[]);
    settings["serviceAccounts"] = json!({"strictExistence": true, "denyPermissions": []});
    let mut request = creation("apps.kruise.io", "v1beta1", "SidecarSet", "sidecarsets", &set);
    request["namespace"] = Value::Null;
    (request, settings)
}

const EVERYTHING: (&str, &str, &str, &str, &str) = ("null", "*", "*", "*", "null");
const PODS: (&str, &str, &str, &str, &str) = ("shop", "get", "", "pods", "null");
const TOKEN: (&str, &str, &str, &str, &str) = ("shop", "create", "", "serviceaccounts/token", "log-agent");
const CREATE_PODS: (&str, &str, &str, &str, &str) = ("shop", "create", "", "pods", "null");

#[rstest]
#[case::who_holds_it_and_may_use_the_account(
    &[can_i(EVERYTHING, false), can_i(PODS, true), can_i(TOKEN, true)], Some(Ok(())), ""
)]
#[case::an_admin(&[can_i(EVERYTHING, true)], Some(Ok(())), "")]
#[case::who_does_not_hold_it(
    &[can_i(EVERYTHING, false), can_i(PODS, false), can_i(TOKEN, true)], None,
    "\"ann\" may not grant get pods in namespace \"shop\""
)]
#[case::who_may_not_use_the_account(
    &[can_i(EVERYTHING, false), can_i(PODS, true), can_i(TOKEN, false), can_i(CREATE_PODS, false)], None,
    "\"ann\" may not use the ServiceAccount \"log-agent\" in namespace \"shop\""
)]
#[case::missing_account(
    &[can_i(EVERYTHING, true)], Some(Err(GONE)), "ServiceAccount \"log-agent\" does not exist in namespace \"shop\""
)]
#[case::unreadable_account(
    &[can_i(EVERYTHING, true)], Some(Err(FORBIDDEN)),
    "ServiceAccount \"log-agent\" could not be read in namespace \"shop\": not allowed"
)]
fn esc1_the_author_is_asked_about_in_a_session(
    #[case] reviews: &[String],
    #[case] existence: Option<Result<(), &str>>,
    #[case] message: &str,
) {
    let (request, settings) = wanted();
    let answer = existence.map(|found| found.map(|()| account(&json!({"name": "log-agent"}))));
    let look_up = answer.map(|answer| get("ServiceAccount", "log-agent", answer));
    let exchanges: Vec<String> = reviews.iter().cloned().chain(look_up).collect();
    let folder = folder();
    let run = replayed(folder.path(), &request, &settings, &exchanges);
    let (_, text) = run.refusal();
    assert_eq!(run.response()["allowed"], message.is_empty(), "{text}");
    assert!(text.contains(message), "{text}");
    assert_eq!(run.err, "", "every answer was asked for");
}

/// ESC-3: without an answer, the request is refused.
#[test]
fn esc3_a_review_that_the_session_does_not_have_refuses() {
    let (request, settings) = wanted();
    let folder = folder();
    let (code, text) = replayed(folder.path(), &request, &settings, &["[]\n".to_owned()]).refusal();
    assert_eq!((code, text.contains("the author's permissions could not be verified")), (403, true), "{text}");
}

#[rstest]
#[case::module_without_metadata("policy.wasm")]
#[case::annotated_module("annotated.wasm")]
fn accounts_are_assumed_without_a_cluster(#[case] module: &str) {
    let folder = folder();
    let settings = settings(&[set("agent", "log-agent"), set("metrics", "metrics")]);
    let run = run(folder.path(), &pod(), &settings, &["--assume-service-accounts", module]);
    let given = run.response()["auditAnnotations"]["injected-serviceaccounts"].clone();
    let merged = "sidecarset-merged-c1c364c813e3611b";
    assert_eq!(given, format!("agent/{merged},metrics/{merged}"), "{}{}", run.out, run.err);
    assert!(run.err.contains("ServiceAccount shop/log-agent is assumed to exist\n"), "{}", run.err);
    let notes = "ServiceAccount, Role and RoleBinding shop/sidecarset-merged-c1c364c813e3611b are assumed to exist as \
                 Pillion's controller makes them";
    assert!(run.err.contains(notes), "{}", run.err);
}

#[test]
fn accounts_are_not_assumed_unasked() {
    let folder = folder();
    let (code, text) = run(folder.path(), &pod(), &settings(&[set("agent", "log-agent")]), &["policy.wasm"]).refusal();
    assert_eq!(code, 503, "{text}");
}

/// A session identifies questions by their order. Questions about accounts are not asked, all others are.
#[test]
fn accounts_are_assumed_beside_a_session_which_answers_the_rest() {
    let folder = folder();
    let mut sets = [set("agent", "log-agent"), set("metrics", "metrics")];
    for set in &mut sets {
        set["spec"]["namespaceSelector"] = json!({"matchLabels": {"team": "a"}});
    }
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "a"}}});
    let exchange = get("Namespace", "shop", Ok(namespace)).replace("namespace: shop", "namespace: null");
    fs::write(folder.path().join("s.yml"), exchange).unwrap();
    let args = [
        "--allow-context-aware",
        "--assume-service-accounts",
        "--replay-host-capabilities-interactions",
        "s.yml",
        "annotated.wasm",
    ];
    let run = run(folder.path(), &pod(), &settings(&sets), &args);
    let given = run.response()["auditAnnotations"]["injected-serviceaccounts"].clone();
    assert!(given.as_str().is_some_and(|given| given.contains("sidecarset-merged-")), "{}{}", run.out, run.err);
    assert!(!run.err.contains("not been replayed"), "{}", run.err);
}

/// This makes a session for `kwctl run` without a cluster.
#[test]
fn what_is_assumed_is_recorded() {
    let folder = folder();
    let settings = settings(&[set("agent", "log-agent")]);
    let recording = ["--assume-service-accounts", "--record-host-capabilities-interactions", "s.yml", "annotated.wasm"];
    let assumed = run(folder.path(), &pod(), &settings, &recording);
    assert_eq!(assumed.response()["allowed"], true, "{}{}", assumed.out, assumed.err);
    let exchanges = session::load(&folder.path().join("s.yml")).unwrap();
    assert_eq!(exchanges.len(), 1);
    let replaying = ["--allow-context-aware", "--replay-host-capabilities-interactions", "s.yml", "annotated.wasm"];
    let again = run(folder.path(), &pod(), &settings, &replaying);
    assert_eq!(again.response()["auditAnnotations"], assumed.response()["auditAnnotations"]);
    assert_eq!(again.err, "");
}

#[test]
fn a_policy_manifest_that_may_not_read_accounts_does_not_get_them_by_assumption() {
    let folder = folder();
    let policy = |reads: Value| {
        json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy", "metadata": {"name": "p"},
            "spec": {
                "module": format!("file://{}", folder.path().join("annotated.wasm").display()), "mutating": true,
                "settings": settings(&[set("agent", "log-agent")]), "contextAwareResources": reads
            }
        })
    };
    let judged = |policy: &Value| {
        fs::write(folder.path().join("policy.yaml"), policy.to_string()).unwrap();
        let output = assert_cmd::Command::new(env!("CARGO_BIN_EXE_pillion"))
            .current_dir(folder.path())
            .env("KUBECONFIG", "no-kubeconfig")
            .args(["run", "-r", "-", "--assume-service-accounts", "policy.yaml"])
            .write_stdin(pod().to_string())
            .output()
            .unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let denied = judged(&policy(json!([])));
    assert_eq!(denied["status"]["code"], 503, "{denied}");
}
