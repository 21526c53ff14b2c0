//! The admission request.
//!
//! The SDK's type replaces every absent field by its default and drops the resource. Here, a request without `uid`,
//! `operation` or `kind` is an error.

use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::nullable;
use pillion_kubernetes::operation::Operation;
use pillion_kubernetes::outcome::{Code, Reason, Refusal};
use serde::Deserialize;
use serde_json::Value;

use crate::pod::PodRequest;

/// Group, version and kind of the object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupVersionKind {
    /// `""` for the core group.
    #[serde(deserialize_with = "nullable::or_default")]
    pub group: String,
    /// `v1`, `v1beta1`, ...
    #[serde(deserialize_with = "nullable::or_default")]
    pub version: String,
    /// `Pod`, `SidecarSet`, ...
    #[serde(deserialize_with = "nullable::or_default")]
    pub kind: String,
}

/// The kinds of requests for which this policy has rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestTarget {
    /// A Pod is created.
    PodCreate,
    /// A `SidecarSet` is created or changed, in any version.
    SidecarSetWrite,
    /// A Gardener Shoot, or another kind with the same settings for its API server, is created or changed.
    ShootWrite,
    /// Containers are added to a running Pod.
    EphemeralContainers,
    /// Somebody opens a connection to a running Pod: `exec`, `attach` or `portforward`.
    PodConnect,
    /// A Pod is changed, without its subresources.
    PodUpdate,
    /// A token of a ServiceAccount is requested.
    TokenRequest,
    /// A workload with a Pod template, or a `PodTemplate`, is created or changed.
    WorkloadWrite,
    /// A ServiceAccount, a Role or a RoleBinding is created, changed or deleted.
    AccountChange,
    /// A Secret is created or changed.
    SecretWrite,
    /// A ConfigMap is created, changed or deleted, or a Service is created or changed.
    TrustAnchorChange,
    /// No rule applies: the request is accepted.
    Other,
}

/// An AdmissionRequest (`admission.k8s.io/v1`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The uid, which is different for every call of a webhook.
    pub uid: String,
    /// The kind of the object as it was sent to the webhook.
    pub kind: GroupVersionKind,
    /// The operation.
    pub operation: Operation,
    /// `status`, `ephemeralcontainers`, ...; empty for the object itself.
    pub sub_resource: String,
    /// The object's namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name in the request's path; empty where the API server generates one, and for the deletion of a collection.
    pub name: String,
    /// The object; null on DELETE.
    pub object: Value,
    /// The stored object; null on CREATE.
    pub old_object: Value,
    /// The user who sends the request, as in the JSON.
    pub user_info: Value,
}

impl Request {
    /// Reads the `request` of an `AdmissionReview`. JSON null counts as absent.
    ///
    /// # Errors
    /// Code 400 with the first field that is missing or has the wrong type.
    pub fn decode(mut request: Value) -> Result<Self, Refusal> {
        // Move objects instead of deserializing them, which would rebuild their trees.
        let mut take = |key: &str| request.get_mut(key).map(Value::take).unwrap_or_default();
        let (object, old_object, user_info) = (take("object"), take("oldObject"), take("userInfo"));
        let root = FieldPath::new("request");
        // serde would accept a list as a struct, with the fields in order.
        expect_object(&root, &request)?;
        if let Some(kind) = request.get("kind").filter(|kind| !kind.is_null()) {
            expect_object(&root.child("kind"), kind)?;
        }
        let envelope: Envelope = serde_path_to_error::deserialize(&request)
            .map_err(|error| Reason::of_field(Code::Undecodable, FieldError::undecodable(root, &error)))?;
        let missing = |field: &str| {
            Reason::of_field(
                Code::Undecodable,
                FieldError::required(root.child(field), "every AdmissionRequest has one"),
            )
        };
        let kind = envelope.kind.ok_or_else(|| missing("kind"))?;
        if kind.kind.is_empty() {
            return Err(missing("kind.kind").into());
        }
        let operation = envelope.operation.filter(|name| !name.is_empty()).ok_or_else(|| missing("operation"))?;
        Ok(Self {
            uid: envelope.uid.filter(|uid| !uid.is_empty()).ok_or_else(|| missing("uid"))?,
            kind,
            operation: operation.parse().map_err(|error| Reason::of_field(Code::Undecodable, error))?,
            sub_resource: envelope.sub_resource.unwrap_or_default(),
            namespace: envelope.namespace.unwrap_or_default(),
            name: envelope.name.unwrap_or_default(),
            object,
            old_object,
            user_info,
        })
    }

