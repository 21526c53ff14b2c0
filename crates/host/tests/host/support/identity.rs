//! A cluster that answers access reviews, and requests about identities.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use pillion_host::{AccessRequest, Cluster, ClusterError, ResourceRequest, ValidationResponse};
use pillion_kubernetes::rbac::{Atom, atoms};
use pillion_testkit::{FakeCluster, module};
use serde_json::{Value, json};

/// Objects, and the permissions of users.
#[derive(Default)]
pub struct Court {
    objects: FakeCluster,
    /// User or group, namespace (`""` for all), permission.
    held: Vec<(String, String, Atom)>,
    delay: Duration,
    failure: Option<ClusterError>,
    asked: Mutex<Vec<String>>,
}

impl Court {
    /// Creates a cluster with these objects and without any permissions.
    pub fn with(objects: impl IntoIterator<Item = Value>) -> Self {
        Self { objects: FakeCluster::with(objects), ..Self::default() }
    }

    /// Returns the cluster with this answer to look-ups of `object`.
    #[must_use]
    pub fn answering(mut self, object: &Value, answer: Result<Vec<u8>, ClusterError>) -> Self {
        self.objects = self.objects.answering(object, answer);
        self
    }

    /// Grants a user or a group these rules in a namespace, or in all namespaces with `""`.
    #[must_use]
    pub fn granting(mut self, subject: &str, namespace: &str, rules: &Value) -> Self {
        let rules: Vec<_> = serde_json::from_value(rules.clone()).unwrap();
        for atom in atoms(&rules) {
            self.held.push((subject.to_owned(), namespace.to_owned(), atom));
        }
        self
    }

    /// Returns the cluster with this delay for each access review.
    #[must_use]
    pub fn slow(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Returns the cluster with this failure for each access review.
    #[must_use]
    pub fn failing(self, failure: ClusterError) -> Self {
        Self { failure: Some(failure), ..self }
    }

    /// Returns the access reviews so far, as `user: verb group/resource "name" in namespace`.
    pub fn questions(&self) -> Vec<String> {
        self.asked.lock().clone()
    }

    /// Returns the look-ups so far.
    pub fn looked_up(&self) -> Vec<String> {
        self.objects.asked()
    }
}

impl Cluster for Court {
    fn get(&self, resource: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        self.objects.get(resource)
    }

    /// Decides like the RBAC authorizer: a Role in one namespace does not answer a question about all namespaces.
    fn can_i(&self, request: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        thread::sleep(self.delay);
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        assert!(request.disable_cache, "ESC-2");
        let review = &request.subject_access_review;
        let attributes = &review.resource_attributes;
        let namespace = attributes.namespace.clone().unwrap_or_default();
        let subresource = attributes.subresource.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
        let wanted = Atom {
            group: attributes.group.clone().unwrap_or_default(),
            resource: format!("{}{subresource}", attributes.resource),
            name: attributes.name.clone(),
            verb: attributes.verb.clone(),
        };
        let shown = format!(
            "{}: {} {}/{} {:?} in {:?}",
            review.user,
            wanted.verb,
            wanted.group,
            wanted.resource,
            wanted.name.as_deref().unwrap_or_default(),
            namespace
        );
        self.asked.lock().push(shown);
        let is_meant = |subject: &str| subject == review.user || review.groups.iter().flatten().any(|g| g == subject);
        let allowed = self.held.iter().any(|(subject, place, atom)| {
            is_meant(subject) && (place.is_empty() || *place == namespace) && atom.covers(&wanted)
        });
        Ok(json!({ "allowed": allowed }).to_string().into_bytes())
    }
}

/// One PolicyRule.
pub fn rule(group: &str, resource: &str, verb: &str) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]})
}

/// Returns a set whose agent runs beside the Pods of the namespace `web`, and has an account there.
pub fn agent_set() -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "web"}},
            "containers": [{"name": "agent", "image": "agent:1"}], "serviceAccountName": "agent",
        },
    })
}

/// Returns settings with the gate on and these rules.
pub fn gated(service_accounts: &Value, sets: &[Value]) -> Value {
    json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "serviceAccounts": service_accounts, "sidecarSets": sets,
    })
}

/// Returns the answer to a request, and checks that it is sound.
pub fn ask(request: &Value, settings: &Value, cluster: &Arc<Court>) -> ValidationResponse {
    let answer = module().validate(request, settings, Arc::clone(cluster) as Arc<dyn Cluster>).unwrap();
    assert!(super::is_sound(&answer), "{answer:?}");
    answer
}

/// Returns the answer about a new Pod of the namespace `web`, in a cluster of these objects.
pub fn admit_pod(pod: &Value, settings: &Value, objects: impl IntoIterator<Item = Value>) -> ValidationResponse {
    let request = json!({
        "uid": "u", "operation": "CREATE", "namespace": "web", "name": "p", "dryRun": false,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "userInfo": {"username": "dev"}, "object": pod,
    });
    ask(&request, settings, &Arc::new(Court::with(objects)))
}

/// Returns a Pod of the app `web` with these annotations.
pub fn web_pod(annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "web", "labels": {"app": "web"}, "annotations": annotations},
        "spec": {"serviceAccountName": "default", "containers": [{"name": "app", "image": "nginx:1"}]},
    })
}

/// Returns the answer of a policy with this role for a Pod, in a namespace with these annotations and an account `agent`.
pub fn admit_in(pod: &Value, namespace: &Value, sets: &[Value], role: &str) -> ValidationResponse {
    let mut settings = gated(&json!({}), sets);
    settings["role"] = role.into();
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web", "annotations": namespace}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "web", "name": "agent", "uid": "1"}}),
    ];
    admit_pod(pod, &settings, objects)
}

/// Returns code and message of a refusal, or `accepted`.
pub fn verdict(answer: &ValidationResponse) -> String {
    match (answer.code, answer.message.as_deref()) {
        (Some(code), Some(message)) => format!("{code} {message}"),
        _ => "accepted".to_owned(),
    }
}

/// Returns `value` after an edit.
pub fn edited(mut value: Value, edit: impl FnOnce(&mut Value)) -> Value {
    edit(&mut value);
    value
}
