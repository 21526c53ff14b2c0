//! Adds the volumes and mounts through which owners get their token (TOK-1, TOK-2, E21).

use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::pod;
use serde_json::{Value, json};

use super::granted::{Credential, Granted};
use super::held::{LISTS, shown};
use super::volumes::{self, Volumes};
use crate::decision::Token;
use crate::names;
use crate::paths::{self, Relation};

/// The lifetime of the kubelet's tokens, in seconds. The API server's ServiceAccount plugin requests the same (SAP-4).
const LIFETIME: u64 = 3607;

/// Adds the volumes of the granted tokens.
///
/// Returns a reason for each existing volume that has the name of such a volume but differs from it.
pub(crate) fn add_volumes(spec: &mut Object, before: &Volumes<'_>, granted: &Granted<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for credential in granted.credentials() {
        let wanted = volume_of(credential);
        match before.get(&credential.volume) {
            None => {
                if let Some(volumes) = json::list_mut(spec, "volumes") {
                    volumes.push(wanted);
                }
            }
            Some(volume) if *volume == wanted => {}
            Some(_) => {
                let (name, account) = (&credential.volume, credential.account);
                let problem = format!("the volume \"{name}\" is not the one that holds the token of \"{account}\"");
                let remedy = "remove it; the name is Pillion's";
                reasons.push(Reason::forbidden("spec.volumes", problem, remedy));
            }
        }
    }
    reasons
}

/// The mounts to write into a Pod.
pub(crate) struct Giving<'a> {
    /// The volumes of the Pod before the change.
    pub before: &'a Volumes<'a>,
    /// The tokens and their owners.
    pub granted: &'a Granted<'a>,
    /// Whether this container should keep the token of the Pod's account that the API server mounts.
    pub automounted: &'a dyn Fn(&str) -> bool,
    /// The account that the Pod runs under after the change.
    pub runs_as: &'a str,
}

impl Giving<'_> {
    /// Mounts its token into each owner (TOK-2). The mount replaces the automounted one, and one of Pillion's with
    /// additional fields.
    ///
    /// Returns a reason for everything else at, above or below the token directory, and for isolated owners that also
    /// hold a token of the Pod's account.
    pub fn mount(&self, spec: &mut Object) -> Vec<Reason> {
        let mut reasons = Vec::new();
        for list in LISTS {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                let name = pod::name(container).to_owned();
                let mut credentials = self.granted.of_container(&name).peekable();
                let is_automounted = (self.automounted)(&name);
                if credentials.peek().is_none() && !is_automounted {
                    continue;
                }
                let mut found = foreign_files(container);
                for credential in credentials {
                    if credential.token == Token::OfSecret && self.runs_as != credential.account {
                        reasons.extend(self.of_another(container, list));
                    }
                    found.extend(container.as_object_mut().map(|c| self.fit(c, credential)).unwrap_or_default());
                }
                if is_automounted {
                    found.extend(container.as_object_mut().map(|c| self.fit_automounted(c)).unwrap_or_default());
                }
                for problem in found {
                    let problem = format!("{} {problem}", self.granted.call(&name));
                    let field = format!("spec.{list}");
                    reasons.push(Reason::forbidden(field, problem, "remove the mount from the SidecarSet"));
                }
            }
        }
        reasons
    }

    /// Makes the mount of `credential` the only one at the token directory. Returns the problems with other mounts.
    fn fit(&self, container: &mut Object, credential: &Credential<'_>) -> Vec<String> {
        let Some(mounts) = json::list_mut(container, "volumeMounts") else { return Vec::new() };
        let wanted = mount_of(&credential.volume);
        let gives_way = |volume: &str| volume == credential.volume || self.before.is_automounted(volume);
        let (is_there, foreign) = fit(mounts, gives_way, |_| wanted.clone());
        if !is_there && foreign.is_empty() {
            mounts.push(wanted);
        }
        foreign
    }

    /// Like [`Self::fit`], for a token that the API server mounts, before or after the policy.
    fn fit_automounted(&self, container: &mut Object) -> Vec<String> {
        let Some(mounts) = container.get_mut("volumeMounts").and_then(Value::as_array_mut) else { return Vec::new() };
        let gives_way = |volume: &str| self.before.is_automounted(volume) || self.before.is_adopted(volume);
        fit(mounts, gives_way, mount_of).1
    }

    /// Returns a reason for each volume through which an isolated owner also gets a token of the Pod's own account.
    /// This happens if a volume of the Pod replaces one of the SidecarSet with the same name. [`Self::fit`] judges
    /// mounts at the token directory.
    fn of_another(&self, container: &Value, list: &str) -> Vec<Reason> {
        let elsewhere = |mount: &&Value| paths::relation(json::text(mount, &["mountPath"])) != Some(Relation::At);
        let is_of_another = |volume: &str| !volumes::is_called_like_ours(volume) && self.before.gives_account(volume);
        // Volumes first: reading a path takes longer (E18).
        let mounts = volumes::mounts(container).iter().filter(|mount| is_of_another(pod::name(mount)));
        let mounted = mounts.filter(elsewhere).map(pod::name);
        let otherwise = pod::volumes_used_without_mount(container).filter(|volume| is_of_another(volume));
        let mut reasons = Vec::new();
        for volume in mounted.chain(otherwise) {
            let problem = format!(
                "sidecar {} mounts the volume {}, which holds a token of the Pod's own ServiceAccount",
                shown(pod::name(container)),
                shown(volume)
            );
            let remedy = "rename the volume; the SidecarSet has one of this name";
            reasons.push(Reason::forbidden(format!("spec.{list}"), problem, remedy));
        }
        reasons
    }
}

