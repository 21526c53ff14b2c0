//! The credentials in the volumes of a Pod (SAP-4, TOK-0, E4, E19, E20).

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::json::{self, MAX_DEPTH};
use pillion_sidecarset::pod;
use serde_json::Value;

use crate::drivers::Drivers;
use crate::names;

/// How the names of the signers begin whose certificates the API server accepts (`kubernetes.io/kube-apiserver-client-pod`).
const OWN_SIGNERS: &str = "kubernetes.io/";

/// Whether a field of a volume (core/v1), usually its kind, can neither name a Secret nor hold a token.
///
/// `ephemeral` can: annotations of its claim template may name Secrets.
fn is_plain(member: &str) -> bool {
    matches!(
        member,
        "name"
            | "emptyDir"
            | "configMap"
            | "hostPath"
            | "persistentVolumeClaim"
            | "downwardAPI"
            | "nfs"
            | "image"
            | "gitRepo"
    )
}

/// The volumes of a Pod that matter for tokens. Each is read only once: a Pod may have as many mounts as volumes, and
/// volumes may be long.
///
/// A volume matters if it may give an identity or name a Secret, or if its name is one that the API server or Pillion
/// uses. Most volumes do not matter, and a Pod may have ten thousand of them (E18).
#[derive(Clone, Debug)]
pub struct Volumes<'a> {
    /// The volumes in the order of the Pod.
    list: Vec<&'a Value>,
    by_name: BTreeMap<&'a str, Facts<'a>>,
    /// The volume that the API server adopts, and whether it holds a token for the API server.
    adopted: Option<(&'a str, bool)>,
}

/// The facts about a volume.
#[derive(Clone, Debug)]
struct Facts<'a> {
    volume: &'a Value,
    given: Option<Given<'a>>,
    is_automounted: bool,
    /// The first Secret with a sidecar's token that the volume names.
    token_secret: Option<&'a str>,
}

impl<'a> Volumes<'a> {
    /// Reads the volumes of `pod`. CSI drivers in `trusted` do not request tokens. Of several volumes with one name,
    /// the first counts.
    pub fn from_pod(pod: &'a Value, trusted: &Drivers) -> Self {
        Self::among(json::items(pod, &["spec", "volumes"]), trusted)
    }

