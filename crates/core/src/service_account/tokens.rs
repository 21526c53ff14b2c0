//! Who can read which token (`serviceaccounts.md` A1, B0 to B3, G Names).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::decide::{Decision, Token};
use super::names;
use crate::field::FieldPath;
use crate::json::{self, Object, object_of};
use crate::outcome::Reason;
use crate::pod;

/// The Pod's lists of containers.
const LISTS: [&str; 2] = ["initContainers", "containers"];
/// On a Pod: `{"original", "injected", "sidecarSets"}`, where its account was changed (M5).
pub const INJECTED: &str = "pillion.dev/service-account-injected";
/// On a Pod: the SidecarSets that were injected without the identity that they ask for, and why.
pub const SKIPPED: &str = "pillion.dev/service-account-skipped";
/// How long the kubelet's tokens live, in seconds: what the API server's own plugin asks for (A1-4).
const LIFETIME: u64 = 3607;

/// The containers of each SidecarSet, init containers and both hot-upgrade halves included.
pub type Owners = BTreeMap<String, Vec<String>>;

/// A Pod with its identities.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// The Pod.
    pub pod: Value,
    /// What may surprise the user, one line each.
    pub warnings: Vec<String>,
}

/// Whether a volume is the one that the API server adds for the Pod's own account (A1-4).
fn is_automounted(volume: &Value) -> bool {
    pod::name(volume).starts_with(names::AUTOMOUNT_VOLUME_PREFIX)
        && projects_token(volume)
        && tokens_of(volume).all(|token| json::text(token, &["audience"]).is_empty())
}

/// A1-k: whether the API server takes a volume of the Pod for its own that gives nobody the Pod's account.
pub fn is_misled(pod: &Value) -> bool {
    let mut volumes = json::items(pod, &["spec", "volumes"]).iter();
    let adopted = volumes.find(|volume| pod::name(volume).starts_with(names::AUTOMOUNT_VOLUME_PREFIX));
    adopted.is_some_and(|volume| !is_automounted(volume))
}

/// The tokens of the Pod's account that a volume projects.
fn tokens_of(volume: &Value) -> impl Iterator<Item = &Value> {
    let sources = json::items(volume, &["projected", "sources"]);
    sources.iter().filter_map(|source| source.get("serviceAccountToken")).filter(|token| !token.is_null())
}

/// Whether a volume holds a token of the Pod's account.
pub fn projects_token(volume: &Value) -> bool {
    tokens_of(volume).next().is_some()
}

/// The init containers and the containers of a Pod.
pub fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    LISTS.into_iter().flat_map(|list| json::items(pod, &["spec", list]))
}

fn volume<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    json::items(pod, &["spec", "volumes"]).iter().find(|volume| pod::name(volume) == name)
}

/// A5-8: whether a mount gives a token to its container: it is at the token path, or of a volume that projects one.
pub fn is_of_token(pod: &Value, mount: &Value) -> bool {
    is_at_path(mount) || volume(pod, pod::name(mount)).is_some_and(projects_token)
}

fn mounts(container: &Value) -> &[Value] {
    json::items(container, &["volumeMounts"])
}

/// Whether a container of this name belongs to any of the sets.
pub fn is_owner(owners: &Owners, name: &str) -> bool {
    owners.values().any(|containers| containers.iter().any(|owner| owner == name))
}

/// Whether a mount is where clients look for a token.
fn is_at_path(mount: &Value) -> bool {
    names::is_mount_path(json::text(mount, &["mountPath"]))
}

/// B0: a container outside `owners` that mounts a token of the Pod's account besides the automounted one, which would
/// become a token of another account. Volumes of ours are not meant.
pub fn further_token<'a>(pod: &'a Value, owners: &Owners) -> Option<&'a str> {
    let holds = |container: &&Value| {
        mounts(container).iter().any(|mount| {
            let name = pod::name(mount);
            let Some(volume) = volume(pod, name) else { return false };
            let automount = is_automounted(volume) && is_at_path(mount);
            projects_token(volume) && !automount && !name.starts_with(names::TOKEN_VOLUME_PREFIX)
        })
    };
    containers(pod).filter(|container| !is_owner(owners, pod::name(container))).find(holds).map(pod::name)
}

