//! The request that kube-apiserver would send.

use pillion_kubernetes::json;
use serde_json::{Value, json};

use crate::{OwnerKind, Template};

/// The ServiceAccounts of controllers whose names are not simply those of their kinds.
const CONTROLLERS: [(&str, &str); 2] =
    [("DaemonSet", "daemon-set-controller"), ("ReplicationController", "replication-controller")];

/// Returns the AdmissionRequest for the creation of a Pod. Derives its uid from the object, so that the same input
/// draws the same revision if a `SidecarSet` selects one at random.
pub fn create(pod: &Value, namespace: &str, template: &Template) -> Value {
    let name = json::text(pod, &["metadata", "name"]);
    let prefix = json::text(pod, &["metadata", "generateName"]);
    let gvk = json!({"group": "", "version": "v1", "kind": "Pod"});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    let uid = format!("preview/{namespace}/{prefix}{name}{}", template.pointer);
    let mut request = json!({
        "uid": uid, "kind": gvk, "resource": resource, "requestKind": gvk, "requestResource": resource,
        "namespace": namespace, "operation": "CREATE", "userInfo": user(template), "object": pod,
        "oldObject": null, "dryRun": false,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"}
    });
    if let Some(request) = request.as_object_mut().filter(|_| !name.is_empty()) {
        request.insert("name".to_owned(), name.into());
    }
    request
}

/// Returns the user who creates the Pod: the controller of its workload, or an administrator.
fn user(template: &Template) -> Value {
    match &template.owner {
        None => json!({"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]}),
        Some(owner) if owner.api_version.starts_with("apps.kruise.io/") => {
            service_account("kruise-system", "kruise-manager")
        }
        Some(OwnerKind { kind, .. }) => {
            let known = CONTROLLERS.iter().find(|(known, _)| known == kind).map(|(_, name)| (*name).to_owned());
            let name = known.unwrap_or_else(|| format!("{}-controller", kind.to_ascii_lowercase()));
            service_account("kube-system", &name)
        }
    }
}

fn service_account(namespace: &str, name: &str) -> Value {
    json!({
        "username": format!("system:serviceaccount:{namespace}:{name}"),
        "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated"]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_one_that_the_policy_knows() {
        let template = Template { pointer: String::new(), owner: None };
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
        let request = create(&pod, "shop", &template);
        let read = pillion_admission::request::Request::decode(request.clone()).unwrap();
        assert_eq!(read.target(), pillion_admission::request::RequestTarget::PodCreate);
        assert_eq!((read.namespace.as_str(), &request["name"]), ("shop", &json!("p")));
        assert_eq!(request, create(&pod, "shop", &template), "the same every time");
    }

    #[test]
    fn pods_of_workloads_come_from_their_controller_and_have_no_name_yet() {
        let owner = OwnerKind { api_version: "apps/v1".to_owned(), kind: "ReplicaSet".to_owned() };
        let template = Template { pointer: "/spec/template".to_owned(), owner: Some(owner) };
        let request = create(&json!({"metadata": {"generateName": "web-"}}), "shop", &template);
        assert_eq!(request["userInfo"]["username"], "system:serviceaccount:kube-system:replicaset-controller");
        assert_eq!(request.get("name"), None);
    }
}
