//! Answers to the host calls of a policy, with the texts of Kubewarden's policy server.
//!
//! Policies read these texts (there are no error codes on this wire), so they are part of the interface.

use crate::cluster::{Cluster, ClusterError, ResourceRequest};

/// The result of a host call: JSON, or a text for the guest.
pub(crate) type Answer = Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>>;

/// Answers one call of `operation` in `namespace` of `binding`.
pub(crate) fn answer(cluster: &dyn Cluster, binding: &str, namespace: &str, operation: &str, payload: &[u8]) -> Answer {
    if binding != "kubewarden" {
        return Err(format!("unknown binding: {binding}").into());
    }
    match (namespace, operation) {
        ("kubernetes", "get_resource") => get_resource(cluster, payload),
        ("tracing", "log") => Ok(Vec::new()),
        ("kubernetes", "can_i" | "list_resources_all" | "list_resources_by_namespace")
        | ("oci" | "net" | "crypto", _) => Err(format!(
            "Policy has not been granted access to the '{namespace}/{operation}' host capability. \
             The violation has been reported."
        )
        .into()),
        ("kubernetes" | "tracing", _) => Err(format!("unknown operation: {operation}").into()),
        _ => Err(format!("unknown namespace: {namespace}").into()),
    }
}

fn get_resource(cluster: &dyn Cluster, payload: &[u8]) -> Answer {
    let resource: ResourceRequest = serde_json::from_slice(payload)?;
    cluster.get(&resource).map_err(|error| refusal(&resource, error).into())
}

fn refusal(resource: &ResourceRequest, error: ClusterError) -> String {
    let ResourceRequest { api_version, kind, name, namespace, .. } = resource;
    match error {
        // The policy server prints the Option, and its Debug form quotes the namespace.
        ClusterError::NotFound => format!(
            "Callback evaluation failure: Cannot find {api_version}/{kind} named '{name}' inside of namespace '{:?}'",
            namespace.as_deref()
        ),
        ClusterError::NotGranted => format!(
            "Policy has not been granted access to Kubernetes {api_version}/{kind} resources. \
             The violation has been reported."
        ),
        ClusterError::Failed(text) => format!("Callback evaluation failure: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster that answers the same to every question.
    struct Always(Result<Vec<u8>, ClusterError>);

    impl Cluster for Always {
        fn get(&self, _: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
            self.0.clone()
        }
    }

    fn ask(cluster: &Always, namespace: Option<&str>) -> Result<String, String> {
        let resource = ResourceRequest {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            name: "c".to_owned(),
            namespace: namespace.map(str::to_owned),
            disable_cache: true,
            field_masks: None,
        };
        let payload = serde_json::to_vec(&resource).unwrap();
        answer(cluster, "kubewarden", "kubernetes", "get_resource", &payload)
            .map(|bytes| String::from_utf8(bytes).unwrap())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn objects_and_errors_reach_the_guest_as_the_policy_server_words_them() {
        assert_eq!(ask(&Always(Ok(b"{}".to_vec())), None), Ok("{}".to_owned()));
        let missing = Always(Err(ClusterError::NotFound));
        assert_eq!(
            ask(&missing, None).unwrap_err(),
            "Callback evaluation failure: Cannot find v1/ConfigMap named 'c' inside of namespace 'None'"
        );
        assert_eq!(
            ask(&missing, Some("n")).unwrap_err(),
            "Callback evaluation failure: Cannot find v1/ConfigMap named 'c' inside of namespace 'Some(\"n\")'"
        );
        assert_eq!(
            ask(&Always(Err(ClusterError::NotGranted)), None).unwrap_err(),
            "Policy has not been granted access to Kubernetes v1/ConfigMap resources. The violation has been reported."
        );
        assert_eq!(
            ask(&Always(Err(ClusterError::Failed("boom".to_owned()))), None).unwrap_err(),
            "Callback evaluation failure: boom"
        );
    }

    #[test]
    fn calls_that_are_not_served_are_refused_by_name() {
        let cluster = Always(Ok(Vec::new()));
        let refused = |binding, namespace, operation| {
            answer(&cluster, binding, namespace, operation, b"{}").map_err(|error| error.to_string())
        };
        assert_eq!(refused("other", "kubernetes", "get_resource").unwrap_err(), "unknown binding: other");
        assert_eq!(refused("kubewarden", "files", "read").unwrap_err(), "unknown namespace: files");
        assert_eq!(refused("kubewarden", "kubernetes", "delete").unwrap_err(), "unknown operation: delete");
        assert!(refused("kubewarden", "kubernetes", "can_i").unwrap_err().contains("'kubernetes/can_i'"));
        assert!(refused("kubewarden", "oci", "v2/verify").unwrap_err().contains("'oci/v2/verify'"));
        assert_eq!(refused("kubewarden", "tracing", "log"), Ok(Vec::new()));
        assert!(refused("kubewarden", "kubernetes", "get_resource").is_err(), "the payload is no request");
    }
}
