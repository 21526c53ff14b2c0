//! The commands that change a SidecarSet of a cluster, as users run them.

mod probe;
mod restart;
mod undo;

use pillion_cluster::NO_DEFINITION;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::api_server::{ApiServer, ServerState};
use crate::support::{self, Run};

/// The path of the SidecarSet.
const SET: &str = "/apis/apps.kruise.io/v1beta1/sidecarsets/log-agent";

/// Returns the SidecarSet `log-agent`, with these changes as a JSON Merge Patch.
fn set(changes: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
        "metadata": {
            "name": "log-agent", "uid": "set-uid", "generation": 4, "resourceVersion": "17",
            "annotations": {"kruise.io/sidecarset-hash": "new"},
        },
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "log-agent", "image": "log-agent:v2"}],
            "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": 1},
        },
    });
    json_patch::merge(&mut set, changes);
    set
}

/// Runs a command on the cluster of a server.
fn run(server: &ApiServer, args: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    support::pillion(folder.path(), &[args, &["--kubeconfig", "kubeconfig"]].concat(), "")
}

fn with_set(changes: &Value) -> ApiServer {
    ApiServer::start(&[set(changes)], |_| {})
}

#[rstest]
#[case::pause(&["rollout", "pause", "log-agent"], json!({}), "paused", json!({"paused": true}))]
#[case::resume(&["rollout", "resume", "log-agent"], json!({"updateStrategy": {"paused": true}}), "resumed", json!({"paused": false}))]
#[case::without_a_strategy(&["rollout", "pause", "log-agent"], json!({"updateStrategy": null}), "paused", json!({"paused": true}))]
#[case::a_number(&["set", "partition", "log-agent", "3"], json!({}), "partition updated", json!({"partition": 3}))]
#[case::a_percentage(&["set", "max-unavailable", "log-agent", "10%"], json!({}), "max-unavailable updated", json!({"maxUnavailable": "10%"}))]
fn a_field_is_set(#[case] args: &[&str], #[case] spec: Value, #[case] done: &str, #[case] expected: Value) {
    for (dry, end) in [("none", ""), ("client", " (dry run)"), ("server", " (server dry run)")] {
        let server = with_set(&json!({"spec": spec}));
        let before = server.object(SET);
        let run = run(&server, &[args, &["--dry-run", dry]].concat());
        assert_eq!((run.code, run.err.as_str()), (0, ""));
        assert_eq!(run.out, format!("sidecarset.apps.kruise.io/log-agent {done}{end}\n"));
        let after = server.object(SET);
        if dry == "none" {
            let mut wanted = before.clone();
            json_patch::merge(&mut wanted, &json!({"spec": {"updateStrategy": expected}}));
            assert_eq!(after, wanted);
        } else {
            assert_eq!(after, before, "{dry}");
        }
        let sent = server.writes();
        assert_eq!(sent.len(), usize::from(dry != "client"), "{sent:?}");
        assert!(
            sent.iter().all(|sent| sent.contains("fieldManager=kubectl-pillion") && sent.contains("set-uid")),
            "{sent:?}"
        );
    }
}

#[rstest]
#[case::paused(&["rollout", "pause"], "already paused", json!({"paused": true}))]
#[case::not_paused(&["rollout", "resume"], "not paused", json!({}))]
fn what_is_so_already_is_said(#[case] args: &[&str], #[case] said: &str, #[case] strategy: Value) {
    let server = with_set(&json!({"spec": {"updateStrategy": strategy}}));
    let run = run(&server, &[args, &["log-agent"]].concat());
    assert_eq!((run.code, run.out), (0, format!("sidecarset.apps.kruise.io/log-agent {said}\n")));
    assert_eq!(server.writes(), [""; 0]);
}

#[test]
fn the_same_value_changes_nothing() {
    let server = with_set(&json!({}));
    let run = run(&server, &["set", "max-unavailable", "log-agent", "1"]);
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, "sidecarset.apps.kruise.io/log-agent max-unavailable updated (no change)\n")
    );
    assert_eq!(server.writes(), [""; 0]);
}

