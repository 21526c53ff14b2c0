//! `inject`, `explain` and `check` with `--cluster`, as users run them.

use std::fs;
use std::path::Path;

use pillion_cluster::NO_DEFINITION;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::Run;
use crate::support::api_server::{ApiServer, ServerState, forbidding, write_kubeconfig};

/// A SidecarSet for Pods with `app: web`, with one sidecar of the same name.
fn set(name: &str, image: &str, spec: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": {"name": name, "uid": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": name, "image": image}]}
    });
    for (key, value) in spec.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    set
}

fn object(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

fn namespace(team: &str) -> Value {
    let mut namespace = object("v1", "Namespace", None, "shop");
    namespace["metadata"]["labels"] = json!({"team": team});
    namespace
}

fn account(name: &str) -> Value {
    object("v1", "ServiceAccount", Some("shop"), name)
}

fn for_team(team: &str) -> Value {
    json!({"namespaceSelector": {"matchLabels": {"team": team}}})
}

fn app() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]}
    })
}

const GATE: &str = "featureGates: {SidecarSetServiceAccountInjection: true}\n";
const BUNDLE_REF: &str = "bundleRef: {namespace: pillion-system, name: sidecarsets}\n";

/// Runs a command in a folder whose kubeconfig is `kubeconfig`, with these manifests as input.
pub fn run(folder: &Path, args: &[&str], manifests: &[Value]) -> Run {
    let text: Vec<String> = manifests.iter().map(|manifest| format!("---\n{manifest}\n")).collect();
    let output = assert_cmd::Command::new(env!("CARGO_BIN_EXE_pillion"))
        .current_dir(folder)
        .env("KUBECONFIG", folder.join("kubeconfig"))
        .args(args)
        .write_stdin(text.concat())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs `pillion inject --cluster` with these settings. Returns the run and the images of the Pod's containers.
fn inject(server: &ApiServer, settings: &str, manifests: &[Value], more: &[&str]) -> (Run, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    fs::write(folder.path().join("settings.yaml"), settings).unwrap();
    let args = ["inject", "-", "--cluster", "--settings", "settings.yaml", "-o", "json"];
    let run = run(folder.path(), &[&args, more].concat(), manifests);
    let printed: Value = serde_json::from_str(&run.out).unwrap_or_default();
    let items = printed["items"].as_array().cloned().unwrap_or_else(|| vec![printed]);
    let pod = items.iter().find(|item| item["kind"] == "Pod");
    let containers = pod.and_then(|pod| pod["spec"]["containers"].as_array().cloned()).unwrap_or_default();
    let images = containers.iter().map(|container| container["image"].as_str().unwrap().to_owned());
    let mut images: Vec<String> = images.filter(|image| image != "web:1").collect();
    images.sort();
    (run, images)
}

#[rstest]
#[case::of_the_cluster(&[set("logs", "logs:1", &json!({}))], &[], "", &["logs:1"])]
#[case::beside_those_given(&[set("logs", "logs:1", &json!({}))], &[set("other", "other:1", &json!({}))], "", &["logs:1", "other:1"])]
#[case::given_ones_win(&[set("logs", "logs:1", &json!({}))], &[set("logs", "logs:2", &json!({}))], "", &["logs:2"])]
#[case::those_of_the_settings_win(
    &[set("logs", "logs:1", &json!({}))], &[],
    "sidecarSets: [{apiVersion: apps.kruise.io/v1beta1, kind: SidecarSet, metadata: {name: logs}, spec: {selector: {matchLabels: {app: web}}, containers: [{name: logs, image: 'logs:3'}]}}]",
    &["logs:3"]
)]
#[case::for_a_namespace_of_the_cluster(&[set("logs", "logs:1", &for_team("a")), namespace("a")], &[], "", &["logs:1"])]
#[case::for_another_namespace(&[set("logs", "logs:1", &for_team("a")), namespace("b")], &[], "", &[])]
#[case::a_given_namespace_wins(&[set("logs", "logs:1", &for_team("a")), namespace("b")], &[namespace("a")], "", &["logs:1"])]
#[case::with_an_account_of_the_cluster(
    &[set("logs", "logs:1", &json!({"serviceAccountName": "logs"})), account("logs")], &[], GATE, &["logs:1"]
)]
#[case::no_bundle_yet(&[set("logs", "logs:1", &json!({}))], &[], BUNDLE_REF, &["logs:1"])]
fn sidecar_sets_and_what_they_need_come_from_the_cluster(
    #[case] cluster: &[Value],
    #[case] given: &[Value],
    #[case] settings: &str,
    #[case] expected: &[&str],
) {
    let server = ApiServer::start(cluster, |_| {});
    let (run, images) = inject(&server, settings, &[&[app()], given].concat(), &[]);
    assert_eq!((run.code, images), (0, expected.iter().map(ToString::to_string).collect()), "{}", run.err);
    assert!(server.requests().iter().all(|request| request.starts_with("GET ")), "{:?}", server.requests());
}

