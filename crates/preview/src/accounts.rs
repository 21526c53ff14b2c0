//! ServiceAccounts that do not exist: reports them, or assumes that they exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use pillion_admission::request::{Request, RequestTarget};
use pillion_admission::settings::Settings;
use pillion_explain::identity::{Merging, merging};
use pillion_host::{AccessRequest, Cluster, ClusterError, ListRequest, ResourceRequest};
use pillion_identity::{merged, names};
use pillion_kubernetes::json;
use serde_json::{Value, json};

use super::kept::with_kept;
use super::lookup::{self, Answers};

/// The kinds of ServiceAccounts and of their permissions.
pub const KINDS: [(&str, &str); 3] = [
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
];

/// The source of look-ups of ServiceAccounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assume {
    /// The cluster.
    Nothing,
    /// The cluster; missing ServiceAccounts are assumed to exist.
    Missing,
    /// No cluster; all ServiceAccounts are assumed to exist.
    All,
}

/// A cluster in which ServiceAccounts may be assumed to exist: those that SidecarSets name, and for merged ones the
/// objects that the controller would create.
pub struct Accounts {
    cluster: Arc<dyn Cluster>,
    assume: Assume,
    /// The sources that are searched, for messages: `is in no manifest`.
    missing_in: &'static str,
    /// The merged objects created for Pods so far, by kind, namespace and name.
    made: Mutex<BTreeMap<(String, String, String), Value>>,
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    new: BTreeSet<Note>,
    reported: BTreeSet<Note>,
}

/// A note about a ServiceAccount that was looked up. [`fmt::Display`] writes it as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    namespace: String,
    name: String,
    is_assumed: bool,
    missing_in: &'static str,
}

impl Note {
    /// Whether the object is assumed to exist, rather than missing.
    pub fn is_assumed(&self) -> bool {
        self.is_assumed
    }
}

impl Accounts {
    /// Returns the ServiceAccounts of `cluster`.
    pub fn new(cluster: Arc<dyn Cluster>, assume: Assume) -> Self {
        Self { cluster, assume, missing_in: "in no manifest", made: Mutex::default(), notes: Mutex::default() }
    }

    /// Sets the words for an object that `cluster` does not have, as in `in no manifest`.
    #[must_use]
    pub fn missing_in(self, missing_in: &'static str) -> Self {
        Self { missing_in, ..self }
    }

    /// Creates the merged objects that a policy with these settings looks up for `request`, if they are assumed; reads
    /// all other objects from `rest`. Does nothing for a request that does not create a Pod.
    pub fn prepare(&self, request: &Value, settings: &Settings, rest: &dyn Cluster) {
        if self.assume == Assume::Nothing {
            return;
        }
        // The policy refuses a request that cannot be decoded.
        let Ok(request) = Request::decode(request.clone()) else { return };
        if request.target() != RequestTarget::PodCreate {
            return;
        }
        let aside = Aside { accounts: self, rest };
        let (settings, _) = with_kept(settings.clone(), &Answers(&aside));
        let found = merging(lookup::pod_request(&request), lookup::context(&settings, &Answers(&aside)));
        let Some(Merging { namespace, sets, .. }) = found else { return };
        for object in merged::objects(&sets.iter().collect::<Vec<_>>(), &namespace) {
            let text = |path: &[&str]| json::text(&object, path).to_owned();
            let key = (text(&["kind"]), namespace.clone(), text(&["metadata", "name"]));
            self.made.lock().insert(key, object);
        }
    }

    /// Returns the notes since the last call, each only once.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = self.notes.lock();
        let new = std::mem::take(&mut notes.new);
        new.into_iter().filter(|note| notes.reported.insert(note.clone())).collect()
    }

    fn note(&self, resource: &ResourceRequest, is_assumed: bool) {
        let namespace = resource.namespace.clone().unwrap_or_default();
        self.notes.lock().new.insert(Note {
            namespace,
            name: resource.name.clone(),
            is_assumed,
            missing_in: self.missing_in,
        });
    }

    /// Returns the assumed object. Merged objects are assumed only if a Pod needs them.
    fn assumed(&self, resource: &ResourceRequest) -> Option<Value> {
        let ResourceRequest { kind, name, namespace, .. } = resource;
        if names::is_merged(name) {
            let key = (kind.clone(), namespace.clone().unwrap_or_default(), name.clone());
            return self.made.lock().get(&key).cloned();
        }
        (kind == "ServiceAccount").then(|| {
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}
            })
        })
    }
}

/// A cluster with these accounts; all other objects come from `rest`.
struct Aside<'a> {
    accounts: &'a Accounts,
    rest: &'a dyn Cluster,
}

impl Cluster for Aside<'_> {
    fn get(&self, resource: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        if is_ours(resource) { self.accounts.get(resource) } else { self.rest.get(resource) }
    }
}

fn is_ours(resource: &ResourceRequest) -> bool {
    KINDS.contains(&(resource.api_version.as_str(), resource.kind.as_str()))
}

impl Cluster for Accounts {
    fn get(&self, resource: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        if !is_ours(resource) {
            return self.cluster.get(resource);
        }
        let found = match self.assume {
            // Do not ask the cluster at all: a session replays its exchanges in order.
            Assume::All => Err(ClusterError::NotFound),
            Assume::Nothing | Assume::Missing => self.cluster.get(resource),
        };
        if found != Err(ClusterError::NotFound) {
            return found;
        }
        let object = if self.assume == Assume::Nothing { None } else { self.assumed(resource) };
        self.note(resource, object.is_some());
        let object = object.ok_or(ClusterError::NotFound)?;
        serde_json::to_vec(&object).map_err(|error| ClusterError::Failed(error.to_string()))
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        self.cluster.list(request)
    }

