//! `pillion uninstall` and `pillion probe` in front of an API server that has one definition of SidecarSets.
//! `cluster::uninstall` runs them on a real one.

use pillion_install::rendering::crd::{self, Conversion};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::api_server::{ApiServer, ServerState};
use crate::support::pillion;

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/sidecarsets.apps.kruise.io";

/// Runs the command. Returns its exit code and its output.
fn run(server: &ApiServer, args: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    let run = pillion(folder.path(), &[args, &["--kubeconfig", "kubeconfig"]].concat(), "");
    (run.code, run.out, run.err)
}

fn uninstall(server: &ApiServer) -> (i32, String, String) {
    run(server, &["uninstall", "--without", "merged-objects,own-objects"])
}

fn definition(service: &str, namespace: &str) -> Value {
    let client = json!({"service": {"name": service, "namespace": namespace, "path": "/convert"}});
    let mut object = crd::document("pillion", &Conversion::Webhook(client), &Value::Null).object;
    object["metadata"]["resourceVersion"] = "7".into();
    object["metadata"]["managedFields"] = json!([{"manager": "helm", "operation": "Apply"}]);
    object
}

/// Returns a server with the definition of our own installation.
fn ours(edit: impl FnOnce(&mut ServerState)) -> ApiServer {
    ApiServer::start(&[definition("pillion", "pillion-system")], edit)
}

#[test]
fn the_conversion_of_an_own_server_ends_and_the_command_owns_nothing() {
    let server = ours(|_| {});
    let (code, out, err) = uninstall(&server);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("no longer calls the Service pillion-system/pillion for conversion"), "{out}");
    let after = server.object(DEFINITION);
    let wanted = crd::document("pillion", &Conversion::None, &Value::Null).object;
    assert_eq!(json_patch::diff(&after["spec"], &wanted["spec"]).to_string(), "[]");
    assert_eq!(after["metadata"]["managedFields"], json!([{"manager": "helm", "operation": "Apply"}]));
    assert_eq!(server.writes().len(), 2);

    let (code, out, _) = uninstall(&server);
    assert!(code == 0 && out.contains("left as it is: it has no conversion webhook"), "{out}");
    assert_eq!(server.writes().len(), 2, "doing it again writes nothing");
}

#[test]
fn a_cluster_without_the_definition_has_nothing_to_do() {
    let server = ApiServer::start(&[], |_| {});
    let (code, out, err) = uninstall(&server);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, "CustomResourceDefinition sidecarsets.apps.kruise.io: not there\n");
}

#[test]
fn the_definition_of_openkruise_stays() {
    let definition = definition("kruise-webhook-service", "kruise-system");
    let server = ApiServer::start(std::slice::from_ref(&definition), |_| {});
    let (code, out, _) = uninstall(&server);
    let said = "left as it is: its conversion webhook calls the Service kruise-system/kruise-webhook-service, not the Service pillion-system/pillion";
    assert!(code == 0 && out.contains(said), "{out}");
    assert_eq!(server.object(DEFINITION), definition);
    assert_eq!(server.writes().len(), 0);
}

#[test]
fn another_installation_is_named_by_its_service() {
    let server = ApiServer::start(&[definition("sidecars", "other")], |_| {});
    let named =
        ["uninstall", "--without", "merged-objects,own-objects", "--service-name", "sidecars", "--namespace", "other"];
    let (code, out, _) = run(&server, &named);
    assert!(code == 0 && out.contains("no longer calls the Service other/sidecars"), "{out}");
}

#[rstest]
#[case::for_a_while(3, 0)]
#[case::all_the_time(1000, 2)]
fn a_definition_that_others_change_is_read_again(#[case] conflicts: usize, #[case] code: i32) {
    let server = ours(|state| {
        state.refused_once.extend(vec![("PATCH", 409, "the object has been modified"); conflicts]);
    });
    let (found, _, err) = uninstall(&server);
    assert_eq!(found, code, "{err}");
    assert_eq!(err.contains("was changed at the same time"), code != 0, "{err}");
    assert!(server.writes().len() < 20);
}

#[rstest]
#[case::get("GET", "the verb \"get\" on customresourcedefinitions.apiextensions.k8s.io")]
#[case::patch("PATCH", "the verb \"patch\" on customresourcedefinitions.apiextensions.k8s.io")]
fn a_missing_right_is_named(#[case] forbidden: &'static str, #[case] said: &str) {
    let server = ours(|state| state.refused.push((forbidden, 403, "no")));
    let (code, out, err) = uninstall(&server);
    assert!(code == 2 && out.is_empty() && err.contains(said), "{err}");
}

/// A part that fails does not keep the other from being done.
#[test]
fn each_part_is_done_for_itself() {
    // The server has no lists, so that merged objects cannot be read.
    let server = ours(|_| {});
    let (code, out, err) = run(&server, &["uninstall"]);
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
    let server = ApiServer::start(&[], |state| {
        state.sidecar = sidecar;
        state.refused_once.extend(refusals.iter().map(|message| ("POST", 403, *message)));
    });
    let probe = ["probe", "log-agent", "--namespace", "shop", "--label", "app=web", "--timeout", "3s"];
    let (found, out, err) = run(&server, &probe);
    assert_eq!(found, code, "{out}{err}");
    assert!([out, err].concat().contains(said), "{said}");
    let created = server.writes();
    assert!(!created.is_empty());
    for request in created {
        assert!(
            request.starts_with("POST /api/v1/namespaces/shop/pods?") && request.contains("dryRun=All"),
            "{request}"
        );
        let (_, pod) = request.split_once(" {").unwrap();
        let pod: Value = serde_json::from_str(&format!("{{{pod}")).unwrap();
        assert_eq!(pod["metadata"]["labels"], json!({"app": "web"}));
    }
}
