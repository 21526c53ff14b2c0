//! A baseline: keeps whole objects of the kinds that the controller watches, with kube's own reflectors.

use std::path::Path;

use futures_util::StreamExt as _;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;

/// Printed when all objects are listed.
pub const DONE: &str = "everything is listed";

/// Keeps all objects until the process is killed.
pub async fn run(kubeconfig: &Path) {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    tokio::join!(
        listed(keep::<Namespace>(&client)),
        listed(keep::<Pod>(&client)),
        listed(keep::<Deployment>(&client)),
        listed(keep::<StatefulSet>(&client)),
        listed(keep::<DaemonSet>(&client)),
        listed(keep::<ReplicaSet>(&client)),
        listed(keep::<Job>(&client)),
        listed(keep::<CronJob>(&client)),
        listed(keep::<ServiceAccount>(&client)),
        listed(keep::<Role>(&client)),
        listed(keep::<RoleBinding>(&client)),
    );
    super::tell(DONE);
    std::future::pending::<()>().await;
}

async fn listed<K>(store: Store<K>)
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.wait_until_ready().await.unwrap();
}

fn keep<K>(client: &Client) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let events = watcher(Api::<K>::all(client.clone()), watcher::Config::default()).default_backoff().reflect(writer);
    tokio::spawn(events.for_each(|_| async {}));
    store
}
