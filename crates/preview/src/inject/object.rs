//! Injection into one object: asks the policy about each Pod that the object describes and applies the answers.

use pillion_admission::audit;
use pillion_documents::kinds;
use pillion_documents::locate;
use pillion_documents::manifest::Manifest;
use pillion_identity::names;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_workload::carry::{carry, into_template};
use pillion_workload::{self as workload, Template, label, shape};
use pillion_yaml::Tree;
use serde_json::Value;

use super::documents::Document;
use super::timestamp;
use crate::{Admission, Preview};

/// An object to print.
#[derive(Debug)]
pub struct Printed {
    /// The kind, namespace and name, as in `Deployment shop/web`.
    pub label: String,
    /// The object without injection.
    pub before: Tree,
    /// The object after injection.
    pub after: Tree,
}

/// The policy's answer about one Pod.
#[derive(Debug)]
pub struct Said {
    /// The kind, namespace and name, as in `Deployment shop/web`, with the path of the template if there are several.
    pub label: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The identities of the sidecars as `set/account`; empty if no sidecar gets one.
    pub identities: String,
    /// The policy's warnings, and warnings about the output.
    pub warnings: Vec<String>,
}

/// The verdict on one Pod.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The policy changes the Pod. Lists the sidecars as `set/container`; empty if only annotations change.
    Injected(String),
    /// The Pod already has the sidecars.
    Present(String),
    /// No `SidecarSet` matches the Pod.
    Unmatched,
    /// The reason why the API server does not ask the policy about this Pod, or does not heed its answer.
    NotAsked(String),
    /// Kubewarden would not ask the policy, or would ignore its answer. Lists every reason.
    Ignored(Vec<String>),
    /// The policy refuses the Pod: code and message.
    Refused(u16, String),
    /// The policy server refuses the policy's changes to the Pod: reason and remedy.
    Forbidden(String),
    /// The API server refuses the object before it asks a policy: all errors, each with its place.
    Malformed(Vec<String>),
}

impl Verdict {
    /// Whether the object cannot be created.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(..) | Self::Forbidden(_) | Self::Malformed(_))
    }
}

/// The outcome for one object.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The object; with [`Shape::Pods`], its Pods; empty if refused.
    pub printed: Vec<Printed>,
    /// The policy's answers, one for each Pod.
    pub said: Vec<Said>,
    /// Warnings about fields that may not have the intended effect, each with its place.
    pub doubts: Vec<String>,
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The given objects.
    Objects,
    /// The Pods that the objects create.
    Pods,
}

impl Outcome {
    /// Whether a Pod of the object is refused.
    pub fn is_refused(&self) -> bool {
        self.said.iter().any(|said| said.verdict.is_refused())
    }
}

/// Asks the policy about each Pod of an object.
///
/// # Errors
/// If the policy gives no answer.
pub fn inject(manifest: &Manifest, preview: &Preview, shape: Shape, now: Option<Timestamp>) -> anyhow::Result<Outcome> {
    let object = &manifest.value;
    let templates = workload::templates(object);
    let is_namespaced = !templates.is_empty() || kinds::pod_kind(object).is_some();
    let name = label(object, if is_namespaced { preview.namespace(object) } else { "" });
    let errors = shape::problems(object);
    if !errors.is_empty() {
        let (label, verdict) = (name, Verdict::Malformed(locate::messages(manifest, &errors)));
        let said = Said { label, verdict, identities: String::new(), warnings: Vec::new() };
        return Ok(Outcome { said: vec![said], ..Outcome::default() });
    }
    let mut outcome = Outcome { doubts: locate::messages(manifest, &shape::doubts(object)), ..Outcome::default() };
    let mut injected = object.clone();
    let mut pods = Vec::new();
    for template in &templates {
        let Some(mut admission) = preview.admit(object, template)? else { continue };
        if let Some(now) = now {
            timestamp::set(&admission.before, &mut admission.after, now);
        }
        let label = if templates.len() == 1 { name.clone() } else { format!("{name} ({})", path(template)) };
        let verdict = verdict(&mut admission, preview, preview.namespace(object));
        let mut warnings = admission.answer.warnings.take().unwrap_or_default();
        let carried = into_template(object, template, &admission.before, &admission.after);
        if let Some((place, carried)) = injected.pointer_mut(&template.pointer).zip(carried) {
            *place = carried;
            if shape == Shape::Objects && template.owner.is_some() {
                warnings.extend(merged_account(&admission));
            }
        }
        if shape == Shape::Pods && !verdict.is_refused() {
            let after = carry(&admission.sent, &admission.before, &admission.after);
            let (before, after) = match template.owner {
                None => {
                    let before = manifest.tree();
                    (before.order(&admission.sent), before.order(&after))
                }
                Some(_) => (Tree::conventional(&admission.sent), Tree::conventional(&after)),
            };
            let label = workload::label(&admission.sent, preview.namespace(object));
            pods.push(Printed { label, before, after });
        }
        let identities = audited(&admission, audit::INJECTED_SERVICE_ACCOUNTS).unwrap_or_default();
        outcome.said.push(Said { label, verdict, identities, warnings });
    }
    outcome.printed = match shape {
        Shape::Pods => pods,
        Shape::Objects if outcome.is_refused() => Vec::new(),
        Shape::Objects => {
            let before = manifest.tree();
            let after = if injected == *object { before.clone() } else { before.order(&injected) };
            vec![Printed { label: name, before, after }]
        }
    };
    Ok(outcome)
}

