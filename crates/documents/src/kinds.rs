//! The kinds that create Pods, and the places of their Pod templates.

use pillion_kubernetes::field::{Cause, FieldError};
use pillion_kubernetes::json;
use pillion_kubernetes::words::nearest;
use pillion_sidecarset::sidecar_set::version::Version;
use serde_json::Value;

/// A kind that creates Pods.
#[derive(Debug)]
pub struct Kind {
    /// The API group; empty for the core group.
    group: &'static str,
    /// The name.
    pub name: &'static str,
    /// A current apiVersion of the kind.
    api_version: &'static str,
    /// The keys on the path to the Pod template, each with its alternatives; empty for a Pod.
    pub steps: &'static [&'static [&'static str]],
    /// The JSON pointer of a field that replaces the template.
    instead: Option<&'static str>,
}

const TEMPLATE: &[&[&str]] = &[&["spec"], &["template"]];

const fn kind(group: &'static str, api_version: &'static str, name: &'static str) -> Kind {
    Kind { group, name, api_version, steps: TEMPLATE, instead: None }
}

const KRUISE: &str = "apps.kruise.io";

/// Kubernetes' own kinds, OpenKruise's, and Argo's Rollout.
const KINDS: [Kind; 16] = [
    Kind { steps: &[], ..kind("", "v1", "Pod") },
    Kind { steps: &[&["template"]], ..kind("", "v1", "PodTemplate") },
    kind("", "v1", "ReplicationController"),
    kind("apps", "apps/v1", "Deployment"),
    kind("apps", "apps/v1", "ReplicaSet"),
    kind("apps", "apps/v1", "StatefulSet"),
    kind("apps", "apps/v1", "DaemonSet"),
    kind("batch", "batch/v1", "Job"),
    Kind { steps: &[&["spec"], &["jobTemplate"], &["spec"], &["template"]], ..kind("batch", "batch/v1", "CronJob") },
    kind(KRUISE, "apps.kruise.io/v1alpha1", "CloneSet"),
    kind(KRUISE, "apps.kruise.io/v1beta1", "StatefulSet"),
    kind(KRUISE, "apps.kruise.io/v1alpha1", "DaemonSet"),
    kind(KRUISE, "apps.kruise.io/v1alpha1", "BroadcastJob"),
    Kind {
        steps: &[&["spec"], &["template"], &["jobTemplate", "broadcastJobTemplate"], &["spec"], &["template"]],
        instead: Some("/spec/template/imageListPullJobTemplate"),
        ..kind(KRUISE, "apps.kruise.io/v1alpha1", "AdvancedCronJob")
    },
    Kind {
        steps: &[
            &["spec"],
            &["template"],
            &["statefulSetTemplate", "advancedStatefulSetTemplate", "cloneSetTemplate", "deploymentTemplate"],
            &["spec"],
            &["template"],
        ],
        ..kind(KRUISE, "apps.kruise.io/v1alpha1", "UnitedDeployment")
    },
    Kind { instead: Some("/spec/workloadRef"), ..kind("argoproj.io", "argoproj.io/v1alpha1", "Rollout") },
];

/// Returns the group of an apiVersion, empty for `v1`, or `None` if it is malformed.
fn group(api_version: &str) -> Option<&str> {
    match api_version.split_once('/') {
        Some((group, version)) => (!group.is_empty() && !version.is_empty()).then_some(group),
        None => (api_version == "v1").then_some(""),
    }
}

fn find(api_version: &str, name: &str) -> Option<&'static Kind> {
    let group = group(api_version)?;
    KINDS.iter().find(|kind| kind.group == group && kind.name == name)
}

/// Whether objects of this kind are Pods or create Pods.
pub fn makes_pods(api_version: &str, name: &str) -> bool {
    find(api_version, name).is_some()
}

/// Returns the kind of an object that must have a Pod template, or be a Pod.
pub fn pod_kind(object: &Value) -> Option<&'static Kind> {
    let kind = find(json::text(object, &["apiVersion"]), json::text(object, &["kind"]))?;
    let is_elsewhere = |pointer: &str| object.pointer(pointer).is_some_and(|value| !value.is_null());
    (!kind.instead.is_some_and(is_elsewhere)).then_some(kind)
}

/// Returns the error in a misspelt apiVersion or kind, if the object was meant to be one of [`KINDS`] or a
/// `SidecarSet`. The API server knows no such kind.
pub fn misspelt(object: &Value) -> Option<FieldError> {
    let (api_version, name) = (json::text(object, &["apiVersion"]), json::text(object, &["kind"]));
    if is_sidecar_set(api_version, name) {
        return of_sidecar_set(api_version, name);
    }
    if object.get("metadata").is_none() || makes_pods(api_version, name) {
        return None;
    }
    let group = group(api_version);
    // Kinds of other groups may have the same names. Groups of other projects contain a dot.
    let is_own = |group: &str| group.contains('.') && KINDS.iter().all(|kind| kind.group != group);
    if group.is_some_and(is_own) || group == Some("extensions") {
        return None;
    }
    let named: Vec<&Kind> = KINDS.iter().filter(|kind| kind.name == name).collect();
    if let Some(kind) = named.first() {
        let versions: Vec<&str> = named.iter().map(|kind| kind.api_version).collect();
        let path = "apiVersion";
        return Some(match api_version {
            "" => FieldError::required(path, format!("a {} has {}", kind.name, versions.join(" or "))),
            _ => FieldError::not_supported(path, api_version, &versions),
        });
    }
    let of_group = KINDS.iter().filter(|kind| group.is_some_and(|group| kind.group == group));
    let meant = nearest(name, of_group.map(|kind| kind.name))?;
    Some(FieldError::new("kind", Cause::NotSupported, did_you_mean(meant)).showing(name))
}

