//! Pods to explain: from manifests, or from requests that an API server sent.

use std::iter;

use pillion_admission::request::{Request, RequestTarget};
use pillion_admission::settings::Settings;
use pillion_documents::kinds;
use pillion_documents::locate;
use pillion_documents::manifest::{Manifest, request_in};
use pillion_explain::finding::{Finding, Kind};
use pillion_explain::identity::PodIdentity;
use pillion_explain::{Decision, Explained};
use pillion_host::ValidationResponse;
use pillion_kubernetes::json;
use pillion_kubernetes::outcome::{Outcome, Verdict};
use pillion_workload::{self as workload, label, shape};
use serde_json::Value;

use crate::{Manifests, NotAsked, Preview, context, pod_request, unasked};

/// A Pod to explain.
#[derive(Debug)]
pub struct Subject {
    /// The kind, namespace and name, as in `Deployment shop/web`.
    pub label: String,
    /// The file and line, as in `pods.yaml:7`.
    pub place: String,
    /// How to explain it.
    pub question: Question,
}

/// How to explain a Pod.
#[derive(Debug)]
pub enum Question {
    /// Judge this AdmissionRequest, which an API server sent.
    Sent(Value),
    /// Judge this AdmissionRequest, which the API server would send if its webhooks cover the Pod.
    Request(Value),
    /// Report only these errors, each with its place: the API server refuses the object before it asks a policy.
    Malformed(Vec<String>),
}

/// The explanation of a Pod.
#[derive(Debug)]
pub struct ExplainedPod {
    /// The kind, namespace and name, as in `Deployment shop/web`.
    pub label: String,
    /// The file and line, as in `pods.yaml:7`.
    pub place: String,
    /// The Pod's namespace.
    pub namespace: String,
    /// Why Kubewarden does not ask the policy, or ignores its answer; empty if neither.
    pub policy: Vec<Finding>,
    /// Why the API server does not ask the policy, according to the webhooks of the cluster.
    pub not_asked: Option<NotAsked>,
    /// Why Kubewarden refuses the policy's changes to the Pod.
    pub forbidden: Option<Finding>,
    /// Whether the API server refuses the object before it asks a policy; `pod` then has the reasons.
    pub is_malformed: bool,
    /// Findings about the Pod or the request rather than a single `SidecarSet`.
    pub pod: Vec<Finding>,
    /// The SidecarSets, in the order of injection.
    pub sets: Vec<Explained>,
    /// The outcome for the Pod's identity.
    pub identity: Option<PodIdentity>,
    /// The number of all SidecarSets, including those not in `sets`.
    pub total: usize,
    /// The number of injected SidecarSets.
    pub injected: usize,
    /// The outcome of the injection rules; `None` unless the request creates a Pod.
    pub outcome: Option<Outcome>,
    /// The answer of the built-in module.
    pub answer: ValidationResponse,
}

/// Returns the Pods that a manifest describes; empty if it describes none.
pub fn subjects(manifest: &Manifest, preview: &Preview) -> Vec<Subject> {
    let object = &manifest.value;
    let place = format!("{}:{}", manifest.source.name, manifest.line());
    if let Some(request) = request_in(object) {
        if !matches!(json::text(request, &["kind", "kind"]), "Pod" | "") {
            return Vec::new();
        }
        let namespace = json::text(request, &["namespace"]);
        let made = json::at(request, &["object"]).filter(|object| !object.is_null());
        let made = made.or_else(|| json::at(request, &["oldObject"])).unwrap_or(&Value::Null);
        let question = Question::Sent(request.clone());
        return vec![Subject { label: label(made, namespace), place, question }];
    }
    let templates = workload::templates(object);
    let errors = shape::problems(object);
    if !errors.is_empty() {
        let is_pod = !templates.is_empty() || kinds::pod_kind(object).is_some();
        let label = label(object, if is_pod { preview.namespace(object) } else { "" });
        return vec![Subject { label, place, question: Question::Malformed(locate::messages(manifest, &errors)) }];
    }
    let mut subjects = Vec::new();
    for template in &templates {
        let Some(request) = preview.request(object, template) else { continue };
        let mut label = label(object, preview.namespace(object));
        if templates.len() > 1 {
            label = format!("{label} ({})", template.pointer.trim_start_matches('/').replace('/', "."));
        }
        subjects.push(Subject { label, place: place.clone(), question: Question::Request(request) });
    }
    subjects
}

impl Subject {
    /// Whether the API server refuses the object before it asks a policy.
    pub fn is_malformed(&self) -> bool {
        matches!(self.question, Question::Malformed(_))
    }