/// Returns the verdict. If Kubewarden ignores the policy's answer, restores the Pod.
fn verdict(admission: &mut Admission, preview: &Preview, namespace: &str) -> Verdict {
    if let Some(not_asked) = &admission.not_asked {
        return Verdict::NotAsked(not_asked.summary.clone());
    }
    let is_changed = admission.before != admission.after;
    let heed = preview.heed(&admission.before, namespace, is_changed);
    if !heed.ignored.is_empty() && (is_changed || !admission.answer.accepted) {
        admission.after = admission.before.clone();
        admission.answer.audit_annotations = None;
        return Verdict::Ignored(heed.ignored.iter().map(ToString::to_string).collect());
    }
    if let Some(finding) = heed.forbidden {
        return Verdict::Forbidden(format!("{finding}; {}", finding.remedy));
    }
    let answer = &admission.answer;
    if !answer.accepted {
        return Verdict::Refused(answer.code.unwrap_or_default(), answer.message.clone().unwrap_or_default());
    }
    let sidecars = audited(admission, audit::INJECTED_CONTAINERS);
    match (!is_changed, sidecars) {
        (true, None) => Verdict::Unmatched,
        (true, Some(sidecars)) => Verdict::Present(sidecars),
        (false, sidecars) => Verdict::Injected(sidecars.unwrap_or_default()),
    }
}

/// Returns the items of an audit annotation, separated by a comma and a space.
fn audited(admission: &Admission, key: &str) -> Option<String> {
    let annotations = admission.answer.audit_annotations.as_ref()?;
    annotations.get(key).map(|items| items.replace(',', ", "))
}

/// Returns a warning if injection writes a merged ServiceAccount into a template: templates may not name one (E6).
fn merged_account(admission: &Admission) -> Option<String> {
    let account = |pod| json::text(pod, &["spec", "serviceAccountName"]).to_owned();
    let (before, after) = (account(&admission.before), account(&admission.after));
    (names::is_merged(&after) && before != after).then(|| {
        format!(
            "the output is not for kubectl apply: \"{after}\" is a merged ServiceAccount, which belongs to Pods, and \
             the policy refuses templates that name it; apply the manifest as it was"
        )
    })
}

/// Returns the path of a template with dots: `spec.replicatedJobs.0.template`.
fn path(template: &Template) -> String {
    template.pointer.trim_start_matches('/').replace('/', ".")
}

/// Returns a document with its objects replaced: the single object, or the List with `trees` as its items.
pub fn document(document: &Document, mut trees: Vec<Tree>) -> Option<Tree> {
    let is_list = document.objects.iter().all(|object| object.pointer() != document.whole.pointer());
    if !is_list {
        return trees.pop();
    }
    let Tree::Map(mut entries) = document.whole.tree() else { return None };
    if let Some((_, items)) = entries.iter_mut().find(|(key, _)| key == "items") {
        *items = Tree::List(trees);
    }
    Some(Tree::Map(entries))
}

/// Returns a `List` of objects, as kubectl prints several objects in JSON.
pub fn list(items: Vec<Tree>) -> Tree {
    let text = |text: &str| Tree::Scalar(Value::from(text));
    Tree::Map(vec![
        ("apiVersion".to_owned(), text("v1")),
        ("kind".to_owned(), text("List")),
        ("items".to_owned(), Tree::List(items)),
    ])
}
