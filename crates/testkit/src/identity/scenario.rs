//! What the property of identities draws from: Pods with tokens in odd places, SidecarSets with and without accounts,
//! accounts in every state.

use pillion_core::service_account::names;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

use super::{Account, Accounts, NAMESPACE, TOKEN_PATH, plugin};
use crate::FakeCluster;

/// The names of the SidecarSets.
const SETS: [&str; 3] = ["a", "b", "c"];
/// The accounts that SidecarSets name.
const WANTED: [&str; 3] = ["x", "y", "z"];
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// A SidecarSet.
#[derive(Clone, Debug)]
pub struct Set {
    /// Its name.
    pub name: &'static str,
    /// Whether it selects the Pod.
    pub matches: bool,
    /// `serviceAccountName`.
    pub account: Option<&'static str>,
    /// `serviceAccountMode`.
    pub mode: &'static str,
    /// `behaviorWhenServiceAccountInjection`.
    pub on_conflict: &'static str,
    /// Whether identity is said in annotations instead of fields.
    pub by_annotation: bool,
    /// Whether its container is a hot-upgrade pair.
    pub is_pair: bool,
    /// Whether it has an init container, and whether that one stays.
    pub init: Option<bool>,
    /// `shareVolumePolicy` of its container.
    pub shares: bool,
    /// Where its container goes.
    pub place: &'static str,
    /// A token that it brings itself, as the reference lets it: the audience, and where it is mounted.
    pub token: Option<(&'static str, &'static str)>,
}

impl Set {
    /// A SidecarSet that selects the Pod and has one container, `<name>-main`, with this account in this mode.
    pub fn new(name: &'static str, account: Option<&'static str>, mode: &'static str) -> Self {
        Self {
            name,
            matches: true,
            account,
            mode,
            on_conflict: "Refuse",
            by_annotation: false,
            is_pair: false,
            init: None,
            shares: false,
            place: "AfterAppContainer",
            token: None,
        }
    }

    /// Whether it asks for an identity in this Pod.
    pub fn asks(&self) -> bool {
        self.matches && self.account.is_some()
    }

    /// Its containers by the names that they have in a Pod.
    pub fn containers(&self) -> Vec<String> {
        let main = format!("{}-main", self.name);
        let mut names = if self.is_pair { vec![format!("{main}-1"), format!("{main}-2")] } else { vec![main] };
        names.extend(self.init.map(|_| format!("{}-init", self.name)));
        names
    }

    /// The object; `shares` says whether it may take the mounts of the Pod's containers.
    fn manifest(&self, shares: bool) -> Value {
        let mut main = json!({
            "name": format!("{}-main", self.name), "image": "agent:1", "podInjectPolicy": self.place,
            "volumeMounts": [{"name": format!("{}-data", self.name), "mountPath": "/agent"}],
            "transferEnv": [{"sourceContainerName": "app", "envName": "SECRET"}],
        });
        if self.is_pair {
            main["upgradeStrategy"] = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
        }
        if self.shares && shares {
            main["shareVolumePolicy"] = json!({"type": "enabled"});
        }
        let mut volumes = vec![json!({"name": format!("{}-data", self.name), "emptyDir": {}})];
        if let Some((audience, path)) = self.token {
            let name = format!("{}-token", self.name);
            volumes.push(token_volume(&name, audience));
            main["volumeMounts"].as_array_mut().unwrap().push(json!({"name": name, "mountPath": path}));
        }
        let mut init = Vec::new();
        if let Some(stays) = self.init {
            let mut container = json!({"name": format!("{}-init", self.name), "image": "setup:1"});
            if stays {
                container["restartPolicy"] = json!("Always");
            }
            init.push(container);
        }
        let value = if self.matches { "web" } else { "other" };
        let mut set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": self.name},
            "spec": {
                "selector": {"matchLabels": {"app": value}}, "containers": [main], "initContainers": init,
                "volumes": volumes, "updateStrategy": {"type": "NotUpdate"},
            },
        });
        let Some(account) = self.account else { return set };
        let permissions = json!([{"apiGroups": [""], "resources": [self.name], "verbs": ["get"]}]);
        if self.by_annotation {
            set["metadata"]["annotations"] = json!({
                "pillion.dev/service-account-name": account,
                "pillion.dev/service-account-mode": self.mode,
                "pillion.dev/service-account-conflict": self.on_conflict.to_ascii_lowercase(),
                "pillion.dev/service-account-permissions": permissions.to_string(),
            });
        } else {
            set["spec"]["serviceAccountName"] = json!(account);
            set["spec"]["serviceAccountMode"] = json!(self.mode);
            set["spec"]["behaviorWhenServiceAccountInjection"] = json!(self.on_conflict);
            set["spec"]["serviceAccountPermissions"] = permissions;
        }
        set
    }
}