/// Returns the ConfigMap of `bundleRef` with this SidecarSet.
fn bundle(set: &Value) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let args = ["bundle", "-", "--config-map", "pillion-system/sidecarsets"];
    let made = run(folder.path(), &args, std::slice::from_ref(set));
    assert_eq!(made.code, 0, "{}", made.err);
    serde_saphyr::from_str(&made.out).unwrap()
}

#[rstest]
#[case::instead_of_custom_resources(&[], &["bundled:1"])]
#[case::beside_given_ones(&[set("other", "other:1", &json!({}))], &["bundled:1", "other:1"])]
#[case::given_ones_win(&[set("bundled", "bundled:2", &json!({}))], &["bundled:2"])]
fn the_bundle_of_the_cluster_counts(#[case] given: &[Value], #[case] expected: &[&str]) {
    let bundle = bundle(&set("bundled", "bundled:1", &json!({})));
    let server = ApiServer::start(&[bundle, set("logs", "logs:1", &json!({}))], |_| {});
    let (run, images) = inject(&server, BUNDLE_REF, &[&[app()], given].concat(), &[]);
    assert_eq!((run.code, images), (0, expected.iter().map(ToString::to_string).collect()), "{}", run.err);
}

#[rstest]
#[case::by_name(json!({"revisionName": "logs-1", "policy": "Always"}))]
#[case::by_version(json!({"customVersion": "v1", "policy": "Always"}))]
fn a_sidecar_set_gets_the_stored_revision_that_it_asks_for(#[case] revision: Value) {
    let asking = json!({"injectionStrategy": {"revision": revision}});
    let mut revision = object("apps/v1", "ControllerRevision", Some("kruise-system"), "logs-1");
    revision["metadata"]["labels"] =
        json!({"kruise.io/sidecarset-name": "logs", "apps.kruise.io/sidecarset-custom-version": "v1"});
    revision["revision"] = 1.into();
    revision["data"] = json!({"spec": set("logs", "logs:0", &json!({}))["spec"]});
    let server = ApiServer::start(&[set("logs", "logs:1", &asking), revision], |_| {});
    let (run, images) = inject(&server, "", &[app()], &[]);
    assert_eq!((run.code, images), (0, vec!["logs:0".to_owned()]), "{}", run.err);
}

#[rstest]
#[case::no_definition(&[], |state: &mut ServerState| state.has_no_definition = true, NO_DEFINITION)]
#[case::no_bundle(&[], |_: &mut ServerState| {}, "ConfigMap \"pillion-system/sidecarsets\" does not exist in the cluster")]
#[case::a_set_that_the_policy_refuses(
    &[set("logs", "logs:1", &json!({"containers": [{"name": "logs"}]}))], |_: &mut ServerState| {},
    "SidecarSet \"logs\" of the cluster is left out"
)]
#[case::no_such_namespace(
    &[set("logs", "logs:1", &for_team("a"))], |_: &mut ServerState| {},
    "Namespace shop is neither in a manifest nor in the cluster"
)]
#[case::late(&[], |state: &mut ServerState| state.late = Some("sidecarsets"), "looking at the cluster")]
fn the_user_is_told(#[case] objects: &[Value], #[case] edit: fn(&mut ServerState), #[case] expected: &str) {
    let (run, images) = inject(&ApiServer::start(objects, edit), BUNDLE_REF, &[app()], &[]);
    assert_eq!((run.code, images.len()), (0, 0), "{}", run.err);
    assert!(run.err.contains(expected), "{}", run.err);
}