/// Whether an object is a `SidecarSet`, or meant to be one: its kind or its apiVersion may be misspelt.
pub fn is_sidecar_set(api_version: &str, name: &str) -> bool {
    let of_kruise = group(api_version).is_some_and(|group| nearest(group, [KRUISE]).is_some());
    let is_similar = nearest(name, ["SidecarSet"]).is_some();
    is_similar && (of_kruise || group(api_version).is_none_or(|group| !group.contains('.')))
}

fn of_sidecar_set(api_version: &str, name: &str) -> Option<FieldError> {
    if name != "SidecarSet" {
        return Some(FieldError::new("kind", Cause::NotSupported, did_you_mean("SidecarSet")).showing(name));
    }
    let versions = [Version::V1Beta1, Version::V1Alpha1].map(Version::api_version);
    let path = "apiVersion";
    match api_version {
        "" => Some(FieldError::required(path, format!("a SidecarSet has {}", versions.join(" or ")))),
        known if versions.contains(&known) => None,
        other => Some(FieldError::not_supported(path, other, &versions)),
    }
}

/// Returns the text of a suggestion.
pub fn did_you_mean(word: &str) -> String {
    format!("did you mean \"{word}\"?")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn object(api_version: &str, kind: &str) -> Value {
        let mut object = json!({"kind": kind, "metadata": {"name": "a"}});
        if !api_version.is_empty() {
            object["apiVersion"] = json!(api_version);
        }
        object
    }

    #[rstest]
    #[case::case("v1", "pod", "kind: Unsupported value: \"pod\": did you mean \"Pod\"?")]
    #[case::letters("apps/v1", "Deploymnet", "kind: Unsupported value: \"Deploymnet\": did you mean \"Deployment\"?")]
    #[case::kruise(
        "apps.kruise.io/v1alpha1",
        "Cloneset",
        "kind: Unsupported value: \"Cloneset\": did you mean \"CloneSet\"?"
    )]
    #[case::another_version("v1", "Deployment", "apiVersion: Unsupported value: \"v1\": supported values: \"apps/v1\"")]
    #[case::misspelt_group(
        "app/v1",
        "Deployment",
        "apiVersion: Unsupported value: \"app/v1\": supported values: \"apps/v1\""
    )]
    #[case::no_version("", "Pod", "apiVersion: Required value: a Pod has v1")]
    #[case::group_alone(
        "apps",
        "DaemonSet",
        "apiVersion: Unsupported value: \"apps\": supported values: \"apps/v1\", \"apps.kruise.io/v1alpha1\""
    )]
    #[case::sidecar_set(
        "apps.kruise.io/v1beta1",
        "SidecarsSet",
        "kind: Unsupported value: \"SidecarsSet\": did you mean \"SidecarSet\"?"
    )]
    #[case::sidecar_set_of_another_version(
        "apps.kruise.io/v1",
        "SidecarSet",
        "apiVersion: Unsupported value: \"apps.kruise.io/v1\": supported values: \"apps.kruise.io/v1beta1\", \"apps.kruise.io/v1alpha1\""
    )]
    #[case::sidecar_set_of_a_misspelt_group(
        "apps.kruse.io/v1beta1",
        "SidecarSet",
        "apiVersion: Unsupported value: \"apps.kruse.io/v1beta1\": supported values: \"apps.kruise.io/v1beta1\", \"apps.kruise.io/v1alpha1\""
    )]
    #[case::sidecar_set_without_version(
        "",
        "SidecarSet",
        "apiVersion: Required value: a SidecarSet has apps.kruise.io/v1beta1 or apps.kruise.io/v1alpha1"
    )]
    fn what_was_meant_is_said(#[case] api_version: &str, #[case] kind: &str, #[case] expected: &str) {
        assert_eq!(misspelt(&object(api_version, kind)).unwrap().to_string(), expected);
    }

    #[rstest]
    #[case::known("apps/v1", "Deployment")]
    #[case::sidecar_set("apps.kruise.io/v1alpha1", "SidecarSet")]
    #[case::service("v1", "Service")]
    #[case::node("v1", "Node")]
    #[case::job_of_another_group("batch.volcano.sh/v1alpha1", "Job")]
    #[case::old_group("extensions/v1beta1", "Deployment")]
    #[case::rollout_of_kruise("rollouts.kruise.io/v1beta1", "Rollout")]
    #[case::sidecar_set_of_another_project("example.com/v1", "SidecarSet")]
    #[case::no_kind("v1", "")]
    fn other_kinds_are_left_alone(#[case] api_version: &str, #[case] kind: &str) {
        assert_eq!(misspelt(&object(api_version, kind)), None);
    }

    #[test]
    fn what_is_no_object_of_kubernetes_is_left_alone() {
        assert_eq!(misspelt(&json!({"kind": "Pod"})), None);
        assert_eq!(misspelt(&json!({"apiVersion": "v2", "name": "chart"})), None);
    }

    #[test]
    fn a_template_may_stand_elsewhere() {
        let mut rollout = object("argoproj.io/v1alpha1", "Rollout");
        assert!(pod_kind(&rollout).is_some());
        rollout["spec"]["workloadRef"] = json!({"kind": "Deployment"});
        assert!(pod_kind(&rollout).is_none());
    }
}
