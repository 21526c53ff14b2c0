//! `pillion uninstall` and `pillion probe` in front of an API server that has one definition of SidecarSets.
//! `cluster::uninstall` runs them on a real one.

use std::sync::Arc;

use parking_lot::Mutex;
use pillion_install::rendering::crd::{self, Conversion};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::api_server::write_kubeconfig;
use crate::support::{http, pillion};

/// What the API server has, and how it answers.
#[derive(Clone, Default)]
struct ClusterState {
    definition: Option<Value>,
    /// How many patches are refused because the definition has changed.
    conflicts: usize,
    /// The sidecar that new Pods get, and the refusals before that.
    sidecar: Option<&'static str>,
    refusals: Vec<&'static str>,
    /// The method that is forbidden.
    forbidden: &'static str,
    requests: Vec<String>,
}

struct ApiServer {
    state: Arc<Mutex<ClusterState>>,
    folder: tempfile::TempDir,
}

impl ApiServer {
    fn start(state: ClusterState) -> Self {
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let address = http::start(move |request, body| answer(&mut shared.lock(), request, body));
        let folder = tempfile::tempdir().unwrap();
        write_kubeconfig(folder.path(), &address);
        Self { state, folder }
    }

    /// Runs the command. Returns its exit code and its output.
    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let run = pillion(self.folder.path(), &[args, &["--kubeconfig", "kubeconfig"]].concat(), "");
        (run.code, run.out, run.err)
    }

    fn uninstall(&self) -> (i32, String, String) {
        self.run(&["uninstall", "--without", "merged-objects,own-objects"])
    }

    fn patches(&self) -> usize {
        self.state.lock().requests.iter().filter(|request| request.starts_with("PATCH")).count()
    }
}

fn refused(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message});
    (code, status)
}

fn answer(state: &mut ClusterState, request: &str, body: &[u8]) -> (u16, Value) {
    let method = request.split(' ').next().unwrap();
    state.requests.push(request.to_owned());
    if method == state.forbidden {
        return refused(403, "Forbidden", "no");
    }
    if method == "POST" {
        assert!(request.contains("/namespaces/shop/pods?") && request.contains("dryRun=All"), "{request}");
        if let Some(message) = state.refusals.pop() {
            return refused(403, "Forbidden", message);
        }
        let mut pod: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(pod["metadata"]["labels"], json!({"app": "web"}));
        if let Some(name) = state.sidecar {
            pod["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": name}));
        }
        return (201, pod);
    }
    let Some(definition) = &mut state.definition else { return refused(404, "NotFound", "not found") };
    if method == "PATCH" {
        let patch: json_patch::Patch = serde_json::from_slice(body).unwrap();
        if state.conflicts > 0 {
            state.conflicts -= 1;
            return refused(409, "Conflict", "the object has been modified");
        }
        json_patch::patch(definition, &patch).unwrap();
        let version: u64 = definition["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        definition["metadata"]["resourceVersion"] = (version + 1).to_string().into();
        let managed = definition["metadata"]["managedFields"].as_array_mut().unwrap();
        // The API server notes the owner of what a patch changes; a patch of the notes alone changes nothing.
        if !String::from_utf8_lossy(body).contains("managedFields") {
            managed.push(json!({"manager": "pillion-uninstall", "operation": "Update"}));
        }
    }
    (200, definition.clone())
}

fn definition(service: &str, namespace: &str) -> Value {
    let client = json!({"service": {"name": service, "namespace": namespace, "path": "/convert"}});
    let mut object = crd::document("pillion", &Conversion::Webhook(client), &Value::Null).object;
    object["metadata"]["resourceVersion"] = "7".into();
    object["metadata"]["managedFields"] = json!([{"manager": "helm", "operation": "Apply"}]);
    object
}

fn ours() -> ClusterState {
    ClusterState { definition: Some(definition("pillion", "pillion-system")), ..ClusterState::default() }
}

#[test]
fn the_conversion_of_an_own_server_ends_and_the_command_owns_nothing() {
    let server = ApiServer::start(ours());
    let (code, out, err) = server.uninstall();
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("no longer calls the Service pillion-system/pillion for conversion"), "{out}");
    let after = server.state.lock().definition.clone().unwrap();
    let wanted = crd::document("pillion", &Conversion::None, &Value::Null).object;
    assert_eq!(json_patch::diff(&after["spec"], &wanted["spec"]).to_string(), "[]");
    assert_eq!(after["metadata"]["managedFields"], json!([{"manager": "helm", "operation": "Apply"}]));
    assert_eq!(server.patches(), 2);

    let (code, out, _) = server.uninstall();
    assert!(code == 0 && out.contains("left as it is: it has no conversion webhook"), "{out}");
    assert_eq!(server.patches(), 2, "doing it again writes nothing");
}

