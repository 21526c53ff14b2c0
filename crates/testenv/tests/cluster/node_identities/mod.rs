//! Identities from inside the containers of a real node: what each container can read, and who it is.
//!
//! The stories do not depend on the way in which the API server asks Pillion: they take a [`World`], which a test module
//! starts with the way of its own.

pub mod audiences;
pub mod boundaries;
pub mod jobs;
pub mod life;
pub mod modes;
mod sets;
mod starts;
mod tests;
pub mod token_containers;
pub mod users;
use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::api::ListParams;
use kube::{Api, Client};
use pillion_testenv::{Cluster, Options, apply, free_port, until};
use serde_json::{Value, json};

use crate::support::controllers::{Controllers, NAMESPACE};
use crate::support::node::shell::Shell;
use crate::support::node::view::View;
use crate::support::node::{self, APP};
use crate::support::{SOON, create, deployments, program};

/// The image of sidecars.
const AGENT: &str = "pillion.test/agent:1";
/// The namespaces in which the controller makes tokens. A story of a controller of its own has another one.
const SERVED: [&str; 4] = ["modes", "audiences", "users", "boundaries"];
/// The namespaces without that controller.
const UNSERVED: [&str; 3] = ["late", "renewed", "by-hand"];
/// The namespace that enforces the strictest Pod Security.
const RESTRICTED: &str = "users";
/// The accounts of each namespace: a name, and what it may list.
const ACCOUNTS: [(&str, &str); 3] = [("logs", "pods"), ("metrics", "configmaps"), ("web", "services")];
/// The name of the controller's process.
const CONTROLLER: &str = "controller";

/// A cluster with a real node, Pillion, its controllers, and the namespaces of the stories.
pub struct World {
    pub cluster: &'static Cluster,
}

impl World {
    /// Returns a cluster that a [`World`] can be made of.
    pub async fn cluster() -> Cluster {
        Cluster::start(Options::new().real_nodes(1).image(node::app()).image(node::agent(AGENT))).await.unwrap()
    }

    /// Starts everything. `admit` makes the API server ask Pillion, with these settings, about all Pods and what guards
    /// are for.
    pub async fn start(cluster: &'static Cluster, admit: impl AsyncFnOnce(&'static Cluster, &Value)) -> Self {
        let client = cluster.admin().await.unwrap();
        let namespaces = Api::<Namespace>::all(client.clone());
        create(&namespaces, &json!({"metadata": {"name": NAMESPACE}})).await.unwrap();
        for name in SERVED.into_iter().chain(UNSERVED) {
            let level = if name == RESTRICTED { "restricted" } else { "privileged" };
            let labels = json!({"pod-security.kubernetes.io/enforce": level});
            create(&namespaces, &json!({"metadata": {"name": name, "labels": labels}})).await.unwrap();
            apply(&client, &rights(name), "stories").await.unwrap();
        }
        let settings = sets::settings();
        admit(cluster, &settings).await;
        let token_namespaces = SERVED.join(",");
        let flags = ["--controllers=merged-serviceaccounts,sidecar-tokens", "--token-namespaces", &token_namespaces];
        let controllers = Controllers::install(cluster, &program(), &settings, &flags).await;
        let health = free_port().unwrap();
        controllers.start(CONTROLLER, health).await;
        deployments::ready(cluster, CONTROLLER, health).await;
        Self { cluster }
    }

    /// Returns a namespace of the stories.
    pub async fn place(&self, namespace: &'static str) -> StoryNamespace<'_> {
        StoryNamespace { cluster: self.cluster, client: self.cluster.admin().await.unwrap(), namespace }
    }
}

/// Returns the accounts of a namespace, with their rights.
fn rights(namespace: &str) -> String {
    let of = |(name, resource): (&str, &str)| {
        format!(
            "
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {name}, namespace: {namespace}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: {name}, namespace: {namespace}}}
rules:
- {{apiGroups: [''], resources: [{resource}], verbs: [list]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: {name}, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}
subjects: [{{kind: ServiceAccount, name: {name}, namespace: {namespace}}}]
"
        )
    };
    ACCOUNTS.map(of).concat()
}

/// A namespace of the stories.
pub struct StoryNamespace<'a> {
    cluster: &'a Cluster,
    client: Client,
    namespace: &'static str,
}

impl StoryNamespace<'_> {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    /// Creates a Pod for the SidecarSets of a story. Its container `app` can be changed by these fields of the spec.
    async fn pod(&self, name: &str, story: &str, spec: &Value) {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), self.namespace);
        let default = async || accounts.get_opt("default").await.unwrap();
        until("the account of the namespace", SOON, default).await.unwrap();
        create(&self.pods(), &pod(name, story, spec)).await.unwrap();
    }

    /// Waits until a Pod is ready, and returns it.
    async fn ready(&self, name: &str) -> Value {
        node::ready(&self.client, self.namespace, name).await
    }

    /// Waits for the only Pod of a story that a workload has created, and returns its name.
    async fn pod_of(&self, story: &str) -> String {
        let of_story = ListParams::default().labels(&format!("story={story}"));
        let one = async || self.pods().list(&of_story).await.unwrap().items.pop()?.metadata.name;
        until("the Pod of the workload", SOON, one).await.unwrap()
    }

    fn shell<'a>(&'a self, pod: &'a str, container: &'a str) -> Shell<'a> {
        Shell { cluster: self.cluster, namespace: self.namespace, pod, container }
    }

    async fn look(&self, pod: &str, container: &str) -> View {
        self.shell(pod, container).look().await
    }

    /// Checks what each of these containers sees.
    async fn sees<const N: usize>(&self, pod: &str, wanted: [(&str, &str); N]) {
        let views = join_all(wanted.map(|(container, _)| self.look(pod, container))).await;
        for ((container, wanted), view) in wanted.into_iter().zip(views) {
            assert_eq!(view.to_string(), wanted, "{} {pod} {container}", self.namespace);
        }
    }
}

/// Returns a Pod for the SidecarSets of a story, with these fields of its spec.
fn pod(name: &str, story: &str, spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"story": story}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "app", "image": APP}]},
    });
    json_patch::merge(&mut pod["spec"], spec);
    pod
}

/// Returns a Deployment of one such Pod.
fn deployment(name: &str, story: &str, spec: &Value) -> Value {
    let mut template = pod(name, story, spec);
    template["metadata"].as_object_mut().unwrap().remove("name");
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"story": story}},
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
        },
    })
}
