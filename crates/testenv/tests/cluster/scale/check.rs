//! Checks that the cluster contains exactly the required objects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use pillion_admission::settings::Settings;
use pillion_bundle::config_map::BundleReader;
use pillion_identity::names;
use pillion_kubernetes::lookup::{Answer, Lookup, ObjectRef};
use pillion_kubernetes::time::Timestamp;
use pillion_testkit::{FakeCluster, module};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::corpus::{Corpus, Kind, TeamNamespace};
use super::{BUNDLE, settings};
use crate::support::controllers::NAMESPACE;

/// Namespace and name.
type At = (String, String);

/// The numbers for the report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    pub merged: usize,
    pub secrets: usize,
    pub bundle_bytes: usize,
    pub config_maps: usize,
}

/// Lists all objects of a kind, in pages.
pub async fn all<K>(api: &Api<K>, selection: ListParams) -> Vec<K>
where
    K: Clone + DeserializeOwned + Debug,
{
    let (mut found, mut params) = (Vec::new(), selection.limit(500));
    loop {
        let page = api.list(&params).await.unwrap();
        found.extend(page.items);
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => params = params.continue_token(&more),
            None => return found,
        }
    }
}

async fn ours<K>(client: &Client) -> BTreeMap<At, K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let ours = ListParams::default().labels("app.kubernetes.io/managed-by=pillion");
    let objects = all(&Api::<K>::all(client.clone()), ours).await;
    objects.into_iter().map(|object| ((object.namespace().unwrap_or_default(), object.name_any()), object)).collect()
}

/// Returns each single permission: group, resource, verb.
fn permissions(rules: &Value) -> BTreeSet<[String; 3]> {
    let texts = |rule: &Value, key: &str| -> Vec<String> { serde_json::from_value(rule[key].clone()).unwrap() };
    let mut all = BTreeSet::new();
    for rule in rules.as_array().unwrap() {
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                all.extend(texts(rule, "verbs").into_iter().map(|verb| [group.clone(), resource.clone(), verb]));
            }
        }
    }
    all
}

/// Reports up to five missing and five superfluous objects.
fn assert_same(what: &str, found: &BTreeSet<&At>, wanted: &BTreeSet<&At>) {
    let missing: Vec<_> = wanted.difference(found).take(5).collect();
    let extra: Vec<_> = found.difference(wanted).take(5).collect();
    assert!(missing.is_empty() && extra.is_empty(), "{what}: missing {missing:?}, too much {extra:?}");
}

fn value(object: impl Serialize) -> Value {
    serde_json::to_value(object).unwrap()
}

/// Checks that the merged accounts, their Roles and RoleBindings, the Secrets and the bundle are what the corpus
/// requires.
pub async fn cluster(client: &Client, corpus: &Corpus) -> Found {
    let mut merged: BTreeMap<At, Vec<String>> = BTreeMap::new();
    let mut tokens = BTreeSet::new();
    for place in &corpus.places {
        for sets in corpus.merged(place) {
            let texts: Vec<&str> = sets.iter().map(String::as_str).collect();
            merged.insert((place.name.clone(), names::merged(&texts)), sets.clone());
        }
        let secret = |account: String| (place.name.clone(), names::token_secret(&account));
        tokens.extend(corpus.isolated(place).into_iter().map(secret));
    }
    let expected: BTreeSet<&At> = merged.keys().collect();
    let accounts = ours::<ServiceAccount>(client).await;
    let is_merged = |(_, name): &&At| names::is_merged(name);
    assert_same("merged ServiceAccounts", &accounts.keys().filter(is_merged).collect(), &expected);
    let roles = ours::<Role>(client).await;
    assert_same("merged Roles", &roles.keys().filter(is_merged).collect(), &expected);
    let bindings = ours::<RoleBinding>(client).await;
    assert_same("merged RoleBindings", &bindings.keys().filter(is_merged).collect(), &expected);
    let of_set: BTreeMap<&str, Value> =
        corpus.sets.iter().filter_map(|set| Some((set.name.as_str(), super::corpus::permission(set)?))).collect();
    for (at, sets) in &merged {
        let granted = permissions(&value(&roles[at].rules));
        let wanted: Vec<&Value> = sets.iter().map(|set| &of_set[set.as_str()]).collect();
        assert_eq!(granted, permissions(&json!(wanted)), "the Role {at:?} of {sets:?}");
        assert_eq!(bindings[at].role_ref.name, at.1);
        let subjects = bindings[at].subjects.as_deref().unwrap_or_default();
        assert!(matches!(subjects, [subject] if subject.name == at.1), "the RoleBinding {at:?}: {subjects:?}");
    }
    let secrets = ours::<Secret>(client).await;
    assert_same("Secrets with tokens", &secrets.keys().collect(), &tokens.iter().collect());
    for (at, secret) in &secrets {
        let token = secret.data.as_ref().and_then(|data| data.get("token"));
        assert!(token.is_some_and(|token| !token.0.is_empty()), "the Secret {at:?} is empty");
    }
    let maps = bundle(client).await;
    let names: BTreeSet<String> = every(&maps).into_iter().collect();
    assert_eq!(names, corpus.sets.iter().map(|set| set.name.clone()).collect(), "SidecarSets in the bundle");
    let length = |map: &Value| map["data"]["bundle"].as_str().map_or(0, str::len);
    Found {
        merged: merged.len(),
        secrets: secrets.len(),
        bundle_bytes: maps.iter().map(length).sum(),
        config_maps: maps.len(),
    }
}