#[test]
fn a_missing_account_is_in_neither_source() {
    let server = ApiServer::start(&[set("logs", "logs:1", &json!({"serviceAccountName": "logs"}))], |_| {});
    let (run, _) = inject(&server, GATE, &[app()], &[]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.err.contains("ServiceAccount shop/logs is neither in a manifest nor in the cluster"), "{}", run.err);
    let (run, images) = inject(&server, GATE, &[app()], &["--assume-service-accounts"]);
    assert_eq!((run.code, images), (0, vec!["logs:1".to_owned()]), "{}", run.err);
}

/// Commands that look at a cluster, with one Pod.
const COMMANDS: [&[&str]; 3] = [
    &["inject", "-", "--settings", "settings.yaml", "--cluster"],
    &["explain", "-", "--settings", "settings.yaml", "--cluster"],
    &["check", "-", "--settings", "settings.yaml", "--cluster"],
];

#[rstest]
#[case::sets(&["/sidecarsets"], &["list SidecarSets", "\"list\" on sidecarsets.apps.kruise.io"], 3)]
#[case::namespaces(&["/v1/namespaces", "/namespaces/shop"], &["Namespace", "on namespaces,", "User \"jane\""], 3)]
#[case::accounts(&["/serviceaccounts/logs"], &["get ServiceAccount shop/logs", "\"get\" on serviceaccounts,"], 2)]
#[case::roles(&["/rolebindings"], &["list RoleBindings", "\"list\" on rolebindings.rbac.authorization.k8s.io,"], 0)]
fn a_forbidden_read_names_the_kind_the_verb_and_the_remedy(
    #[case] forbidden: &'static [&'static str],
    #[case] expected: &[&str],
    #[case] commands: usize,
) {
    let objects = [
        set(
            "logs",
            "logs:1",
            &json!({"serviceAccountName": "logs", "namespaceSelector": {"matchLabels": {"team": "a"}}}),
        ),
        namespace("a"),
    ];
    let server = ApiServer::start(&objects, forbidding(forbidden));
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    fs::write(folder.path().join("settings.yaml"), GATE).unwrap();
    // Only `check` reads bindings.
    let commands = if commands == 0 { &COMMANDS[2..] } else { &COMMANDS[..commands] };
    for args in commands {
        let run = run(folder.path(), args, &[app()]);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{args:?}: {}", run.err);
        for expected in expected {
            assert!(run.err.contains(expected), "{args:?}: {expected}: {}", run.err);
        }
    }
}

#[rstest]
#[case::no_kubeconfig(None, &[], "no cluster")]
#[case::nobody_there(Some("127.0.0.1:1"), &[], "the cluster does not answer")]
#[case::another_context(Some("127.0.0.1:1"), &["--context", "there"], "the cluster does not answer")]
#[case::no_such_context(Some("127.0.0.1:1"), &["--context", "elsewhere"], "--context elsewhere")]
fn a_cluster_that_cannot_be_asked_is_an_error(
    #[case] address: Option<&str>,
    #[case] more: &[&str],
    #[case] expected: &str,
) {
    let folder = tempfile::tempdir().unwrap();
    if let Some(address) = address {
        write_kubeconfig(folder.path(), address);
    }
    fs::write(folder.path().join("settings.yaml"), GATE).unwrap();
    for args in COMMANDS {
        let run = run(folder.path(), &[args, more].concat(), &[app()]);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{args:?}: {}", run.err);
        assert!(run.err.contains(expected), "{args:?}: {}", run.err);
    }
}

