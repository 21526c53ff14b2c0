use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::sidecar_set::decode::decode;

const PLAIN: &str = r#"{"containers":[{"name":"container1","image":"test-image","resources":{},"upgradeStrategy":{},"shareVolumePolicy":{}}]}"#;
const PLAIN_WITHOUT_IMAGE: &str =
    r#"{"containers":[{"name":"container1","resources":{},"upgradeStrategy":{},"shareVolumePolicy":{}}]}"#;
const NATIVE: &str = r#"{"containers":[{"name":"container1","image":"test-image","resources":{},"upgradeStrategy":{},"shareVolumePolicy":{}}],"initContainers":[{"name":"container1","image":"test-image","resources":{},"restartPolicy":"Always","upgradeStrategy":{},"shareVolumePolicy":{}}]}"#;
const QUANTITIES: &str = r#"{"containers":[{"name":"a","image":"b","resources":{"limits":{"cpu":"500m","memory":"1Gi","nvidia.com/gpu":"1"}},"upgradeStrategy":{},"shareVolumePolicy":{}}]}"#;
const ESCAPES: &str = r#"{"containers":[{"name":"a","image":"b","command":["sh","-c","a \u0026\u0026 b \u003cc\u003e \u2028 \b\f\u0001 é \"q\" \\ \ufffd /"],"resources":{},"upgradeStrategy":{},"shareVolumePolicy":{}}]}"#;
const SAMPLE: &str = r#"{"containers":[{"name":"sidecar1","image":"centos:6.7","command":["sleep","999d"],"resources":{},"volumeMounts":[{"name":"log-volume","mountPath":"/var/log"}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","podInjectPolicy":"BeforeAppContainer","upgradeStrategy":{"upgradeType":"ColdUpgrade"},"shareVolumePolicy":{"type":"disabled"}}]}"#;

#[rstest]
#[case::absent(r#"{"containers":null}"#, "x5vwx9w6vv4dv72c9w4c2f6v74fbwx545b45bbfz6z2dvf8w887xw86fvcb4cf48")]
#[case::empty(r#"{"containers":[]}"#, "5662x672v59974vdzvf4bdfwc4v526wx5w7884vx5c7fc2f246v484v5988xb9z7")]
#[case::plain(PLAIN, "w26c4x8fz245642fdv499b464248f974xddx4x55z5dw55bc6x66464fxz77dc78")]
#[case::no_image(PLAIN_WITHOUT_IMAGE, "8wzddb4dvv9c6x8zdc77z4z75987424f457dfv6724ddw6zbdx467wz5x24fc759")]
#[case::native(NATIVE, "4xwx4d4844vd4v9x79wb4xbxf4xb29475cc4446v8cz2c2f2f5c5bw448vd42z8w")]
#[case::quantities(QUANTITIES, "9dwb5xc6z6bd689484czwx78c4wwb8889c26vwd7877z6zbc6867xd6fczzx7xz4")]
#[case::escapes(ESCAPES, "7z6f2dv7dfddbzf7b99x28782c2b58zv56xff7c988z7w57482b2vx47dz879946")]
#[case::sample(SAMPLE, "4zbdc2xzc8w7c4x2c6984266bc9d7zf87x946v7xdfv988f6c6fc9b7dz47w8zd5")]
fn hash8_golden_preimages_have_their_hashes(#[case] preimage: &str, #[case] hash: &str) {
    assert_eq!(safe_encode(&sha256(preimage.as_bytes())), hash);
}

