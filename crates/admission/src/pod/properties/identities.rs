//! Twice gives what once gives (ORDER-3, IDP-6), whatever volumes Pods and SidecarSets have and share: tokens,
//! certificates, Secrets, drivers, devices, mounts around the place of tokens, and volumes that an app mounts though only
//! a SidecarSet defines them.

use pillion_identity::names;
use pillion_kubernetes::lookup::{Answer, Lookup, ObjectRef};
use pillion_sidecarset::gates::Gates;
use pillion_sidecarset::made;
use pillion_sidecarset::names::TOKEN_CONTAINERS;
use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use proptest::collection::vec;
use proptest::option;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;
use crate::settings::Role;

/// The names of volumes, of Pods and of SidecarSets alike.
const VOLUMES: [&str; 5] = ["v1", "v2", "v3", "v4", "kube-api-access-own"];
const PATHS: [&str; 8] = [
    "/a",
    "/b",
    "/c",
    "/d",
    TOKEN_PATH,
    "/var/run/secrets/kubernetes.io/serviceaccount/",
    "/run/secrets/kubernetes.io",
    "/var/run/secrets/kubernetes.io/serviceaccount/x",
];
/// The names of the SidecarSets, which are also what their permissions are about.
const SETS: [&str; 3] = ["a", "b", "c"];

/// A Pod as its author wrote it, the SidecarSets, the setting `serviceAccounts`, and the accounts that exist.
#[derive(Clone, Debug)]
struct Scene {
    pod: Value,
    sets: Vec<SidecarSet>,
    rules: Value,
    accounts: Vec<&'static str>,
    sorts: bool,
}

/// The accounts of the scene, and every merged account with its Role and RoleBinding.
impl Lookup for Scene {
    fn get(&self, object: &ObjectRef) -> Answer {
        let name = object.name.as_str();
        let metadata = |sets: &str| json!({"name": name, "namespace": "n", "uid": "1", "annotations": {"pillion.dev/sidecarsets": sets}});
        if object.kind == "ServiceAccount" && self.accounts.contains(&name) {
            return Ok(Some(json!({"metadata": {"name": name, "namespace": "n", "uid": "1"}})));
        }
        let groups = [&SETS[..], &SETS[..2], &SETS[1..], &[SETS[0], SETS[2]]];
        let Some(group) = groups.into_iter().find(|group| names::merged(group) == name) else { return Ok(None) };
        let metadata = metadata(&group.join(","));
        Ok(match object.kind {
            "ServiceAccount" => Some(json!({ "metadata": metadata })),
            "Role" => Some(json!({
                "metadata": metadata, "rules": [{"apiGroups": [""], "resources": group, "verbs": ["get"]}],
            })),
            "RoleBinding" => Some(json!({
                "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "n"}],
            })),
            _ => None,
        })
    }
}

impl Scene {
    fn admit(&self, pod: &Value, uid: &str, role: Role) -> Outcome {
        let settings = Settings {
            gates: Gates {
                service_account_injection: true,
                sort_sidecar_containers_by_name: self.sorts,
                ..Gates::default()
            },
            service_accounts: serde_json::from_value(self.rules.clone()).unwrap(),
            role,
            ..Settings::default()
        };
        let now = Timestamp(i64::try_from(uid.len()).unwrap());
        let context = Context { settings: &settings, sidecar_sets: &self.sets, lookup: self, now };
        admit(PodRequest { uid, namespace: "n", object: pod }, context)
    }
}

