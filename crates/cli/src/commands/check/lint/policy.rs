//! How a Kubewarden policy runs the module.

use pillion_core::json;
use pillion_core::names;
use pillion_core::revision::Selection;
use pillion_core::selector::{Selector, overlap};
use serde_json::{Value, json};

use super::matching::{NAMESPACE_SELECTOR, SELECTOR};
use crate::commands::check::settings::Judged;
use crate::commands::check::subject::{Spot, Subject};
use crate::report::Finding;

/// An API resource that the policy reads.
type Resource = (&'static str, &'static str);

const NAMESPACE: Resource = ("v1", "Namespace");
const CONFIG_MAP: Resource = ("v1", "ConfigMap");
const CONTROLLER_REVISION: Resource = ("apps/v1", "ControllerRevision");

/// What a policy's `spec` does to the settings in it; nothing for settings outside of a policy.
pub(super) fn check(judged: &Judged<'_>) -> Vec<Finding> {
    if judged.spot.base.as_str().is_empty() {
        return Vec::new();
    }
    let policy = Spot::document(judged.spot.manifest);
    if let Some(member) = judged.spot.base.as_str().strip_prefix("spec.policies.") {
        let member = format!("spec.policies.{}", member.strip_suffix(".settings").unwrap_or(member));
        let message = "members of a policy group may not mutate: nothing is injected";
        return vec![policy.warning(&member, message, "use a ClusterAdmissionPolicy")];
    }
    let spec = policy.raw.get("spec").unwrap_or(&Value::Null);
    let rules = Rules::of(spec);
    let mut findings = modes(&policy, spec);
    findings.extend(rules.check(&policy));
    findings.extend(dropped_labels(&policy, spec));
    let needs = needs(judged, rules);
    findings.extend(context(&policy, spec, &needs));
    findings.extend(time(&policy, spec, &needs));
    if rules.pods {
        findings.extend(judged.subjects.iter().flat_map(|subject| out_of_reach(subject, policy.raw, spec)));
    }
    findings
}

fn modes(policy: &Spot<'_>, spec: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    if json::text(spec, &["mode"]) == "monitor" {
        let message = "the policy only monitors: nothing is injected, nothing is refused";
        findings.push(policy.warning("spec.mode", message, "set it to protect when its log says what you expect"));
    }
    if json::text(spec, &["failurePolicy"]) == "Ignore" {
        let message = "while the policy server does not answer, Pods start without their sidecars";
        findings.push(policy.warning(
            "spec.failurePolicy",
            message,
            "use Fail, and leave out the namespaces that must start without it",
        ));
    }
    if !json::flag(spec, &["mutating"]) {
        let message = "the policy may not mutate: every Pod that would get a sidecar is refused";
        findings.push(policy.warning("spec.mutating", message, "set it to true"));
    }
    findings
}

/// What the policy is asked about.
#[derive(Clone, Copy)]
struct Rules {
    /// Pods that are created.
    pods: bool,
    /// `SidecarSet`s that are created.
    new_sets: bool,
    /// `SidecarSet`s that are changed.
    changed_sets: bool,
}

impl Rules {
    fn of(spec: &Value) -> Self {
        let asks = |group: &str, resource: &str, operation: &str| {
            let has = |rule: &Value, field: &str, wanted: &[&str]| {
                json::items(rule, &[field]).iter().filter_map(Value::as_str).any(|text| wanted.contains(&text))
            };
            json::items(spec, &["rules"]).iter().any(|rule| {
                has(rule, "apiGroups", &[group, "*"])
                    && has(rule, "resources", &[resource, "*", "*/*"])
                    && has(rule, "operations", &[operation, "*"])
            })
        };
        Self {
            pods: asks("", "pods", "CREATE"),
            new_sets: asks("apps.kruise.io", "sidecarsets", "CREATE"),
            changed_sets: asks("apps.kruise.io", "sidecarsets", "UPDATE"),
        }
    }

    fn check(self, policy: &Spot<'_>) -> Option<Finding> {
        let (message, remedy) = match self {
            Self { pods: false, new_sets: false, changed_sets: false } => (
                "no rule asks this policy about the creation of Pods: nothing is injected",
                "add a rule with apiGroups [\"\"], apiVersions [v1], resources [pods], operations [CREATE]",
            ),
            Self { new_sets: true, changed_sets: false, .. } => (
                "SidecarSets are checked when they are created, but not when they are changed",
                "add UPDATE to the rule for sidecarsets",
            ),
            Self { new_sets: false, changed_sets: true, .. } => (
                "SidecarSets are checked when they are changed, but not when they are created",
                "add CREATE to the rule for sidecarsets",
            ),
            _ => return None,
        };
        Some(policy.warning("spec.rules", message, remedy))
    }
}

/// Kubewarden's controller merges its own exclusions into `matchExpressions` and forgets the rest (kubewarden.md).
fn dropped_labels(policy: &Spot<'_>, spec: &Value) -> Option<Finding> {
    let labels = json::object(spec, &["namespaceSelector", "matchLabels"]).filter(|labels| !labels.is_empty());
    if labels.is_none() || is_inside_allowed(spec) {
        return None;
    }
    Some(policy.warning(
        "spec.namespaceSelector.matchLabels",
        "Kubewarden drops matchLabels without a word: the policy gets the Pods of every namespace",
        "use matchExpressions with operator In",
    ))
}

