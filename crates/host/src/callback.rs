//! Answers to the host calls of a policy, with the texts of Kubewarden's policy server.
//!
//! Policies parse these texts, since the protocol has no error codes. The texts are therefore part of the interface.

use crate::cluster::{AccessRequest, Cluster, ClusterError, ListRequest, ResourceRequest};
use crate::grants::{self, Grants};
use crate::log::LogLine;

/// The result of a host call: JSON, or a text for the guest.
pub(crate) type Answer = Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>>;

/// Receives the log lines of a policy.
pub(crate) type Log = dyn Fn(LogLine) + Send + Sync;

/// Answers the host calls of one evaluation, within the policy's grants.
pub(crate) struct Host<'a> {
    pub(crate) cluster: &'a dyn Cluster,
    pub(crate) grants: &'a Grants,
    pub(crate) log: Option<&'a Log>,
}

impl Host<'_> {
    /// Answers one call of `operation` in `namespace` of `binding`.
    pub(crate) fn answer(&self, binding: &str, namespace: &str, operation: &str, payload: &[u8]) -> Answer {
        if binding != "kubewarden" {
            return Err(format!("unknown binding: {binding}").into());
        }
        let capability = format!("{namespace}/{operation}");
        if namespace != "tracing" && !self.grants.allows(&capability) {
            return Err(format!(
                "Policy has not been granted access to the '{capability}' host capability. \
                 The violation has been reported."
            )
            .into());
        }
        match (namespace, operation) {
            ("tracing", "log") => {
                if let (Some(log), Some(line)) = (self.log, LogLine::parse(payload)) {
                    log(line);
                }
                Ok(Vec::new())
            }
            ("kubernetes", "get_resource") => self.get_resource(payload),
            ("kubernetes", "list_resources_all") => self.list_all(payload),
            ("kubernetes", "list_resources_by_namespace") => self.list_namespace(payload),
            ("kubernetes", "can_i") => self.can_i(payload),
            _ if grants::known_capabilities().contains(&capability.as_str()) => {
                Err(format!("Callback evaluation failure: this host does not answer '{capability}'").into())
            }
            ("kubernetes" | "tracing" | "oci" | "net" | "crypto", _) => {
                Err(format!("unknown operation: {operation}").into())
            }
            _ => Err(format!("unknown namespace: {namespace}").into()),
        }
    }

    fn get_resource(&self, payload: &[u8]) -> Answer {
        let request: ResourceRequest = serde_json::from_slice(payload)?;
        let ResourceRequest { api_version, kind, .. } = &request;
        self.may_read(api_version, kind)?;
        self.cluster.get(&request).map_err(|error| refusal(&error, api_version, kind, || not_found(&request)))
    }

    fn list_all(&self, payload: &[u8]) -> Answer {
        // This call has no namespace.
        self.list(&ListRequest { namespace: None, ..serde_json::from_slice(payload)? })
    }

    fn list_namespace(&self, payload: &[u8]) -> Answer {
        let request: ListRequest = serde_json::from_slice(payload)?;
        if request.namespace.is_none() {
            return Err("missing field `namespace`".into());
        }
        self.list(&request)
    }

    fn list(&self, request: &ListRequest) -> Answer {
        let ListRequest { api_version, kind, .. } = request;
        self.may_read(api_version, kind)?;
        let none = || format!("Cannot find resource {api_version}/{kind}");
        self.cluster.list(request).map_err(|error| refusal(&error, api_version, kind, none))
    }

    fn can_i(&self, payload: &[u8]) -> Answer {
        let request: AccessRequest = serde_json::from_slice(payload)?;
        let none = || "SubjectAccessReview did not return a response".to_owned();
        self.cluster
            .can_i(&request)
            .map_err(|error| refusal(&error, "authorization.k8s.io/v1", "SubjectAccessReview", none))
    }

    fn may_read(&self, api_version: &str, kind: &str) -> Result<(), String> {
        if self.grants.may_read(api_version, kind) { Ok(()) } else { Err(not_granted(api_version, kind)) }
    }
}

/// Returns the text for an object that does not exist; recorded sessions contain the same text.
pub(crate) fn not_found(request: &ResourceRequest) -> String {
    let ResourceRequest { api_version, kind, name, namespace, .. } = request;
    // The policy server prints the `Option` in its Debug form, which quotes the namespace.
    format!("Cannot find {api_version}/{kind} named '{name}' inside of namespace '{:?}'", namespace.as_deref())
}

