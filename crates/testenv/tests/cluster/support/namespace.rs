//! A namespace for one test. The modules of the tests add what they do in it.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::DeleteParams;
use kube::{Api, Client, Resource};
use pillion_testenv::Cluster;
use serde_json::json;

use super::{create, poke};

/// A namespace for one test, and the operations in it.
pub struct TestNamespace {
    pub name: String,
    pub client: Client,
}

impl TestNamespace {
    /// Creates a namespace with a name that starts with `name`.
    pub async fn create(cluster: &Cluster, name: &str) -> Self {
        Self { name: cluster.namespace(name).await.unwrap(), client: cluster.admin().await.unwrap() }
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Creates a workload, `web`, whose Pods have the label `app: web`.
    pub async fn deployment(&self, replicas: usize) {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]},
                },
            },
        });
        create(&self.api::<Deployment>(), &deployment).await.unwrap();
    }

    pub async fn delete_deployment(&self) {
        self.api::<Deployment>().delete("web", &DeleteParams::background()).await.unwrap();
    }

    /// Changes a label of the namespace, so that controllers reconcile it again.
    pub async fn poke(&self) {
        poke(&self.client, &self.name).await;
    }
}