/// A Pod, the SidecarSets of the policy, and the cluster in which they meet.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The Pod as its author wrote it.
    pub pod: Value,
    /// The SidecarSets, by name.
    pub sets: Vec<Set>,
    /// The accounts of the namespace, merged ones included where they are ready.
    pub accounts: Accounts,
    /// `serviceAccounts.onMissing`.
    pub on_missing: &'static str,
    /// `serviceAccounts.onConflict`.
    pub on_conflict: &'static str,
    /// `serviceAccounts.onAppServiceAccount`.
    pub on_app_account: &'static str,
    /// `serviceAccounts.allowPodMode`.
    pub allow_pod_mode: bool,
    /// Whether the controller has made the merged objects.
    pub merged_is_ready: bool,
}

impl Scenario {
    /// A Pod that meets these SidecarSets where nothing is set but what they need.
    pub fn new(pod: Value, sets: Vec<Set>, accounts: Accounts) -> Self {
        Self {
            pod,
            sets,
            accounts,
            on_missing: "Deny",
            on_conflict: "Deny",
            on_app_account: "Keep",
            allow_pod_mode: false,
            merged_is_ready: false,
        }
    }

    /// The settings of the injecting policy with the feature on.
    pub fn settings(&self) -> Value {
        json!({
            "sidecarSets": self.sets.iter().map(|set| set.manifest(true)).collect::<Vec<_>>(),
            "featureGates": {"SidecarSetServiceAccountInjection": true},
            "serviceAccounts": {
                "onMissing": self.on_missing, "onConflict": self.on_conflict,
                "onAppServiceAccount": self.on_app_account, "allowPodMode": self.allow_pod_mode,
            },
        })
    }

    /// The settings with the feature off: what everybody would get without it. Where a set asks for an identity,
    /// tokens are not shared (A5-8); there nothing is.
    pub fn settings_without(&self) -> Value {
        let shares = !self.sets.iter().any(Set::asks);
        json!({ "sidecarSets": self.sets.iter().map(|set| set.manifest(shares)).collect::<Vec<_>>() })
    }

    /// The settings of the asserting twin.
    pub fn settings_of_twin(&self) -> Value {
        let mut settings = self.settings();
        settings["role"] = json!("Assert");
        settings
    }

    /// The cluster, as the policy is shown it.
    pub fn cluster(&self) -> FakeCluster {
        let mut objects = Vec::new();
        for sets in merges(&self.sets).into_iter().filter(|_| self.merged_is_ready) {
            let name = names::merged(&sets);
            let metadata = json!({
                "name": name, "namespace": NAMESPACE, "annotations": {"pillion.dev/sidecarsets": sets.join(",")},
            });
            objects.push(json!({
                "apiVersion": RBAC, "kind": "Role", "metadata": metadata,
                "rules": [{"apiGroups": [""], "resources": sets, "verbs": ["get"]}],
            }));
            objects.push(json!({
                "apiVersion": RBAC, "kind": "RoleBinding", "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
            }));
        }
        self.accounts.cluster(objects)
    }
}

/// The groups of SidecarSets that may have a merged account.
fn merges(sets: &[Set]) -> Vec<Vec<&'static str>> {
    let names: Vec<&'static str> = sets.iter().filter(|set| set.asks()).map(|set| set.name).collect();
    let mut groups = Vec::new();
    for mask in 0_u8..8 {
        let group: Vec<_> =
            names.iter().enumerate().filter(|(index, _)| mask & (1 << index) != 0).map(|(_, name)| *name).collect();
        if group.len() > 1 {
            groups.push(group);
        }
    }
    groups
}