    /// Like [`Self::from_pod`], for the volumes of a Pod in their order.
    pub fn among(volumes: impl IntoIterator<Item = &'a Value>, trusted: &Drivers) -> Self {
        let list: Vec<&Value> = volumes.into_iter().filter(|volume| matters(volume)).collect();
        let facts = |volume: &'a Value| Facts {
            volume,
            given: given(volume, trusted),
            is_automounted: is_automounted(volume),
            token_secret: token_secrets_of_volume(volume).first().copied(),
        };
        let mut named = list.iter().map(|volume| (pod::name(volume), *volume));
        let adopted = named.find(|(name, _)| name.starts_with(names::AUTOMOUNT_VOLUME_PREFIX));
        Self {
            by_name: list.iter().rev().map(|volume| (pod::name(volume), facts(volume))).collect(),
            list,
            adopted: adopted.map(|(name, volume)| (name, tokens_of(volume).any(is_for_the_api_server))),
        }
    }

    /// Whether the volume of this name matters.
    pub fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns the volume of this name, if it matters.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        Some(self.by_name.get(name)?.volume)
    }

    /// Returns the volumes that matter, in the order of the Pod.
    pub fn iter(&self) -> impl Iterator<Item = &'a Value> {
        self.list.iter().copied()
    }

    /// Returns the credential of the Pod's account that the volume of this name gives to a container.
    pub fn given(&self, name: &str) -> Option<Given<'a>> {
        self.by_name.get(name)?.given
    }

    /// Whether the volume of this name gives a container a credential of the Pod's account.
    pub fn gives_account(&self, name: &str) -> bool {
        self.given(name).is_some()
    }

    /// Whether a volume of Pillion gives the Pod's account: then not all containers may hold it.
    pub(super) fn give_account_to_some(&self) -> bool {
        self.iter().map(pod::name).any(|name| is_called_like_ours(name) && self.gives_account(name))
    }

    /// Whether a volume of Pillion gives the Pod's account to sidecars alone. A Pod that gives the token of its own account
    /// to some containers (TCN-4) has it for itself.
    pub(super) fn give_account_to_sidecars(&self, account: &str) -> bool {
        self.give_account_to_some() && !self.is_narrowed(account)
    }

    /// Whether a volume of Pillion gives the token of the Pod's own account to some containers (TCN-4). Most Pods have no
    /// volume of Pillion, and then the name is not computed.
    pub fn is_narrowed(&self, account: &str) -> bool {
        self.give_account_to_some() && self.gives_account(&names::token_volume_of_pod(account))
    }

    /// Returns the names of the volumes whose tokens are all for audiences of which `is_for_others` holds.
    pub(super) fn for_others(&self, is_for_others: impl Fn(&str) -> bool) -> BTreeSet<&'a str> {
        let speaks_to_others = |volume: &&Value| {
            let token =
                |token: &Value| !is_for_the_api_server(token) && is_for_others(json::text(token, &["audience"]));
            let signer = |of: &Value| !json::text(of, &["signerName"]).starts_with(OWN_SIGNERS);
            tokens_of(volume).all(token) && sources_of(volume, "podCertificate").all(signer) && !is_inline(volume)
        };
        self.iter().filter(speaks_to_others).map(pod::name).collect()
    }

    /// Returns the Secret with the token of a sidecar that the volume of this name refers to.
    pub fn token_secret(&self, name: &str) -> Option<&'a str> {
        self.by_name.get(name)?.token_secret
    }

    /// Whether the volume of this name is the one that the API server adds for the Pod's own account (SAP-4).
    pub(crate) fn is_automounted(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|facts| facts.is_automounted)
    }

    /// Whether the API server adopts the volume of this name, and the volume holds a token for the API server (SAP-8k).
    pub(crate) fn is_adopted(&self, name: &str) -> bool {
        self.adopted == Some((name, true))
    }

    /// SAP-8k: whether the API server adopts a volume of the Pod that holds no token for the API server.
    pub fn is_misled(&self) -> bool {
        self.adopted.is_some_and(|(_, holds_token)| !holds_token)
    }
}

/// Whether a volume matters for tokens.
pub(super) fn matters(volume: &Value) -> bool {
    let name = pod::name(volume);
    !volume.as_object().is_some_and(|object| object.keys().all(|key| is_plain(key)))
        || is_called_like_ours(name)
        || name.starts_with(names::AUTOMOUNT_VOLUME_PREFIX)
}

/// Whether a volume has a name that only volumes of Pillion may have.
pub(crate) fn is_called_like_ours(name: &str) -> bool {
    name.starts_with(names::TOKEN_VOLUME_PREFIX)
}

/// Whether a volume is the one that the API server adds for the Pod's own account (SAP-4): it projects that account's
/// token and no other credential. Distributions of Kubernetes add ConfigMaps to it.
pub(crate) fn is_automounted(volume: &Value) -> bool {
    let is_plain = |source: &Value| {
        let kinds = source.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        kinds.into_iter().all(|(kind, _)| matches!(kind.as_str(), "serviceAccountToken" | "configMap" | "downwardAPI"))
    };
    pod::name(volume).starts_with(names::AUTOMOUNT_VOLUME_PREFIX)
        && tokens_of(volume).count() == 1
        && tokens_of(volume).all(is_for_the_api_server)
        && json::items(volume, &["projected", "sources"]).iter().all(is_plain)
}

/// Returns the tokens of the Pod's account that a volume projects.
fn tokens_of(volume: &Value) -> impl Iterator<Item = &Value> {
    sources_of(volume, "serviceAccountToken")
}

fn sources_of<'a>(volume: &'a Value, kind: &'static str) -> impl Iterator<Item = &'a Value> {
    let sources = json::items(volume, &["projected", "sources"]);
    sources.iter().filter_map(move |source| source.get(kind)).filter(|source| !source.is_null())
}

fn is_for_the_api_server(token: &Value) -> bool {
    json::text(token, &["audience"]).is_empty()
}