/// Leaves one mount at the token directory: the first whose volume `gives_way`, replaced by what `write` returns for
/// that volume. Returns whether there is one, and a problem for each other mount at, above or below the directory.
fn fit(
    mounts: &mut Vec<Value>,
    gives_way: impl Fn(&str) -> bool,
    write: impl Fn(&str) -> Value,
) -> (bool, Vec<String>) {
    let (mut is_there, mut foreign) = (false, Vec::new());
    mounts.retain_mut(|there| {
        let path = json::text(there, &["mountPath"]);
        let Some(place) = paths::relation(path) else { return true };
        let volume = pod::name(there);
        if place != Relation::At || !gives_way(volume) {
            foreign.push(match place {
                Relation::At => format!("has the volume {} where its token belongs", shown(volume)),
                Relation::Above => {
                    format!("has the volume {} above the place of its token, at {}", shown(volume), shown(path))
                }
                Relation::Below => {
                    format!("has the volume {} in the place of its token, at {}", shown(volume), shown(path))
                }
            });
            return true;
        }
        if is_there {
            return false;
        }
        let wanted = write(volume);
        if !is_written(there, &wanted) {
            *there = wanted;
        }
        is_there = true;
        true
    });
    (is_there, foreign)
}

/// Whether a container has a device or a termination message path at, above or below the token directory.
pub(super) fn has_foreign_files(container: &Value) -> bool {
    !foreign_files(container).is_empty()
}

/// Returns a problem for each device and termination message path at, above or below the token directory.
fn foreign_files(container: &Value) -> Vec<String> {
    let is_related = |path: &str| paths::relation(path).is_some();
    let devices = json::items(container, &["volumeDevices"]).iter();
    let devices = devices.filter(|device| is_related(json::text(device, &["devicePath"])));
    let mut found: Vec<String> =
        devices.map(|device| format!("has the device {} where its token belongs", shown(pod::name(device)))).collect();
    if is_related(json::text(container, &["terminationMessagePath"])) {
        found.push("has its terminationMessagePath where its token belongs".to_owned());
    }
    found
}

/// Returns the mount through which an owner gets the token in `volume`.
fn mount_of(volume: &str) -> Value {
    json!({"name": volume, "readOnly": true, "mountPath": names::MOUNT_PATH})
}

/// E21: whether a mount equals the one that Pillion writes. Null members and empty strings count as absent.
fn is_written(mount: &Value, wanted: &Value) -> bool {
    let (Some(mount), Some(wanted)) = (mount.as_object(), wanted.as_object()) else { return false };
    let says_nothing = |value: &Value| value.is_null() || value == "";
    wanted.iter().all(|(key, value)| mount.get(key) == Some(value))
        && mount.iter().all(|(key, value)| wanted.contains_key(key) || says_nothing(value))
}

/// Whether an owner has its token: the mount that Pillion writes is there, and nothing else is at, above or below the
/// token directory.
pub fn has_token(container: &Value, volume: &str) -> bool {
    let is_related = |mount: &&Value| paths::relation(json::text(mount, &["mountPath"])).is_some();
    let mut related = volumes::mounts(container).iter().filter(is_related);
    let (first, second) = (related.next(), related.next());
    first.is_some_and(|mount| is_written(mount, &mount_of(volume))) && second.is_none() && !has_foreign_files(container)
}

/// Returns the volume through which owners get their tokens, the CA certificate and the namespace, as in an automounted
/// volume.
///
/// AUD-3: with the kubelet's tokens, each further one is a source of its own. A Secret is projected whole after its key
/// `token`: the Pod waits for that key, which is written together with the others, and a changed list of audiences
/// reaches running Pods.
pub fn volume_of(credential: &Credential<'_>) -> Value {
    let mut sources = Vec::new();
    match credential.token {
        Token::OfPod => {
            sources.push(source("serviceAccountToken", json!({"expirationSeconds": LIFETIME, "path": "token"})));
            sources.extend(credential.audiences.iter().map(|token| source("serviceAccountToken", token.to_json())));
        }
        Token::OfSecret => {
            let name = names::token_secret(&credential.id);
            sources.push(source("secret", json!({"name": name, "items": only("token"), "optional": false})));
            if !credential.audiences.is_empty() {
                sources.push(source("secret", json!({"name": name, "optional": false})));
            }
        }
    }
    sources.push(source("configMap", json!({"name": names::ROOT_CA, "items": only("ca.crt")})));
    let namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    sources.push(source("downwardAPI", json!({"items": [{"path": "namespace", "fieldRef": namespace}]})));
    json!({"name": credential.volume, "projected": {"defaultMode": 0o644, "sources": sources}})
}

/// Returns a source of a projected volume.
fn source(kind: &str, source: Value) -> Value {
    let mut object = Object::new();
    object.insert(kind.to_owned(), source);
    Value::Object(object)
}

/// Returns the `items` of a source with one key, whose file has the same name.
fn only(key: &str) -> Value {
    json!([{"key": key, "path": key}])
}
