//! Previews of rollouts.

use super::*;

/// Returns what a preview shows of the SidecarSet `logs` in a cluster with these manifests.
pub(super) async fn looking_ahead(manifests: Vec<Value>, settings: Value, waves: u32, bundle_is_kept: bool) -> Preview {
    let situation = Situation { manifests, namespace: "default".to_owned(), ..Situation::default() };
    let simulation = Simulation::new(&situation, None, || NOW).await.expect("a simulation");
    let names = [Name::SidecarSetRollout].into();
    let question = Question {
        names: &names,
        options: registry::Options::default(),
        settings: Arc::new(Settings::decode(settings).expect("settings")),
        clock: Clock::new(|| NOW),
        waves,
        sidecar_set: Some("logs"),
        bundle_is_kept,
    };
    preview(simulation, question).await.expect("a preview")
}

/// A runtime has ids of containers or not, and may report another tag of an image.
#[rstest]
#[case::without_ids(json!({}))]
#[case::with_ids(json!({"containerID": "containerd://c", "restartCount": 3}))]
#[case::another_tag_of_the_image(json!({"containerID": "containerd://c", "image": "agent:v2"}))]
#[tokio::test]
async fn a_preview_shows_wave_by_wave_how_pods_are_upgraded(#[case] status: Value) {
    let set = set("agent:v2", &json!({"maxUnavailable": 2, "partition": 1}));
    let mut pods: Vec<Value> = (0..5).map(|number| pod(&set, number)).collect();
    for pod in &mut pods {
        for (key, value) in status.as_object().expect("an object") {
            pod["status"]["containerStatuses"][0][key] = value.clone();
        }
    }
    pods[4]["metadata"]["annotations"]["kruise.io/sidecarset-hash-without-image"] = json!(r#"{"logs":{"hash":"x"}}"#);
    let manifests = [set.as_value().clone()].into_iter().chain(pods).collect();
    let preview = looking_ahead(manifests, json!({}), 9, false).await;
    let upgraded = |wave: &Wave| -> Vec<String> {
        let upgrades = wave.changes.iter().filter(|change| change.why == "new images");
        upgrades.map(|change| change.object.name.clone()).collect()
    };
    let waves: Vec<Vec<String>> = [&preview.first].into_iter().chain(&preview.waves).map(upgraded).collect();
    assert_eq!(
        waves,
        [vec!["web-0", "web-1"], vec!["web-2"], vec![]],
        "the partition keeps web-3, and web-4 cannot be upgraded"
    );
    // ROLL-69
    let never: Vec<String> = preview.never.iter().map(|remark| remark.text.clone()).collect();
    assert_eq!(
        never,
        [
            "Pod \"web-3\" keeps its version of SidecarSet \"logs\": updateStrategy.partition keeps it",
            "Pod \"web-4\" keeps its version of SidecarSet \"logs\": the version with which it was created is not stored \
             any more",
        ]
    );
    let last = preview.waves.iter().rev().flat_map(|wave| wave.changes.iter().rev());
    let status = last.filter(|change| change.object.kind == "SidecarSet").find_map(|change| change.after.clone());
    let status = status.expect("a status")["status"].clone();
    assert_eq!((&status["updatedPods"], &status["updatedReadyPods"]), (&json!(3), &json!(3)), "{status}");
}

/// The bundle of the cluster has the version before. A plan for a new manifest shows what happens once the cluster's
/// controller has written the new version into the bundle, with the bundle cached or not.
#[rstest]
#[case::kept(true, 100, json!({}), &["web-0"], "", 0)]
#[case::kept_and_cached(true, 100, json!({"bundleCache": true}), &["web-0"], "", 0)]
#[case::not_kept(false, 100, json!({}), &[], "", 0)]
#[case::kept_no_longer(true, 1000, json!({}), &[], "no controller keeps it", 1)]
#[tokio::test]
async fn a_preview_follows_the_bundle_of_the_cluster(
    #[case] bundle_is_kept: bool,
    #[case] age: i64,
    #[case] more: Value,
    #[case] upgraded: &[&str],
    #[case] problem: &str,
    #[case] problems: usize,
) {
    let (new, old) = (set("agent:v2", &json!({})), set("agent:v1", &json!({})));
    let at = ConfigMapName { namespace: "pillion-system".to_owned(), name: "sidecarsets".to_owned() };
    let maps = config_map::write(&at, std::slice::from_ref(&old), Timestamp(NOW.0 - age), 1_000_000).expect("a bundle");
    let mut running = pod(&old, 0);
    running["metadata"]["annotations"]["kruise.io/sidecarset-hash"] =
        json!({"logs": {"hash": old.annotation("kruise.io/sidecarset-hash")}}).to_string().into();
    let mut settings = json!({"bundleRef": {"namespace": at.namespace, "name": at.name}});
    settings.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let manifests = [vec![new.as_value().clone(), running], maps].concat();
    let seen = looking_ahead(manifests, settings, 0, bundle_is_kept).await.first;
    let pods =
        seen.changes.iter().filter(|change| change.why == "new images").map(|change| change.object.name.as_str());
    assert_eq!(pods.collect::<Vec<_>>(), upgraded, "{seen:?}");
    assert!(seen.changes.iter().all(|change| change.controller == Name::SidecarSetRollout), "{seen:?}");
    assert_eq!(seen.problems.len(), problems, "{:?}", seen.problems);
    assert!(seen.problems.iter().all(|shown| shown.text.contains(problem)), "{:?}", seen.problems);
    let now: Vec<_> = seen.rollouts.iter().map(|rollout| (rollout.now, rollout.pods)).collect();
    assert_eq!(now, [(upgraded.len(), 1)]);
}
