//! The identities of sidecars that the containers of a running Pod hold (AFT-3).

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::json;
use pillion_sidecarset::pod;
use serde_json::Value;

use super::account_of;
use super::held::running_containers;
use super::volumes::{self, Volumes};
use crate::drivers::Drivers;
use crate::names;

/// The most identities of a volume or a container that are told apart (E18). Pillion gives a container one.
const IDENTITIES_MAX: usize = 8;

/// An identity that a container holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity<'a> {
    /// The account that the Pod runs under.
    OfPod(&'a str),
    /// The account whose Secret has a name that ends in this text ([`names::token_secret`]).
    OfSecret(&'a str),
}

/// The identities of each container that holds one.
pub type Identities<'a> = BTreeMap<&'a str, BTreeSet<Identity<'a>>>;

/// Returns the identities in a running Pod. CSI drivers in `trusted` do not request tokens.
///
/// Only `spec` counts, which nobody can change: users write annotations and labels. The Pod has its account for its
/// sidecars if it is a merged one, or if a volume of Pillion gives it to them. Then every container that can get this
/// account holds it, through any volume: in mode `Pod` those of the app, too. Otherwise the account is the Pod's own, even
/// if not all of its containers get the token (TCN-4).
pub fn identities<'a>(pod: &'a Value, trusted: &Drivers) -> Identities<'a> {
    let volumes = Volumes::from_pod(pod, trusted);
    let account = account_of(pod);
    let is_for_sidecars = names::is_merged(account) || volumes.give_account_to_sidecars(account);
    let own = volumes.is_narrowed(account).then(|| names::token_volume_of_pod(account));
    let in_volumes: BTreeMap<&str, BTreeSet<Identity<'a>>> = volumes
        .iter()
        .map(|volume| {
            let name = pod::name(volume);
            let of_pod = is_for_sidecars && volumes.gives_account(name);
            let held = of_volume(volume, of_pod.then_some(account));
            // What gives the Pod its own account is no sidecar's (TCN-4).
            let is_own = own.as_deref() == Some(name) && held.iter().copied().eq(named_by(name));
            (name, if is_own { BTreeSet::new() } else { held })
        })
        .collect();
    let mut found = Identities::new();
    for container in running_containers(pod) {
        let mut held = BTreeSet::new();
        for used in pod::used_volumes(container) {
            hold(&mut held, in_volumes.get(used).into_iter().flatten().copied());
        }
        let secrets = volumes::token_secrets_of_environment(container);
        hold(&mut held, secrets.into_iter().map(|(_, secret)| Identity::OfSecret(id_of(secret))));
        let target = json::text(container, &["targetContainerName"]);
        hold(&mut held, found.get(target).into_iter().flatten().copied());
        if !held.is_empty() {
            found.insert(pod::name(container), held);
        }
    }
    found
}

/// Returns the identities in a volume. `of_pod` is the account of the Pod, if it is for sidecars and the volume gives it.
fn of_volume<'a>(volume: &'a Value, of_pod: Option<&'a str>) -> BTreeSet<Identity<'a>> {
    let mut held: BTreeSet<_> = of_pod.map(Identity::OfPod).into_iter().collect();
    let secrets = volumes::token_secrets_of_volume(volume);
    hold(&mut held, secrets.into_iter().map(|secret| Identity::OfSecret(id_of(secret))));
    // Nobody but Pillion writes such a volume. Whatever it contains now, it is for a sidecar.
    if held.is_empty() {
        held.extend(named_by(pod::name(volume)));
    }
    held
}

/// Returns the identity that the name of a volume of Pillion stands for.
fn named_by(volume: &str) -> Option<Identity<'_>> {
    volume.strip_prefix(names::TOKEN_VOLUME_PREFIX).map(Identity::OfSecret)
}

/// Adds identities. From [`IDENTITIES_MAX`] on, all others count as one of an unknown account, which could be any.
fn hold<'a>(held: &mut BTreeSet<Identity<'a>>, more: impl Iterator<Item = Identity<'a>>) {
    for identity in more {
        let is_one_more = held.len() < IDENTITIES_MAX || held.contains(&identity);
        held.insert(if is_one_more { identity } else { Identity::OfSecret("") });
    }
}

