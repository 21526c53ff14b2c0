//! `pillion rollout undo`.

use insta::assert_snapshot;
use rstest::rstest;
use serde_json::{Value, json};

use super::{SET, run, set};
use crate::support::api_server::ApiServer;

/// Returns a stored revision of the SidecarSet.
pub fn revision(number: i64, image: &str) -> Value {
    of_data(number, &json!({"containers": [{"name": "log-agent", "image": image}]}))
}

fn of_data(number: i64, spec: &Value) -> Value {
    let mut data = json!({
        "$patch": "replace", "containers": null, "imagePullSecrets": null, "initContainers": null,
        "patchPodMetadata": null, "volumes": null,
    });
    for (key, value) in spec.as_object().unwrap() {
        data[key] = value.clone();
    }
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number,
        "metadata": {
            "name": format!("log-agent-{number}"), "namespace": "kruise-system",
            "labels": {"kruise.io/sidecarset-name": "log-agent"},
            "ownerReferences": [{"kind": "SidecarSet", "name": "log-agent", "uid": "set-uid", "controller": true}],
        },
        "data": {"spec": data},
    })
}

fn history(more: &[Value]) -> ApiServer {
    let revisions = [revision(1, "log-agent:v0"), revision(2, "log-agent:v1"), revision(3, "log-agent:v2")];
    ApiServer::start(&[&[set(&json!({}))], &revisions[..], more].concat(), |_| {})
}

#[test]
fn rev2_the_newest_revision_that_differs_is_written() {
    let server = history(&[]);
    let run = run(&server, &["rollout", "undo", "log-agent"]);
    assert_eq!((run.code, run.out.as_str()), (0, "sidecarset.apps.kruise.io/log-agent rolled back\n"), "{}", run.err);
    assert_snapshot!("undo_shows_the_difference", run.err);
    let mut expected = set(&json!({}));
    expected["spec"]["containers"][0]["image"] = json!("log-agent:v1");
    assert_eq!(server.object(SET), expected, "nothing else is changed");
}

#[test]
fn rev2_a_revision_replaces_all_of_its_five_fields() {
    let spec = json!({"initContainers": [{"name": "i", "image": "i"}], "volumes": [{"name": "v"}]});
    let old = of_data(4, &json!({"imagePullSecrets": [{"name": "s"}], "containers": [{"name": "a", "image": "a"}]}));
    let server = ApiServer::start(&[set(&json!({"spec": spec})), old], |_| {});
    let run = run(&server, &["rollout", "undo", "log-agent", "--to-revision=4"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let stored = server.object(SET);
    let keys: Vec<&str> = stored["spec"].as_object().unwrap().keys().map(String::as_str).collect();
    let mut keys = keys;
    keys.sort_unstable();
    assert_eq!(keys, ["containers", "imagePullSecrets", "selector", "updateStrategy"]);
    assert_eq!(stored["spec"]["containers"], json!([{"name": "a", "image": "a"}]));
}

#[rstest]
#[case::client("client", "(dry run)")]
#[case::server("server", "(server dry run)")]
fn a_dry_run_shows_the_difference(#[case] dry: &str, #[case] end: &str) {
    let server = history(&[]);
    let run = run(&server, &["rollout", "undo", "log-agent", "--to-revision=1", "--dry-run", dry]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert!(run.out.contains("-    image: log-agent:v2\n+    image: log-agent:v0\n"), "{}", run.out);
    assert!(run.out.ends_with(&format!("log-agent rolled back {end}\n")), "{}", run.out);
    assert_eq!(server.object(SET), set(&json!({})));
    assert_eq!(
        server.writes().iter().filter(|write| write.contains("dryRun=All")).count(),
        usize::from(dry == "server")
    );
}

#[test]
fn a_spec_that_is_the_revision_already_is_left_alone() {
    let server = history(&[]);
    let run = run(&server, &["rollout", "undo", "log-agent", "--to-revision=3"]);
    let expected = "sidecarset.apps.kruise.io/log-agent skipped rollback (current spec already matches revision 3)\n";
    assert_eq!((run.code, run.out.as_str()), (0, expected));
    assert_eq!(server.writes(), [""; 0]);
}

#[test]
fn a_spec_that_is_not_stored_goes_back_to_the_newest_revision() {
    let server = ApiServer::start(&[set(&json!({})), revision(1, "log-agent:v0"), revision(2, "log-agent:v1")], |_| {});
    let run = run(&server, &["rollout", "undo", "log-agent"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(server.object(SET)["spec"]["containers"][0]["image"], "log-agent:v1");
}

fn of_another_set(number: i64) -> Value {
    let mut revision = revision(number, "log-agent:v9");
    revision["metadata"]["ownerReferences"][0]["uid"] = json!("earlier");
    revision
}

#[rstest]
#[case::no_revision(vec![], &[], 1, &["namespace kruise-system has no stored revision of SidecarSet log-agent;", "--system-namespace"])]
#[case::only_of_another(vec![of_another_set(1)], &[], 1, &["belong to an earlier SidecarSet of this name"])]
#[case::only_its_own(vec![revision(1, "log-agent:v2")], &[], 1, &["has no earlier revision, so there is nothing to undo"])]
#[case::unknown(vec![revision(1, "log-agent:v0")], &["--to-revision=7"], 1, &["has no revision 7; it has 1"])]
#[case::of_another(vec![revision(1, "log-agent:v0"), of_another_set(5)], &["--to-revision=5"], 1, &["revision 5 belongs to an earlier SidecarSet log-agent"])]
#[case::unreadable(vec![of_data(1, &json!({"containers": "none"}))], &[], 2, &["revision 1 of SidecarSet log-agent cannot be read: data.spec.containers"])]
#[case::elsewhere(vec![revision(1, "log-agent:v0")], &["--system-namespace", "other"], 1, &["namespace other has no stored revision"])]
fn rev1_a_revision_that_cannot_be_used_is_told(
    #[case] revisions: Vec<Value>,
    #[case] more: &[&str],
    #[case] code: i32,
    #[case] expected: &[&str],
) {
    let server = ApiServer::start(&[&[set(&json!({}))], &revisions[..]].concat(), |_| {});
    let run = run(&server, &[&["rollout", "undo", "log-agent"], more].concat());
    assert_eq!((run.code, run.out.as_str()), (code, ""), "{}", run.err);
    for expected in expected {
        assert!(run.err.contains(expected), "{}", run.err);
    }
    assert_eq!(server.writes(), [""; 0]);
}

#[test]
fn revisions_that_may_not_be_read_name_the_right() {
    let server = ApiServer::start(&[set(&json!({}))], |state| {
        state.refused.push(("GET /apis/apps/v1/", 403, "User \"jane\" may not do that"));
    });
    let run = run(&server, &["rollout", "undo", "log-agent"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("the verb \"list\" on controllerrevisions.apps"), "{}", run.err);
}

#[rstest]
#[case::custom_version(json!({"spec": {"customVersion": "v2"}}), "customVersion stays \"v2\"")]
#[case::a_pinned_revision(json!({"spec": {"injectionStrategy": {"revision": {"revisionName": "r"}}}}), "new Pods get the revision that it asks for")]
fn what_stays_is_told(#[case] changes: Value, #[case] expected: &str) {
    let server = ApiServer::start(&[set(&changes), revision(1, "log-agent:v1")], |_| {});
    let run = run(&server, &["rollout", "undo", "log-agent", "--dry-run=client"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains(expected), "{}", run.err);
}
