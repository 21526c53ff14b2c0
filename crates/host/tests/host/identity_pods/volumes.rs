//! SidecarSets that use the volumes of others to reach what runs under an account (IDC-11).

use std::time::{SystemTime, UNIX_EPOCH};

use pillion_bundle::config_map::{self, TEXT_MAX};
use pillion_bundle::source::ConfigMapName;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::sidecar_set::decode::decode;
use rstest::rstest;

use super::*;

/// Returns a set without an account.
fn plain(name: &str) -> Value {
    edited(set(name, "x"), |set| set["spec"].as_object_mut().unwrap().retain(|key, _| !key.contains("erviceAccount")))
}

/// Returns a set whose container mounts the volume `conf`; `volume` is null if the set does not define it.
fn with_conf(set: Value, volume: Value) -> Value {
    edited(set, |set| {
        set["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "conf", "mountPath": "/conf"}]);
        if !volume.is_null() {
            set["spec"]["volumes"] = json!([edited(volume, |volume| volume["name"] = json!("conf"))]);
        }
    })
}

fn naming(set: Value, partner: &str) -> Value {
    edited(set, |set| set["spec"]["serviceAccountPartners"] = json!([partner]))
}

fn folder() -> Value {
    json!({"emptyDir": {}})
}

/// Returns the verdict on a Pod for which the cluster has these sets, in a bundle that the controller keeps.
fn message_in_cluster(pod: &Value, sets: &[Value], of_settings: &[Value]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let at = ConfigMapName { namespace: "pillion-system".to_owned(), name: "sets".to_owned() };
    let sets: Vec<_> = sets.iter().map(|set| decode(set.clone()).unwrap().into_sidecar_set()).collect();
    let kept = config_map::write(&at, &sets, Timestamp(i64::try_from(now).unwrap()), TEXT_MAX).unwrap();
    let settings = edited(gated(&json!({}), of_settings), |settings| {
        settings["bundleRef"] = json!({"namespace": "pillion-system", "name": "sets"});
    });
    let cluster = Court::with(["a", "b", "agent"].map(account).into_iter().chain(kept));
    verdict(&ask(&request(pod), &settings, &Arc::new(cluster)))
}

/// The other set replaces the configuration or the programs of the agent.
#[rstest]
#[case::the_same_folder(folder(), folder(), false)]
#[case::only_mounted(folder(), Value::Null, false)]
#[case::defined_by_the_other(Value::Null, folder(), false)]
#[case::a_folder_in_place_of_a_configuration(json!({"configMap": {"name": "agent"}}), folder(), false)]
#[case::the_same_configuration(json!({"configMap": {"name": "agent"}}), json!({"configMap": {"name": "agent"}}), true)]
fn idc11_nobody_writes_into_an_owners_volume(
    #[case] owners: Value,
    #[case] others: Value,
    #[case] is_fine: bool,
    #[values("SidecarsOnly", "Isolate")] mode: &str,
) {
    let agent = with_conf(edited(set("agent", "agent"), |set| set["spec"]["serviceAccountMode"] = json!(mode)), owners);
    for other in ["a-before", "z-after"] {
        let sets = [agent.clone(), with_conf(plain(other), others.clone())];
        let answered = message_in_cluster(&pod(), &sets, &[]);
        if is_fine {
            assert_eq!(answered, "accepted");
            continue;
        }
        assert!(answered.starts_with(&format!("403 SidecarSet \"{other}\": spec.")), "{answered}");
        assert!(answered.contains("SidecarSet \"agent\" uses the volume \"conf\" in the same Pods"), "{answered}");
        let remedy = format!("let \"{other}\" and \"agent\" name each other in spec.serviceAccountPartners");
        assert!(answered.contains(&remedy), "{answered}");
        let partners = [naming(sets[0].clone(), other), naming(sets[1].clone(), "agent")];
        assert_eq!(message_in_cluster(&pod(), &partners, &[]), "accepted");
        for half in [[partners[0].clone(), sets[1].clone()], [sets[0].clone(), partners[1].clone()]] {
            assert_eq!(message_in_cluster(&pod(), &half, &[]), answered, "one side alone is not enough");
        }
        assert!(message_in_cluster(&pod(), &sets[1..], &sets[..1]).starts_with("403 "), "an owner of the settings");
    }
}

#[test]
fn idc11_two_owners_of_one_account_are_no_partners() {
    let sets = [with_conf(set("a", "agent"), folder()), with_conf(set("b", "agent"), folder())];
    assert!(
        message_in_cluster(&pod(), &sets, &[]).starts_with("403 SidecarSet \"b\": spec.volumes[0]: SidecarSet \"a\"")
    );
    assert_eq!(message_of(&pod(), &sets), "accepted", "one operator wrote the settings");
}

/// In a Pod that keeps its own account, no SidecarSet gets an identity.
#[test]
fn idc11_only_an_identity_makes_a_volume_its_owners() {
    let sets = [with_conf(set("a", "agent"), folder()), with_conf(plain("b"), folder())];
    assert_eq!(message_in_cluster(&running_as("own"), &sets, &[]), "accepted");
    assert_eq!(message_in_cluster(&pod(), &[with_conf(plain("a"), folder()), sets[1].clone()], &[]), "accepted");
}

/// The app mounts a volume that the owner defines. `shareVolumePolicy` hands it to no other set.
#[test]
fn idc11_an_owners_volume_is_not_shared_through_the_app() {
    let sharing = |set| {
        edited(set, |set| {
            set["spec"]["containers"][0]["shareVolumePolicy"] = json!({"type": "enabled"});
        })
    };
    let app = edited(pod(), |pod| {
        pod["spec"]["containers"][0]["volumeMounts"]
            .as_array_mut()
            .unwrap()
            .extend([json!({"name": "conf", "mountPath": "/agent"}), json!({"name": "data", "mountPath": "/data"})]);
        pod["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": "data", "emptyDir": {}}));
    });
    let mounts = |set: Value| {
        let after = injected(&app, &[with_conf(self::set("agent", "agent"), folder()), sharing(set)]);
        let containers = after["spec"]["containers"].as_array().unwrap();
        let other = containers.iter().find(|container| container["name"] == "z").unwrap();
        let names =
            other["volumeMounts"].as_array().unwrap().iter().map(|mount| mount["name"].as_str().unwrap().to_owned());
        names.filter(|name| !name.starts_with("sidecarset-sa-")).collect::<Vec<_>>()
    };
    assert_eq!(mounts(plain("z")), ["data"]);
    assert_eq!(mounts(set("z", "agent")), ["data"]);
    let alone = injected(&app, &[sharing(with_conf(set("z", "agent"), folder()))]);
    let own = alone["spec"]["containers"].as_array().unwrap().iter().find(|it| it["name"] == "z").unwrap();
    assert!(own["volumeMounts"].as_array().unwrap().iter().any(|mount| mount["mountPath"] == "/agent"), "{own}");
}