#[rstest]
#[case::hash3_absent(json!({}), r#"{"containers":null}"#)]
#[case::hash3_empty(json!({"containers": []}), r#"{"containers":[]}"#)]
#[case::hash5_plain(json!({"containers": [{"image": "test-image", "name": "container1"}]}), PLAIN)]
#[case::hash2_diff25_init_containers_that_are_not_native_are_left_out(
    json!({"containers": [{"image": "test-image", "name": "container1"}], "initContainers": [{"name": "i"}]}),
    PLAIN
)]
#[case::hash2_nothing_else_is_hashed(
    json!({
        "containers": [{"image": "test-image", "name": "container1"}], "selector": {}, "volumes": [{"name": "v"}],
        "updateStrategy": {"paused": true}, "imagePullSecrets": [{}], "patchPodMetadata": [{}], "customVersion": "1",
    }),
    PLAIN
)]
#[case::hash2_api15_native(
    json!({
        "initContainers": [{"restartPolicy": "Always", "name": "container1", "image": "test-image"}],
        "containers": [{"name": "container1", "image": "test-image"}],
    }),
    NATIVE
)]
#[case::hash7_quantities(
    json!({"containers": [{
        "name": "a", "image": "b",
        "resources": {"limits": {"nvidia.com/gpu": "1000m", "memory": "1024Mi", "cpu": 0.5}, "requests": {}},
    }]}),
    QUANTITIES
)]
#[case::hash9_sample(
    json!({"containers": [{
        "shareVolumePolicy": {"type": "disabled"}, "upgradeStrategy": {"upgradeType": "ColdUpgrade"},
        "podInjectPolicy": "BeforeAppContainer", "imagePullPolicy": "IfNotPresent",
        "terminationMessagePolicy": "File", "terminationMessagePath": "/dev/termination-log",
        "volumeMounts": [{"mountPath": "/var/log", "name": "log-volume"}], "command": ["sleep", "999d"],
        "image": "centos:6.7", "name": "sidecar1",
    }]}),
    SAMPLE
)]
fn preimages_are_those_of_the_reference(#[case] spec: Value, #[case] expected: &str) {
    assert_eq!(preimage(&spec).0, expected);
}

/// Stored hashes and revisions must stay identical for OpenKruise, and an identity must not start a rollout.
#[test]
fn idc9_identities_are_part_of_no_hash_and_no_revision() {
    let with = json!({
        "containers": [{"image": "test-image", "name": "container1"}], "serviceAccountName": "agent",
        "serviceAccountMode": "Isolate", "behaviorWhenServiceAccountInjection": "Merge",
        "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
        "serviceAccountTokens": [{"audience": "vault", "path": "vault"}],
        "serviceAccountPartners": ["metrics"],
    });
    let without = json!({"containers": with["containers"]});
    assert_eq!(preimage(&with).0, PLAIN);
    assert_eq!(revision_data(&with), revision_data(&without));
}

#[test]
fn hash6_escapes_are_those_of_the_golden_vector() {
    let argument = "a && b <c> \u{2028} \u{8}\u{c}\u{1} é \"q\" \\ \u{fffd} /";
    let spec = json!({"containers": [{"name": "a", "image": "b", "command": ["sh", "-c", argument]}]});
    // The vector contains a byte that is not UTF-8. A string can only contain U+FFFD itself, which Go does not escape.
    assert_eq!(preimage(&spec).0, ESCAPES.replace("\\ufffd", "\u{fffd}"));
}

#[test]
fn hash4_the_image_is_left_out_of_containers_and_init_containers() {
    let spec = json!({
        "containers": [{"name": "c", "image": "x"}],
        "initContainers": [{"name": "i", "image": "y", "restartPolicy": "Always"}],
    });
    let without = json!({
        "containers": [{"name": "c"}],
        "initContainers": [{"name": "i", "restartPolicy": "Always"}],
    });
    assert_eq!(hashes(&spec).without_image, hashes(&without).hash);
    let sample = json!({"containers": [{"name": "container1", "image": "test-image"}]});
    assert_eq!(hashes(&sample).without_image, "8wzddb4dvv9c6x8zdc77z4z75987424f457dfv6724ddw6zbdx467wz5x24fc759");
}