/// Returns a Pod after the API server's ServiceAccount plugin, which runs before the webhooks and again after them
/// (SAP-3, SAP-4, SAP-8).
fn with_account(mut pod: Value) -> Value {
    let spec = pod["spec"].as_object_mut().unwrap();
    let name = json::text(&Value::Object(spec.clone()), &["serviceAccountName"]).to_owned();
    let name = if name.is_empty() { "default".to_owned() } else { name };
    spec.insert("serviceAccountName".to_owned(), json!(name));
    spec.insert("serviceAccount".to_owned(), json!(name));
    if spec.get("automountServiceAccountToken") == Some(&json!(false)) {
        return pod;
    }
    let volumes = json::list_mut(spec, "volumes").unwrap();
    let named =
        volumes.iter().map(|volume| json::text(volume, &["name"])).find(|name| name.starts_with("kube-api-access-"));
    let (volume, is_there) = named.map_or(("kube-api-access-x7k2p".to_owned(), false), |name| (name.to_owned(), true));
    let mut is_mounted = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mounts = json::list_mut(container.as_object_mut().unwrap(), "volumeMounts").unwrap();
            if mounts.iter().all(|mount| mount["mountPath"] != TOKEN_PATH) {
                mounts.push(json!({"name": volume, "readOnly": true, "mountPath": TOKEN_PATH}));
                is_mounted = true;
            }
        }
    }
    if is_mounted && !is_there {
        json::list_mut(spec, "volumes").unwrap().push(projected(
            &volume,
            &[
                json!({"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}),
                json!({"configMap": {"name": "kube-root-ca.crt"}}),
            ],
        ));
    }
    pod
}

fn projected(name: &str, sources: &[Value]) -> Value {
    json!({"name": name, "projected": {"sources": sources}})
}

/// Generates a volume of this name.
fn volume(name: &'static str) -> impl Strategy<Value = Value> {
    let token = |audience: &str| json!([{"serviceAccountToken": {"path": "token", "audience": audience}}]);
    let of_sidecar = names::token_secret("x");
    let sources = prop_oneof![
        14 => Just(json!({"emptyDir": {}})),
        4 => Just(json!({"hostPath": {"path": "/x"}})),
        6 => Just(json!({"secret": {"secretName": "password"}})),
        4 => Just(json!({"persistentVolumeClaim": {"claimName": "disk"}})),
        3 => Just(json!({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}})),
        3 => Just(json!({"projected": {"sources": token("vault")}})),
        1 => Just(json!({"projected": {"sources": [{"podCertificate": {"signerName": "a/b"}}]}})),
        4 => Just(json!({"projected": {"sources": [{"configMap": {"name": "c"}}]}})),
        2 => Just(json!({"csi": {"driver": "secrets-store.csi.k8s.io"}})),
        1 => Just(json!({"csi": {"driver": "nfs.csi.k8s.io"}})),
        1 => Just(json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}})),
        1 => Just(json!({"secret": {"secretName": of_sidecar}})),
    ];
    sources.prop_map(move |source| with(source.as_object().unwrap().clone(), json!({ "name": name })))
}

/// Generates some of the volumes.
fn volumes() -> impl Strategy<Value = Vec<Value>> {
    let names = prop_oneof![
        4 => subsequence(VOLUMES[..4].to_vec(), 0..=4),
        1 => subsequence(VOLUMES.to_vec(), 0..=5),
    ];
    names.prop_flat_map(|names| names.into_iter().map(volume).collect::<Vec<_>>())
}

/// Generates mounts and devices of these volumes, each at a path of its own.
fn uses(volumes: Vec<&'static str>) -> BoxedStrategy<Object> {
    if volumes.is_empty() {
        return Just(Object::new()).boxed();
    }
    let path = || prop_oneof![14 => select(PATHS[..4].to_vec()), 1 => select(PATHS.to_vec())];
    let mounts = vec((select(volumes.clone()), path(), any::<bool>()), 0..=3);
    let devices = option::weighted(0.05, (select(volumes), select(vec!["/dev/x", "/a"])));
    (mounts, devices)
        .prop_map(|(mounts, device)| {
            let mut fields = Object::new();
            let mut list: Vec<Value> = Vec::new();
            for (name, path, read_only) in mounts {
                if list.iter().all(|mount| mount["mountPath"] != path) {
                    list.push(json!({"name": name, "mountPath": path, "readOnly": read_only}));
                }
            }
            if !list.is_empty() {
                fields.insert("volumeMounts".to_owned(), json!(list));
            }
            if let Some((name, path)) = device {
                fields.insert("volumeDevices".to_owned(), json!([{"name": name, "devicePath": path}]));
            }
            fields
        })
        .boxed()
}