fn id_of(secret: &str) -> &str {
    secret.strip_prefix(names::TOKEN_SECRET_PREFIX).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const OURS: &str = "sidecarset-sa-b077d031c6eaa197";
    const SECRET: &str = "sidecarset-token-b077d031c6eaa197";
    const ISOLATED: Identity<'_> = Identity::OfSecret("b077d031c6eaa197");

    fn mounting(name: &str, volume: &str) -> Value {
        json!({"name": name, "volumeMounts": [{"name": volume, "mountPath": names::MOUNT_PATH}]})
    }

    fn token(name: &str) -> Value {
        json!({"name": name, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}})
    }

    fn secret(name: &str) -> Value {
        json!({"name": name, "projected": {"sources": [{"secret": {"name": SECRET}}]}})
    }

    /// Returns a Pod whose app has the token of the Pod's account, as the API server mounts it.
    fn pod(account: &str, volume: &Value) -> Value {
        json!({"spec": {
            "serviceAccountName": account,
            "containers": [mounting("app", "kube-api-access-x7k2p"), mounting("agent", OURS)],
            "volumes": [token("kube-api-access-x7k2p"), volume],
        }})
    }

    fn with(mut pod: Value, list: &str, container: Value) -> Value {
        let spec = pod["spec"].as_object_mut().unwrap();
        spec.entry(list).or_insert_with(|| json!([])).as_array_mut().unwrap().push(container);
        pod
    }

    #[rstest]
    #[case::isolate(pod("web", &secret(OURS)), &[("agent", ISOLATED)])]
    // In mode Pod, and where a later webhook gives the token back, the app has the account, too.
    #[case::pod(pod("log-agent", &token(OURS)), &[("agent", Identity::OfPod("log-agent")), ("app", Identity::OfPod("log-agent"))])]
    #[case::merged(
        pod("sidecarset-merged-7e18f737311b2dc3", &token(OURS)),
        &[("agent", Identity::OfPod("sidecarset-merged-7e18f737311b2dc3")), ("app", Identity::OfPod("sidecarset-merged-7e18f737311b2dc3"))]
    )]
    #[case::merged_without_our_volume(
        json!({"spec": {
            "serviceAccount": "sidecarset-merged-7e18f737311b2dc3",
            "containers": [mounting("app", "kube-api-access-x7k2p"), {"name": "other"}],
            "volumes": [token("kube-api-access-x7k2p")],
        }}),
        &[("app", Identity::OfPod("sidecarset-merged-7e18f737311b2dc3"))]
    )]
    #[case::the_apps_own(json!({"spec": {
        "serviceAccountName": "web", "containers": [mounting("app", "kube-api-access-x7k2p")],
        "volumes": [token("kube-api-access-x7k2p")],
    }}), &[])]
    #[case::an_init_container(with(pod("web", &secret(OURS)), "initContainers", mounting("setup", OURS)), &[("agent", ISOLATED), ("setup", ISOLATED)])]
    #[case::a_native_sidecar(
        with(pod("web", &secret(OURS)), "initContainers", {
            let mut native = mounting("native", OURS);
            native["restartPolicy"] = json!("Always");
            native
        }),
        &[("agent", ISOLATED), ("native", ISOLATED)]
    )]
    #[case::an_ephemeral_container(
        with(pod("web", &secret(OURS)), "ephemeralContainers", mounting("debugger", OURS)),
        &[("agent", ISOLATED), ("debugger", ISOLATED)]
    )]
    #[case::one_that_shares_processes(
        with(pod("web", &secret(OURS)), "ephemeralContainers", json!({"name": "debugger", "targetContainerName": "agent"})),
        &[("agent", ISOLATED), ("debugger", ISOLATED)]
    )]
    #[case::one_that_shares_those_of_the_app(
        with(pod("web", &secret(OURS)), "ephemeralContainers", json!({"name": "debugger", "targetContainerName": "app"})),
        &[("agent", ISOLATED)]
    )]
    #[case::another_volume_with_the_secret(
        with(with(pod("web", &secret(OURS)), "volumes", secret("mine")), "containers", mounting("thief", "mine")),
        &[("agent", ISOLATED), ("thief", ISOLATED)]
    )]
    #[case::the_environment(
        with(pod("web", &secret(OURS)), "containers", json!({"name": "thief", "envFrom": [{"secretRef": {"name": SECRET}}]})),
        &[("agent", ISOLATED), ("thief", ISOLATED)]
    )]
    // The Secret counts, not the name of the volume.
    #[case::a_volume_that_names_another_secret(
        pod("web", &json!({"name": OURS, "secret": {"secretName": "sidecarset-token-0123456789abcdef"}})),
        &[("agent", Identity::OfSecret("0123456789abcdef"))]
    )]
    #[case::a_volume_of_our_name_alone(pod("web", &json!({"name": OURS, "emptyDir": {}})), &[("agent", ISOLATED)])]
    #[case::a_hot_upgrade(
        with(pod("web", &secret(OURS)), "containers", mounting("agent-2", OURS)),
        &[("agent", ISOLATED), ("agent-2", ISOLATED)]
    )]
    #[case::nothing(json!({}), &[])]
    #[case::odd(json!({"spec": {"containers": [{"name": 7, "volumeMounts": "x"}], "volumes": [null, 3]}}), &[])]
    fn aft3_holders_are_found_in_every_mode(#[case] pod: Value, #[case] expected: &[(&str, Identity<'_>)]) {
        let expected: Identities<'_> = expected.iter().map(|(name, held)| (*name, BTreeSet::from([*held]))).collect();
        assert_eq!(identities(&pod, &Drivers::new()), expected);
    }

    #[test]
    fn aft3_annotations_decide_nothing() {
        let mut forged = pod("web", &secret(OURS));
        let plain = forged.clone();
        forged["metadata"]["annotations"] = json!({
            "pillion.dev/service-account-injected": r#"{"original":"default","injected":"web","sidecarSets":["logs"]}"#,
            "kubectl.kubernetes.io/default-container": "app",
        });
        assert_eq!(identities(&forged, &Drivers::new()), identities(&plain, &Drivers::new()));
    }

    #[test]
    fn e18_aft3_a_volume_with_many_secrets_is_of_an_unknown_account() {
        let secrets: Vec<Value> =
            (0..20).map(|n| json!({"secret": {"name": format!("sidecarset-token-{n:016x}")}})).collect();
        let pod = pod("web", &json!({"name": OURS, "projected": {"sources": secrets}}));
        let found = identities(&pod, &Drivers::new());
        let held = found.get("agent").unwrap();
        assert!(held.len() <= IDENTITIES_MAX + 1 && held.contains(&Identity::OfSecret("")), "{held:?}");
    }

    /// The same for many volumes, and for the containers that share the processes of such a holder.
    #[test]
    fn e18_aft3_a_container_with_many_identities_is_of_an_unknown_account() {
        let count = 2_000;
        let name = |n: usize| format!("sidecarset-sa-{n:016x}");
        let mounts: Vec<Value> = (0..count).map(|n| json!({"name": name(n), "mountPath": "/t"})).collect();
        let volumes: Vec<Value> = (0..count).map(|n| json!({"name": name(n), "emptyDir": {}})).collect();
        let others: Vec<Value> =
            (0..count).map(|n| json!({"name": format!("e{n}"), "targetContainerName": "agent"})).collect();
        let pod = json!({"spec": {
            "containers": [{"name": "agent", "volumeMounts": mounts}], "ephemeralContainers": others, "volumes": volumes,
        }});
        let found = identities(&pod, &Drivers::new());
        assert_eq!(found.len(), count + 1);
        let is_unknown =
            |held: &BTreeSet<Identity<'_>>| held.len() <= IDENTITIES_MAX + 1 && held.contains(&Identity::OfSecret(""));
        assert!(found.values().all(is_unknown));
    }
}