    fn can_i(&self, request: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        self.cluster.can_i(request)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name, is_assumed, missing_in } = self;
        match (names::is_merged(name), is_assumed) {
            (false, true) => write!(f, "ServiceAccount {namespace}/{name} is assumed to exist"),
            (true, true) => write!(
                f,
                "ServiceAccount, Role and RoleBinding {namespace}/{name} are assumed to exist as Pillion's controller \
                 makes them"
            ),
            (false, false) => write!(
                f,
                "ServiceAccount {namespace}/{name} is {missing_in}; give it, or assume that it exists with \
                 --assume-service-accounts"
            ),
            (true, false) => write!(
                f,
                "the merged ServiceAccount {namespace}/{name}, its Role or its RoleBinding is {missing_in}; give \
                 all three, or assume that they exist with --assume-service-accounts"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use pillion_host::NoCluster;

    use super::super::Manifests;
    use super::*;

    fn account(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "shop"}})
    }

    fn accounts(objects: &[Value], assume: Assume) -> Accounts {
        let cluster = Manifests::new(objects.iter().cloned(), "default", BTreeMap::new());
        Accounts::new(Arc::new(cluster), assume)
    }

    fn get(cluster: &Accounts, (api_version, kind): (&str, &str), name: &str) -> Result<Value, ClusterError> {
        let resource = ResourceRequest {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: Some("shop".to_owned()),
            disable_cache: true,
            field_masks: None,
        };
        cluster.get(&resource).map(|bytes| serde_json::from_slice(&bytes).unwrap())
    }

    fn notes(cluster: &Accounts) -> Vec<String> {
        cluster.notes().iter().map(ToString::to_string).collect()
    }

    const ACCOUNT: (&str, &str) = KINDS[0];

    #[test]
    fn accounts_are_not_assumed_unasked() {
        let cluster = accounts(&[account("here")], Assume::Nothing);
        assert_eq!(get(&cluster, ACCOUNT, "here"), Ok(account("here")));
        assert_eq!(get(&cluster, ACCOUNT, "gone"), Err(ClusterError::NotFound));
        let expected = "ServiceAccount shop/gone is in no manifest; give it, or assume that it exists with \
                        --assume-service-accounts";
        assert_eq!(notes(&cluster), [expected]);
        assert_eq!(get(&cluster, ACCOUNT, "gone"), Err(ClusterError::NotFound));
        assert_eq!(notes(&cluster), [""; 0], "reported once");
    }

    #[test]
    fn what_a_manifest_says_counts_before_what_is_assumed() {
        let mut leaving = account("leaving");
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        let cluster = accounts(std::slice::from_ref(&leaving), Assume::Missing);
        assert_eq!(get(&cluster, ACCOUNT, "leaving"), Ok(leaving));
        assert_eq!(notes(&cluster), [""; 0]);
        assert_eq!(get(&cluster, ACCOUNT, "gone"), Ok(account("gone")));
        assert_eq!(notes(&cluster), ["ServiceAccount shop/gone is assumed to exist"]);
    }

    #[test]
    fn nobody_is_asked_where_all_are_assumed() {
        let cluster = Accounts::new(Arc::new(NoCluster), Assume::All);
        assert_eq!(get(&cluster, ACCOUNT, "any"), Ok(account("any")));
        assert_eq!(get(&cluster, KINDS[1], "any"), Err(ClusterError::NotFound), "no Role but those of merged accounts");
        assert!(matches!(get(&cluster, ("v1", "ConfigMap"), "any"), Err(ClusterError::Failed(_))));
    }

    #[test]
    fn only_merged_objects_that_a_pod_needs_are_assumed() {
        let set = |name: &str| {
            json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
                "spec": {
                    "selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": name, "image": "i"}],
                    "serviceAccountName": name, "behaviorWhenServiceAccountInjection": "Merge"
                }
            })
        };
        let settings = json!({
            "featureGates": {"SidecarSetServiceAccountInjection": true}, "sidecarSets": [set("a"), set("b"), set("c")]
        });
        let settings = Settings::decode(settings).unwrap();
        let pod = json!({
            "metadata": {"name": "p", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "m", "image": "i"}]}
        });
        let request = json!({
            "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE",
            "resource": {"group": "", "version": "v1", "resource": "pods"}, "namespace": "shop", "object": pod
        });
        let (of_all, of_two) = (names::merged(&["a", "b", "c"]), names::merged(&["a", "b"]));
        let cluster = accounts(&[], Assume::Missing);
        assert_eq!(get(&cluster, ACCOUNT, &of_all), Err(ClusterError::NotFound));
        cluster.prepare(&request, &settings, &Manifests::new([], "default", BTreeMap::new()));
        for kind in KINDS {
            let made = get(&cluster, kind, &of_all).unwrap();
            assert_eq!(json::text(&made, &["metadata", "annotations", names::SIDECAR_SETS]), "a,b,c");
            assert_eq!(get(&cluster, kind, &of_two), Err(ClusterError::NotFound));
        }
        let notes = notes(&cluster);
        let taken = format!(
            "ServiceAccount, Role and RoleBinding shop/{of_all} are assumed to exist as Pillion's controller makes them"
        );
        assert!(notes.contains(&taken), "{notes:?}");
        assert!(notes.iter().any(|note| note.contains(&of_two) && note.contains("in no manifest")), "{notes:?}");
    }
}