/// A volume with a token of the account that the Pod runs under.
fn token_volume(name: &str, audience: &str) -> Value {
    let mut token = json!({"path": "token", "expirationSeconds": 3600});
    if !audience.is_empty() {
        token["audience"] = json!(audience);
    }
    json!({"name": name, "projected": {"sources": [{"serviceAccountToken": token}]}})
}

/// The volumes that a Pod may bring, each with how often it is drawn. Two are called like those of the API server.
fn volumes() -> impl Strategy<Value = Vec<Value>> {
    let secret = names::token_secret("x");
    let rare = |weight, volume: Value| option::weighted(weight, Just(volume));
    let own = prop_oneof![
        Just(json!({"name": "kube-api-access-own", "emptyDir": {}})),
        Just(plugin::automount_volume("kube-api-access-own")),
        Just(token_volume("kube-api-access-own", "vault")),
    ];
    (
        rare(0.3, token_volume("vault", "vault")),
        rare(0.15, token_volume("plain", "")),
        option::weighted(0.15, own),
        rare(0.04, json!({"name": "secret", "secret": {"secretName": secret}})),
        rare(0.04, json!({"name": "projected", "projected": {"sources": [{"secret": {"name": secret}}]}})),
        rare(0.04, json!({"name": names::token_volume("x"), "emptyDir": {}})),
    )
        .prop_map(|(vault, plain, own, secret, projected, forged)| {
            let mut volumes = vec![json!({"name": "data", "emptyDir": {}})];
            volumes.extend([vault, plain, own, secret, projected, forged].into_iter().flatten());
            volumes
        })
}

/// A container with mounts of some of these volumes, at most one at each path.
fn container(name: &'static str, volumes: Vec<String>) -> impl Strategy<Value = Value> {
    let path = prop_oneof![
        4 => Just("/elsewhere".to_owned()),
        1 => Just(TOKEN_PATH.to_owned()),
        1 => Just(format!("{TOKEN_PATH}/")),
    ];
    let mounts = vec((select(volumes), path), 0..=2);
    let env = prop_oneof![
        8 => Just("ordinary".to_owned()),
        1 => Just(names::token_secret("x")),
    ];
    (mounts, option::weighted(0.3, env)).prop_map(move |(mounts, secret)| {
        let mut container = json!({"name": name, "image": "app:1"});
        let mut list: Vec<Value> = Vec::new();
        for (volume, path) in mounts {
            if list.iter().all(|mount| mount["mountPath"] != path) {
                list.push(json!({"name": volume, "mountPath": path}));
            }
        }
        if !list.is_empty() {
            container["volumeMounts"] = json!(list);
        }
        if let Some(secret) = secret {
            container["env"] = json!([{"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}]);
        }
        container
    })
}

/// How a Pod says its account: not at all, by the field, by the alias, by both.
fn account() -> impl Strategy<Value = Map<String, Value>> {
    let own =
        prop_oneof![6 => Just("own".to_owned()), 6 => Just("x".to_owned()), 1 => Just(names::merged(&["a", "b"]))];
    let name = prop_oneof![8 => Just("default".to_owned()), 3 => own];
    (name, subsequence(vec!["serviceAccountName", "serviceAccount"], 0..=2))
        .prop_map(|(name, keys)| keys.into_iter().map(|key| (key.to_owned(), json!(name))).collect())
}

fn pod() -> impl Strategy<Value = Value> {
    let parts = volumes().prop_flat_map(|volumes| {
        let names: Vec<String> = volumes.iter().map(|volume| volume["name"].as_str().unwrap().to_owned()).collect();
        (
            Just(volumes),
            container("app", names.clone()),
            option::weighted(0.4, container("second", names.clone())),
            option::weighted(0.3, container("setup", names.clone())),
            option::weighted(0.3, container("proxy", names)),
        )
    });
    let automount = prop_oneof![4 => Just(None), 1 => Just(Some(true)), 2 => Just(Some(false))];
    (parts, account(), automount).prop_map(|((volumes, app, second, setup, proxy), account, automount)| {
        let mut init: Vec<Value> = setup.into_iter().collect();
        init.extend(proxy.map(|mut proxy| {
            proxy["restartPolicy"] = json!("Always");
            proxy
        }));
        let mut containers = vec![app];
        containers.extend(second);
        let mut spec = json!({"containers": containers, "volumes": volumes, "nodeSelector": {"disk": "fast"}});
        if !init.is_empty() {
            spec["initContainers"] = json!(init);
        }
        if let Some(automount) = automount {
            spec["automountServiceAccountToken"] = json!(automount);
        }
        spec.as_object_mut().unwrap().extend(account);
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"generateName": "web-", "labels": {"app": "web"}, "annotations": {"note": "kept"}},
            "spec": spec,
        })
    })
}

