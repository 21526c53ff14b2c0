//! A Pod that is to be explained: from a manifest, or from a request that an API server sent.

use pillion_core::admission::pod::{Context, PodRequest};
use pillion_core::explain::finding::{Finding, Kind};
use pillion_core::explain::{self, Decision, Explained};
use pillion_core::json;
use pillion_core::lookup::{self, Answer, Failure, Lookup, ObjectRef};
use pillion_core::outcome::{Outcome, Verdict};
use pillion_core::request::{Request, Target};
use pillion_core::settings::Settings;
use pillion_core::time::Timestamp;
use pillion_host::{Cluster, ClusterError, ResourceRequest, ValidationResponse};
use serde_json::Value;

use crate::manifest::Manifest;
use crate::preview::{Manifests, Preview, label};
use crate::workload;

/// A Pod that is to be explained.
#[derive(Debug)]
pub struct Subject {
    /// `Deployment shop/web`.
    pub label: String,
    /// `pods.yaml:7`.
    pub place: String,
    /// The AdmissionRequest for it.
    pub request: Value,
}

/// A Pod that was explained.
#[derive(Debug)]
pub struct Told {
    /// `Deployment shop/web`.
    pub label: String,
    /// `pods.yaml:7`.
    pub place: String,
    /// Its namespace.
    pub namespace: String,
    /// What is about no single `SidecarSet`.
    pub pod: Vec<Finding>,
    /// The SidecarSets, in the order of injection.
    pub sets: Vec<Explained>,
    /// How many SidecarSets there are, with those that are not told of.
    pub of: usize,
    /// How many of them are injected.
    pub injected: usize,
    /// What the rules answer.
    pub outcome: Outcome,
    /// What the built-in module answers.
    pub answer: ValidationResponse,
}

/// The Pods that a manifest describes: none where it is something else.
///
/// # Errors
/// Where the Pod of a template cannot be made.
pub fn of(manifest: &Manifest, preview: &Preview) -> anyhow::Result<Vec<Subject>> {
    let object = &manifest.value;
    let place = format!("{}:{}", manifest.source.name, manifest.line());
    if let Some(request) = request_in(object) {
        let namespace = json::text(request, &["namespace"]);
        let made = json::at(request, &["object"]).filter(|object| !object.is_null());
        let made = made.or_else(|| json::at(request, &["oldObject"])).unwrap_or(&Value::Null);
        return Ok(vec![Subject { label: label(made, namespace), place, request: request.clone() }]);
    }
    let mut subjects = Vec::new();
    let templates = workload::templates(object);
    for template in &templates {
        let Some(request) = preview.request(object, template) else { continue };
        let mut label = label(object, preview.namespace(object));
        if templates.len() > 1 {
            label = format!("{label} ({})", template.pointer.trim_start_matches('/').replace('/', "."));
        }
        subjects.push(Subject { label, place: place.clone(), request });
    }
    Ok(subjects)
}

/// The request of an AdmissionReview, or the object itself where it is a bare request.
fn request_in(object: &Value) -> Option<&Value> {
    if json::text(object, &["kind"]) == "AdmissionReview" {
        return json::at(object, &["request"]).filter(|request| request.is_object());
    }
    let is_request = json::at(object, &["kind"])?.is_object() && json::at(object, &["operation"]).is_some();
    is_request.then_some(object)
}

