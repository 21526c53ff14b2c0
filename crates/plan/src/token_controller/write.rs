//! The writes that follow once the live objects were read.

use pillion_kubernetes::json;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_kubernetes::time::Timestamp;
use serde_json::{Map, Value, json};

use super::{ACCOUNT, ACCOUNT_UID, Account, Fill, Secret};
use crate::Step;

/// Annotation of a Secret whose token expires: the time of expiry. It informs people only; the controller uses the
/// token itself.
pub(crate) const EXPIRES: &str = "pillion.dev/token-expires-at";

/// A token for a Secret. The type has no `Debug`, so that the token cannot get into a log.
pub struct NewToken {
    /// The token.
    pub token: String,
    /// When it expires; `None` if it never does.
    pub expires: Option<Timestamp>,
}

/// Returns the claims of a token that never expires, the same as those of kube-controller-manager (TKN-10).
pub fn claims(namespace: &str, account: &str, account_uid: &str, secret: &str) -> Value {
    json!({
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": namespace,
        "kubernetes.io/serviceaccount/secret.name": secret,
        "kubernetes.io/serviceaccount/service-account.name": account,
        "kubernetes.io/serviceaccount/service-account.uid": account_uid,
        "sub": format!("system:serviceaccount:{namespace}:{account}"),
    })
}

/// Returns the body of a `TokenRequest` for a token of the Secret's ServiceAccount. The token lives for this many
/// seconds, and no longer than the Secret (TOK-6).
pub fn request(secret: &Secret, seconds: i64) -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "audiences": [],
            "expirationSeconds": seconds,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": secret.name, "uid": secret.uid}
        }
    })
}

/// Returns the step that fills a Secret, if it has not changed since it was observed (TKN-6, TKN-7). `authority` is in
/// PEM.
pub fn fill(fill: &Fill, authority: Option<&str>, token: Option<&NewToken>) -> Step {
    let Fill { secret, account_uid, .. } = fill;
    let mut data = Map::new();
    if let (true, Some(authority)) = (secret.lacks_authority, authority) {
        data.insert("ca.crt".to_owned(), authority.into());
    }
    if secret.lacks_namespace {
        data.insert("namespace".to_owned(), secret.namespace.as_str().into());
    }
    let mut annotations = Map::new();
    annotations.insert(ACCOUNT.to_owned(), secret.account.as_str().into());
    annotations.insert(ACCOUNT_UID.to_owned(), account_uid.as_str().into());
    if let Some(NewToken { token, expires }) = token {
        data.insert("token".to_owned(), token.as_str().into());
        let expires = expires.map_or(Value::Null, |expires| expires.to_string().into());
        annotations.insert(EXPIRES.to_owned(), expires);
    }
    Step::Patch {
        object: reference(secret),
        uid: secret.uid.clone(),
        resource_version: Some(secret.resource_version.clone()),
        patch: json!({"metadata": {"annotations": annotations}, "stringData": data}),
    }
}

/// Returns the step that deletes a Secret, if its ServiceAccount is gone or replaced (TKN-5). `live` is the
/// ServiceAccount as the API server has it now.
pub fn delete(secret: &Secret, live: Option<&Value>) -> Option<Step> {
    if live.is_some_and(|live| secret.is_of(&Account::from_object(live))) {
        return None;
    }
    Some(Step::Delete {
        object: reference(secret),
        uid: secret.uid.clone(),
        resource_version: Some(secret.resource_version.clone()),
    })
}

/// Returns the step that removes a name from the `secrets` of a ServiceAccount as the API server has it now; `None` if
/// the account has been replaced or no longer has the name (TKN-4).
pub fn dereference(live: &Value, account_uid: &str, secret: &str) -> Option<Step> {
    let text = |key| json::text(live, &["metadata", key]).to_owned();
    let secrets = json::items(live, &["secrets"]);
    let others: Vec<&Value> = secrets.iter().filter(|one| json::text(one, &["name"]) != secret).collect();
    if text("uid") != account_uid || others.len() == secrets.len() {
        return None;
    }
    Some(Step::Patch {
        object: ObjectRef {
            api_version: "v1",
            kind: "ServiceAccount",
            namespace: Some(text("namespace")),
            name: text("name"),
        },
        uid: account_uid.to_owned(),
        resource_version: Some(text("resourceVersion")),
        patch: json!({"secrets": others}),
    })
}

fn reference(secret: &Secret) -> ObjectRef {
    ObjectRef {
        api_version: "v1",
        kind: "Secret",
        namespace: Some(secret.namespace.clone()),
        name: secret.name.clone(),
    }
}
