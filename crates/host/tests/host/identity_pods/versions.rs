//! Contents that were written before the SidecarSet had an account, or without its admission (IDC-9).

use pillion_testkit::module;
use rstest::rstest;

use super::*;

/// Returns a stored version of the set `a` with this volume, which its container mounts.
fn revision(volume: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {
            "name": "a-1", "namespace": "kruise-system",
            "labels": {"kruise.io/sidecarset-name": "a", "apps.kruise.io/sidecarset-custom-version": "v1"},
        },
        "data": {"spec": spec_with(volume)},
    })
}

fn spec_with(volume: Value) -> Value {
    let volume = edited(volume, |volume| volume["name"] = json!("v"));
    json!({
        "containers": [{"name": "a", "image": "agent:0", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        "volumes": [volume],
    })
}

fn token() -> Value {
    json!({"projected": {"sources": [
        {"serviceAccountToken": {"audience": "elsewhere", "expirationSeconds": 31_536_000, "path": "token"}}
    ]}})
}

fn requesting(revision: Value) -> Value {
    edited(set("a", "agent"), |set| set["spec"]["injectionStrategy"] = json!({"revision": revision}))
}

const REMEDY: &str = "; name another revision in spec.injectionStrategy.revision of the SidecarSet";

/// A version that was stored while the set had no account runs under the account of the present set.
#[rstest]
#[case::token(token(), "spec.volumes[0].projected: ")]
#[case::certificate(
    json!({"projected": {"sources": [{"podCertificate": {"signerName": "a/b", "keyType": "ED25519"}}]}}),
    "spec.volumes[0].projected: "
)]
#[case::driver(json!({"csi": {"driver": "vault.example"}}), "spec.volumes[0].csi.driver: ")]
#[case::secret(json!({"secret": {"secretName": "sidecarset-token-0123456789abcdef"}}), "spec.volumes[0]: ")]
fn idc9_a_stored_version_brings_no_credential(
    #[case] volume: Value,
    #[case] field: &str,
    #[values(json!({"revisionName": "a-1"}), json!({"customVersion": "v1"}), json!({"policy": "Partial"}))] by: Value,
    #[values("SidecarsOnly", "Isolate")] mode: &str,
) {
    let asked = |volume: Value, with_account: bool| {
        let mut set = edited(requesting(by.clone()), |set| {
            set["spec"]["serviceAccountMode"] = json!(mode);
            set["spec"]["updateStrategy"] = json!({"paused": true});
        });
        if !with_account {
            set["spec"].as_object_mut().unwrap().retain(|key, _| !key.contains("erviceAccount"));
        }
        let settings = edited(gated(&json!({}), &[set]), |settings| {
            settings["controllerRevisions"] = json!([revision(volume)]);
        });
        verdict(&ask(&request(&pod()), &settings, &Arc::new(cluster())))
    };
    let answered = asked(volume.clone(), true);
    let says = format!("SidecarSet \"a\": {field}ControllerRevision \"a-1\" has this under a ServiceAccount: ");
    assert!(answered.starts_with("403 ") && answered.contains(&says) && answered.ends_with(REMEDY), "{answered}");
    assert_eq!(asked(json!({"emptyDir": {}}), true), "accepted");
    if field != "spec.volumes[0]: " {
        assert_eq!(asked(volume, false), "accepted", "without an account, the Pod's own is nobody's");
    }
}

#[test]
fn idc9_a_version_of_the_cluster_brings_no_credential() {
    let asked = |volume: Value| {
        let cluster = Court::with([account("agent"), revision(volume)]);
        verdict(&admit_in(&pod(), json!({}), &[requesting(json!({"revisionName": "a-1"}))], cluster))
    };
    let answered = asked(token());
    assert!(
        answered.starts_with("403 SidecarSet \"a\": spec.volumes[0].projected: ControllerRevision \"a-1\""),
        "{answered}"
    );
    assert_eq!(asked(json!({"emptyDir": {}})), "accepted");
}

#[test]
fn idc9_the_settings_are_refused_with_the_version_that_they_bring() {
    let message_of = |volume: Value| {
        let settings = edited(gated(&json!({}), &[requesting(json!({"customVersion": "v1"}))]), |settings| {
            settings["controllerRevisions"] = json!([revision(volume)]);
        });
        module().validate_settings(&settings).unwrap().message.unwrap_or_default()
    };
    let refused = message_of(token());
    assert!(
        refused.contains("sidecarSets[0].spec.injectionStrategy.revision.customVersion: ")
            && refused.contains("ControllerRevision \"a-1\" would run under the ServiceAccount"),
        "{refused}"
    );
    assert_eq!(message_of(json!({"emptyDir": {}})), "");
}

/// A set that was stored while no webhook judged it.
#[rstest]
#[case::token(token(), "spec.volumes[0].projected: ")]
#[case::driver(json!({"csi": {"driver": "vault.example"}}), "spec.volumes[0].csi.driver: ")]
fn e4_e19_the_present_version_is_judged_for_each_pod(#[case] volume: Value, #[case] field: &str) {
    let with = |volume: Value| {
        edited(set("a", "agent"), |set| {
            for (key, value) in spec_with(volume).as_object().unwrap() {
                set["spec"][key] = value.clone();
            }
        })
    };
    let answered = message_of(&pod(), &[with(volume)]);
    assert!(answered.starts_with(&format!("403 SidecarSet \"a\": {field}")), "{answered}");
    assert_eq!(super::message_of(&pod(), &[with(json!({"emptyDir": {}}))]), "accepted");
}