/// What of ours a container reaches for that `owns` does not allow: volumes and Secrets with tokens, by name.
fn reaches(pod: &Value, container: &Value, owns: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let secret_of_ours = |secret: &str| secret.starts_with(names::TOKEN_SECRET_PREFIX);
    for mount in mounts(container) {
        let mounted = pod::name(mount);
        if mounted.starts_with(names::TOKEN_VOLUME_PREFIX) {
            if !owns(mounted) {
                found.push(format!("mounts the volume \"{mounted}\""));
            }
            continue;
        }
        for secret in volume(pod, mounted).map(secrets_of_volume).unwrap_or_default() {
            if secret_of_ours(secret) {
                found.push(format!("mounts the Secret \"{secret}\""));
            }
        }
    }
    for (_, secret) in secrets_of_environment(container) {
        if secret_of_ours(secret) {
            found.push(format!("takes its environment from the Secret \"{secret}\""));
        }
    }
    found
}

/// The tokens of sidecars that a container which is added to a running Pod reaches for, as what it does (E7).
///
/// Where a volume of ours projects a token of the Pod's account, that account was given for the sidecars: then every
/// volume that projects one gives it away, above all one that no container mounted when the Pod was admitted (B0).
/// Annotations do not count, for those can be edited.
pub fn reached_for(pod: &Value, container: &Value) -> Vec<String> {
    let mut found = reaches(pod, container, &|_| false);
    let is_ours = |volume: &Value| pod::name(volume).starts_with(names::TOKEN_VOLUME_PREFIX);
    if json::items(pod, &["spec", "volumes"]).iter().any(|volume| is_ours(volume) && projects_token(volume)) {
        for mount in mounts(container) {
            let mounted = volume(pod, pod::name(mount)).filter(|volume| !is_ours(volume) && projects_token(volume));
            if let Some(volume) = mounted {
                found.push(format!("mounts the volume \"{}\"", pod::name(volume)));
            }
        }
    }
    found
}

/// E3, E4, B10: containers that reach for a token which is not theirs: one of our volumes, or a Secret of ours as a
/// volume or in the environment. `accounts` says which containers own which account.
pub fn intruders(pod: &Value, accounts: &BTreeMap<String, BTreeSet<String>>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for container in containers(pod) {
        let name = pod::name(container);
        let owns = |mounted: &str| {
            accounts.iter().any(|(account, owners)| owners.contains(name) && names::token_volume(account) == mounted)
        };
        for what in reaches(pod, container, &owns) {
            let problem = format!("container \"{name}\" {what}, which belongs to a sidecar");
            let remedy = "remove it; only the containers of the SidecarSet may hold its token";
            reasons.push(Reason::forbidden(None, FieldPath::new("spec"), problem, remedy));
        }
    }
    reasons
}

/// B10: owners that lack the token which a decision gives them: it is not mounted, or something else is mounted in its
/// place, is in its volume, or is what the Pod runs under by now.
pub fn lacking(pod: &Value, decision: &Decision, owners: &Owners) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for (account, owners) in &accounts(decision, owners) {
        let name = names::token_volume(account);
        let token = token_of(decision, account);
        let is_there = (token == Token::OfSecret || json::text(pod, &["spec", "serviceAccountName"]) == account)
            && volume(pod, &name).is_some_and(|volume| *volume == token_volume(&name, account, token));
        for container in containers(pod).filter(|container| owners.contains(pod::name(container))) {
            let mut at_path = mounts(container).iter().filter(|mount| is_at_path(mount)).peekable();
            let has = is_there && at_path.peek().is_some() && at_path.all(|mount| pod::name(mount) == name);
            if !has {
                let problem = format!("sidecar \"{}\" lacks the token of \"{account}\"", pod::name(container));
                let remedy = "find the webhook that took it away, or the injecting policy that did not run";
                reasons.push(Reason::forbidden(None, FieldPath::new("spec"), problem, remedy));
            }
        }
    }
    reasons
}