#[test]
fn an_answer_that_is_no_api_servers_is_an_error() {
    let server = ApiServer::start(&[], |state| state.is_a_page = true);
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    fs::write(folder.path().join("settings.yaml"), GATE).unwrap();
    for args in COMMANDS {
        let run = run(folder.path(), args, &[app()]);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{args:?}: {}", run.err);
        let expected = "the cluster's answer cannot be read, when asked to ";
        assert!(run.err.contains(expected), "{args:?}: {}", run.err);
    }
}

#[test]
fn a_context_needs_the_cluster() {
    for args in COMMANDS {
        let args: Vec<&str> = args.iter().map(|arg| if *arg == "--cluster" { "--context=x" } else { arg }).collect();
        let run = run(Path::new("."), &args, &[app()]);
        assert_eq!(run.code, 2);
        assert!(run.err.contains("--cluster"), "{}", run.err);
    }
}

#[test]
fn an_explanation_is_about_the_cluster() {
    let objects = [set("logs", "logs:1", &json!({})), set("traces", "traces:1", &for_team("a")), namespace("b")];
    let server = ApiServer::start(&objects, |_| {});
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    let run = run(folder.path(), &["explain", "-", "--cluster", "-o", "json"], &[app()]);
    assert_eq!(run.code, 0, "{}", run.err);
    let text = run.json().to_string();
    assert!(text.contains("\"logs\"") && text.contains("\"traces\"") && text.contains("team"), "{text}");
}

/// They were accepted by an earlier version, or without a policy.
#[test]
fn val52_stored_sidecar_sets_that_clash_keep_no_preview_from_what_it_shows() {
    let setup =
        set("setup", "setup:1", &json!({"containers": [], "initContainers": [{"name": "logs", "image": "init:1"}]}));
    let objects = [set("logs", "logs:1", &json!({})), setup, namespace("a")];
    let server = ApiServer::start(&objects, |_| {});
    let (run, _) = inject(&server, "", &[app()], &[]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.err.contains("refused (403)") && run.err.contains("is also a container of SidecarSet"), "{}", run.err);
    let (run, images) = inject(&server, "", &[app_with("/metadata/labels/app", "other")], &[]);
    assert_eq!((run.code, images), (0, vec![]), "{}", run.err);
    // One that is written is refused.
    let mut new = set("new", "new:1", &json!({"containers": [{"name": "logs", "image": "new:1"}]}));
    new["metadata"].as_object_mut().unwrap().remove("uid");
    let (run, _) = inject(&server, "", &[app(), new], &[]);
    assert_eq!(run.code, 2, "{}", run.err);
}

#[test]
fn sidecar_sets_of_the_cluster_are_checked() {
    let broken = set("broken", "broken:1", &json!({"containers": [{"name": "broken", "image": 5}]}));
    let objects = [set("logs", "logs:1", &json!({})), broken, namespace("a")];
    let server = ApiServer::start(&objects, |_| {});
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    let found = run(folder.path(), &["check", "--cluster"], &[]);
    assert_eq!(found.code, 1, "{}", found.err);
    assert!(found.out.contains("cluster/SidecarSet/broken"), "{}", found.out);
    assert!(found.err.contains("2 SidecarSets"), "{}", found.err);
    // A given SidecarSet replaces the cluster's.
    let right = set("broken", "broken:1", &json!({}));
    let found = run(folder.path(), &["check", "-", "--cluster"], &[right]);
    assert_eq!(found.code, 0, "{}{}", found.out, found.err);
    assert!(found.err.contains("2 SidecarSets"), "{}", found.err);
}