#[test]
fn a_cluster_with_the_old_version_alone_is_served() {
    let old = set(&json!({"apiVersion": "apps.kruise.io/v1alpha1"}));
    let server = ApiServer::start(&[old], |_| {});
    let run = run(&server, &["rollout", "pause", "log-agent"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let stored = server.object("/apis/apps.kruise.io/v1alpha1/sidecarsets/log-agent");
    assert_eq!(stored["spec"]["updateStrategy"]["paused"], true);
}

#[rstest]
#[case::name(&["-o", "name"], "sidecarset.apps.kruise.io/log-agent\n")]
#[case::sentence(&[], "sidecarset.apps.kruise.io/log-agent paused\n")]
fn the_output_is_kubectls(#[case] more: &[&str], #[case] expected: &str) {
    let run = run(&with_set(&json!({})), &[&["rollout", "pause", "log-agent"], more].concat());
    assert_eq!(run.out, expected);
}

#[test]
fn the_object_is_printed_without_managed_fields() {
    let managed = json!({"metadata": {"managedFields": [{"manager": "kubectl"}]}});
    for format in ["json", "yaml"] {
        let run = run(&with_set(&managed), &["rollout", "pause", "log-agent", "-o", format, "--dry-run=client"]);
        let printed: Value = serde_saphyr::from_str(&run.out).unwrap();
        assert_eq!(printed["spec"]["updateStrategy"]["paused"], true);
        assert_eq!(printed["metadata"].get("managedFields"), None);
    }
}

#[rstest]
#[case::with_a_selector(&["partition", "log-agent", "3"], json!({"selector": {"matchLabels": {"a": "b"}}}), "partition and selector cannot be used together")]
#[case::negative(&["max-unavailable", "log-agent", "-1"], json!({}), "must not be negative")]
#[case::negative_percentage(&["partition", "log-agent", "-5%"], json!({}), "spec.updateStrategy.partition")]
fn a_value_that_admission_refuses_is_not_sent(#[case] args: &[&str], #[case] strategy: Value, #[case] expected: &str) {
    let server = with_set(&json!({"spec": {"updateStrategy": strategy}}));
    let run = run(&server, &[&["set"], args].concat());
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{}", run.err);
    assert!(run.err.contains(expected), "{}", run.err);
    assert_eq!(server.writes(), [""; 0]);
}

#[rstest]
#[case::of_the_partition(&["partition", "log-agent", "500%"], "spec.updateStrategy.partition: 500% is more than all Pods")]
#[case::of_the_maximum(&["max-unavailable", "log-agent", "101%"], "spec.updateStrategy.maxUnavailable: 101% is more than all Pods")]
fn more_than_all_pods_are_refused(#[case] args: &[&str], #[case] expected: &str) {
    let server = with_set(&json!({}));
    let run = run(&server, &[&["set"], args].concat());
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{}", run.err);
    assert!(run.err.contains(expected), "{}", run.err);
    assert_eq!(server.writes(), [""; 0]);
}

#[rstest]
#[case::everything_kept(&["partition", "log-agent", "100%"], "with partition 100%, every running Pod keeps its version, so the rollout stops")]
#[case::as_many_as_there_are(&["partition", "log-agent", "4"], "so the rollout stops: the SidecarSet has 4 Pods; a lower value goes on")]
#[case::none_unavailable(&["max-unavailable", "log-agent", "0"], "with maxUnavailable 0, no Pod that is ready is upgraded, so the rollout stops")]
#[case::none_in_a_hundred(&["max-unavailable", "log-agent", "0%"], "with maxUnavailable 0%, no Pod that is ready is upgraded")]
fn roll34_roll35_a_value_that_stops_the_rollout_is_told(#[case] args: &[&str], #[case] expected: &str) {
    let server = with_set(&json!({"status": {"matchedPods": 4}}));
    let run = run(&server, &[&["set"], args].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.starts_with("warning: ") && run.err.contains(expected), "{}", run.err);
    assert_eq!(server.writes().len(), 1);
}

#[rstest]
#[case::some_kept(&["partition", "log-agent", "3"])]
#[case::half(&["partition", "log-agent", "50%"])]
#[case::at_once(&["max-unavailable", "log-agent", "100%"])]
fn a_value_with_which_the_rollout_goes_on_needs_no_word(#[case] args: &[&str]) {
    let run = run(&with_set(&json!({"status": {"matchedPods": 4}})), &[&["set"], args].concat());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
}

#[test]
fn a_cluster_without_the_definition_says_so() {
    for args in GUARDED.iter().chain(&[&["rollout", "restart", "log-agent"][..], &["rollout", "resume", "log-agent"]]) {
        let server = ApiServer::start(&[], |state| state.has_no_definition = true);
        let run = run(&server, args);
        assert_eq!((run.code, run.out, run.err), (2, String::new(), format!("error: {NO_DEFINITION}\n")), "{args:?}");
    }
}

#[test]
fn a_value_that_is_no_amount_is_a_mistake() {
    let run = run(&with_set(&json!({})), &["set", "partition", "log-agent", "many"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("neither an integer nor a percentage"), "{}", run.err);
}

#[test]
fn a_set_that_leaves_running_pods_alone_is_told() {
    let run = run(
        &with_set(&json!({"spec": {"updateStrategy": {"type": "NotUpdate"}}})),
        &["set", "partition", "log-agent", "3"],
    );
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("NotUpdate"), "{}", run.err);
}

/// Commands that write, and that a tool which owns the SidecarSet stops.
const GUARDED: [&[&str]; 4] = [
    &["rollout", "undo", "log-agent"],
    &["rollout", "pause", "log-agent"],
    &["set", "partition", "log-agent", "3"],
    &["set", "max-unavailable", "log-agent", "3"],
];

#[rstest]
#[case::argo_cd(json!({"annotations": {"argocd.argoproj.io/tracking-id": "a"}}), &["Argo CD", "annotation argocd.argoproj.io/tracking-id", "change it in Git"])]
#[case::flux(json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "a"}}), &["Flux", "change it in Git"])]
#[case::helm(json!({"annotations": {"meta.helm.sh/release-name": "a"}}), &["Helm", "values of the release"])]
fn a_set_of_a_git_ops_tool_is_changed_only_by_force(#[case] metadata: Value, #[case] expected: &[&str]) {
    for args in GUARDED {
        let server =
            ApiServer::start(&[set(&json!({"metadata": metadata})), undo::revision(1, "log-agent:v1")], |_| {});
        let refused = run(&server, args);
        assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{}", refused.err);
        for expected in expected.iter().chain(&["--force"]) {
            assert!(refused.err.contains(expected), "{expected}: {}", refused.err);
        }
        assert_eq!(server.writes(), [""; 0]);
        let forced = run(&server, &[args, &["--force"]].concat());
        assert_eq!((forced.code, server.writes().len()), (0, 1), "{}", forced.err);
    }
}

fn refusing(start: &'static str, code: u16, message: &'static str) -> impl FnOnce(&mut ServerState) {
    move |state| state.refused.push((start, code, message))
}

#[rstest]
#[case::read_forbidden("GET /apis/apps.kruise.io", 403, "User \"jane\" may not do that", 2, &["get SidecarSet log-agent", "the verb \"get\" on sidecarsets.apps.kruise.io"])]
#[case::write_forbidden("PATCH", 403, "User \"jane\" may not do that", 2, &["patch SidecarSet log-agent", "the verb \"patch\" on sidecarsets.apps.kruise.io"])]
#[case::refused_by_a_webhook("PATCH", 403, "admission webhook \"pillion\" denied the request: no", 1, &["refuses to change SidecarSet log-agent", "denied the request: no"])]
#[case::refused_by_a_policy("PATCH", 422, "ValidatingAdmissionPolicy 'p' denied request: no", 1, &["refuses to change", "denied request: no"])]
#[case::conflict("PATCH", 409, "the object has been modified", 1, &["was changed at the same time", "run the command again"])]
#[case::failing("PATCH", 500, "etcdserver: request timed out", 2, &["could not patch SidecarSet log-agent", "request timed out"])]
#[case::gone("PATCH", 404, "not found", 2, &["SidecarSet log-agent does not exist"])]
fn a_request_that_fails_is_told(
    #[case] start: &'static str,
    #[case] code: u16,
    #[case] message: &'static str,
    #[case] expected: i32,
    #[case] texts: &[&str],
) {
    for args in GUARDED {
        let objects = [set(&json!({})), undo::revision(1, "log-agent:v1")];
        let server = ApiServer::start(&objects, refusing(start, code, message));
        let run = run(&server, args);
        assert_eq!((run.code, run.out.as_str()), (expected, ""), "{args:?}: {}", run.err);
        for text in texts {
            assert!(run.err.contains(text), "{args:?}: {text}: {}", run.err);
        }
    }
}

#[test]
fn an_edit_at_the_same_time_is_not_overwritten() {
    for args in GUARDED {
        let objects = [set(&json!({})), undo::revision(1, "log-agent:v1")];
        let edit = json!([{"op": "replace", "path": "/metadata/generation", "value": 5}]);
        let server = ApiServer::start(&objects, |state| state.in_between = Some((SET.to_owned(), edit)));
        let before = server.object(SET)["spec"].clone();
        let run = run(&server, args);
        assert_eq!(run.code, 1, "{args:?}: {}", run.err);
        assert!(run.err.contains("changed at the same time"), "{}", run.err);
        assert_eq!(server.object(SET)["spec"], before);
    }
}

#[test]
fn a_set_that_does_not_exist_is_an_error() {
    for args in GUARDED.iter().chain(&[&["rollout", "restart", "log-agent"][..]]) {
        let run = run(&ApiServer::start(&[], |_| {}), args);
        assert_eq!((run.code, run.out.as_str()), (2, ""));
        assert_eq!(run.err, "error: SidecarSet log-agent does not exist in the cluster\n");
    }
}
