//! Bounds on what one request may cost (E18): what exceeds them is refused, with the field and the bound.

use rstest::rstest;
use serde_json::{Map, Value, json};

use crate::support::identity::{edited, verdict};
use crate::support::{admit, create_pod, create_set};

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    })
}

fn set(name: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": name, "image": "agent:1"}],
        },
    })
}

fn message_of(request: &Value, sets: &[Value]) -> String {
    verdict(&admit(request, &json!({"sidecarSets": sets})))
}

/// Returns an object with a member for each number below `count`.
fn map(count: usize, value: &Value) -> Value {
    Value::Object((0..count).map(|index| (format!("k{index}"), value.clone())).collect::<Map<_, _>>())
}

fn of_kind(group: &str, version: &str, kind: &str, object: &Value) -> Value {
    let mut request = create_pod(object, "u");
    request["kind"] = json!({"group": group, "version": version, "kind": kind});
    request
}

#[rstest]
#[case::pod("", "v1", "Pod", "CREATE")]
#[case::ephemeral_containers("", "v1", "Pod", "UPDATE")]
#[case::sidecar_set("apps.kruise.io", "v1beta1", "SidecarSet", "CREATE")]
#[case::deployment("apps", "v1", "Deployment", "CREATE")]
#[case::account("", "v1", "ServiceAccount", "UPDATE")]
#[case::role("rbac.authorization.k8s.io", "v1", "Role", "UPDATE")]
#[case::secret("", "v1", "Secret", "CREATE")]
#[case::shoot("core.gardener.cloud", "v1beta1", "Shoot", "CREATE")]
fn e18_annotations_that_the_api_server_refuses_are_not_parsed(
    #[case] group: &str,
    #[case] version: &str,
    #[case] kind: &str,
    #[case] operation: &str,
) {
    let asked = |bytes: usize| {
        let object = edited(pod(), |object| {
            object["metadata"]["annotations"] = json!({"kruise.io/sidecarset-hash": "", "a": "x".repeat(bytes)});
        });
        let request = edited(of_kind(group, version, kind, &object), |request| {
            request["operation"] = json!(operation);
            request["oldObject"] = if operation == "UPDATE" { pod() } else { Value::Null };
            if (kind, operation) == ("Pod", "UPDATE") {
                request["subResource"] = json!("ephemeralcontainers");
            }
        });
        message_of(&request, &[set("agent")])
    };
    let keys = "kruise.io/sidecarset-hash".len() + "a".len();
    assert_eq!(
        asked(256 * 1024 - keys + 1),
        "422 metadata.annotations: Too long: all keys and values together may have at most 262144 bytes, as in the API \
         server; shorten or remove some of them"
    );
    assert!(!asked(256 * 1024 - keys).contains("Too long"));
}

#[rstest]
#[case::records("kruise.io/sidecarset-hash", json!({}))]
#[case::legacy_records("kruise.io/sidecarset-hash", json!("hash"))]
#[case::records_without_images("kruise.io/sidecarset-hash-without-image", json!({}))]
#[case::pairs("kruise.io/sidecarset-working-hotupgrade-container", json!("a"))]
fn e18_records_have_a_number(#[case] key: &str, #[case] record: Value) {
    let asked = |entries: usize| {
        let pod = edited(pod(), |pod| {
            pod["metadata"]["annotations"] = json!({key: map(entries, &record).to_string()});
        });
        message_of(&create_pod(&pod, "u"), &[set("agent")])
    };
    assert_eq!(asked(1_000), "accepted");
    assert_eq!(
        asked(1_001),
        format!(
            "422 metadata.annotations[{key}]: has 1001 entries; at most 1000 are read; remove the annotation from the Pod \
             or its template; it is written at injection"
        )
    );
}

#[test]
fn e18_names_are_as_long_as_kubernetes_allows() {
    let long = "n".repeat(64);
    let renamed = edited(set("agent"), |set| set["spec"]["containers"][0]["name"] = json!(long));
    let message = message_of(&create_pod(&pod(), "u"), &[renamed]);
    let expected = format!(
        "403 SidecarSet \"agent\": spec.containers[0].name: \"{long}\" is longer than 63 bytes; choose a shorter name"
    );
    assert_eq!(message, expected);
    let renamed = edited(pod(), |pod| pod["spec"]["containers"][0]["name"] = json!("n".repeat(1_000)));
    let message = message_of(&create_pod(&renamed, "u"), &[set("agent")]);
    assert!(message.starts_with("403 spec.containers[0].name: \"nnn") && message.len() < 200, "{message}");
    // A Pod that gets no sidecars is the API server's to judge.
    assert_eq!(message_of(&create_pod(&renamed, "u"), &[]), "accepted");
}

