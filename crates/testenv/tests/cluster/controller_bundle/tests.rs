//! SidecarSets as custom resources reach the policy through the bundle that `pillion controller` maintains.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use pillion_bundle::config_map::TEXT_MAX;
use pillion_testenv::faults::{Fault, Faults};
use pillion_testenv::until;
use serde_json::{Value, json};

use super::{NAME, NEW, OLD, SOON, Stage, bound, set, time, with};

#[tokio::test]
async fn sidecar_sets_of_both_versions_are_injected_edited_and_deleted() {
    let stage = Stage::new().await;
    let controller = stage.start().await;
    stage.injects(&[]).await;

    stage.put(&set(NEW, "b", "b:1")).await;
    // API-2, API-10: v1beta1 has no such field, and the definition does not convert.
    stage.put(&with(set(OLD, "a", "a:1"), &json!({"namespace": "default"}))).await;
    stage.put(&with(set(OLD, "elsewhere", "e:1"), &json!({"namespace": "kube-public"}))).await;
    stage.injects(&["a:1", "b:1"]).await;
    stage.says("a", "True", "Current").await;
    controller.assert_settled().await;
    assert!(controller.writes().len() < 12, "{:?}", controller.writes());

    stage.put(&set(NEW, "b", "b:2")).await;
    stage.injects(&["a:1", "b:2"]).await;
    stage.says("b", "True", "Current").await;
    let metrics = controller.metrics.encoded();
    assert!(!metrics.contains("pillion_controller_bundle_delay_seconds_count 0"), "{metrics}");

    stage.delete("a").await;
    stage.injects(&["b:2"]).await;
    // The status, such as counts of Pods, is not part of the bundle.
    controller.assert_settled().await;
    let before = stage.stored().await;
    let status = json!({"status": {"matchedPods": 3, "updatedPods": 2, "readyPods": 1}});
    stage.sets(NEW).patch_status("b", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    controller.assert_settled().await;
    assert_eq!(stage.stored().await, before);
    assert_eq!(controller.problem(), None);
}

#[tokio::test]
async fn a_set_that_is_not_valid_takes_nothing_out_of_the_bundle() {
    let stage = Stage::new().await;
    stage.put(&set(NEW, "a", "a:1")).await;
    stage
        .put(&with(set(NEW, "broken", "x:1"), &json!({"injectionStrategy": {"revision": {"revisionName": "none"}}})))
        .await;
    stage.put(&set(NEW, "z", "z:1")).await;
    let mut named = set(NEW, "own", "other:1");
    let mut settings = stage.settings();
    settings["sidecarSets"] = json!([named.clone()]);
    settings["sidecarSets"][0]["spec"]["selector"] = json!({"matchLabels": {"app": "own"}});
    stage.put(&named).await;
    let controller = stage.start_with(&settings, TEXT_MAX, Faults::none()).await;
    stage.injects(&["a:1", "z:1"]).await;
    assert!(stage.says("broken", "False", "Invalid").await.contains("ControllerRevision \"none\""));
    assert!(stage.says("own", "False", "InSettings").await.contains("settings"));
    assert!(stage.says("a", "True", "Current").await.contains("this version"));

    // The set was valid before, and its previous version stays in use.
    stage.put(&with(set(NEW, "a", "a:2"), &json!({"containers": [{"name": "a", "image": ""}]}))).await;
    let message = stage.says("a", "False", "Invalid").await;
    assert!(message.contains("spec.containers[0].image") && message.contains("the version before"), "{message}");
    stage.injects(&["a:1", "z:1"]).await;
    stage.put(&set(NEW, "z", "z:2")).await;
    stage.injects(&["a:1", "z:2"]).await;
    assert!(controller.metrics.encoded().contains("bundle_refused_sidecarsets 3"));
    let events: Api<Event> = Api::namespaced(stage.client.clone(), "default");
    let noted = async || {
        let events = events.list(&ListParams::default()).await.ok()?;
        let is_it = |event: &Event| {
            let regarding = event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref());
            regarding == Some("a") && event.reason.as_deref() == Some("Invalid")
        };
        events.iter().any(is_it).then_some(())
    };
    until("an Event about \"a\"", SOON, noted).await.unwrap();

    // If two sets conflict, the earlier one stays.
    named = set(NEW, "rival", "rival:1");
    named["spec"]["containers"][0]["name"] = json!("z");
    stage.put(&named).await;
    assert!(stage.says("rival", "False", "Invalid").await.contains("SidecarSet \"z\""));
    // A new object of the same name does not inherit the previous version.
    stage.delete("a").await;
    stage.put(&with(set(NEW, "a", ""), &json!({}))).await;
    stage.says("a", "False", "Invalid").await;
    stage.injects(&["z:2"]).await;
    stage.delete("z").await;
    stage.injects(&["rival:1"]).await;
    stage.put(&set(NEW, "a", "a:3")).await;
    stage.injects(&["a:3", "rival:1"]).await;
}