/// Generates a container of a Pod, which may mount volumes that the Pod does not have.
fn container(name: &'static str) -> impl Strategy<Value = Value> {
    let env = prop_oneof![
        18 => Just(json!([{"name": "A", "value": "1"}])),
        1 => Just(json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": names::token_secret("x"), "key": "k"}}}])),
        1 => Just(json!([{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v1", "path": "p", "key": "k"}}}])),
    ];
    let names = prop_oneof![4 => Just(VOLUMES[..4].to_vec()), 1 => Just(VOLUMES.to_vec())];
    (names.prop_flat_map(uses), env)
        .prop_map(move |(fields, env)| with(fields, json!({"name": name, "image": "app:1", "env": env})))
}

fn pods() -> impl Strategy<Value = Value> {
    let account = option::weighted(0.3, select(vec!["default", "own", "x"]));
    let automount = option::weighted(0.3, any::<bool>());
    let setup = (option::weighted(0.4, container("setup")), option::weighted(0.3, container("proxy")));
    let holders = option::weighted(0.4, select(vec!["app", "app", "app,setup,a1", "second,b2", "", "*"]));
    let account = (account, automount, holders);
    (volumes(), (container("app"), option::weighted(0.4, container("second"))), setup, account).prop_map(
        |(volumes, (app, second), (setup, proxy), (account, automount, holders))| {
            let mut init = Vec::from_iter(setup);
            init.extend(
                proxy.map(|proxy| with(proxy.as_object().unwrap().clone(), json!({"restartPolicy": "Always"}))),
            );
            let containers: Vec<Value> = [Some(app), second].into_iter().flatten().collect();
            let mut spec = json!({"containers": containers, "initContainers": init, "volumes": volumes});
            if let Some(account) = account {
                spec["serviceAccountName"] = json!(account);
            }
            if let Some(automount) = automount {
                spec["automountServiceAccountToken"] = json!(automount);
            }
            let annotations = holders.map(|names| json!({TOKEN_CONTAINERS: names}));
            json!({"metadata": {"generateName": "p-", "labels": {"app": "x"}, "annotations": annotations}, "spec": spec})
        },
    )
}

fn shares() -> impl Strategy<Value = Value> {
    select(vec!["enabled", "enabled", "disabled"]).prop_map(|policy| json!({ "type": policy }))
}

/// Generates a sidecar that uses some of these volumes.
fn sharing(name: String, volumes: Vec<&'static str>) -> impl Strategy<Value = Value> {
    let place = select(vec!["BeforeAppContainer", "AfterAppContainer"]);
    let upgrade = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    let rest = some_of(vec![
        ("transferEnv", json!([{"sourceContainerName": "app", "envName": "A"}])),
        ("upgradeStrategy", upgrade),
        ("terminationMessagePath", json!("/dev/log")),
    ]);
    (uses(volumes), rest, shares(), shares(), place).prop_map(move |(uses, rest, mounts, devices, place)| {
        let mut fields = uses;
        fields.extend(rest);
        with(
            fields,
            json!({
                "name": name, "image": "agent:1", "podInjectPolicy": place, "shareVolumePolicy": mounts,
                "shareVolumeDevicePolicy": devices,
            }),
        )
    })
}

fn sidecar_set(name: &'static str) -> impl Strategy<Value = SidecarSet> {
    let tokens = prop_oneof![
        2 => Just(json!([])),
        1 => Just(json!([{"audience": "vault", "path": "vault"}])),
    ];
    let identity = (
        option::weighted(0.6, select(vec!["x", "x", "x", "y"])),
        select(vec!["SidecarsOnly", "SidecarsOnly", "SidecarsOnly", "Isolate", "Isolate", "Pod"]),
        select(vec!["Refuse", "Merge", "Merge", "Merge"]),
        tokens,
    );
    let parts = volumes().prop_flat_map(move |volumes| {
        let names: Vec<&'static str> =
            VOLUMES.into_iter().filter(|name| volumes.iter().any(|volume| volume["name"] == *name)).collect();
        let containers = (sharing(format!("{name}1"), names.clone()), sharing(format!("{name}2"), names.clone()));
        let containers =
            containers.prop_map(|(one, other)| vec![one, other]).prop_flat_map(|all| subsequence(all, 1..=2));
        (Just(volumes), containers, option::weighted(0.4, (sharing(format!("{name}0"), names), any::<bool>())))
    });
    (parts, identity).prop_map(move |((volumes, containers, init), (account, mode, on_conflict, tokens))| {
        let init: Vec<Value> = init
            .into_iter()
            .map(|(mut init, is_native)| {
                if is_native {
                    init["restartPolicy"] = json!("Always");
                }
                init
            })
            .collect();
        let mut spec = json!({
            "selector": {"matchLabels": {"app": "x"}}, "containers": containers, "initContainers": init,
            "volumes": volumes, "updateStrategy": {"type": "NotUpdate"},
        });
        if let Some(account) = account {
            spec["serviceAccountName"] = json!(account);
            spec["serviceAccountMode"] = json!(mode);
            spec["behaviorWhenServiceAccountInjection"] = json!(on_conflict);
            spec["serviceAccountPermissions"] = json!([{"apiGroups": [""], "resources": [name], "verbs": ["get"]}]);
            spec["serviceAccountTokens"] = tokens;
        }
        prepared(&SidecarSet::from_decoded(json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name}, "spec": spec,
        })))
    })
}

fn scenes() -> impl Strategy<Value = Scene> {
    let sets = SETS.map(sidecar_set).prop_flat_map(|sets| subsequence(sets.to_vec(), 1..=3));
    let skip = || select(vec!["Deny", "Skip"]);
    let otherwise = option::weighted(0.2, select(vec![vec![], vec!["app"], vec!["a*"]]));
    let rules =
        (skip(), skip(), select(vec!["Keep", "Deny", "Isolate", "Isolate"]), prop::bool::weighted(0.8), otherwise);
    let rules = rules.prop_map(|(missing, conflict, app, pod_mode, otherwise)| {
        json!({
            "tokenContainers": {"otherwise": otherwise},
            "onMissing": missing, "onConflict": conflict, "onAppServiceAccount": app, "allowPodMode": pod_mode,
            "allowedAudiences": ["vault"],
        })
    });
    let accounts = prop_oneof![5 => Just(vec!["default", "own", "x", "y"]), 1 => Just(vec!["default", "own", "x"])];
    (pods(), sets, rules, accounts, any::<bool>()).prop_map(|(pod, sets, rules, accounts, sorts)| Scene {
        pod,
        sets,
        rules,
        accounts,
        sorts,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn order3_twice_gives_what_once_gives_with_identities_and_volumes(scene in scenes()) {
        let seen = with_account(scene.pod.clone());
        if let Verdict::Mutated(once) = scene.admit(&seen, "one", Role::Inject).verdict {
            prop_assert_eq!(scene.admit(&once, "three", Role::Inject).verdict, Verdict::Unchanged, "{:#}", once);
            let stored = with_account(once);
            prop_assert_eq!(scene.admit(&stored, "four", Role::Inject).verdict, Verdict::Unchanged, "{:#}", stored);
            prop_assert_eq!(scene.admit(&stored, "five", Role::Assert).verdict, Verdict::Unchanged, "{:#}", stored);
        }
    }
}

/// Returns the containers that hold a token of the Pod's account for the API server, besides sidecars with an identity.
fn holders(pod: &Value) -> Vec<&str> {
    let speaks = |volume: &Value| {
        let sources = json::items(volume, &["projected", "sources"]);
        sources.iter().any(|source| {
            source.get("serviceAccountToken").is_some_and(|token| json::text(token, &["audience"]).is_empty())
        })
    };
    let volumes = json::items(pod, &["spec", "volumes"]).iter().filter(|volume| speaks(volume));
    let volumes: Vec<&str> = volumes.map(|volume| json::text(volume, &["name"])).collect();
    let lists = ["initContainers", "containers"].map(|list| json::items(pod, &["spec", list]));
    let holds = |container: &&Value| pod::used_volumes(container).any(|used| volumes.contains(&used));
    lists.into_iter().flatten().filter(holds).map(pod::name).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    /// TCN-4, TCN-5: whatever else a Pod and its SidecarSets have, only the containers that the Pod names get its token. A
    /// sidecar of a SidecarSet with the account of the Pod has it, too.
    #[test]
    fn tcn5_nobody_but_the_named_containers_gets_the_token(
        mut scene in scenes(), wanted in select(vec!["app", "app,setup,a1", "second,b2", ""])
    ) {
        scene.pod["metadata"]["annotations"] = json!({TOKEN_CONTAINERS: wanted});
        let seen = with_account(scene.pod.clone());
        if let Verdict::Mutated(once) = scene.admit(&seen, "one", Role::Inject).verdict {
            let stored = with_account(once);
            let account = json::text(&stored, &["spec", "serviceAccountName"]);
            let asking = scene.sets.iter().filter(|set| set.spec(&["serviceAccountName"]).is_some());
            // In mode Pod, the app gets the account of the sidecar.
            let is_of_mode_pod = |set: &SidecarSet| set.spec(&["serviceAccountMode"]) == Some(&json!("Pod"));
            let is_for_all = account != "own" && asking.clone().any(is_of_mode_pod);
            let sidecars: Vec<String> =
                asking.flat_map(|set| made::containers(set).map(|made| made.name).collect::<Vec<_>>()).collect();
            for holder in holders(&stored).into_iter().filter(|_| !is_for_all) {
                let is_named = wanted.split(',').any(|name| name == holder);
                prop_assert!(is_named || sidecars.iter().any(|name| name == holder), "{holder}: {stored:#}");
            }
        }
    }
}

/// A policy that refuses everything would have the property, too.
#[test]
fn the_scenes_are_about_something() {
    let mut runner = TestRunner::deterministic();
    let (mut injected, mut with_identity, mut borrowed) = (0, 0, 0);
    for _ in 0..600 {
        let scene = scenes().new_tree(&mut runner).unwrap().current();
        let seen = with_account(scene.pod.clone());
        let Verdict::Mutated(once) = scene.admit(&seen, "one", Role::Inject).verdict else { continue };
        injected += 1;
        let volumes = json::items(&once, &["spec", "volumes"]);
        let is_ours = |volume: &Value| json::text(volume, &["name"]).starts_with("sidecarset-sa-");
        if !volumes.iter().any(is_ours) {
            continue;
        }
        with_identity += 1;
        let own = |name: &Value| json::items(&seen, &["spec", "volumes"]).iter().any(|volume| volume["name"] == *name);
        let is_borrowed =
            |mount: &Value| !own(&mount["name"]) && volumes.iter().any(|volume| volume["name"] == mount["name"]);
        let app = json::items(&seen, &["spec", "containers"]).iter();
        borrowed += usize::from(app.flat_map(|app| json::items(app, &["volumeMounts"])).any(is_borrowed));
    }
    assert!(injected > 100 && with_identity > 50 && borrowed > 10, "{injected} {with_identity} {borrowed}");
}