    /// Returns the rules that apply to this request. That needs no settings, and for [`RequestTarget::Other`] they are not
    /// read.
    pub fn target(&self) -> RequestTarget {
        use Operation::{Connect, Create, Delete, Update};
        let kind = (self.kind.group.as_str(), self.kind.kind.as_str());
        match (kind, self.sub_resource.as_str(), self.operation) {
            (("", "Pod"), "ephemeralcontainers", Update) => RequestTarget::EphemeralContainers,
            (("", "Pod"), "", Create) if self.kind.version == "v1" => RequestTarget::PodCreate,
            (("", "Pod"), "", Update) => RequestTarget::PodUpdate,
            // Each of the kind and the subresource is enough.
            (("", "PodExecOptions" | "PodAttachOptions" | "PodPortForwardOptions"), _, Connect)
            | (("", _), "exec" | "attach" | "portforward", Connect) => RequestTarget::PodConnect,
            (("authentication.k8s.io", "TokenRequest"), "token", Create) => RequestTarget::TokenRequest,
            (("apps.kruise.io", "SidecarSet"), "", Create | Update) => RequestTarget::SidecarSetWrite,
            (
                ("", "ReplicationController" | "PodTemplate")
                | ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
                | ("batch", "Job" | "CronJob")
                | (
                    "apps.kruise.io",
                    "CloneSet" | "StatefulSet" | "DaemonSet" | "BroadcastJob" | "AdvancedCronJob" | "UnitedDeployment",
                ),
                "",
                Create | Update,
            ) => RequestTarget::WorkloadWrite,
            (
                ("", "ServiceAccount") | ("rbac.authorization.k8s.io", "Role" | "RoleBinding"),
                "",
                Create | Update | Delete,
            ) => RequestTarget::AccountChange,
            (("", "Secret"), "", Create | Update) => RequestTarget::SecretWrite,
            (("", "ConfigMap"), "", Create | Update | Delete) | (("", "Service"), "", Create | Update) => {
                RequestTarget::TrustAnchorChange
            }
            (
                ("core.gardener.cloud", "Shoot")
                | ("operator.gardener.cloud", "Garden")
                | ("seedmanagement.gardener.cloud", "ManagedSeedSet"),
                "",
                Create | Update,
            ) => RequestTarget::ShootWrite,
            _ => RequestTarget::Other,
        }
    }

    /// Returns the request as one to create a Pod, if that is what it is about ([`RequestTarget::PodCreate`]).
    pub fn pod(&self) -> PodRequest<'_> {
        PodRequest { uid: &self.uid, namespace: &self.namespace, object: &self.object }
    }
}

/// The fields of a request that decide which rules apply, as they are sent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    uid: Option<String>,
    kind: Option<GroupVersionKind>,
    operation: Option<String>,
    sub_resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