#[tokio::test]
async fn esc4_a_set_that_asks_for_too_much_is_left_out() {
    let stage = Stage::new().await;
    let mut settings = stage.settings();
    settings["featureGates"] = json!({"SidecarSetServiceAccountInjection": true});
    let _controller = stage.start_with(&settings, TEXT_MAX, Faults::none()).await;
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let asks = json!({
        "serviceAccountName": "agent", "behaviorWhenServiceAccountInjection": "Merge",
        "serviceAccountPermissions": rules, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
    });
    stage.put(&with(set(NEW, "greedy", "g:1"), &asks)).await;
    stage.put(&set(NEW, "plain", "p:1")).await;
    assert!(stage.says("greedy", "False", "Invalid").await.contains("secrets"));
    stage.injects(&["p:1"]).await;
}

#[tokio::test]
async fn rev9_a_stored_version_is_in_the_bundle_so_that_the_policy_asks_for_nothing_else() {
    let stage = Stage::new().await;
    stage.revision("s-1", "s", 1, "s:old").await;
    let by = |revision: Value| with(set(NEW, "s", "s:new"), &json!({"injectionStrategy": {"revision": revision}}));
    stage.put(&by(json!({"revisionName": "s-1", "policy": "Always"}))).await;
    let controller = stage.start().await;
    stage.injects(&["s:old"]).await;
    assert_eq!(stage.inject().await.1, [format!("v1/ConfigMap {}/{NAME}", stage.namespace)]);
    controller.assert_settled().await;
    // The watch shows the data of revisions, too.
    let requests = controller.faults.requests();
    assert!(!requests.iter().any(|request| request.contains("/s-1")), "{requests:?}");

    stage.put(&by(json!({"customVersion": "v1", "policy": "Always", "revisionName": null}))).await;
    stage.says("s", "True", "Current").await;
    stage.revision("s-2", "s", 2, "s:newer").await;
    stage.injects(&["s:newer"]).await;
    // If the revision is gone, the set stays in the bundle.
    let revisions: Api<ControllerRevision> = Api::namespaced(stage.client.clone(), &stage.namespace);
    for name in ["s-1", "s-2"] {
        revisions.delete(name, &DeleteParams::default()).await.unwrap();
    }
    stage.says("s", "False", "Invalid").await;
    stage.injects(&["s:newer"]).await;
}

