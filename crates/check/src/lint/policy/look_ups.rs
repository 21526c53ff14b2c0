//! Warnings about a policy's look-ups and its time limit.

use pillion_bundle::source::OnUnavailable;
use pillion_kubernetes::json;
use pillion_sidecarset::opt_out::{OPT_OUT, OptOut};
use pillion_sidecarset::overrides::{OVERRIDES, Rules};
use pillion_sidecarset::requested_revision::RequestedRevision;

use super::Policy;
use super::asks::{ACCOUNTS, AUTHORITIES, CONNECTIONS, SECRETS, WRITES};
use crate::report::Finding;
use crate::subject::Subject;

/// An API resource that the policy reads.
type Resource = (&'static str, &'static str);

const NAMESPACE: Resource = ("v1", "Namespace");
const CONFIG_MAP: Resource = ("v1", "ConfigMap");
const CONTROLLER_REVISION: Resource = ("apps/v1", "ControllerRevision");
const SERVICE_ACCOUNT: Resource = ("v1", "ServiceAccount");
const POD: Resource = ("v1", "Pod");
const ROLE: Resource = ("rbac.authorization.k8s.io/v1", "Role");
const ROLE_BINDING: Resource = ("rbac.authorization.k8s.io/v1", "RoleBinding");

/// The consequence of a failed look-up for most requests.
const REFUSED: &str = "such requests are refused with 503";
/// The time limit for the access reviews of an author, in seconds (ESC-3).
const FOR_AUTHORS: u64 = 10;

/// A resource that the policy reads because of its settings.
struct Need {
    resource: Resource,
    why: String,
    without_it: &'static str,
}

impl Need {
    fn new(resource: Resource, why: impl Into<String>) -> Self {
        Self { resource, why: why.into(), without_it: REFUSED }
    }
}

/// Returns warnings about resources that the policy may not read, and about a time limit that is too short.
pub(super) fn check(policy: &Policy<'_>) -> Vec<Finding> {
    let mut needs = if policy.asks.pods() { for_pods(policy) } else { Vec::new() };
    if policy.acts() {
        needs.extend(for_guards(policy));
    }
    if policy.acts() && policy.asks.sets() {
        needs.extend(for_sets(policy, &needs));
    }
    // One reason for each resource is enough. Keep the first: only failures of later ones may be tolerated.
    let mut first: Vec<Need> = Vec::new();
    for need in needs {
        if !first.iter().any(|other| other.resource == need.resource) {
            first.push(need);
        }
    }
    let mut findings = context(policy, &first);
    findings.extend(time(policy, !first.is_empty()));
    findings
}

fn name(subject: &Subject<'_>) -> String {
    format!("SidecarSet {:?}", subject.set.name())
}

fn for_pods(policy: &Policy<'_>) -> Vec<Need> {
    let subjects = &policy.judged.subjects;
    let mut needs = Vec::new();
    needs.extend(of_bundle(policy));
    if let Some(subject) = subjects.iter().find(|subject| subject.set.spec(&["namespaceSelector"]).is_some()) {
        needs.push(Need::new(NAMESPACE, format!("{} has a namespaceSelector", name(subject))));
    }
    if policy.settings().service_accounts.token_containers.namespaces {
        let why = "serviceAccounts.tokenContainers.namespaces is true";
        needs.push(Need::new(NAMESPACE, why));
    }
    let may_be_left_out = |subject: &&Subject<'_>| OptOut::is_allowed_by(&subject.set);
    if let Some(subject) = subjects.iter().find(may_be_left_out) {
        let why = format!("{} has the annotation {OPT_OUT}: Allowed, so a Namespace may leave it out", name(subject));
        needs.push(Need::new(NAMESPACE, why));
    }
    if let Some(subject) = subjects.iter().find(|subject| Rules::read_namespaces(&subject.set)) {
        let why = format!(
            "{} has the annotation {OVERRIDES}, so a Namespace may override sidecars; write \"from\": [\"Pod\"] into it if none does",
            name(subject)
        );
        needs.push(Need::new(NAMESPACE, why));
    }
    let revisions = &policy.settings().controller_revisions;
    let is_elsewhere = |subject: &&Subject<'_>| match RequestedRevision::from_sidecar_set(&subject.set) {
        Some(RequestedRevision::Name(name)) => !revisions.iter().any(|revision| revision.name() == name),
        _ => false,
    };
    if let Some(subject) = subjects.iter().find(is_elsewhere) {
        let why = format!("{} names a revision that is not in the settings", name(subject));
        needs.push(Need::new(CONTROLLER_REVISION, why));
    }
    if let Some((subject, _)) = policy.identities.first() {
        needs.push(Need::new(SERVICE_ACCOUNT, format!("{} names a ServiceAccount", name(subject))));
    }
    if let Some((one, other)) = policy.merging() {
        let (one, other) = (one.set.name(), other.set.name());
        let why = format!("SidecarSets {one:?} and {other:?} merge their ServiceAccounts");
        needs.extend([ROLE, ROLE_BINDING].map(|resource| Need::new(resource, why.as_str())));
    }
    needs
}

