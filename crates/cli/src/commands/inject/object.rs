//! One object: each Pod that it describes is given to the policy, and the answers are put back into it.

use pillion_core::admission::audit;
use pillion_core::json;
use pillion_core::service_account::names;
use pillion_core::time::Timestamp;
use serde_json::Value;

use crate::manifest::Manifest;
use crate::preview::{Admission, Preview, label};
use crate::workload::{self, Template, carry::carry};
use crate::yaml::Tree;

use super::documents::Document;
use super::timestamp;

/// What is printed of an object.
#[derive(Debug)]
pub struct Printed {
    /// `Deployment shop/web`.
    pub label: String,
    /// Without injection.
    pub before: Tree,
    /// With it.
    pub after: Tree,
}

/// What the policy said about one Pod.
#[derive(Debug)]
pub struct Said {
    /// `Deployment shop/web`, with the place of the template where there are several.
    pub label: String,
    /// The answer in short.
    pub verdict: Verdict,
    /// The identities that sidecars get, as `set/account`; empty where none does.
    pub identities: String,
    /// What the policy warned of, and what is to know about the output.
    pub warnings: Vec<String>,
}

/// The answer in short.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The Pod was changed: the sidecars as `set/container`; none where only annotations were.
    Injected(String),
    /// The sidecars are there already.
    Present(String),
    /// No `SidecarSet` is for it.
    Unmatched,
    /// It is refused: the code and the message.
    Refused(u16, String),
}

/// The outcome for one object.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What is printed: the object; with [`Shape::Pods`] its Pods; nothing where it was refused.
    pub printed: Vec<Printed>,
    /// What the policy said, Pod by Pod.
    pub said: Vec<Said>,
}

/// What objects come out as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As what they came in.
    Objects,
    /// As the Pods that they make.
    Pods,
}

impl Outcome {
    /// Whether the policy refused one of its Pods.
    pub fn is_refused(&self) -> bool {
        self.said.iter().any(|said| matches!(said.verdict, Verdict::Refused(..)))
    }
}

/// Gives an object's Pods to the policy.
///
/// # Errors
/// Where the policy gives no answer.
pub fn inject(manifest: &Manifest, preview: &Preview, shape: Shape, now: Option<Timestamp>) -> anyhow::Result<Outcome> {
    let object = &manifest.value;
    let templates = workload::templates(object);
    let namespaced = if templates.is_empty() { "" } else { preview.namespace(object) };
    let name = label(object, namespaced);
    let mut outcome = Outcome::default();
    let mut injected = object.clone();
    let mut pods = Vec::new();
    for template in &templates {
        let Some(mut admission) = preview.admit(object, template)? else { continue };
        if let Some(now) = now {
            timestamp::set(&admission.before, &mut admission.after, now);
        }
        let label = if templates.len() == 1 { name.clone() } else { format!("{name} ({})", path(template)) };
        let verdict = verdict(&admission);
        let mut warnings = admission.answer.warnings.take().unwrap_or_default();
        if let Some(place) = injected.pointer_mut(&template.pointer) {
            *place = carry(place, &admission.before, &admission.after);
            if shape == Shape::Objects && template.owner.is_some() {
                warnings.extend(merged_account(&admission));
            }
        }
        if shape == Shape::Pods && !matches!(verdict, Verdict::Refused(..)) {
            let after = carry(&admission.sent, &admission.before, &admission.after);
            let (before, after) = match template.owner {
                None => {
                    let before = Tree::of(manifest);
                    (before.order(&admission.sent), before.order(&after))
                }
                Some(_) => (Tree::conventional(&admission.sent), Tree::conventional(&after)),
            };
            let label = self::label(&admission.sent, preview.namespace(object));
            pods.push(Printed { label, before, after });
        }
        let identities = audited(&admission, audit::INJECTED_SERVICE_ACCOUNTS).unwrap_or_default();
        outcome.said.push(Said { label, verdict, identities, warnings });
    }
    outcome.printed = match shape {
        Shape::Pods => pods,
        Shape::Objects if outcome.is_refused() => Vec::new(),
        Shape::Objects => {
            let before = Tree::of(manifest);
            let after = if injected == *object { before.clone() } else { before.order(&injected) };
            vec![Printed { label: name, before, after }]
        }
    };
    Ok(outcome)
}

fn verdict(admission: &Admission) -> Verdict {
    let answer = &admission.answer;
    if !answer.accepted {
        return Verdict::Refused(answer.code.unwrap_or_default(), answer.message.clone().unwrap_or_default());
    }
    let sidecars = audited(admission, audit::INJECTED_CONTAINERS);
    match (admission.before == admission.after, sidecars) {
        (true, None) => Verdict::Unmatched,
        (true, Some(sidecars)) => Verdict::Present(sidecars),
        (false, sidecars) => Verdict::Injected(sidecars.unwrap_or_default()),
    }
}

/// The items of an audit annotation.
fn audited(admission: &Admission, key: &str) -> Option<String> {
    let annotations = admission.answer.audit_annotations.as_ref()?;
    annotations.get(key).map(|items| items.replace(',', ", "))
}

/// A template may not name the merged ServiceAccount that its Pods run under (E6).
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

/// The place of a template as people write it: `spec.replicatedJobs.0.template`.
fn path(template: &Template) -> String {
    template.pointer.trim_start_matches('/').replace('/', ".")
}

/// A document with its objects replaced: itself, or a List with those of its items that are left.
pub fn document(document: &Document, mut trees: Vec<Tree>) -> Option<Tree> {
    let is_list = document.objects.iter().all(|object| object.pointer() != document.whole.pointer());
    if !is_list {
        return trees.pop();
    }
    let Tree::Map(mut entries) = Tree::of(&document.whole) else { return None };
    if let Some((_, items)) = entries.iter_mut().find(|(key, _)| key == "items") {
        *items = Tree::List(trees);
    }
    Some(Tree::Map(entries))
}

/// A `List` of objects, as kubectl prints several of them as JSON.
pub fn list(items: Vec<Tree>) -> Tree {
    let text = |text: &str| Tree::Scalar(Value::from(text));
    Tree::Map(vec![
        ("apiVersion".to_owned(), text("v1")),
        ("kind".to_owned(), text("List")),
        ("items".to_owned(), Tree::List(items)),
    ])
}