    /// Explains the Pod and asks the module about it.
    ///
    /// # Errors
    /// If the module gives no answer.
    pub fn explained(
        self,
        settings: &Settings,
        preview: &Preview,
        cluster: &Manifests,
    ) -> anyhow::Result<ExplainedPod> {
        let Self { label, place, question } = self;
        let total = settings.sidecar_sets.len();
        let request = match question {
            Question::Sent(request) => request,
            Question::Request(request) => {
                let at = |path: &[&str]| json::at(&request, path).unwrap_or(&Value::Null);
                let namespace = json::text(&request, &["namespace"]);
                if let Some(not_asked) = preview.not_asked(at(&["object"]), namespace)? {
                    return Ok(left_out(label, place, total, namespace, not_asked));
                }
                request
            }
            Question::Malformed(errors) => return Ok(malformed(label, place, total, errors)),
        };
        let answer = preview.ask(&request)?;
        let refusal = answer.message.clone().filter(|_| !answer.accepted);
        let explained = |namespace: &str, pod: Vec<Finding>, sets: Vec<Explained>, outcome: Option<Outcome>| {
            let injected = sets.iter().filter(|set| matches!(set.decision, Decision::Injected(_))).count();
            let (policy, forbidden) = (Vec::new(), None);
            let namespace = namespace.to_owned();
            let identity = None;
            let is_malformed = false;
            ExplainedPod {
                label,
                place,
                namespace,
                policy,
                not_asked: None,
                forbidden,
                is_malformed,
                pod,
                sets,
                identity,
                total,
                injected,
                outcome,
                answer,
            }
        };
        let request = match Request::decode(request) {
            Ok(request) => request,
            Err(refusal) => {
                let findings = refusal.reasons().map(Finding::from).collect();
                return Ok(explained("", findings, Vec::new(), Some(refusal.into())));
            }
        };
        if request.target() != RequestTarget::PodCreate {
            let findings = iter::once(not_a_creation(&request)).chain(refusal.map(refused)).collect();
            return Ok(explained(&request.namespace, findings, Vec::new(), None));
        }
        let answers = preview.answers();
        let mut explanation = pillion_explain::explain(pod_request(&request), context(settings, &answers));
        if cluster.object("v1", "Namespace", None, &explanation.namespace).is_none() {
            explanation.sets.iter_mut().for_each(|set| assumed(set, cluster.missing_in()));
        }
        let mut explained =
            explained(&explanation.namespace, explanation.pod, explanation.sets, Some(explanation.outcome));
        explained.identity = explanation.identity;
        let heed = preview.heed(&request.object, &explained.namespace, explained.answer.mutated_object.is_some());
        (explained.policy, explained.forbidden) = (heed.ignored, heed.forbidden);
        Ok(explained)
    }
}

/// The explanation of an object that the API server refuses before it asks a policy.
fn malformed(label: String, place: String, total: usize, errors: Vec<String>) -> ExplainedPod {
    let answer = ValidationResponse { accepted: false, message: Some(errors.join(", ")), ..unasked() };
    let pod = errors.into_iter().map(|error| reason(Kind::Undecodable, error)).collect();
    ExplainedPod { is_malformed: true, pod, ..without_policy(label, place, total, answer) }
}

/// The explanation of a Pod about which the API server does not ask the policy.
fn left_out(label: String, place: String, total: usize, namespace: &str, not_asked: NotAsked) -> ExplainedPod {
    let namespace = namespace.to_owned();
    ExplainedPod { namespace, not_asked: Some(not_asked), ..without_policy(label, place, total, unasked()) }
}

/// An explanation without any reasons, of an object that does not reach the policy.
fn without_policy(label: String, place: String, total: usize, answer: ValidationResponse) -> ExplainedPod {
    ExplainedPod {
        label,
        place,
        namespace: String::new(),
        policy: Vec::new(),
        not_asked: None,
        forbidden: None,
        is_malformed: false,
        pod: Vec::new(),
        sets: Vec::new(),
        identity: None,
        total,
        injected: 0,
        outcome: None,
        answer,
    }
}

fn not_a_creation(request: &Request) -> Finding {
    let Request { kind, sub_resource, operation, .. } = request;
    let below = if sub_resource.is_empty() { String::new() } else { format!("/{sub_resource}") };
    let what = format!("{operation:?} of {}{below}", kind.kind).to_ascii_lowercase();
    Finding {
        kind: Kind::PodNotActive,
        path: "operation".to_owned(),
        wanted: "CREATE of Pod".to_owned(),
        found: Some(what.clone()),
        problem: format!("this is a {what}; SidecarSets are injected when a Pod is created, and never after"),
        remedy: "create the Pod anew".to_owned(),
    }
}

/// The policy's message about a request that does not create a Pod.
fn refused(message: String) -> Finding {
    reason(Kind::Policy, message)
}

fn reason(kind: Kind, message: String) -> Finding {
    Finding { kind, path: String::new(), wanted: String::new(), found: None, problem: message, remedy: String::new() }
}

/// Rewrites findings about labels of a Namespace that is not known: such labels are unknown, not missing. `missing_in`
/// names the sources that lack it.
fn assumed(set: &mut Explained, missing_in: &str) {
    let Decision::NotInjected(findings) = &mut set.decision else { return };
    for finding in findings.iter_mut().filter(|finding| finding.kind == Kind::NamespaceLabel && finding.found.is_none())
    {
        finding.problem = format!("the Namespace is {missing_in}, wanted one with {}", finding.wanted);
        finding.remedy = String::from("give the Namespace's manifest, or --namespace-labels");
        finding.kind = Kind::NamespaceNotFound;
    }
}

impl ExplainedPod {
    /// Whether the Pod is refused.
    pub fn is_refused(&self) -> bool {
        self.is_malformed || self.forbidden.is_some() || (!self.answer.accepted && self.policy.is_empty())
    }

    /// Whether the module's answer matches the outcome of the rules: verdict, code and audit annotations.
    pub fn agrees(&self) -> bool {
        let Some(outcome) = &self.outcome else { return true };
        let (accepted, code) = match &outcome.verdict {
            Verdict::Refused(refusal) => (false, Some(refusal.code().as_u16())),
            Verdict::Unchanged | Verdict::Mutated(_) => (true, None),
        };
        let audit = self.answer.audit_annotations.iter().flatten();
        let audit = audit.map(|(key, value)| (key.as_str(), value.as_str()));
        let code_agrees = accepted || self.answer.code == code;
        accepted == self.answer.accepted
            && code_agrees
            && audit.eq(outcome.audit.iter().map(|(key, value)| (*key, value.as_str())))
    }
}