/// Returns the need for the bundle's ConfigMap. The settings decide whether requests fail without it.
fn of_bundle(policy: &Policy<'_>) -> Option<Need> {
    let source = &policy.settings().bundle_source;
    source.config_map.as_ref()?;
    let need = Need::new(CONFIG_MAP, "the settings have a bundleRef");
    let without_it = if source.on_unavailable == OnUnavailable::Deny { REFUSED } else { "it is never used" };
    Some(Need { without_it, ..need })
}

fn for_sets(policy: &Policy<'_>, known: &[Need]) -> Vec<Need> {
    let mut needs = Vec::new();
    needs.extend(of_bundle(policy));
    if !known.iter().any(|need| need.resource == CONTROLLER_REVISION) {
        needs.push(Need::new(CONTROLLER_REVISION, "SidecarSets that are written may name a revision"));
    }
    if policy.settings().patch_pod_metadata_whitelist.is_none() {
        let why = "SidecarSets that are written may use patchPodMetadata, and the settings have no whitelist";
        needs.push(Need::new(CONFIG_MAP, why));
    }
    if policy.has_gate() {
        let need = Need::new(SERVICE_ACCOUNT, "SidecarSets that are written may name a ServiceAccount");
        let is_strict = policy.settings().service_accounts.strict_existence;
        let without_it = if is_strict { REFUSED } else { "whether it exists is not checked" };
        needs.push(Need { without_it, ..need });
    }
    needs
}

fn for_guards(policy: &Policy<'_>) -> Vec<Need> {
    let rules = &policy.settings().service_accounts;
    let mut needs = Vec::new();
    if policy.asks.about_any(&[SECRETS], &WRITES) {
        needs.push(Need::new(SERVICE_ACCOUNT, "token Secrets are held against their ServiceAccounts"));
    }
    let (asks, has_gate) = (policy.asks, policy.has_gate());
    let guards_accounts = asks.about_any(&ACCOUNTS, &["DELETE"]) && (has_gate || rules.protect_default);
    if guards_accounts || asks.about_any(&AUTHORITIES, &["DELETE"]) && has_gate {
        let why = "what is guarded may be deleted with its namespace";
        needs.push(Need::new(NAMESPACE, why));
    }
    if rules.guards.exec && asks.about_any(&CONNECTIONS, &["CONNECT"]) {
        needs.push(Need::new(POD, "the Pod says whose identity is in a container that is opened"));
        needs.extend(of_bundle(policy));
    }
    needs
}

fn context(policy: &Policy<'_>, needs: &[Need]) -> Vec<Finding> {
    let is_allowed = |(api_version, kind): Resource| {
        json::items(policy.spec, &["contextAwareResources"])
            .iter()
            .any(|item| json::text(item, &["apiVersion"]) == api_version && json::text(item, &["kind"]) == kind)
    };
    let is_cluster_wide = policy.is_cluster_wide();
    let missing = needs.iter().filter(|need| !is_cluster_wide || !is_allowed(need.resource));
    missing
        .map(|Need { resource: (api_version, kind), why, without_it }| {
            let message = format!("{why}, but the policy may not read {api_version} {kind}; {without_it}");
            let remedy = if is_cluster_wide {
                format!("add {{apiVersion: {api_version}, kind: {kind}}} to contextAwareResources, and give the policy server's ServiceAccount \"get\" on it")
            } else {
                "use a ClusterAdmissionPolicy: an AdmissionPolicy cannot read the cluster".to_owned()
            };
            policy.document.warning("spec.contextAwareResources", message, remedy)
        })
        .collect()
}

/// Checks the time limit of evaluation, which is two seconds by default and includes look-ups and access reviews.
fn time(policy: &Policy<'_>, reads: bool) -> Option<Finding> {
    const PATH: &str = "spec.timeoutEvalSeconds";
    let given = json::at(policy.spec, &["timeoutEvalSeconds"]).filter(|value| !value.is_null());
    let asks_of_authors = policy.has_gate() || policy.settings().service_accounts.require_create_pods;
    if policy.acts() && policy.asks.sets() && asks_of_authors {
        let limit = match given.map(serde_json::Value::as_u64) {
            None => "by default ends within 2 seconds".to_owned(),
            Some(Some(seconds)) if seconds < FOR_AUTHORS => format!("here ends within {seconds}"),
            Some(_) => return None,
        };
        let message = format!(
            "what the author of a SidecarSet may do is asked in up to 256 questions, which count as evaluation, and that {limit}"
        );
        return Some(policy.document.warning(PATH, message, format!("set it to {FOR_AUTHORS}")));
    }
    if !reads || given.is_some() {
        return None;
    }
    let message = "look-ups count as evaluation, which by default ends within 2 seconds";
    Some(policy.document.warning(PATH, message, "set it, for instance to 5"))
}