/// A credential of the Pod's account in a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given<'a> {
    /// A token (`serviceAccountToken`).
    Token,
    /// A certificate (`podCertificate`, E19).
    Certificate,
    /// Any credential: this CSI driver may request a token (`CSIDriver.spec.tokenRequests`).
    Driver(&'a str),
}

/// E19: returns the credential of the Pod's account that a volume gives to a container, if any.
///
/// Of CSI volumes, only inline ones can be judged: the Pod does not contain the volume behind a claim.
pub fn given<'a>(volume: &'a Value, trusted: &Drivers) -> Option<Given<'a>> {
    if tokens_of(volume).next().is_some() {
        return Some(Given::Token);
    }
    if sources_of(volume, "podCertificate").next().is_some() {
        return Some(Given::Certificate);
    }
    if !is_inline(volume) {
        return None;
    }
    let driver = json::text(volume, &["csi", "driver"]);
    (!trusted.contains(driver)).then_some(Given::Driver(driver))
}

/// Whether a CSI driver makes the volume for the Pod.
fn is_inline(volume: &Value) -> bool {
    json::at(volume, &["csi"]).is_some_and(|source| !source.is_null())
}

/// Returns the Secrets with tokens of sidecars that a volume names, in any field (E4, E20).
///
/// Core/v1 has `secret.secretName`, `projected.sources[].secret.name`, `azureFile.secretName`,
/// `csi.nodePublishSecretRef` and `secretRef` of cephfs, cinder, flexVolume, iscsi, rbd, scaleIO and storageos.
/// Attributes of CSI volumes and options of flexVolume name Secrets under keys that their drivers choose.
pub(crate) fn token_secrets_of_volume(volume: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    for (kind, source) in volume.as_object().into_iter().flatten() {
        let is_drivers_own = matches!(kind.as_str(), "csi" | "flexVolume");
        collect(source, is_drivers_own || is_about_secrets(kind), MAX_DEPTH, &mut found);
    }
    found
}

/// Adds the token Secrets that strings in `value` name. Unless `is_meant`, only fields about Secrets count.
fn collect<'a>(value: &'a Value, is_meant: bool, depth: usize, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) if is_meant => found.extend(token_secret(text)),
        Value::Array(list) if depth > 0 => {
            for item in list {
                collect(item, is_meant, depth - 1, found);
            }
        }
        Value::Object(object) if depth > 0 => {
            // `items` maps keys of a Secret to files and names no Secret.
            for (key, value) in object.iter().filter(|(key, value)| *key != "items" || !value.is_array()) {
                collect(value, is_meant || is_about_secrets(key), depth - 1, found);
            }
        }
        _ => {}
    }
}

fn is_about_secrets(key: &str) -> bool {
    key.as_bytes().windows(6).any(|part| part.eq_ignore_ascii_case(b"secret"))
}

/// Returns the name of a Secret with a sidecar's token, if the text contains one.
pub fn token_secret(text: &str) -> Option<&str> {
    let mut names = text.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '.'));
    names.find(|name| name.starts_with(names::TOKEN_SECRET_PREFIX))
}

/// Returns the Secrets with tokens of sidecars in a container's environment, each with the field that names it.
pub(crate) fn token_secrets_of_environment(container: &Value) -> Vec<(&'static str, &str)> {
    let from = json::items(container, &["envFrom"]).iter().map(|from| ("envFrom", &["secretRef", "name"][..], from));
    let one =
        json::items(container, &["env"]).iter().map(|one| ("env", &["valueFrom", "secretKeyRef", "name"][..], one));
    from.chain(one).filter_map(|(field, path, value)| Some((field, token_secret(json::text(value, path))?))).collect()
}

/// Returns the Secrets with tokens of sidecars among the `imagePullSecrets` of a Pod's or a SidecarSet's spec.
pub(crate) fn token_secrets_of_pulls(object: &Value) -> impl Iterator<Item = &str> {
    let secrets = json::items(object, &["spec", "imagePullSecrets"]);
    secrets.iter().filter_map(|secret| token_secret(pod::name(secret)))
}

/// Returns the mounts of a container.
pub fn mounts(container: &Value) -> &[Value] {
    json::items(container, &["volumeMounts"])
}