/// A HorizontalPodAutoscaler, a ResourceQuota and a Deployment of the namespace `shop`, whose Pods get `logs`.
fn judged() -> [Value; 3] {
    let mut scaler = object("autoscaling/v2", "HorizontalPodAutoscaler", Some("shop"), "web");
    scaler["spec"] = json!({"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 5});
    let mut quota = object("v1", "ResourceQuota", Some("shop"), "q");
    quota["spec"] = json!({"hard": {"requests.memory": "10Gi"}});
    let resources = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
    let mut workload = object("apps/v1", "Deployment", Some("shop"), "web");
    workload["spec"] = json!({
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1", "resources": resources}]},
        },
    });
    [scaler, quota, workload]
}

#[test]
fn autoscalers_and_quotas_of_the_cluster_count_for_the_workloads_that_are_given() {
    let [scaler, quota, workload] = judged();
    let mut elsewhere = quota.clone();
    elsewhere["metadata"]["namespace"] = "other".into();
    let objects = [set("logs", "logs:1", &json!({})), namespace("a"), scaler, quota.clone(), elsewhere];
    let server = ApiServer::start(&objects, |_| {});
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    let found = run(folder.path(), &["check", "-", "--cluster"], std::slice::from_ref(&workload));
    assert_eq!(found.code, 0, "{}{}", found.out, found.err);
    for expected in ["warning[missing-request]", "HorizontalPodAutoscaler \"shop/web\"", "ResourceQuota \"shop/q\""] {
        assert!(found.out.contains(expected), "{expected}: {}", found.out);
    }
    assert!(server.requests().iter().all(|request| !request.contains("/namespaces/other/")), "{:?}", server.requests());
    // A document wins over the object of its name.
    let mut lifted = quota;
    lifted["spec"] = json!({"hard": {"pods": "5"}});
    let found = run(folder.path(), &["check", "-", "--cluster"], &[workload, lifted]);
    assert!(!found.out.contains("warning[resource-quota]"), "{}", found.out);
    // Without a workload, none is read.
    let before = server.requests().len();
    let found = run(folder.path(), &["check", "--cluster"], &[]);
    assert_eq!(found.code, 0, "{}{}", found.out, found.err);
    let requests = server.requests().split_off(before);
    assert!(requests.iter().all(|request| !request.contains("resourcequotas")), "{requests:?}");
}

#[test]
fn a_missing_right_to_list_autoscalers_is_a_note() {
    let [scaler, quota, workload] = judged();
    let objects = [set("logs", "logs:1", &json!({})), namespace("a"), scaler, quota];
    let server = ApiServer::start(&objects, forbidding(&["/horizontalpodautoscalers"]));
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    let found = run(folder.path(), &["check", "-", "--cluster"], &[workload]);
    assert_eq!(found.code, 0, "{}{}", found.out, found.err);
    assert!(found.out.contains("ResourceQuota \"shop/q\"") && !found.out.contains("missing-request"), "{}", found.out);
    let note = "note: HorizontalPodAutoscalers of the namespace shop do not count: the cluster does not allow to list";
    assert!(found.err.contains(note) && found.err.contains("horizontalpodautoscalers.autoscaling"), "{}", found.err);
}

#[test]
fn policies_of_the_cluster_are_checked_unless_settings_are_given() {
    let policy = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy", "metadata": {"name": "pillion"},
        "spec": {"module": "registry://registry.example.com/pillion:v1", "settings": {"bundel": 1}, "mutating": true, "rules": []}
    });
    let server = ApiServer::start(&[policy], |_| {});
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    let found = run(folder.path(), &["check", "--cluster"], &[]);
    assert_eq!(found.code, 1, "{}{}", found.out, found.err);
    assert!(found.out.contains("bundel"), "{}", found.out);
    fs::write(folder.path().join("settings.yaml"), GATE).unwrap();
    let found = run(folder.path(), &["check", "--cluster", "--settings", "settings.yaml"], &[]);
    assert_eq!(found.code, 0, "{}{}", found.out, found.err);
}