fn set(name: &'static str, modes: Vec<&'static str>) -> impl Strategy<Value = Set> {
    let account = option::weighted(0.85, select(WANTED.to_vec()));
    let token = (select(vec!["", "mesh"]), select(vec!["/tokens", TOKEN_PATH]));
    let identity = (account, select(modes), select(vec!["Refuse", "Merge", "Merge", "Merge"]), any::<bool>());
    let shape = (
        prop::bool::weighted(0.25),
        option::weighted(0.4, any::<bool>()),
        prop::bool::weighted(0.3),
        select(vec!["BeforeAppContainer", "AfterAppContainer"]),
        option::weighted(0.15, token),
    );
    (prop::bool::weighted(0.9), identity, shape).prop_map(
        move |(matches, (account, mode, on_conflict, by_annotation), (is_pair, init, shares, place, token))| Set {
            name,
            matches,
            account,
            mode,
            on_conflict,
            by_annotation,
            is_pair,
            init,
            shares,
            place,
            // A set that names an account may not bring tokens (E4).
            token: token.filter(|_| account.is_none()),
        },
    )
}

/// An account that is asked for: there, with or without automounting, or not usable.
fn state() -> impl Strategy<Value = Option<Account>> {
    let there = |automount| Some(Account { automount, ..Account::default() });
    prop_oneof![
        12 => Just(there(None)),
        2 => Just(there(Some(true))),
        5 => Just(there(Some(false))),
        1 => Just(None),
        1 => Just(Some(Account { is_terminating: true, ..Account::default() })),
        1 => Just(Some(Account { is_unreadable: true, ..Account::default() })),
    ]
}

/// Up to three SidecarSets whose modes are among `modes`, and a Pod that most of them select.
pub fn scenario(modes: Vec<&'static str>) -> BoxedStrategy<Scenario> {
    let sets = SETS.map(|name| set(name, modes.clone())).prop_flat_map(|sets| (Just(sets), 1..=SETS.len()));
    let accounts = (state(), state(), state(), select(vec![None, None, Some(true), Some(false)]));
    let skip = || select(vec!["Deny", "Skip"]);
    let settings = (skip(), skip(), select(vec!["Keep", "Deny", "Isolate", "Isolate"]), prop::bool::weighted(0.9));
    (pod(), sets, accounts, settings, prop::bool::weighted(0.9))
        .prop_map(|(pod, (sets, count), (x, y, z, automount), settings, allow_and_ready)| {
            let sets: Vec<Set> = sets.into_iter().take(count).collect();
            let (on_missing, on_conflict, on_app_account, allow_pod_mode) = settings;
            let mut accounts = Accounts::of(&["own"]).with("default", Account { automount, ..Account::default() });
            for (name, state) in WANTED.into_iter().zip([x, y, z]) {
                accounts.0.extend(state.map(|account| (name.to_owned(), account)));
            }
            for group in merges(&sets).into_iter().filter(|_| allow_and_ready) {
                let merged_for = Some(group.join(","));
                accounts = accounts.with(&names::merged(&group), Account { merged_for, ..Account::default() });
            }
            let merged_is_ready = allow_and_ready;
            Scenario { pod, sets, accounts, on_missing, on_conflict, on_app_account, allow_pod_mode, merged_is_ready }
        })
        .boxed()
}