/// Where the token of an account comes from, for those who are granted it.
fn token_of(decision: &Decision, account: &str) -> Token {
    decision.grants.iter().find(|grant| grant.account == account).map_or(Token::OfPod, |grant| grant.token)
}

/// E11: containers that hold a token of the Pod's account although it was swapped so that only the sidecars have it.
///
/// The Pod says that it was swapped ([`INJECTED`]); one that says so without need is only judged more strictly. A merged
/// account is never a Pod's own, whatever it says.
pub fn regained(pod: &Value, accounts: &BTreeMap<String, BTreeSet<String>>) -> Vec<Reason> {
    let account = json::text(pod, &["spec", "serviceAccountName"]);
    let record = json::parse(json::text(pod, &["metadata", "annotations", INJECTED]).as_bytes()).unwrap_or_default();
    let mut reasons = Vec::new();
    if json::text(&record, &["injected"]) != account && !names::is_merged(account) {
        return reasons;
    }
    let owners = accounts.get(account);
    for container in containers(pod) {
        let name = pod::name(container);
        let holds = |mount: &Value| volume(pod, pod::name(mount)).is_some_and(projects_token);
        if !owners.is_some_and(|owners| owners.contains(name)) && mounts(container).iter().any(holds) {
            let problem = format!("container \"{name}\" mounts a token of \"{account}\", which is for sidecars alone");
            let remedy = "find the webhook that changed the Pod after it was injected";
            reasons.push(Reason::forbidden(None, FieldPath::new("spec"), problem, remedy));
        }
    }
    reasons
}

/// The Secrets that a volume shows.
pub fn secrets_of_volume(volume: &Value) -> Vec<&str> {
    let mut secrets = vec![json::text(volume, &["secret", "secretName"])];
    for source in json::items(volume, &["projected", "sources"]) {
        secrets.push(json::text(source, &["secret", "name"]));
    }
    secrets
}

/// The Secrets of a container's environment, with the field that names them.
pub fn secrets_of_environment(container: &Value) -> Vec<(&'static str, &str)> {
    let mut secrets = Vec::new();
    for from in json::items(container, &["envFrom"]) {
        secrets.push(("envFrom", json::text(from, &["secretRef", "name"])));
    }
    for variable in json::items(container, &["env"]) {
        secrets.push(("env", json::text(variable, &["valueFrom", "secretKeyRef", "name"])));
    }
    secrets
}

/// Which containers own which account, from a decision.
pub fn accounts(decision: &Decision, owners: &Owners) -> BTreeMap<String, BTreeSet<String>> {
    let mut accounts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for grant in &decision.grants {
        let names = accounts.entry(grant.account.clone()).or_default();
        for name in owners.get(&grant.sidecar_set).into_iter().flatten() {
            names.insert(name.clone());
        }
    }
    accounts
}

/// Carries a decision out on the Pod as it is after injection.
///
/// In mode `Isolate` nothing changes but the owners and the list of volumes (B3). Carrying it out again changes
/// nothing (M6).
///
/// # Errors
/// Owners that have something else at the token path (B2), a volume of ours that is not what we would write, and
/// containers that reach for a token which is not theirs.
pub fn settle(before: &Value, decision: &Decision, owners: &Owners) -> Result<Settled, Vec<Reason>> {
    let accounts = accounts(decision, owners);
    let mut reasons = intruders(before, &accounts);
    let mut warnings = Vec::new();
    let mut after = before.clone();
    if let Some(spec) = after.get_mut("spec").and_then(Value::as_object_mut) {
        if decision.hides_token {
            hide(spec, before, &accounts, owners, &mut warnings);
        }
        for (account, containers) in &accounts {
            give(spec, before, account, token_of(decision, account), containers, &mut reasons);
        }
        if let Some(account) = &decision.account {
            // The alias follows only where it is the one that is set (A1-3).
            for key in ["serviceAccountName", "serviceAccount"] {
                spec.insert(key.to_owned(), account.as_str().into());
            }
        }
    }
    if !reasons.is_empty() {
        return Err(reasons);
    }
    annotate(&mut after, before, decision);
    for (sidecar_set, why) in decision.skipped.iter().chain(&decision.kept) {
        warnings.push(format!("SidecarSet \"{sidecar_set}\" is injected without its ServiceAccount: {why}"));
    }
    Ok(Settled { pod: after, warnings })
}