#[test]
fn a_cluster_without_the_definition_has_nothing_to_check() {
    let server = ApiServer::start(&[], |state| state.has_no_definition = true);
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    let found = run(folder.path(), &["check", "--cluster"], &[]);
    assert_eq!((found.code, found.out.as_str()), (2, ""), "{}", found.err);
    assert!(found.err.contains("the cluster has no SidecarSets"), "{}", found.err);
    fs::write(folder.path().join("settings.yaml"), GATE).unwrap();
    let found = run(folder.path(), &["check", "--cluster", "--settings", "settings.yaml"], &[]);
    assert_eq!(found.code, 0, "{}", found.err);
    assert!(found.err.contains(&format!("note: {NO_DEFINITION}\n")), "{}", found.err);
}

#[test]
fn a_plan_for_a_cluster_without_the_definition_says_so() {
    let server = ApiServer::start(&[], |state| state.has_no_definition = true);
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    fs::write(folder.path().join("settings.yaml"), "{}\n").unwrap();
    let args = ["plan", "--cluster", "--settings", "settings.yaml"];
    let plan = run(folder.path(), &args, &[]);
    assert_eq!((plan.code, plan.out.as_str(), plan.err), (2, "", format!("error: {NO_DEFINITION}\n")));
    // The settings may have SidecarSets of their own.
    fs::write(folder.path().join("settings.yaml"), WITH_OWN).unwrap();
    let plan = run(folder.path(), &args, &[]);
    assert!(plan.err.starts_with(&format!("warning: {NO_DEFINITION}\n")), "{}", plan.err);
    for text in ["deserializing", "page not found", "could not be read"] {
        assert!(!plan.err.contains(text) && !plan.out.contains(text), "{text}: {}{}", plan.out, plan.err);
    }
}

#[test]
fn a_kubeconfig_that_cannot_be_read_is_told_once() {
    let says =
        "error: no cluster: the kubeconfig /nonexistent cannot be read: No such file or directory (os error 2)\n";
    for args in
        [&["status"][..], &["status", "--kubeconfig", "/nonexistent"], &["plan", "--cluster", "--settings", "s"]]
    {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("s"), "{}\n").unwrap();
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_pillion"));
        command.current_dir(folder.path()).env("KUBECONFIG", "/nonexistent").env_remove("KUBERNETES_SERVICE_HOST");
        let output = command.args(args).output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(2), says));
    }
}

/// Settings with SidecarSet `own`, which has an account and merges, and with a `bundleRef`.
const WITH_OWN: &str = "
sidecarSets:
- apiVersion: apps.kruise.io/v1beta1
  kind: SidecarSet
  metadata: {name: own}
  spec:
    selector: {matchLabels: {app: web}}
    containers: [{name: own, image: 'own:1'}]
    serviceAccountName: own
    behaviorWhenServiceAccountInjection: Merge
";

#[rstest]
#[case::of_the_cluster(true)]
#[case::given(false)]
fn trust2_a_preview_knows_where_a_sidecar_set_was_written(#[case] is_stored: bool) {
    let merging = json!({"serviceAccountName": "logs", "behaviorWhenServiceAccountInjection": "Merge"});
    let sets = [set("logs", "logs:1", &merging)];
    let (stored, given) = if is_stored { (&sets[..], &[][..]) } else { (&[][..], &sets[..]) };
    let server = ApiServer::start(&[&[account("own"), account("logs")], stored].concat(), |_| {});
    let settings = [GATE, BUNDLE_REF, WITH_OWN].concat();
    let (run, images) = inject(&server, &settings, &[&[app()], given].concat(), &[]);
    assert_eq!((run.code, images.len()), (2, 0), "{}", run.err);
    let line = "\"logs\" to spec.serviceAccountPartners of SidecarSet \"own\" in the policy's settings";
    assert!(run.err.contains(line), "{}", run.err);
    // Without a bundleRef, SidecarSets in files belong to the settings.
    if !is_stored {
        let (run, _) = inject(&server, &[GATE, WITH_OWN].concat(), &[&[app()], given].concat(), &[]);
        assert!(!run.err.contains("serviceAccountPartners"), "{}", run.err);
    }
}