fn not_granted(api_version: &str, kind: &str) -> String {
    format!(
        "Policy has not been granted access to Kubernetes {api_version}/{kind} resources. \
         The violation has been reported."
    )
}

fn refusal(
    error: &ClusterError,
    api_version: &str,
    kind: &str,
    not_found: impl Fn() -> String,
) -> Box<dyn std::error::Error + Send + Sync> {
    match error {
        ClusterError::NotFound => format!("Callback evaluation failure: {}", not_found()),
        ClusterError::NotGranted => not_granted(api_version, kind),
        ClusterError::Failed(text) => format!("Callback evaluation failure: {text}"),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::NoCluster;
    use crate::grants::ContextAwareResource;
    use crate::log::LogLevel;

    /// A cluster that gives the same answer to every question.
    struct Always(Result<Vec<u8>, ClusterError>);

    impl Cluster for Always {
        fn get(&self, _: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
            self.0.clone()
        }

        fn list(&self, _: &ListRequest) -> Result<Vec<u8>, ClusterError> {
            self.0.clone()
        }

        fn can_i(&self, _: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
            self.0.clone()
        }
    }

    /// A cluster that implements only `get`.
    struct GetOnly;

    impl Cluster for GetOnly {
        fn get(&self, _: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
            Err(ClusterError::NotFound)
        }
    }

    fn ask(cluster: &dyn Cluster, grants: &Grants, capability: &str, payload: &Value) -> Result<String, String> {
        let host = Host { cluster, grants, log: None };
        let (namespace, operation) = capability.split_once('/').unwrap();
        host.answer("kubewarden", namespace, operation, payload.to_string().as_bytes())
            .map(|bytes| String::from_utf8(bytes).unwrap())
            .map_err(|error| error.to_string())
    }

    fn get(namespace: Option<&str>) -> Value {
        json!({"api_version": "v1", "kind": "ConfigMap", "name": "c", "namespace": namespace, "disable_cache": true})
    }

    fn list(namespace: &str) -> Value {
        json!({"api_version": "v1", "kind": "ConfigMap", "namespace": namespace})
    }

    fn can_i() -> Value {
        let attributes = json!({"resource": "pods", "verb": "create"});
        json!({"subject_access_review": {"user": "u", "resource_attributes": attributes}, "disable_cache": false})
    }

    #[test]
    fn objects_and_errors_reach_the_guest_as_the_policy_server_words_them() {
        let all = Grants::default();
        let ask = |answer: Result<Vec<u8>, ClusterError>, capability: &str, payload: &Value| {
            ask(&Always(answer), &all, capability, payload)
        };
        let calls = [
            ("kubernetes/get_resource", get(None)),
            ("kubernetes/list_resources_all", list("ignored")),
            ("kubernetes/list_resources_by_namespace", list("n")),
            ("kubernetes/can_i", can_i()),
        ];
        for (capability, payload) in &calls {
            assert_eq!(ask(Ok(b"{}".to_vec()), capability, payload), Ok("{}".to_owned()), "{capability}");
            assert_eq!(
                ask(Err(ClusterError::Failed("boom".to_owned())), capability, payload).unwrap_err(),
                "Callback evaluation failure: boom"
            );
        }
        assert_eq!(
            ask(Err(ClusterError::NotFound), "kubernetes/get_resource", &get(None)).unwrap_err(),
            "Callback evaluation failure: Cannot find v1/ConfigMap named 'c' inside of namespace 'None'"
        );
        assert_eq!(
            ask(Err(ClusterError::NotFound), "kubernetes/get_resource", &get(Some("n"))).unwrap_err(),
            "Callback evaluation failure: Cannot find v1/ConfigMap named 'c' inside of namespace 'Some(\"n\")'"
        );
        assert_eq!(
            ask(Err(ClusterError::NotGranted), "kubernetes/get_resource", &get(None)).unwrap_err(),
            "Policy has not been granted access to Kubernetes v1/ConfigMap resources. The violation has been reported."
        );
    }

    #[test]
    fn a_policy_gets_what_it_was_granted() {
        let cluster = Always(Ok(b"{}".to_vec()));
        let resource = ContextAwareResource { api_version: "v1".to_owned(), kind: "Namespace".to_owned() };
        let patterns =
            vec!["kubernetes/get_resource".parse().unwrap(), "kubernetes/list_resources_all".parse().unwrap()];
        let grants = Grants::new(patterns, BTreeSet::from([resource]));
        let kind = "Policy has not been granted access to Kubernetes v1/ConfigMap resources. \
                    The violation has been reported.";
        assert_eq!(ask(&cluster, &grants, "kubernetes/get_resource", &get(None)).unwrap_err(), kind);
        assert_eq!(ask(&cluster, &grants, "kubernetes/list_resources_all", &list("n")).unwrap_err(), kind);
        let mut granted = get(None);
        granted["kind"] = json!("Namespace");
        assert_eq!(ask(&cluster, &grants, "kubernetes/get_resource", &granted), Ok("{}".to_owned()));
        // The capability is checked before the payload.
        assert_eq!(
            ask(&cluster, &grants, "kubernetes/can_i", &json!({})).unwrap_err(),
            "Policy has not been granted access to the 'kubernetes/can_i' host capability. \
             The violation has been reported."
        );
        assert_eq!(ask(&cluster, &grants, "tracing/log", &json!({})), Ok(String::new()), "logging needs no grant");
    }

    #[test]
    fn calls_that_are_not_served_are_refused_by_name() {
        let all = Grants::default();
        let refused = |capability: &str, payload: Value| ask(&GetOnly, &all, capability, &payload).unwrap_err();
        assert_eq!(refused("files/read", json!({})), "unknown namespace: files");
        assert_eq!(refused("kubernetes/delete", json!({})), "unknown operation: delete");
        assert_eq!(refused("oci/v9/verify", json!({})), "unknown operation: v9/verify");
        assert_eq!(refused("tracing/fly", json!({})), "unknown operation: fly");
        for (capability, payload) in [
            ("kubernetes/can_i", can_i()),
            ("kubernetes/list_resources_all", list("n")),
            ("kubernetes/list_resources_by_namespace", list("n")),
            ("oci/v2/verify", json!({})),
        ] {
            let expected = format!("Callback evaluation failure: this host does not answer '{capability}'");
            assert_eq!(refused(capability, payload), expected);
        }
        assert_eq!(
            ask(&NoCluster, &all, "kubernetes/can_i", &can_i()).unwrap_err(),
            "Callback evaluation failure: kube::Client was not initialized properly"
        );
        let host = Host { cluster: &GetOnly, grants: &all, log: None };
        assert_eq!(
            host.answer("other", "kubernetes", "get_resource", b"").unwrap_err().to_string(),
            "unknown binding: other"
        );
    }

    #[test]
    fn payloads_that_are_no_requests_are_refused() {
        let all = Grants::default();
        let refused = |capability: &str, payload: Value| ask(&NoCluster, &all, capability, &payload).unwrap_err();
        assert_eq!(refused("kubernetes/can_i", json!({})), "missing field `subject_access_review` at line 1 column 2");
        assert_eq!(refused("kubernetes/get_resource", json!({})), "missing field `api_version` at line 1 column 2");
        let no_namespace = json!({"api_version": "v1", "kind": "Pod"});
        assert_eq!(refused("kubernetes/list_resources_by_namespace", no_namespace), "missing field `namespace`");
        let host = Host { cluster: &NoCluster, grants: &all, log: None };
        assert!(host.answer("kubewarden", "kubernetes", "get_resource", b"\xff").is_err(), "no UTF-8");
    }

    #[test]
    fn what_a_policy_logs_is_passed_on() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        let log: Box<Log> = Box::new(move |line| seen.lock().push((line.level, line.message)));
        let host = Host { cluster: &NoCluster, grants: &Grants::default(), log: Some(log.as_ref()) };
        let payload = br#"{"level": "info", "message": "hello"}"#;
        assert_eq!(host.answer("kubewarden", "tracing", "log", payload).unwrap(), b"");
        assert_eq!(host.answer("kubewarden", "tracing", "log", b"hello").unwrap(), b"", "no line, no failure");
        assert_eq!(*lines.lock(), [(LogLevel::Info, "hello".to_owned())]);
    }
}