#[test]
fn hash9_the_sample_has_its_hash_without_image() {
    let spec: Value = serde_json::from_str(SAMPLE).unwrap();
    let Hashes { hash, without_image } = hashes(&spec);
    assert_eq!(hash, "4zbdc2xzc8w7c4x2c6984266bc9d7zf87x946v7xdfv988f6c6fc9b7dz47w8zd5");
    assert_eq!(without_image, "wcv47954b7xv5w4fbw682bbf78cw2449448vbf4fvvwv77947bc7fcv7fw89f98x");
}

#[test]
fn hash8_hex_digits_map_as_listed() {
    assert_eq!(safe_encode("0123456789abcdef"), "456789bcdfvwxz24");
}

const SAMPLE_REVISION: &str = r#"{"spec":{"$patch":"replace","containers":[{"command":["sleep","999d"],"image":"centos:6.7","imagePullPolicy":"IfNotPresent","name":"sidecar1","podInjectPolicy":"BeforeAppContainer","resources":{},"shareVolumePolicy":{"type":"disabled"},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","upgradeStrategy":{"upgradeType":"ColdUpgrade"},"volumeMounts":[{"mountPath":"/var/log","name":"log-volume"}]}],"imagePullSecrets":null,"initContainers":null,"patchPodMetadata":null,"volumes":[{"emptyDir":{},"name":"log-volume"}]}}"#;

#[test]
fn rev2_rev3_the_sample_has_its_revision() {
    let mut spec: Value = serde_json::from_str(SAMPLE).unwrap();
    let volumes = json!([{"name": "log-volume", "emptyDir": {}}]);
    spec.as_object_mut().unwrap().insert("volumes".to_owned(), volumes);
    assert_eq!(revision_data(&spec), SAMPLE_REVISION);
    let name = revision_name("test-sidecarset", SAMPLE_REVISION, 0);
    assert_eq!(name.name, "test-sidecarset-cf4bf7796");
    assert_eq!(name.hash, "cf4bf7796");
}