/// A1-f, g: the automounted token stays away only where the Pod says so.
fn hide(
    spec: &mut Object,
    before: &Value,
    accounts: &BTreeMap<String, BTreeSet<String>>,
    owners: &Owners,
    warnings: &mut Vec<String>,
) {
    spec.insert("automountServiceAccountToken".to_owned(), Value::Bool(false));
    let automounted = |mount: &Value| is_at_path(mount) && volume(before, pod::name(mount)).is_some_and(is_automounted);
    // Sidecars that were just injected have no token yet: the API server would mount it after the policy.
    let automounts = containers(before).any(|container| mounts(container).iter().any(automounted));
    let mut left = BTreeSet::new();
    for list in LISTS {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let name = pod::name(container).to_owned();
            let Some(object) = container.as_object_mut() else { continue };
            let mut loses = automounts;
            if let Some(mounts) = object.get_mut("volumeMounts").and_then(Value::as_array_mut) {
                let count = mounts.len();
                mounts.retain(|mount| !automounted(mount));
                for mount in &*mounts {
                    loses &= !is_at_path(mount);
                    left.insert(pod::name(mount).to_owned());
                }
                if mounts.is_empty() && count > 0 {
                    json::take(object, "volumeMounts");
                }
            }
            let owns = accounts.values().any(|owners| owners.contains(&name));
            let set = owners.iter().find(|(_, names)| names.contains(&name));
            if let Some((set, _)) = set.filter(|_| loses && !owns) {
                warnings.push(format!(
                    "sidecar \"{name}\" of SidecarSet \"{set}\" loses the token of the Pod's ServiceAccount"
                ));
            }
        }
    }
    if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
        volumes.retain(|volume| !is_automounted(volume) || left.contains(pod::name(volume)));
    }
}

/// Mounts the token of `account` into its owners (B1, B2).
fn give(
    spec: &mut Object,
    before: &Value,
    account: &str,
    token: Token,
    owners: &BTreeSet<String>,
    reasons: &mut Vec<Reason>,
) {
    let name = names::token_volume(account);
    let wanted = token_volume(&name, account, token);
    let refuse =
        |field: String, problem: String, remedy: &str| Reason::forbidden(None, FieldPath::new(field), problem, remedy);
    match volume(before, &name) {
        None => {
            if let Some(volumes) = json::list_mut(spec, "volumes") {
                volumes.push(wanted);
            }
        }
        Some(volume) if *volume == wanted => {}
        Some(_) => {
            let problem = format!("the volume \"{name}\" is not the one that holds the token of \"{account}\"");
            reasons.push(refuse("spec.volumes".to_owned(), problem, "remove it; the name is Pillion's"));
            return;
        }
    }
    for list in LISTS {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let container_name = pod::name(container).to_owned();
            let Some(object) = container.as_object_mut().filter(|_| owners.contains(&container_name)) else { continue };
            let Some(mounts) = json::list_mut(object, "volumeMounts") else { continue };
            if let Some(mount) =
                mounts.iter().find(|mount| token == Token::OfSecret && is_of_another(before, mount, account))
            {
                let problem = format!(
                    "sidecar \"{container_name}\" mounts the volume \"{}\", which holds a token of the Pod's own ServiceAccount",
                    pod::name(mount)
                );
                reasons.push(refuse(
                    format!("spec.{list}"),
                    problem,
                    "rename the volume; the SidecarSet has one of this name",
                ));
            }
            let mount = object_of([
                ("name", name.as_str().into()),
                ("readOnly", Value::Bool(true)),
                ("mountPath", names::MOUNT_PATH.into()),
            ]);
            // Paths that are written differently may be one place: a second mount there would hide the token (A1-j).
            let (mut is_there, mut foreign) = (false, None);
            mounts.retain_mut(|there| {
                if !names::is_mount_path(json::text(there, &["mountPath"])) {
                    return true;
                }
                let mounted = pod::name(there);
                if mounted != name && !volume(before, mounted).is_some_and(is_automounted) {
                    foreign = Some(mounted.to_owned());
                } else if is_there {
                    return false;
                } else if mounted != name || !json::flag(there, &["readOnly"]) {
                    *there = mount.clone();
                }
                is_there = true;
                true
            });
            if !is_there {
                mounts.push(mount);
            }
            if let Some(mounted) = foreign {
                let problem =
                    format!("sidecar \"{container_name}\" has the volume \"{mounted}\" where its token belongs");
                let remedy = "remove the mount from the SidecarSet";
                reasons.push(refuse(format!("spec.{list}"), problem, remedy));
            }
        }
    }
}