fn expect_object(path: &FieldPath<'_>, value: &Value) -> Result<(), Reason> {
    if value.is_object() {
        return Ok(());
    }
    Err(Reason::of_field(Code::Undecodable, FieldError::wrong_type(path, "an object", value)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::RequestTarget::{
        AccountChange, EphemeralContainers, Other, PodConnect, PodCreate, PodUpdate, SecretWrite, ShootWrite,
        SidecarSetWrite, TokenRequest, TrustAnchorChange, WorkloadWrite,
    };
    use super::*;

    fn request() -> Value {
        json!({
            "uid": "u", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "namespace": "n", "name": "p", "object": {"a": 1}, "userInfo": {"username": "x"}, "dryRun": true,
            "options": {"kind": "CreateOptions"}
        })
    }

    fn with(edit: impl FnOnce(&mut Value)) -> Value {
        let mut request = request();
        edit(&mut request);
        request
    }

    #[test]
    fn a_request_is_read_whole() {
        let read = Request::decode(request()).unwrap();
        assert_eq!((read.uid.as_str(), read.namespace.as_str(), read.name.as_str()), ("u", "n", "p"));
        assert_eq!(read.object, json!({"a": 1}));
        assert_eq!(read.old_object, Value::Null);
        assert_eq!(read.user_info, json!({"username": "x"}));
    }

    #[rstest]
    #[case::pod_create("", "v1", "Pod", "CREATE", "", PodCreate)]
    #[case::aft7_pod_update("", "v1", "Pod", "UPDATE", "", PodUpdate)]
    #[case::pod_resize("", "v1", "Pod", "UPDATE", "resize", Other)]
    #[case::pod_delete("", "v1", "Pod", "DELETE", "", Other)]
    #[case::pod_status("", "v1", "Pod", "UPDATE", "status", Other)]
    #[case::pod_binding("", "v1", "Pod", "CREATE", "binding", Other)]
    #[case::aft2_exec("", "v1", "PodExecOptions", "CONNECT", "exec", PodConnect)]
    #[case::aft2_attach("", "v1", "PodAttachOptions", "CONNECT", "attach", PodConnect)]
    #[case::aft2_port_forward("", "v1", "PodPortForwardOptions", "CONNECT", "portforward", PodConnect)]
    #[case::aft2_exec_of_a_future_version("", "v2", "PodExecOptions", "CONNECT", "exec", PodConnect)]
    #[case::aft2_options_of_another_subresource("", "v1", "PodExecOptions", "CONNECT", "shell", PodConnect)]
    #[case::aft2_exec_with_options_of_another_kind("", "v1", "PodDebugOptions", "CONNECT", "exec", PodConnect)]
    #[case::exec_as_another_operation("", "v1", "PodExecOptions", "CREATE", "exec", Other)]
    #[case::another_groups_exec(
        "subresources.kubevirt.io",
        "v1",
        "VirtualMachineInstance",
        "CONNECT",
        "portforward",
        Other
    )]
    #[case::pod_proxy("", "v1", "PodProxyOptions", "CONNECT", "proxy", Other)]
    #[case::node_proxy("", "v1", "NodeProxyOptions", "CONNECT", "proxy", Other)]
    #[case::another_groups_pod("example.com", "v1", "Pod", "CREATE", "", Other)]
    #[case::set_create("apps.kruise.io", "v1beta1", "SidecarSet", "CREATE", "", SidecarSetWrite)]
    #[case::set_update("apps.kruise.io", "v1alpha1", "SidecarSet", "UPDATE", "", SidecarSetWrite)]
    #[case::set_of_a_future_version("apps.kruise.io", "v9", "SidecarSet", "CREATE", "", SidecarSetWrite)]
    #[case::set_status("apps.kruise.io", "v1beta1", "SidecarSet", "UPDATE", "status", Other)]
    #[case::set_delete("apps.kruise.io", "v1beta1", "SidecarSet", "DELETE", "", Other)]
    #[case::another_groups_set("example.com", "v1beta1", "SidecarSet", "CREATE", "", Other)]
    #[case::e6_deployment("apps", "v1", "Deployment", "CREATE", "", WorkloadWrite)]
    #[case::e6_stateful_set("apps", "v1", "StatefulSet", "UPDATE", "", WorkloadWrite)]
    #[case::e6_daemon_set("apps", "v1", "DaemonSet", "CREATE", "", WorkloadWrite)]
    #[case::e6_replica_set("apps", "v1", "ReplicaSet", "CREATE", "", WorkloadWrite)]
    #[case::e6_job("batch", "v1", "Job", "CREATE", "", WorkloadWrite)]
    #[case::e6_cron_job("batch", "v1", "CronJob", "UPDATE", "", WorkloadWrite)]
    #[case::e6_clone_set("apps.kruise.io", "v1beta1", "CloneSet", "CREATE", "", WorkloadWrite)]
    #[case::e6_replication_controller("", "v1", "ReplicationController", "CREATE", "", WorkloadWrite)]
    #[case::e6_pod_template("", "v1", "PodTemplate", "UPDATE", "", WorkloadWrite)]
    #[case::e6_advanced_stateful_set("apps.kruise.io", "v1beta1", "StatefulSet", "CREATE", "", WorkloadWrite)]
    #[case::e6_advanced_daemon_set("apps.kruise.io", "v1alpha1", "DaemonSet", "UPDATE", "", WorkloadWrite)]
    #[case::e6_broadcast_job("apps.kruise.io", "v1alpha1", "BroadcastJob", "CREATE", "", WorkloadWrite)]
    #[case::e6_advanced_cron_job("apps.kruise.io", "v1alpha1", "AdvancedCronJob", "UPDATE", "", WorkloadWrite)]
    #[case::e6_united_deployment("apps.kruise.io", "v1alpha1", "UnitedDeployment", "CREATE", "", WorkloadWrite)]
    #[case::another_groups_united_deployment("example.com", "v1", "UnitedDeployment", "CREATE", "", Other)]
    #[case::replication_controller_scale("", "v1", "ReplicationController", "UPDATE", "scale", Other)]
    #[case::deployment_scale("apps", "v1", "Deployment", "UPDATE", "scale", Other)]
    #[case::deployment_delete("apps", "v1", "Deployment", "DELETE", "", Other)]
    #[case::e7_ephemeral("", "v1", "Pod", "UPDATE", "ephemeralcontainers", EphemeralContainers)]
    #[case::mrg8_account_delete("", "v1", "ServiceAccount", "DELETE", "", AccountChange)]
    #[case::mrg8_account_update("", "v1", "ServiceAccount", "UPDATE", "", AccountChange)]
    #[case::e22_account_create("", "v1", "ServiceAccount", "CREATE", "", AccountChange)]
    #[case::e22_role_create("rbac.authorization.k8s.io", "v1", "Role", "CREATE", "", AccountChange)]
    #[case::aft6_account_token("authentication.k8s.io", "v1", "TokenRequest", "CREATE", "token", TokenRequest)]
    #[case::aft6_account_token_of_another_version(
        "authentication.k8s.io",
        "v2",
        "TokenRequest",
        "CREATE",
        "token",
        TokenRequest
    )]
    #[case::token_review("authentication.k8s.io", "v1", "TokenReview", "CREATE", "", Other)]
    #[case::another_groups_token("", "v1", "TokenRequest", "CREATE", "token", Other)]
    #[case::mrg8_role("rbac.authorization.k8s.io", "v1", "Role", "UPDATE", "", AccountChange)]
    #[case::mrg8_role_binding("rbac.authorization.k8s.io", "v1", "RoleBinding", "DELETE", "", AccountChange)]
    #[case::cluster_role("rbac.authorization.k8s.io", "v1", "ClusterRole", "UPDATE", "", Other)]
    #[case::run3_secret_create("", "v1", "Secret", "CREATE", "", SecretWrite)]
    #[case::run3_secret_update("", "v1", "Secret", "UPDATE", "", SecretWrite)]
    #[case::secret_delete("", "v1", "Secret", "DELETE", "", Other)]
    #[case::e25_config_map_create("", "v1", "ConfigMap", "CREATE", "", TrustAnchorChange)]
    #[case::e25_config_map_update("", "v1", "ConfigMap", "UPDATE", "", TrustAnchorChange)]
    #[case::e25_config_map_delete("", "v1", "ConfigMap", "DELETE", "", TrustAnchorChange)]
    #[case::e25_service_create("", "v1", "Service", "CREATE", "", TrustAnchorChange)]
    #[case::e25_service_update("", "v1", "Service", "UPDATE", "", TrustAnchorChange)]
    #[case::service_delete("", "v1", "Service", "DELETE", "", Other)]
    #[case::service_status("", "v1", "Service", "UPDATE", "status", Other)]
    #[case::another_groups_service("serving.knative.dev", "v1", "Service", "CREATE", "", Other)]
    #[case::shoot_create("core.gardener.cloud", "v1beta1", "Shoot", "CREATE", "", ShootWrite)]
    #[case::shoot_update("core.gardener.cloud", "v1beta1", "Shoot", "UPDATE", "", ShootWrite)]
    #[case::shoot_delete("core.gardener.cloud", "v1beta1", "Shoot", "DELETE", "", Other)]
    #[case::shoot_status("core.gardener.cloud", "v1beta1", "Shoot", "UPDATE", "status", Other)]
    #[case::shoot_binding("core.gardener.cloud", "v1beta1", "Shoot", "UPDATE", "binding", Other)]
    #[case::garden("operator.gardener.cloud", "v1alpha1", "Garden", "UPDATE", "", ShootWrite)]
    #[case::managed_seed_set("seedmanagement.gardener.cloud", "v1alpha1", "ManagedSeedSet", "CREATE", "", ShootWrite)]
    #[case::another_groups_shoot("example.com", "v1beta1", "Shoot", "CREATE", "", Other)]
    #[case::seed("core.gardener.cloud", "v1beta1", "Seed", "CREATE", "", Other)]
    #[case::garden_of_another_group("core.gardener.cloud", "v1beta1", "Garden", "CREATE", "", Other)]
    // INJ-8, MATCH-1: Pods are injected only at creation.
    fn ans1_match2_e8_the_target_is_told_by_group_kind_operation_and_subresource(
        #[case] group: &str,
        #[case] version: &str,
        #[case] kind: &str,
        #[case] operation: &str,
        #[case] sub_resource: &str,
        #[case] target: RequestTarget,
    ) {
        let request = json!({
            "uid": "u", "operation": operation, "subResource": sub_resource,
            "kind": {"group": group, "version": version, "kind": kind}
        });
        assert_eq!(Request::decode(request).unwrap().target(), target);
    }

    #[rstest]
    #[case::null(Value::Null, "request")]
    #[case::empty(json!({}), "request.kind")]
    #[case::a_list(json!([]), "request")]
    #[case::a_list_of_fields(json!(["u", {}, "CREATE", "", "", "", false]), "request")]
    #[case::a_text(json!("u"), "request")]
    #[case::no_uid(with(|r| r["uid"] = json!("")), "request.uid")]
    #[case::uid_number(with(|r| r["uid"] = json!(1)), "request.uid")]
    #[case::kind_text(with(|r| r["kind"] = json!("Pod")), "request.kind")]
    #[case::kind_list(with(|r| r["kind"] = json!(["", "v1", "Pod"])), "request.kind")]
    #[case::kind_with_a_group_of_another_type(with(|r| r["kind"] = json!({"group": 3})), "request.kind.group")]
    #[case::kind_without_kind(with(|r| r["kind"] = json!({"group": null})), "request.kind.kind")]
    #[case::kind_null(with(|r| r["kind"] = Value::Null), "request.kind")]
    #[case::operation_null(with(|r| r["operation"] = Value::Null), "request.operation")]
    #[case::operation_empty(with(|r| r["operation"] = json!("")), "request.operation")]
    #[case::operation_unknown(with(|r| r["operation"] = json!("create")), "request.operation")]
    #[case::operation_number(with(|r| r["operation"] = json!(1)), "request.operation")]
    #[case::operation_object(with(|r| r["operation"] = json!({"CREATE": null})), "request.operation")]
    #[case::namespace_list(with(|r| r["namespace"] = json!([])), "request.namespace")]
    #[case::name_object(with(|r| r["name"] = json!({})), "request.name")]
    fn damaged_requests_are_refused_with_the_field(#[case] request: Value, #[case] field: &str) {
        let refusal = Request::decode(request).unwrap_err();
        assert_eq!(refusal.code(), Code::Undecodable);
        let fields: Vec<_> = refusal.reasons().map(|reason| reason.field.as_str()).collect();
        assert_eq!(fields, [field], "{}", refusal.message());
    }

    #[test]
    fn null_counts_as_absent() {
        let mut request = request();
        for key in ["subResource", "namespace", "name", "object", "oldObject", "userInfo"] {
            request[key] = Value::Null;
        }
        request["kind"]["group"] = Value::Null;
        let read = Request::decode(request).unwrap();
        assert_eq!((read.sub_resource.as_str(), read.namespace.as_str(), read.kind.group.as_str()), ("", "", ""));
    }

    #[rstest]
    #[case::missing("uid", Value::Null, "request.uid: Required value: every AdmissionRequest has one")]
    #[case::type_of_a_part(
        "kind",
        json!({"kind": 7}),
        "request.kind.kind: Invalid value: invalid type: number, expected a string"
    )]
    #[case::unknown(
        "operation",
        json!("PATCH"),
        "request.operation: Unsupported value: \"PATCH\": supported values: \"CREATE\", \"UPDATE\", \"DELETE\", \
         \"CONNECT\""
    )]
    fn messages_say_what_was_found(#[case] key: &str, #[case] value: Value, #[case] message: &str) {
        let refusal = Request::decode(with(|request| request[key] = value)).unwrap_err();
        assert_eq!(refusal.message(), message);
    }

    #[test]
    fn e18_messages_do_not_repeat_long_texts() {
        for key in ["operation", "kind"] {
            let refusal = Request::decode(with(|request| request[key] = json!("x".repeat(100_000)))).unwrap_err();
            assert!(refusal.message().len() < 1_000);
        }
    }

    proptest! {
        #[test]
        fn any_text_in_any_field_is_read_or_refused(key in "uid|kind|operation|namespace|subResource", text in "\\PC{0,12}") {
            let decoded = Request::decode(with(|request| request[&key] = json!(text)));
            prop_assert!(decoded.is_ok() || decoded.is_err_and(|refusal| refusal.code() == Code::Undecodable));
        }
    }
}
