//! The policy that limits what `sidecarset-rollout` may change in Pods. RBAC cannot say which fields of a Pod may be
//! written; a `ValidatingAdmissionPolicy` of the API server can, without a webhook.

use pillion_rollout::pod::UPGRADABLE;
use pillion_sidecarset::names;
use serde_json::{Value, json};

use super::super::document::{Document, metadata};

/// The file of the policy.
const FILE: &str = "03-rollout-guard";
const API_VERSION: &str = "admissionregistration.k8s.io/v1";
/// The prefix of the annotations of SidecarSets.
const RECORDS: &str = "kruise.io/sidecarset-";

/// The fields of a Pod's spec that the API server lets anyone change, besides the containers.
const SPEC: &[&str] = &[
    "activeDeadlineSeconds",
    "affinity",
    "nodeSelector",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "tolerations",
];
/// The fields of a Pod's status, besides the conditions.
const STATUS: &[&str] = &[
    "containerStatuses",
    "ephemeralContainerStatuses",
    "hostIP",
    "hostIPs",
    "initContainerStatuses",
    "message",
    "nominatedNodeName",
    "phase",
    "podIP",
    "podIPs",
    "qosClass",
    "reason",
    "resize",
    "resourceClaimStatuses",
    "startTime",
];

/// Whom the policy limits.
#[derive(Clone, Copy, Debug)]
pub struct Limited<'a> {
    /// The name of the policy and its binding.
    pub name: &'a str,
    /// The namespace and the name of the ServiceAccount.
    pub account: (&'a str, &'a str),
    /// Regular expressions for the annotations of `patchPodMetadata` that it may write.
    pub annotations: &'a [String],
    /// The namespaces in which it may evict no Pod.
    pub protected: &'a [String],
}

/// Returns the policy and its binding.
pub fn documents(limited: Limited<'_>) -> Vec<Document> {
    let Limited { name, account: (namespace, account), annotations, protected } = limited;
    let metadata = || metadata(name, None, name, "rollout", &Value::Null);
    let user = format!("system:serviceaccount:{namespace}:{account}");
    let policy = json!({
        "apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": metadata(),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE", "CONNECT"],
                "resources": ["pods", "pods/*"],
            }]},
            "matchConditions": [{"name": "by-the-rollout-controller", "expression": format!("request.userInfo.username == {}", text(&user))}],
            "validations": validations(annotations, protected),
        },
    });
    let binding = json!({
        "apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata(),
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    let about = "What sidecarset-rollout may do with Pods: change images, cpu and memory of injected containers, the records \
                 of SidecarSets, and one condition; evict them; and try to create them, as a dry run. Nothing else, whoever holds its token.";
    vec![Document::new(FILE, about, policy), Document::new(FILE, "", binding)]
}

/// Writes a text as a literal of CEL.
fn text(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Returns the expression that two values of a field are the same.
fn same(parent: &str, field: &str) -> String {
    format!("object.{parent}.?{field} == oldObject.{parent}.?{field}")
}

fn all(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().collect::<Vec<_>>().join(" && ")
}

/// Returns the validations: expressions of CEL, each with the message of a refusal.
fn validations(annotations: &[String], protected: &[String]) -> Vec<Value> {
    // The main resource changes the spec, `status` the status; `resize` changes cpu and memory of containers.
    let is = |part: &str| format!("request.?subResource.orValue('') == '{part}'");
    // Dry runs and evictions create an object, and change no Pod.
    let change = |expression: String| format!("request.operation != 'UPDATE' || ({expression})");
    let only = |part: &str, expression: String| change(format!("!({}) || ({expression})", is(part)));
    let dry_run = format!("request.operation == 'CREATE' && {} && request.?dryRun.orValue(false)", is(""));
    let evicts = format!("request.operation == 'CREATE' && {}", is("eviction"));
    let protected: Vec<String> = protected.iter().map(|namespace| text(namespace)).collect();
    let is_injected = format!(
        "old.?env.orValue([]).exists(variable, variable.name == '{}' && variable.?value.orValue('') == 'true')",
        names::ENV_IS_INJECTED
    );
    let is_native = "old.?restartPolicy.orValue('') == 'Always'";
    // Whether a field of each container is as before, or the container was injected. Of init containers, native sidecars
    // alone may change.
    let only_injected = |same: &str| {
        format!(
            "object.spec.containers.all(container, oldObject.spec.containers.exists(old, old.name == container.name && \
             ({same} || {is_injected}))) && object.spec.?initContainers.orValue([]).all(container, \
             oldObject.spec.?initContainers.orValue([]).exists(old, old.name == container.name && \
             ({same} || ({is_native} && {is_injected}))))"
        )
    };
    let images = only_injected("old.image == container.image");
    let resources = only_injected("old.?resources == container.?resources");
    let is_record = |key: &str| {
        let prefixes = [RECORDS, names::VERSION_PREFIX, names::VERSION_ALT_PREFIX, "pillion.dev/"];
        let own = prefixes.into_iter().map(|prefix| format!("{key}.startsWith({})", text(prefix)));
        let given = annotations.iter().map(|expression| format!("{key}.matches({})", text(expression)));
        own.chain(given).collect::<Vec<_>>().join(" || ")
    };
    let (old, new) = ("oldObject.metadata.?annotations.orValue({})", "object.metadata.?annotations.orValue({})");
    let unchanged = |one: &str, other: &str| {
        format!("{one}.all(key, (key in {other} && {other}[key] == {one}[key]) || {})", is_record("key"))
    };
    let others = |object: &str| {
        format!("{object}.status.?conditions.orValue([]).filter(condition, condition.type != '{UPGRADABLE}')")
    };
    let rule = |expression: String, message: &str| json!({"expression": expression, "message": message});
    vec![
        rule(
            format!(
                "(request.operation == 'UPDATE' && ({})) || ({dry_run}) || ({evicts})",
                ["", "status", "resize"].map(is).join(" || ")
            ),
            "sidecarset-rollout may only update Pods, their status and their resources, evict Pods, and create them as a \
             dry run",
        ),
        rule(
            format!("!({evicts}) || !(request.?namespace.orValue('') in [{}])", protected.join(", ")),
            "sidecarset-rollout may not evict Pods of serviceAccounts.protectedNamespaces",
        ),
        rule(
            change(all(["labels", "finalizers", "ownerReferences"].map(|field| same("metadata", field)))),
            "sidecarset-rollout may not change labels, finalizers or owners of a Pod",
        ),
        rule(
            change(all([unchanged(old, new), unchanged(new, old)])),
            "sidecarset-rollout may only change annotations that record SidecarSets, and those of patchPodMetadata",
        ),
        rule(
            only("", all([images].into_iter().chain(SPEC.iter().map(|field| same("spec", field))))),
            "sidecarset-rollout may only change images of containers that were injected",
        ),
        rule(
            only("resize", resources),
            "sidecarset-rollout may only change cpu and memory of containers that were injected",
        ),
        rule(
            only(
                "status",
                all(STATUS.iter().map(|field| same("status", field)).chain([format!(
                    "{} == {}",
                    others("object"),
                    others("oldObject")
                )])),
            ),
            "sidecarset-rollout may only change the condition SidecarSetUpgradable in the status of a Pod",
        ),
    ]
}