#[tokio::test]
async fn what_is_too_long_for_one_config_map_is_in_shards() {
    let stage = Stage::new().await;
    for namespace in ["default", "a", "b", "c"] {
        stage.put(&bound(&format!("in-{namespace}"), namespace)).await;
    }
    let max = 1100;
    let controller = stage.start_with(&stage.settings(), max, Faults::none()).await;
    stage.injects(&["in-default:1"]).await;
    let (_, asked) = stage.inject().await;
    assert_eq!(asked.iter().filter(|asked| asked.contains("ConfigMap")).count(), 2, "{asked:?}");
    controller.assert_settled().await;
    let count = stage.stored().await.len();
    assert!(count > 2, "{count}");

    // Killed after creating and writing the new shard, but before the index.
    controller.kill().await;
    let faults = Faults::at(3, Fault::StopBefore);
    stage
        .put(&with(bound("in-default", "default"), &json!({"containers": [{"name": "in-default", "image": "new:1"}]})))
        .await;
    let halfway = stage.start_with(&stage.settings(), max, faults.clone()).await;
    faults.stopped().await;
    halfway.kill().await;
    assert!(faults.requests()[1].contains(&format!("{NAME}-")), "{:?}", faults.requests());
    let controller = stage.start_with(&stage.settings(), max, Faults::none()).await;
    stage.injects(&["new:1"]).await;

    // No shards are left if one ConfigMap is enough, after one more change: readers may still have the index before.
    for namespace in ["a", "b", "c"] {
        stage.delete(&format!("in-{namespace}")).await;
    }
    let is_whole = |map: &Value| map["metadata"]["name"] == NAME && map["data"].get("shards").is_none();
    let whole = async || stage.stored().await.iter().any(is_whole).then_some(());
    until("the index without shards", SOON, whole).await.unwrap();
    stage.put(&bound("in-default", "default")).await;
    stage.injects(&["in-default:1"]).await;
    let one = async || (stage.stored().await.len() == 1).then_some(());
    until("the shards being gone", SOON, one).await.unwrap();
    stage.injects(&["in-default:1"]).await;
    assert_eq!(stage.stored().await[0]["data"].get("shards"), None);

    // A set that does not fit stays out, and the others still get through.
    stage.put(&set(NEW, "wide", "wide:1")).await;
    stage.injects(&["in-default:1", "wide:1"]).await;
    let noise: Vec<String> = (0..200).map(|number| format!("{:x}", number * 7_919_u64 * 104_729)).collect();
    stage
        .put(&with(
            set(NEW, "wider", "wider:1"),
            &json!({"containers": [{"name": "wider", "image": "wider:1", "args": noise}]}),
        ))
        .await;
    assert!(stage.says("wider", "False", "TooLong").await.contains("bytes"));
    stage.put(&set(NEW, "wide", "wide:2")).await;
    stage.injects(&["in-default:1", "wide:2"]).await;
    assert_eq!(controller.problem(), None);
}

/// Returns the stored bundle without the times and the number of its writes.
async fn essence(stage: &Stage<'_>) -> Vec<(String, Value, Value)> {
    let of = |map: &Value| {
        let metadata = &map["metadata"];
        (metadata["name"].as_str().unwrap().to_owned(), metadata["labels"].clone(), map["data"].clone())
    };
    stage.stored().await.iter().map(of).collect()
}

/// Waits until the bundle is as expected.
async fn is_right(stage: &Stage<'_>, expected: &[(String, Value, Value)]) {
    let right = async || (essence(stage).await == expected).then_some(());
    if let Err(error) = until("the bundle being right", SOON, right).await {
        panic!("{error}: {:#?}", essence(stage).await);
    }
}

#[tokio::test]
async fn whatever_fails_once_the_bundle_is_the_same_in_the_end() {
    let stage = Stage::new().await;
    for namespace in ["default", "a", "b", "c"] {
        stage.put(&bound(&format!("in-{namespace}"), namespace)).await;
    }
    let max = 1100;
    let controller = stage.start_with(&stage.settings(), max, Faults::none()).await;
    stage.says("in-c", "True", "Current").await;
    controller.assert_settled().await;
    let expected = essence(&stage).await;
    let count = controller.faults.count();
    controller.kill().await;
    // Each start finds the same work: no ConfigMaps, and no conditions.
    let clear = async || {
        for map in stage.stored().await {
            let name = map["metadata"]["name"].as_str().unwrap();
            stage.config_maps().delete(name, &DeleteParams::default()).await.unwrap();
        }
        for set in stage.sets(NEW).list(&ListParams::default()).await.unwrap() {
            let none = Patch::Merge(json!({"status": {"conditions": null}}));
            stage.sets(NEW).patch_status(&set.name_any(), &PatchParams::default(), &none).await.unwrap();
        }
    };
    let is_told = async || {
        for namespace in ["default", "a", "b", "c"] {
            stage.says(&format!("in-{namespace}"), "True", "Current").await;
        }
    };
    for number in 1..=count {
        for fault in [Fault::Refused(500), Fault::AnswerLost, Fault::StopBefore, Fault::StopAfter] {
            clear().await;
            let faults = Faults::at(number, fault);
            let mut controller = stage.start_with(&stage.settings(), max, faults.clone()).await;
            if matches!(fault, Fault::StopBefore | Fault::StopAfter) {
                let stopped = tokio::time::timeout(SOON, faults.stopped()).await;
                assert!(stopped.is_ok(), "request {number} of {count} was not made: {:?}", faults.requests());
                controller.kill().await;
                controller = stage.start_with(&stage.settings(), max, Faults::none()).await;
            }
            is_right(&stage, &expected).await;
            is_told().await;
            assert!(faults.count() >= number, "{fault:?} was not applied to request {number}");
            controller.kill().await;
        }
    }
}