#[test]
fn a_cluster_without_the_definition_has_nothing_to_do() {
    let server = ApiServer::start(ClusterState::default());
    let (code, out, err) = server.uninstall();
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, "CustomResourceDefinition sidecarsets.apps.kruise.io: not there\n");
}

#[test]
fn the_definition_of_openkruise_stays() {
    let definition = definition("kruise-webhook-service", "kruise-system");
    let server = ApiServer::start(ClusterState { definition: Some(definition.clone()), ..ClusterState::default() });
    let (code, out, _) = server.uninstall();
    let said = "left as it is: its conversion webhook calls the Service kruise-system/kruise-webhook-service, not the Service pillion-system/pillion";
    assert!(code == 0 && out.contains(said), "{out}");
    assert_eq!(server.state.lock().definition, Some(definition));
    assert_eq!(server.patches(), 0);
}

#[test]
fn another_installation_is_named_by_its_service() {
    let server =
        ApiServer::start(ClusterState { definition: Some(definition("sidecars", "other")), ..ClusterState::default() });
    let named =
        ["uninstall", "--without", "merged-objects,own-objects", "--service-name", "sidecars", "--namespace", "other"];
    let (code, out, _) = server.run(&named);
    assert!(code == 0 && out.contains("no longer calls the Service other/sidecars"), "{out}");
}

#[rstest]
#[case::for_a_while(3, 0)]
#[case::all_the_time(1000, 2)]
fn a_definition_that_others_change_is_read_again(#[case] conflicts: usize, #[case] code: i32) {
    let server = ApiServer::start(ClusterState { conflicts, ..ours() });
    let (found, _, err) = server.uninstall();
    assert_eq!(found, code, "{err}");
    assert_eq!(err.contains("was changed at the same time"), code != 0, "{err}");
    assert!(server.patches() < 20);
}

#[rstest]
#[case::get("GET", "the verb \"get\" on customresourcedefinitions.apiextensions.k8s.io")]
#[case::patch("PATCH", "the verb \"patch\" on customresourcedefinitions.apiextensions.k8s.io")]
fn a_missing_right_is_named(#[case] forbidden: &'static str, #[case] said: &str) {
    let server = ApiServer::start(ClusterState { forbidden, ..ours() });
    let (code, out, err) = server.uninstall();
    assert!(code == 2 && out.is_empty() && err.contains(said), "{err}");
}

/// A part that fails does not keep the other from being done.
#[test]
fn each_part_is_done_for_itself() {
    // The server has no lists, so that merged objects cannot be read.
    let server = ApiServer::start(ours());
    let (code, out, err) = server.run(&["uninstall"]);
    assert!(code == 2 && out.contains("no longer calls") && err.contains("merged objects: "), "{out}{err}");
}

#[rstest]
#[case::gets_it(Some("log-agent"), &[], 0, "a Pod in namespace shop gets the container log-agent")]
#[case::gets_another(Some("other"), &[], 1, "a Pod in namespace shop does not get the container log-agent; it has probe, other")]
#[case::gets_none(None, &[], 1, "a Pod in namespace shop does not get the container log-agent; it has probe")]
#[case::after_a_while(Some("log-agent"), &["pods is forbidden: error looking up service account shop/default: not found"], 0, "gets the container")]
#[case::refused(Some("log-agent"), &["admission webhook \"a\" denied the request: no"; 9], 1, "the cluster refuses the Pod: admission webhook")]
#[case::without_the_right(Some("log-agent"), &["User cannot create pods"], 2, "the verb \"create\" on pods")]
fn a_probe_tells_whether_a_pod_gets_its_sidecar(
    #[case] sidecar: Option<&'static str>,
    #[case] refusals: &[&'static str],
    #[case] code: i32,
    #[case] said: &str,
) {
    let server = ApiServer::start(ClusterState { sidecar, refusals: refusals.to_vec(), ..ClusterState::default() });
    let probe = ["probe", "log-agent", "--namespace", "shop", "--label", "app=web", "--timeout", "3s"];
    let (found, out, err) = server.run(&probe);
    assert_eq!(found, code, "{out}{err}");
    assert!([out, err].concat().contains(said), "{said}");
}