#[test]
fn trust4_a_preview_keeps_what_a_canary_of_the_cluster_does_not_replace() {
    let mut canary = set("canary", "canary:1", &json!({"containers": [{"name": "own", "image": "canary:1"}]}));
    canary["metadata"]["annotations"] =
        json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "own"});
    canary["spec"]["updateStrategy"] = json!({"type": "NotUpdate"});
    let server = ApiServer::start(&[account("own"), canary], |_| {});
    let settings = [GATE, BUNDLE_REF, WITH_OWN].concat();
    let (run, images) = inject(&server, &settings, &[app()], &[]);
    assert_eq!((run.code, images), (0, vec!["own:1".to_owned()]), "{}", run.err);
    assert!(run.err.contains("SidecarSet \"canary\" of the cluster is left out"), "{}", run.err);
}

#[test]
fn match8_a_canary_of_the_cluster_replaces_its_base_there() {
    let mut canary = set("canary", "canary:1", &json!({"updateStrategy": {"type": "NotUpdate"}}));
    canary["metadata"]["annotations"] =
        json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "logs"});
    let server = ApiServer::start(&[set("logs", "logs:1", &json!({})), canary], |_| {});
    let (run, images) = inject(&server, "", &[app()], &[]);
    assert_eq!((run.code, images), (0, vec!["canary:1".to_owned()]), "{}", run.err);
}

/// The webhook for Pods of an installation, which leaves out kube-system and Pods with the label `pillion=off`.
fn webhook_configuration() -> Value {
    let mut configuration = object("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", None, "pillion");
    configuration["metadata"]["labels"] = json!({"app.kubernetes.io/part-of": "pillion"});
    let not_in =
        |key: &str, value: &str| json!({"matchExpressions": [{"key": key, "operator": "NotIn", "values": [value]}]});
    configuration["webhooks"] = json!([{
        "name": "pods.pillion.dev",
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        "namespaceSelector": not_in("kubernetes.io/metadata.name", "kube-system"),
        "objectSelector": not_in("pillion", "off"),
    }]);
    configuration
}

const BY_WEBHOOK: &str = "excluded by MutatingWebhookConfiguration pillion (webhook pods.pillion.dev)";

#[rstest]
#[case::by_the_namespace(
    app_with("/metadata/namespace", "kube-system"),
    "Pod kube-system/web: not asked: namespace \"kube-system\" is "
)]
#[case::by_its_labels(
    app_with("/metadata/labels/pillion", "off"),
    "Pod shop/web: not asked: the labels of the Pod are "
)]
fn a_pod_that_the_webhooks_exclude_is_not_asked_about(#[case] pod: Value, #[case] says: &str) {
    // The sidecar's account is missing, so the policy would refuse the Pod.
    let logs = set("logs", "logs:1", &json!({"serviceAccountName": "logs"}));
    let server = ApiServer::start(&[logs, webhook_configuration(), namespace("a")], |_| {});
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    fs::write(folder.path().join("settings.yaml"), GATE).unwrap();
    let args = ["explain", "-", "--cluster", "--settings", "settings.yaml"];
    let text = run(folder.path(), &args, std::slice::from_ref(&pod));
    assert_eq!(text.code, 0, "{}{}", text.out, text.err);
    assert!(text.out.starts_with(&format!("{says}{BY_WEBHOOK}\n  webhooks[0].")), "{}", text.out);
    let told = run(folder.path(), &[&args[..], &["-o", "json"]].concat(), std::slice::from_ref(&pod)).json();
    assert_eq!((&told[0]["verdict"], &told[0]["policy"][0]["reason"]), (&json!("NotAsked"), &json!("NotAsked")));
    let (injected, images) = inject(&server, GATE, std::slice::from_ref(&pod), &[]);
    assert_eq!((injected.code, images.len()), (0, 0), "{}", injected.err);
    assert!(injected.err.contains(&format!("{says}{BY_WEBHOOK}\n")), "{}", injected.err);
    // Another Pod is judged as before.
    let (injected, _) = inject(&server, GATE, &[app()], &[]);
    assert_eq!(injected.code, 1, "{}", injected.err);
}

