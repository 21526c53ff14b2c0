//! Containers that become native sidecars (NAT-2 to NAT-4).

use pillion_sidecarset::native::converted;

use super::*;

/// Returns a SidecarSet with two containers, one of which goes before those of the Pod, and these init containers.
fn written(init_containers: &Value) -> SidecarSet {
    set(
        "logs",
        json!({
            "initContainers": init_containers,
            "containers": [
                {"name": "z", "image": "z:1", "podInjectPolicy": "BeforeAppContainer", "ports": [{"containerPort": 80}]},
                {"name": "a", "image": "a:1", "podInjectPolicy": "AfterAppContainer"},
            ],
        }),
    )
}

fn native(init_containers: &Value) -> SidecarSet {
    converted(written(init_containers))
}

fn pod() -> Value {
    json!({
        "metadata": {"name": "p", "labels": {"app": "x"}},
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [{"name": "own", "image": "own:1"}],
            "containers": [{"name": "app", "image": "app:1"}],
        },
    })
}

#[test]
fn nat2_the_position_of_each_sidecar_is_that_among_the_init_containers() {
    let pod = injected(&pod(), &[native(&json!([]))]).pod;
    assert_eq!(names(&pod, "initContainers"), ["z", "own", "a"]);
    assert_eq!(names(&pod, "containers"), ["app"]);
    let sidecar = item(&pod, "initContainers", "z");
    assert_eq!(sidecar["restartPolicy"], "Always");
    assert_eq!(sidecar["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
}

#[test]
fn nat2_sidecars_follow_the_init_containers_of_their_set_in_the_order_in_which_they_are_written() {
    let pod = injected(&pod(), &[native(&json!([{"name": "m", "image": "m:1"}, {"name": "b", "image": "b:1"}]))]).pod;
    assert_eq!(names(&pod, "initContainers"), ["own", "b", "m", "z", "a"]);
}

#[test]
fn nat2_the_gate_sorts_sidecars_by_name() {
    let how = Context { sort_by_name: true, ..NOW };
    let pod = run(&pod(), &[native(&json!([{"name": "m", "image": "m:1"}]))], how).unwrap().pod;
    assert_eq!(names(&pod, "initContainers"), ["own", "m", "a", "z"]);
}

#[test]
fn nat2_variables_mounts_and_resources_of_the_app_are_copied_as_for_a_container() {
    let sharing = set(
        "logs",
        json!({
            "containers": [{
                "name": "a", "image": "a:1", "shareVolumePolicy": {"type": "enabled"},
                "transferEnv": [{"sourceContainerName": "app", "envName": "LEVEL"}],
                "resourcesPolicy": {
                    "targetContainersMode": "sum", "targetContainersNameRegex": ".*",
                    "resourcesExpr": {"limits": {"cpu": "cpu*50%"}},
                },
            }],
        }),
    );
    let mut pod = pod();
    pod["spec"]["containers"][0]["env"] = json!([{"name": "LEVEL", "value": "1"}]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "2"}});
    let plain = injected(&pod, std::slice::from_ref(&sharing)).pod;
    let mut expected = item(&plain, "containers", "a").clone();
    expected["restartPolicy"] = json!("Always");
    assert_eq!(*item(&injected(&pod, &[converted(sharing)]).pod, "initContainers", "a"), expected);
}

#[test]
fn nat3_the_records_are_those_of_the_set_as_it_is_written() {
    for key in [names::HASH, names::HASH_WITHOUT_IMAGE, names::INJECTED_LIST] {
        let [plain, native] = [written(&json!([])), native(&json!([]))].map(|set| injected(&pod(), &[set]).pod);
        assert_ne!(annotation(&plain, key), "");
        assert_eq!(annotation(&plain, key), annotation(&native, key));
    }
}

#[test]
fn nat4_an_injected_pod_is_admitted_again_as_it_is() {
    let native = native(&json!([{"name": "m", "image": "m:1"}]));
    let once = injected(&pod(), std::slice::from_ref(&native)).pod;
    assert_eq!(run(&once, &[native], LATER).unwrap().pod, once);
}

/// A Pod that comes from a backup may have the sidecars in the form in which the SidecarSet was injected then.
#[test]
fn nat4_sidecars_in_the_other_form_are_moved() {
    let (plain, native) = (written(&json!([])), native(&json!([])));
    for (before, after) in [(&plain, &native), (&native, &plain)] {
        let once = injected(&pod(), std::slice::from_ref(before)).pod;
        let moved = injected(&once, std::slice::from_ref(after)).pod;
        let fresh = injected(&pod(), std::slice::from_ref(after)).pod;
        assert_eq!(moved["spec"], fresh["spec"]);
    }
}

#[rstest]
#[case::not_recorded(json!({}), true)]
#[case::not_marked(json!({"kruise.io/sidecarset-hash": r#"{"logs":{"hash":"h","sidecarList":["a","z"]}}"#}), false)]
fn nat4_a_container_of_the_app_is_never_moved(#[case] annotations: Value, #[case] is_marked: bool) {
    let mut pod = pod();
    pod["metadata"]["annotations"] = annotations;
    pod["spec"]["containers"][0]["name"] = json!("z");
    if is_marked {
        pod["spec"]["containers"][0]["env"] = json!([{"name": "IS_INJECTED", "value": "true"}]);
    }
    let message = refusal(&pod, &[native(&json!([]))]);
    let expected = "SidecarSet \"logs\": spec.containers[0].name: sidecar \"z\" has the name of a container of the Pod; \
                    rename the Pod's \"z\" or the sidecar";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn nat2_a_problem_is_told_where_the_sidecar_is_written() {
    let set = set(
        "logs",
        json!({
            "initContainers": [{"name": "m", "image": "m:1"}],
            "containers": [{
                "name": "a", "image": "a:1",
                "resourcesPolicy": {
                    "targetContainersMode": "sum", "targetContainersNameRegex": "^none$",
                    "resourcesExpr": {"limits": {"cpu": "cpu*50%"}},
                },
            }],
        }),
    );
    let message = refusal(&pod(), &[converted(set)]);
    assert!(message.contains("spec.containers[0].resourcesPolicy.targetContainersNameRegex"), "{message}");
}

#[test]
fn inj31_a_native_sidecar_keeps_no_pod_from_its_end() {
    assert_eq!(injected(&pod(), &[written(&json!([]))]).warnings.len(), 2);
    assert_eq!(injected(&pod(), &[native(&json!([]))]).warnings, [""; 0]);
}