#[test]
fn rev2_empty_lists_are_null_and_numbers_are_floats() {
    let spec = json!({
        "containers": [{"name": "a", "securityContext": {"runAsUser": 9_007_199_254_740_993_i64, "runAsGroup": 7}}],
        "volumes": [], "initContainers": [], "imagePullSecrets": [{"name": "b"}, {}],
    });
    let data = revision_data(&spec);
    assert!(data.contains(r#""securityContext":{"runAsGroup":7,"runAsUser":9007199254740992}"#), "{data}");
    assert!(data.contains(r#""imagePullSecrets":[{"name":"b"},{}],"initContainers":null"#), "{data}");
    assert!(data.ends_with(r#""volumes":null}}"#), "{data}");
}

#[test]
fn rev3_long_names_are_cut() {
    let name = revision_name(&"a".repeat(300), "{}", 1);
    assert_eq!(name.name, format!("{}-{}", "a".repeat(223), name.hash));
    assert_ne!(name.hash, revision_name("a", "{}", 0).hash);
}

/// Returns the path of the conformance cases, if they exist: in a directory `shared` in this crate's directory or in
/// one above it.
fn conformance(file: &str) -> Option<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|above| above.join("shared/conformance").join(file))
        .find(|path| path.is_file())
}

#[test]
fn hash1_every_conformance_case_has_the_hashes_of_the_reference() {
    let Some(path) = conformance("admission.jsonl") else {
        println!("SKIPPED: there is no shared/conformance/admission.jsonl above this crate");
        return;
    };
    let mut count = 0;
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let Some(object) = json::at(&case, &["expect", "object"]) else { continue };
        if json::text(&case, &["target"]) != "sidecarset-admit" {
            continue;
        }
        let id = json::text(&case, &["id"]);
        let decoded = decode(object.clone()).unwrap_or_else(|errors| panic!("{id}: {errors:?}"));
        let stored = Hashes {
            hash: json::text(object, &["metadata", "annotations", crate::names::HASH]).to_owned(),
            without_image: json::text(object, &["metadata", "annotations", crate::names::HASH_WITHOUT_IMAGE])
                .to_owned(),
        };
        let spec = json::at(decoded.object(), &["spec"]).unwrap();
        assert_eq!(hashes(spec), stored, "{id}: {}", preimage(spec).0);
        count += 1;
    }
    assert!(count > 100, "only {count} cases");
}

#[test]
fn rev2_rev3_every_rollout_case_has_the_revision_of_the_reference() {
    let Some(path) = conformance("rollout.jsonl") else {
        println!("SKIPPED: there is no shared/conformance/rollout.jsonl above this crate");
        return;
    };
    let mut count = 0;
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let id = json::text(&case, &["id"]);
        let set = json::items(&case, &["objects"]).iter().find(|object| object["kind"] == "SidecarSet").unwrap();
        let set = decode(set.clone()).unwrap_or_else(|errors| panic!("{id}: {errors:?}")).into_sidecar_set();
        let data = revision_data(set.spec(&[]).unwrap());
        let RevisionName { name, hash } = revision_name(set.name(), &data, 0);
        let stored = json::items(&case, &["expect", "object", "controllerRevisions"]);
        let newest = stored.iter().max_by_key(|revision| revision["revision"].as_i64()).unwrap();
        assert_eq!(data, pillion_json::go::to_string_sorted(&newest["data"]), "{id}");
        assert_eq!(newest["name"], name, "{id}");
        assert_eq!(newest["labels"]["controller.kubernetes.io/hash"], hash, "{id}");
        count += 1;
    }
    assert!(count >= 60, "only {count} cases");
}

/// Writes JSON with the keys of every object in reverse order, and with one extra key in objects that the tables know.
/// Maps get no extra key, because every key of a map counts.
fn write_disturbed(out: &mut String, value: &Value, in_map: bool) {
    match value {
        Value::Object(object) => {
            out.push('{');
            let mut entries: Vec<(String, Value)> = object.clone().into_iter().collect();
            if !in_map {
                entries.push(("pillionUnknown".to_owned(), json!({"a": [null, 1.0]})));
            }
            for (index, (key, value)) in entries.iter().rev().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_disturbed(out, value, matches!(key.as_str(), "limits" | "pillionUnknown"));
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for (index, value) in list.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                write_disturbed(out, value, false);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

fn container() -> impl Strategy<Value = Value> {
    let env = proptest::collection::vec(("[A-Z]{1,4}", any::<String>()), 0..4);
    let limits = proptest::collection::btree_map("[a-z]{1,4}", 0_u32..5000, 0..4);
    ("[a-z]{0,5}", "[a-z:]{0,8}", env, limits, any::<bool>(), any::<Option<i64>>()).prop_map(
        |(name, image, env, limits, native, user)| {
            let mut container = json!({
                "name": name, "image": image,
                "env": env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>(),
                "resources": {"limits": limits},
            });
            let fields = container.as_object_mut().unwrap();
            if native {
                fields.insert("restartPolicy".to_owned(), json!("Always"));
            }
            if let Some(user) = user {
                fields.insert("securityContext".to_owned(), json!({"runAsUser": user}));
            }
            container
        },
    )
}

proptest! {
    #[test]
    fn hashes_do_not_see_key_order_nor_unknown_fields(
        containers in proptest::collection::vec(container(), 0..3),
        init in proptest::collection::vec(container(), 0..3),
    ) {
        let spec = json!({"containers": containers, "initContainers": init});
        let mut text = String::new();
        write_disturbed(&mut text, &spec, false);
        let disturbed: Value = serde_json::from_str(&text).unwrap();
        prop_assert_ne!(&disturbed, &spec);
        prop_assert_eq!(hashes(&disturbed), hashes(&spec));
    }

    #[test]
    fn hashes_see_every_name(containers in proptest::collection::vec(container(), 1..3)) {
        let spec = json!({"containers": containers});
        let mut other = spec.clone();
        other["containers"][0]["name"] = json!("another-name");
        prop_assert_ne!(hashes(&other), hashes(&spec));
    }
}