#[rstest]
#[case::one_set(&[128 * 1024], true)]
#[case::two_sets(&[70 * 1024, 70 * 1024], true)]
#[case::within(&[60 * 1024, 60 * 1024], false)]
fn e18_patches_have_a_length_together(
    #[case] lengths: &[usize],
    #[case] is_refused: bool,
    #[values("Retain", "Overwrite", "MergePatchJson")] policy: &str,
) {
    let sets: Vec<Value> = lengths
        .iter()
        .enumerate()
        .map(|(index, length)| {
            let text = json!({"k": "x".repeat(*length)}).to_string();
            let annotations = json!({format!("example.com/{index}"): text});
            edited(set(&format!("agent-{index}")), |set| {
                set["spec"]["patchPodMetadata"] = json!([{"patchPolicy": policy, "annotations": annotations}]);
            })
        })
        .collect();
    let message = message_of(&create_pod(&pod(), "u"), &sets);
    let named = (0..sets.len()).all(|index| {
        message.contains(&format!(
            "SidecarSet \"agent-{index}\": spec.patchPodMetadata: the annotations that all SidecarSets of the Pod patch \
             have more than 131072 bytes; patch fewer or shorter annotations"
        ))
    });
    assert_eq!((message.starts_with("403 ") && named, message == "accepted"), (is_refused, !is_refused), "{message}");
}

#[rstest]
#[case::as_many_as_allowed(5_000, 4, "accepted")]
#[case::more(
    5_001,
    4,
    "403 SidecarSet \"agent-0\": spec.containers: is one whose sidecars take more than 20000 mounts, devices and variables from the Pod; turn shareVolumePolicy off, or name fewer variables in transferEnv; SidecarSet \"agent-1\": "
)]
fn e18_sidecars_copy_so_many_mounts(#[case] mounts: usize, #[case] sets: usize, #[case] expected: &str) {
    let mounts: Vec<Value> = (0..mounts).map(|index| json!({"name": "v", "mountPath": format!("/m{index}")})).collect();
    let pod = edited(pod(), |pod| {
        pod["spec"]["containers"][0]["volumeMounts"] = json!(mounts);
        pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    });
    let sharing = |index: usize| {
        edited(set(&format!("agent-{index}")), |set| {
            set["spec"]["containers"][0]["shareVolumePolicy"] = json!({"type": "enabled"});
        })
    };
    let sets: Vec<Value> = (0..sets).map(sharing).collect();
    let message = message_of(&create_pod(&pod, "u"), &sets);
    assert!(message.starts_with(expected), "{message}");
}

/// The SidecarSets have so many containers each.
#[rstest]
#[case::one_set(&[251], "agent-0")]
#[case::two_sets(&[125, 126], "agent-1")]
#[case::as_many_as_allowed(&[125, 125], "")]
fn e18_a_pod_gets_so_many_sidecars(#[case] counts: &[usize], #[case] refused: &str) {
    let with = |(index, count): (usize, &usize)| {
        edited(set(&format!("agent-{index}")), |set| {
            let containers =
                (0..*count).map(|number| json!({"name": format!("agent-{index}-{number}"), "image": "a:1"}));
            set["spec"]["containers"] = containers.collect();
        })
    };
    let sets: Vec<Value> = counts.iter().enumerate().map(with).collect();
    let expected = if refused.is_empty() {
        "accepted".to_owned()
    } else {
        format!(
            "403 SidecarSet \"{refused}\": spec.containers: with those of this SidecarSet, the Pod would get more than 250 \
             containers and init containers of SidecarSets; narrow the selectors of the SidecarSets, or give them fewer \
             containers"
        )
    };
    assert_eq!(message_of(&create_pod(&pod(), "u"), &sets), expected);
}

#[test]
fn e18_a_sidecar_set_has_no_more_sidecars_than_a_pod_gets() {
    let with = |containers: usize, init_containers: usize| {
        edited(set("agent"), |set| {
            let list = |name: &str, count: usize| -> Value {
                (0..count).map(|index| json!({"name": format!("{name}-{index}"), "image": "a:1"})).collect()
            };
            set["spec"]["containers"] = list("c", containers);
            set["spec"]["initContainers"] = list("i", init_containers);
        })
    };
    assert_eq!(message_of(&create_set(&with(125, 125)), &[]), "accepted");
    let message = message_of(&create_set(&with(125, 126)), &[]);
    let expected = "spec.containers: Too many: a Pod gets at most 250 containers and init containers of SidecarSets";
    assert!(message.starts_with("422 ") && message.contains(expected), "{message}");
}

#[test]
fn e18_expressions_have_a_length_together() {
    let with = |bytes: usize| {
        edited(set("agent"), |set| {
            let half = format!("0*{}", "1".repeat(bytes / 2 - 2));
            let (cpu, memory) = (half.clone(), half);
            set["spec"]["containers"][0]["resourcesPolicy"] = json!({
                "targetContainersMode": "sum", "targetContainersNameRegex": ".*",
                "resourcesExpr": {"limits": {"cpu": cpu, "memory": memory}},
            });
        })
    };
    let told_too_long =
        |message: &str| message.contains("all resourcesExpr of the SidecarSets together may have at most 131072 bytes");
    assert!(told_too_long(&message_of(&create_set(&with(128 * 1024 + 2)), &[])));
    assert!(!told_too_long(&message_of(&create_set(&with(128 * 1024)), &[])));
    assert!(told_too_long(&message_of(
        &create_pod(&pod(), "u"),
        &[
            with(70 * 1024),
            edited(with(70 * 1024), |set| {
                set["metadata"]["name"] = json!("other");
            })
        ]
    )));
}