impl Subject {
    /// The explanation, beside the module's `answer`.
    pub fn explained(self, settings: &Settings, cluster: &Manifests, answer: ValidationResponse) -> Told {
        let Self { label, place, request } = self;
        let of = settings.sidecar_sets.len();
        let told = |namespace: &str, pod: Vec<Finding>, sets: Vec<Explained>, outcome: Outcome| {
            let injected = sets.iter().filter(|set| matches!(set.decision, Decision::Injected(_))).count();
            Told { label, place, namespace: namespace.to_owned(), pod, sets, of, injected, outcome, answer }
        };
        let request = match Request::decode(request) {
            Ok(request) => request,
            Err(refusal) => {
                let findings = refusal.reasons().map(Finding::from).collect();
                return told("", findings, Vec::new(), refusal.into());
            }
        };
        if request.target() != Target::PodCreate {
            return told(&request.namespace, vec![not_a_creation(&request)], Vec::new(), Verdict::Unchanged.into());
        }
        let asked = PodRequest { uid: &request.uid, namespace: &request.namespace, object: &request.object };
        let context = Context {
            sidecar_sets: &settings.sidecar_sets,
            revisions: &settings.controller_revisions,
            gates: settings.gates,
            system_namespace: &settings.system_namespace,
            lookup: &FromManifests(cluster),
            // Nothing that is told of depends on the time.
            now: Timestamp(0),
        };
        let mut explanation = explain::explain(asked, context);
        if cluster.object("v1", "Namespace", None, &explanation.namespace).is_none() {
            explanation.sets.iter_mut().for_each(assumed);
        }
        told(&explanation.namespace, explanation.pod, explanation.sets, explanation.outcome)
    }
}

fn not_a_creation(request: &Request) -> Finding {
    let Request { kind, sub_resource, operation, .. } = request;
    let below = if sub_resource.is_empty() { String::new() } else { format!("/{sub_resource}") };
    let what = format!("{operation:?} of {}{below}", kind.kind).to_ascii_lowercase();
    Finding {
        kind: Kind::PodNotActive,
        path: pillion_core::field::FieldPath::new("operation"),
        wanted: "CREATE of Pod".to_owned(),
        found: Some(what.clone()),
        problem: format!("this is a {what}; SidecarSets are injected when a Pod is created, and never after"),
        remedy: "create the Pod anew".to_owned(),
    }
}

/// Labels of a Namespace that no manifest describes are not known, which is not the same as not there.
fn assumed(set: &mut Explained) {
    let Decision::NotInjected(findings) = &mut set.decision else { return };
    for finding in findings.iter_mut().filter(|finding| finding.kind == Kind::NamespaceLabel && finding.found.is_none())
    {
        finding.problem = format!("the Namespace is in no manifest, wanted one with {}", finding.wanted);
        finding.remedy = "give the Namespace's manifest, or --namespace-labels".to_owned();
        finding.kind = Kind::NamespaceNotFound;
    }
}

impl Told {
    /// Whether the policy refuses the Pod.
    pub fn is_refused(&self) -> bool {
        !self.answer.accepted
    }

    /// Whether the module answers what the rules answer: the decision, the code, and who is injected or refuses.
    pub fn agrees(&self) -> bool {
        let (accepted, code) = match &self.outcome.verdict {
            Verdict::Refused(refusal) => (false, Some(refusal.code().as_u16())),
            Verdict::Unchanged | Verdict::Mutated(_) => (true, None),
        };
        let audit = self.answer.audit_annotations.iter().flatten();
        let audit = audit.map(|(key, value)| (key.as_str(), value.as_str()));
        let code_agrees = accepted || self.answer.code == code;
        accepted == self.answer.accepted
            && code_agrees
            && audit.eq(self.outcome.audit.iter().map(|(key, value)| (*key, value.as_str())))
    }
}

/// Answers the rules' look-ups as the module's are answered.
struct FromManifests<'a>(&'a Manifests);

impl Lookup for FromManifests<'_> {
    fn get(&self, object: &ObjectRef) -> Answer {
        let request = ResourceRequest {
            api_version: object.api_version.to_owned(),
            kind: object.kind.to_owned(),
            name: object.name.clone(),
            namespace: object.namespace.clone(),
            disable_cache: true,
            field_masks: None,
        };
        match self.0.get(&request) {
            Ok(bytes) => json::parse(&bytes).map_or(Answer::Failed(Failure::Unavailable), Answer::Found),
            Err(ClusterError::NotFound) => Answer::NotFound,
            Err(ClusterError::NotGranted) => Answer::Failed(Failure::Forbidden),
            Err(ClusterError::Failed(text)) => lookup::classify(&text),
        }
    }
}
