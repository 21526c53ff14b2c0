//! ServiceAccounts and their tokens.

use k8s_openapi::api::authentication::v1::{BoundObjectReference, SelfSubjectReview, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use pillion_testenv::Cluster;
use pillion_testkit::identity::Accounts;
use serde_json::{Value, json};

/// Creates the accounts in a namespace, which already has its `default`.
pub async fn set_up(client: &Client, namespace: &str, accounts: &Accounts) {
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    for (name, account) in &accounts.0 {
        let secrets: Vec<Value> = account.pull_secrets.iter().map(|name| json!({"name": name})).collect();
        let mut object = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}, "imagePullSecrets": secrets,
        });
        if let Some(automount) = account.automount {
            object["automountServiceAccountToken"] = automount.into();
        }
        let apply = PatchParams::apply("test").force();
        api.patch(name, &apply, &Patch::Apply(&object)).await.unwrap();
    }
}

/// Returns the user name that the API server sees for the bearer of a token.
pub async fn name_of(cluster: &Cluster, token: &str) -> Result<String, kube::Error> {
    let client = cluster.as_bearer(token).client().await.unwrap();
    let reviews: Api<SelfSubjectReview> = Api::all(client);
    let review = reviews.create(&kube::api::PostParams::default(), &SelfSubjectReview::default()).await?;
    Ok(review.status.unwrap().user_info.unwrap().username.unwrap())
}

/// Returns the spec of a token that lives an hour and ends with an object.
pub fn bound_to(kind: &str, object: &Value) -> TokenRequestSpec {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    TokenRequestSpec {
        bound_object_ref: Some(BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some(kind.to_owned()),
            name: text(&object["metadata"]["name"]),
            uid: text(&object["metadata"]["uid"]),
        }),
        expiration_seconds: Some(3600),
        ..TokenRequestSpec::default()
    }
}
