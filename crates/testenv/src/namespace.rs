//! A namespace for a test.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt};

use crate::Cluster;
use crate::Error;
use crate::until;

const DEFAULT: &str = "default";
const CONTROLLER: Duration = Duration::from_mins(1);

impl Cluster {
    /// Creates a namespace that accepts Pods, with a name that starts with `name`.
    ///
    /// # Errors
    ///
    /// If the API server refuses the namespace.
    pub async fn namespace(&self, name: &str) -> Result<String, Error> {
        self.labelled_namespace(name, []).await
    }

    /// Creates such a namespace with labels.
    ///
    /// # Errors
    ///
    /// If the API server refuses the namespace.
    pub async fn labelled_namespace<const N: usize>(
        &self,
        name: &str,
        labels: [(&str, &str); N],
    ) -> Result<String, Error> {
        let client = self.admin().await?;
        let labels: BTreeMap<String, String> =
            labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let namespace = Namespace {
            metadata: ObjectMeta {
                generate_name: Some(format!("{name}-")),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let created = namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .map_err(Error::api(format!("namespace \"{name}\"")))?
            .name_any();

        // A namespace without its default ServiceAccount accepts no Pods.
        let accounts: Api<ServiceAccount> = Api::namespaced(client, &created);
        if self.has_controllers() {
            let there = async || accounts.get_opt(DEFAULT).await.ok().flatten();
            until(&format!("the default ServiceAccount of namespace \"{created}\""), CONTROLLER, there).await?;
        } else {
            let metadata = ObjectMeta { name: Some(DEFAULT.to_owned()), ..ObjectMeta::default() };
            accounts
                .create(&PostParams::default(), &ServiceAccount { metadata, ..ServiceAccount::default() })
                .await
                .map_err(Error::api(format!("the default ServiceAccount of \"{created}\"")))?;
        }
        Ok(created)
    }
}