fn app_with(pointer: &str, value: &str) -> Value {
    let mut app = app();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    app.pointer_mut(parent).unwrap()[key] = value.into();
    app
}

#[rstest]
#[case::forbidden(&["/mutatingwebhookconfigurations"], &[webhook_configuration()],
    "note: whether the API server asks Pillion about a Pod is not known: the cluster does not allow to list MutatingWebhookConfigurations")]
#[case::none(&[], &[], "note: no webhook of the cluster asks Pillion about new Pods")]
fn without_webhooks_each_pod_is_judged_with_a_note(
    #[case] forbidden: &'static [&'static str],
    #[case] more: &[Value],
    #[case] note: &str,
) {
    let objects = [&[set("logs", "logs:1", &json!({}))], more].concat();
    let server = ApiServer::start(&objects, forbidding(forbidden));
    let (run, images) = inject(&server, "", &[app_with("/metadata/namespace", "kube-system")], &[]);
    assert_eq!((run.code, images), (0, vec!["logs:1".to_owned()]), "{}", run.err);
    assert!(run.err.contains(note), "{}", run.err);
}

/// A server's Deployment, the ConfigMap with its settings, and the binding that an administrator has created with them.
fn installed(settings: &str) -> [Value; 3] {
    let mut deployment = object("apps/v1", "Deployment", Some("ops"), "pillion");
    deployment["metadata"]["labels"] = json!({"app.kubernetes.io/part-of": "pillion"});
    deployment["spec"] = json!({"template": {"spec": {
        "serviceAccountName": "pillion",
        "containers": [{
            "name": "pillion", "args": ["serve", "--settings=/etc/pillion/settings.yaml"],
            "volumeMounts": [{"name": "settings", "mountPath": "/etc/pillion"}]
        }],
        "volumes": [{"name": "settings", "configMap": {"name": "pillion-settings"}}]
    }}});
    let mut config_map = object("v1", "ConfigMap", Some("ops"), "pillion-settings");
    config_map["data"] = json!({"settings.yaml": settings});
    let mut binding = object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", None, "pillion");
    binding["metadata"]["labels"] = json!({"app.kubernetes.io/part-of": "pillion"});
    binding["subjects"] = json!([{"kind": "ServiceAccount", "name": "pillion", "namespace": "ops"}]);
    [deployment, config_map, binding]
}

#[test]
fn the_settings_are_those_of_the_installation_unless_others_are_given() {
    // Only with the gate of the installation does the missing account count.
    let logs = set("logs", "logs:1", &json!({"serviceAccountName": "logs"}));
    let objects = [&[logs][..], &installed(GATE)].concat();
    let server = ApiServer::start(&objects, |_| {});
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    fs::write(folder.path().join("settings.yaml"), "{}\n").unwrap();
    for command in ["inject", "explain"] {
        let own = run(folder.path(), &[command, "-", "--cluster"], &[app()]);
        assert_eq!(own.code, 1, "{command}: {}", own.err);
        assert!(own.err.contains("settings: ConfigMap ops/pillion-settings\n"), "{command}: {}", own.err);
        let given = run(folder.path(), &[command, "-", "--cluster", "--settings", "settings.yaml"], &[app()]);
        assert_eq!(given.code, 0, "{command}: {}", given.err);
        assert!(!given.err.contains("settings: ConfigMap"), "{command}: {}", given.err);
    }
    let checked = run(folder.path(), &["check", "--cluster"], &[]);
    assert!(checked.err.contains("settings: ConfigMap ops/pillion-settings\n"), "{}", checked.err);
    assert!(checked.err.contains("1 settings file, 1 SidecarSet"), "{}", checked.err);
}

#[test]
fn without_an_installation_the_default_settings_count() {
    let server = ApiServer::start(&[set("logs", "logs:1", &json!({"serviceAccountName": "logs"}))], |_| {});
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    let run = run(folder.path(), &["explain", "-", "--cluster"], &[app()]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("note: Pillion is not installed in the cluster"), "{}", run.err);
}
