//! Generators for the property of identities: Pods with tokens in odd places, SidecarSets with and without accounts,
//! accounts in every state.

use pillion_identity::names;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

use super::scenario::{Scenario, Set, merges, token_volume};
use super::{ASKING_DRIVER, Account, Accounts, TOKEN_PATH, plugin};

/// The names of the SidecarSets.
const SETS: [&str; 3] = ["a", "b", "c"];
/// Paths at, above and below the place of tokens.
const PLACES: [&str; 6] = [
    "/run/secrets/kubernetes.io/serviceaccount",
    "/var/run",
    "/var/run/secrets/../secrets/kubernetes.io",
    "//run//secrets",
    "/var/run/secrets/kubernetes.io/serviceaccount/token",
    "/run/secrets/kubernetes.io/serviceaccount/x",
];
/// The accounts that SidecarSets name.
const WANTED: [&str; 3] = ["x", "y", "z"];

/// Generates the volumes of a Pod. Each has its own probability. Two may have names like those of the API server's
/// volumes.
fn volumes() -> impl Strategy<Value = Vec<Value>> {
    let secret = names::token_secret("x");
    let of_a = names::credential("x", Some("a"));
    let rare = |weight, volume: Value| option::weighted(weight, Just(volume));
    let own = prop_oneof![
        Just(json!({"name": "kube-api-access-own", "emptyDir": {}})),
        Just(plugin::automount_volume("kube-api-access-own")),
        Just(token_volume("kube-api-access-own", "vault")),
        Just(with_source(
            plugin::automount_volume("kube-api-access-own"),
            json!({"podCertificate": {"signerName": "a/b"}})
        )),
        Just(with_source(plugin::automount_volume("kube-api-access-own"), json!({"secret": {"name": secret}}))),
    ];
    let others = (
        rare(
            0.1,
            json!({"name": "certificate", "projected": {"sources": [{"podCertificate": {"signerName": "a/b"}}]}}),
        ),
        rare(0.1, json!({"name": "asking", "csi": {"driver": ASKING_DRIVER}})),
        rare(0.1, json!({"name": "nfs", "csi": {"driver": "nfs.csi.k8s.io"}})),
        rare(
            0.02,
            json!({"name": "smb", "csi": {"driver": "smb.csi.k8s.io", "nodePublishSecretRef": {"name": secret}}}),
        ),
        rare(0.02, json!({"name": "flex", "flexVolume": {"driver": "a/b", "secretRef": {"name": secret}}})),
    );
    (
        rare(0.3, token_volume("vault", "vault")),
        rare(0.15, token_volume("plain", "")),
        option::weighted(0.15, own),
        rare(0.04, json!({"name": "secret", "secret": {"secretName": secret}})),
        rare(0.04, json!({"name": "projected", "projected": {"sources": [{"secret": {"name": secret}}]}})),
        rare(0.03, json!({"name": names::token_volume("x"), "emptyDir": {}})),
        (
            rare(0.02, json!({"name": names::token_volume(&of_a), "emptyDir": {}})),
            rare(
                0.02,
                json!({"name": "whole", "projected": {"sources": [{"secret": {"name": names::token_secret(&of_a)}}]}}),
            ),
        ),
        others,
    )
        .prop_map(
            |(vault, plain, own, secret, projected, forged, of_set, (certificate, asking, nfs, smb, flex))| {
                let mut volumes = vec![json!({"name": "data", "emptyDir": {}})];
                volumes
                    .extend([vault, plain, own, secret, projected, forged, of_set.0, of_set.1].into_iter().flatten());
                volumes.extend([certificate, asking, nfs, smb, flex].into_iter().flatten());
                volumes
            },
        )
}

/// Adds a source to a projected volume.
fn with_source(mut volume: Value, source: Value) -> Value {
    volume["projected"]["sources"].as_array_mut().unwrap().push(source);
    volume
}

/// Generates a container that mounts some of these volumes, at most one at each path.
fn container(name: &'static str, volumes: Vec<String>) -> impl Strategy<Value = Value> {
    let path = prop_oneof![
        4 => Just("/elsewhere".to_owned()),
        1 => Just(TOKEN_PATH.to_owned()),
        1 => Just(format!("{TOKEN_PATH}/")),
        1 => Just(TOKEN_PATH.replace("run/", "run/./")),
        1 => select(PLACES.to_vec()).prop_map(str::to_owned),
    ];
    let mounts = vec((select(volumes), path), 0..=2);
    let env = prop_oneof![
        8 => Just("ordinary".to_owned()),
        1 => select(vec![names::token_secret("x"), names::token_secret(&names::credential("x", Some("a")))]),
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

/// Generates the ways in which a Pod names its account: not at all, by the field, by the alias, by both.
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
    let tokens = prop_oneof![
        1 => Just(&[][..]),
        1 => Just(&[("vault", "vault")][..]),
        1 => Just(&[("sts.example.com", "sts"), ("vault", "v")][..]),
    ];
    let token = (select(vec!["", "mesh"]), select(vec!["/tokens", TOKEN_PATH]));
    let identity = (account, select(modes), select(vec!["Refuse", "Merge", "Merge", "Merge"]), any::<bool>());
    let shape = (
        prop::bool::weighted(0.25),
        option::weighted(0.4, any::<bool>()),
        prop::bool::weighted(0.3),
        select(vec!["BeforeAppContainer", "AfterAppContainer"]),
        prop_oneof![8 => Just("agent-data"), 1 => select(vec!["vault", "plain", "certificate", "asking"])],
        option::weighted(0.15, token),
        option::weighted(0.03, select(PLACES.to_vec())),
        tokens,
    );
    (prop::bool::weighted(0.9), identity, shape).prop_map(
        move |(
            matches,
            (account, mode, on_conflict, by_annotation),
            (is_pair, init, shares, place, volume, token, in_the_way, tokens),
        )| {
            Set {
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
                volume,
                // A set that names an account may not bring tokens (E4).
                token: token.filter(|_| account.is_none()),
                in_the_way,
                tokens,
            }
        },
    )
}

/// Generates the state of an account: existing, with or without automounting, or not usable.
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

/// Generates up to three SidecarSets with modes from `modes`, and a Pod that most of them select.
pub fn scenario(modes: &[&'static str]) -> BoxedStrategy<Scenario> {
    let sets = SETS.map(|name| set(name, modes.to_vec())).prop_flat_map(|sets| (Just(sets), 1..=SETS.len()));
    let accounts = (state(), state(), state(), select(vec![None, None, Some(true), Some(false)]));
    let skip = || select(vec!["Deny", "Skip"]);
    let settings = (skip(), skip(), select(vec!["Keep", "Deny", "Isolate", "Isolate"]), prop::bool::weighted(0.9));
    (pod(), sets, accounts, settings, prop::bool::weighted(0.9))
        .prop_map(|(pod, (sets, count), (x, y, z, automount), settings, allow_and_ready)| {
            let sets: Vec<Set> = sets.into_iter().take(count).collect();
            let (on_missing, on_conflict, on_app_account, allow_pod_mode) = settings;
            let mut accounts = Accounts::named(&["own"]).with("default", Account { automount, ..Account::default() });
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