/// Returns the ConfigMaps of the bundle.
async fn bundle(client: &Client) -> Vec<Value> {
    let maps = all(&Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE), ListParams::default()).await;
    maps.into_iter().filter(|map| map.name_any().starts_with(BUNDLE)).map(typed::<ConfigMap>).collect()
}

/// Adds the types to an object, because the API server omits them from items of lists.
fn typed<K: Resource<DynamicType = ()> + Serialize>(object: K) -> Value {
    let mut object = value(object);
    object["apiVersion"] = json!(K::api_version(&()));
    object["kind"] = json!(K::kind(&()));
    object
}

struct Maps<'a>(&'a [Value]);

impl Lookup for Maps<'_> {
    fn get(&self, object: &ObjectRef) -> Answer {
        Ok(self.0.iter().find(|map| map["metadata"]["name"] == object.name.as_str()).cloned())
    }
}

/// Returns the names of the SidecarSets in a bundle.
fn every(maps: &[Value]) -> Vec<String> {
    let settings = Settings::decode(settings()).unwrap();
    let source = &settings.bundle_source;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let now = Timestamp(i64::try_from(now).unwrap());
    let sets = BundleReader::new(source, &Maps(maps), now).unwrap().every_set();
    sets.unwrap_or_else(|problem| panic!("{problem:?}")).iter().map(|set| set.name().to_owned()).collect()
}

/// Checks that the policy, with the current objects of the cluster, gives the Pods of a Deployment all their sidecars.
pub async fn policy(client: &Client, corpus: &Corpus, place: &TeamNamespace) {
    let maps = bundle(client).await;
    let listed = |api: Api<ServiceAccount>| async move { all(&api, ListParams::default()).await };
    let accounts = listed(Api::namespaced(client.clone(), &place.name)).await.into_iter().map(typed);
    let roles = all(&Api::<Role>::namespaced(client.clone(), &place.name), ListParams::default()).await;
    let bindings = all(&Api::<RoleBinding>::namespaced(client.clone(), &place.name), ListParams::default()).await;
    let at = Api::<Namespace>::all(client.clone()).get(&place.name).await.unwrap();
    let objects: Vec<Value> = accounts
        .chain(roles.into_iter().map(typed))
        .chain(bindings.into_iter().map(typed))
        .chain(maps)
        .chain([typed(at)])
        .collect();
    for (name, labels) in &place.deployments {
        let request = json!({
            "uid": "u", "operation": "CREATE", "namespace": place.name, "name": name,
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "object": {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
                "spec": {"serviceAccountName": "default", "containers": [{"name": "app", "image": "app:1"}]}
            }
        });
        let cluster = Arc::new(FakeCluster::with(objects.clone()));
        let answer = module().validate(&request, &settings(), cluster.clone()).unwrap();
        assert!(answer.accepted, "{}/{name}: {:?}; asked {:?}", place.name, answer.message, cluster.asked());
        let pod = answer.mutated_object.unwrap_or_else(|| request["object"].clone());
        let injected: BTreeSet<&str> =
            pod["spec"]["containers"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
        let sets = corpus.sets_for(place, labels);
        let wanted: BTreeSet<&str> = sets.iter().map(|set| set.name.as_str()).chain(["app"]).collect();
        assert_eq!(injected, wanted, "{}/{name}", place.name);
        let merging: Vec<&str> =
            sets.iter().filter(|set| matches!(set.kind, Kind::Merge { .. })).map(|set| set.name.as_str()).collect();
        let account = if merging.len() > 1 {
            Some(names::merged(&merging))
        } else {
            merging.first().map(|name| (*name).to_owned())
        };
        assert_eq!(
            pod["spec"]["serviceAccountName"],
            account.unwrap_or_else(|| "default".to_owned()),
            "{}/{name}",
            place.name
        );
    }
}

/// Returns one namespace for each way in which SidecarSets select namespaces.
pub fn samples(corpus: &Corpus) -> impl Iterator<Item = &TeamNamespace> {
    corpus.places.iter().take(4)
}