/// Whether a mount gives an isolated owner of `account` a token of the Pod's own besides: a volume of the Pod takes the
/// place of one of the SidecarSet that is called like it. What is mounted where the token belongs is judged there.
fn is_of_another(pod: &Value, mount: &Value, account: &str) -> bool {
    json::text(pod, &["spec", "serviceAccountName"]) != account
        && !is_at_path(mount)
        && volume(pod, pod::name(mount)).is_some_and(projects_token)
}

/// The volume through which owners get the token, the CA certificate and the namespace, as they would automounted.
fn token_volume(name: &str, account: &str, token: Token) -> Value {
    let item = |key: &str, path: &str| object_of([("key", key.into()), ("path", path.into())]);
    let list = |items: Vec<Value>| Value::Array(items);
    let token = match token {
        Token::OfPod => object_of([(
            "serviceAccountToken",
            object_of([("expirationSeconds", LIFETIME.into()), ("path", "token".into())]),
        )]),
        Token::OfSecret => object_of([(
            "secret",
            object_of([
                ("name", names::token_secret(account).into()),
                ("items", list(vec![item("token", "token")])),
                ("optional", Value::Bool(false)),
            ]),
        )]),
    };
    let authority = object_of([(
        "configMap",
        object_of([("name", "kube-root-ca.crt".into()), ("items", list(vec![item("ca.crt", "ca.crt")]))]),
    )]);
    let field = object_of([("apiVersion", "v1".into()), ("fieldPath", "metadata.namespace".into())]);
    let namespace = object_of([(
        "downwardAPI",
        object_of([("items", list(vec![object_of([("path", "namespace".into()), ("fieldRef", field)])]))]),
    )]);
    let sources = list(vec![token, authority, namespace]);
    object_of([("name", name.into()), ("projected", object_of([("defaultMode", 420.into()), ("sources", sources)]))])
}

/// M5, and why some sets stay without.
fn annotate(after: &mut Value, before: &Value, decision: &Decision) {
    let mut texts: Vec<(&str, String)> = Vec::new();
    if let Some(account) = &decision.account {
        let original = match json::text(before, &["spec", "serviceAccountName"]) {
            "" => "default",
            original => original,
        };
        let mut sets: Vec<Value> = Vec::new();
        for grant in decision.grants.iter().filter(|grant| grant.account == *account) {
            sets.push(grant.sidecar_set.as_str().into());
        }
        let record = object_of([
            ("original", original.into()),
            ("injected", account.as_str().into()),
            ("sidecarSets", Value::Array(sets)),
        ]);
        texts.push((INJECTED, json::shown(&record)));
    }
    if !decision.skipped.is_empty() {
        let mut record = Object::new();
        for (set, why) in &decision.skipped {
            record.insert(set.clone(), why.as_str().into());
        }
        texts.push((SKIPPED, json::shown(&Value::Object(record))));
    }
    let metadata = after.as_object_mut().and_then(|object| json::object_mut(object, "metadata"));
    if let Some(annotations) = metadata.filter(|_| !texts.is_empty()).and_then(|m| json::object_mut(m, "annotations")) {
        for (key, text) in texts {
            annotations.insert(key.to_owned(), text.into());
        }
    }
}

#[cfg(test)]
mod tests;