fn is_inside_allowed(spec: &Value) -> bool {
    json::flag(spec, &["allowInsideAdmissionControllerNamespace"])
}

/// What these settings make the policy read, and why.
fn needs(judged: &Judged<'_>, rules: Rules) -> Vec<(Resource, String)> {
    let settings = &judged.settings;
    let name = |subject: &Subject<'_>| format!("SidecarSet {:?}", subject.set.name());
    let mut needs = Vec::new();
    let by_namespace = judged.subjects.iter().find(|subject| subject.set.spec(&["namespaceSelector"]).is_some());
    if let Some(subject) = by_namespace.filter(|_| rules.pods) {
        needs.push((NAMESPACE, format!("{} has a namespaceSelector", name(subject))));
    }
    let is_elsewhere = |subject: &&Subject<'_>| match Selection::of(&subject.set) {
        Some(Selection::Name(name)) => !settings.controller_revisions.iter().any(|revision| revision.name() == name),
        _ => false,
    };
    let by_revision = judged.subjects.iter().find(is_elsewhere);
    if let Some(subject) = by_revision.filter(|_| rules.pods) {
        needs.push((CONTROLLER_REVISION, format!("{} names a revision that is not in the settings", name(subject))));
    } else if rules.new_sets || rules.changed_sets {
        needs.push((CONTROLLER_REVISION, "SidecarSets that are written may name a revision".to_owned()));
    }
    let is_whitelist_elsewhere = settings.patch_pod_metadata_whitelist.is_none();
    if (rules.new_sets || rules.changed_sets) && is_whitelist_elsewhere {
        needs.push((
            CONFIG_MAP,
            "SidecarSets that are written may use patchPodMetadata, and the settings have no whitelist".to_owned(),
        ));
    }
    needs
}

fn context(policy: &Spot<'_>, spec: &Value, needs: &[(Resource, String)]) -> Vec<Finding> {
    let is_allowed = |(api_version, kind): Resource| {
        json::items(spec, &["contextAwareResources"])
            .iter()
            .any(|item| json::text(item, &["apiVersion"]) == api_version && json::text(item, &["kind"]) == kind)
    };
    let is_cluster_wide = json::text(policy.raw, &["kind"]) == "ClusterAdmissionPolicy";
    let missing = needs.iter().filter(|(resource, _)| !is_cluster_wide || !is_allowed(*resource));
    missing
        .map(|((api_version, kind), why)| {
            let message = format!("{why}, but the policy may not read {api_version} {kind}; such requests are refused with 503");
            let remedy = if is_cluster_wide {
                format!("add {{apiVersion: {api_version}, kind: {kind}}} to contextAwareResources, and give the policy server's ServiceAccount \"get\" on it")
            } else {
                "use a ClusterAdmissionPolicy: an AdmissionPolicy cannot read the cluster".to_owned()
            };
            policy.warning("spec.contextAwareResources", message, remedy)
        })
        .collect()
}

/// Two seconds of evaluation, unless told otherwise; look-ups count.
fn time(policy: &Spot<'_>, spec: &Value, needs: &[(Resource, String)]) -> Option<Finding> {
    if needs.is_empty() || json::at(spec, &["timeoutEvalSeconds"]).is_some() {
        return None;
    }
    let message = "look-ups count as evaluation, which by default ends within 2 seconds";
    Some(policy.warning("spec.timeoutEvalSeconds", message, "set it, for instance to 5"))
}

/// A `SidecarSet` none of whose Pods this policy is asked about.
fn out_of_reach(subject: &Subject<'_>, policy: &Value, spec: &Value) -> Vec<Finding> {
    let of_set = |field: &str| Selector::parse(subject.set.spec(&[field])?).ok();
    let mut findings = Vec::new();
    let objects = json::at(spec, &["objectSelector"]).and_then(|selector| Selector::parse(selector).ok());
    if let Some((own, objects)) = of_set("selector").zip(objects).filter(|(own, objects)| !overlap(own, objects)) {
        let message = format!("the policy's objectSelector ({objects}) lets none of these Pods through ({own})");
        findings.push(subject.spot.warning(SELECTOR, message, "change one of the two"));
    }
    let namespaces = namespaces(policy, spec);
    let namespaces = Selector::parse(&namespaces).ok();
    let own = of_set("namespaceSelector").zip(namespaces).filter(|(own, namespaces)| !overlap(own, namespaces));
    if let Some((own, namespaces)) = own {
        let message = format!("the policy is for other namespaces ({namespaces}) than these ({own})");
        findings.push(subject.spot.warning(NAMESPACE_SELECTOR, message, "change one of the two"));
    }
    findings
}

/// The selector of the namespaces that a policy is asked about.
fn namespaces(policy: &Value, spec: &Value) -> Value {
    if json::text(policy, &["kind"]) == "AdmissionPolicy" {
        let namespace = json::text(policy, &["metadata", "namespace"]);
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        return json!({"matchLabels": {names::NAMESPACE_NAME_LABEL: namespace}});
    }
    let mut selector = json::at(spec, &["namespaceSelector"]).cloned().unwrap_or_default();
    if let Some(selector) = selector.as_object_mut()
        && !is_inside_allowed(spec)
    {
        selector.remove("matchLabels");
    }
    selector
}