#[tokio::test]
async fn a_bundle_that_does_not_change_is_renewed_every_two_minutes_and_otherwise_left_alone() {
    let stage = Stage::new().await;
    stage.put(&set(NEW, "a", "a:1")).await;
    let controller = stage.start().await;
    stage.injects(&["a:1"]).await;
    stage.says("a", "True", "Current").await;
    controller.assert_settled().await;
    let (before, writes) = (stage.stored().await, controller.writes().len());

    stage.ahead.set(100);
    controller.assert_settled().await;
    assert_eq!(stage.stored().await, before);
    stage.ahead.set(125);
    let renewed = async || {
        let now = stage.stored().await;
        (time(&now[0]) != time(&before[0])).then_some(now)
    };
    let after = until("the time being renewed", SOON, renewed).await.unwrap();
    assert_eq!(after[0]["data"], before[0]["data"]);
    controller.assert_settled().await;
    assert_eq!(controller.writes().len(), writes + 1, "{:?}", controller.writes());
    let requests = controller.faults.count();
    controller.kill().await;

    // The next controller finds nothing to do.
    let next = stage.start().await;
    next.assert_settled().await;
    assert_eq!(next.faults.requests(), [""; 0]);
    assert!(requests > 0);

    // Changes by other clients are undone.
    stage.patch(NAME, json!({"data": {"bundle": "pillion-bundle-3:0:AAAA", "shards": "2"}})).await;
    stage.injects(&["a:1"]).await;
    let right = async || (stage.stored().await[0]["data"] == before[0]["data"]).then_some(());
    until("the data being as before", SOON, right).await.unwrap();
    stage.config_maps().delete(NAME, &DeleteParams::default()).await.unwrap();
    stage.injects(&["a:1"]).await;
}

#[tokio::test]
async fn a_config_map_that_is_somebody_elses_is_left_alone() {
    let stage = Stage::new().await;
    stage.put(&set(NEW, "a", "a:1")).await;
    let foreign = json!({"metadata": {"name": NAME}, "data": {"fluent-bit.conf": "x"}});
    let foreign = serde_json::from_value(foreign).unwrap();
    stage.config_maps().create(&PostParams::default(), &foreign).await.unwrap();
    let controller = stage.start().await;
    let problem = async || controller.problem().filter(|problem| problem.contains("is not Pillion's"));
    until("the controller saying why it is not well", SOON, problem).await.unwrap();
    assert_eq!(stage.stored().await[0]["data"], json!({"fluent-bit.conf": "x"}));
    assert!(controller.writes().iter().all(|write| write.contains("/events")), "{:?}", controller.writes());

    // A bundle made by `pillion bundle --config-map` is equally accepted.
    let text = pillion_bundle::write(&[]);
    stage.patch(NAME, json!({"data": {"fluent-bit.conf": null, "bundle": text, "previous": "by hand"}})).await;
    stage.injects(&["a:1"]).await;
    let well = async || controller.problem().is_none().then_some(());
    until("the controller being well", SOON, well).await.unwrap();
    let one = async || (stage.stored().await[0]["data"].as_object().unwrap().len() == 1).then_some(());
    until("what was made by hand being gone", SOON, one).await.unwrap();
}
