//! Carries out the plan for one merged account.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use pillion_kubernetes::json;
use pillion_plan::Step;
use pillion_plan::condition::PERMISSION_CEILING_EXCEEDED;
use pillion_plan::merged::{Group, KINDS, Notice, is_ours};
use serde_json::Value;

use super::watches::{resource, whole};
use crate::read;
use crate::write::{self, WriteError, WriteProblem};

/// The result of carrying out a group.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Whether Pods use the account; false if the group did not ask.
    pub is_used: bool,
    /// The notice for people.
    pub notice: Option<Notice>,
}

/// Why a group was not carried out completely.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The namespace is being deleted and accepts no new objects.
    #[error("the namespace is being deleted")]
    NamespaceTerminating,
    /// An object of the name exists and stands for something else.
    #[error("{0}")]
    Foreign(Notice),
    /// A write failed.
    #[error(transparent)]
    Write(WriteError),
    /// A read failed.
    #[error("could not read {what}: {problem}")]
    Read {
        /// The objects to read.
        what: String,
        /// The problem.
        problem: WriteProblem,
    },
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        if error.problem == WriteProblem::NamespaceTerminating {
            Self::NamespaceTerminating
        } else {
            Self::Write(error)
        }
    }
}

impl Failure {
    pub(super) fn read(what: &str, problem: WriteProblem) -> Self {
        Self::Read { what: what.to_owned(), problem }
    }

    /// Returns the API server's text if it refused because the controller does not hold the permission that it grants
    /// (ESC-6).
    pub fn escalation(&self) -> Option<String> {
        match self {
            Self::Write(WriteError { problem: WriteProblem::Escalation(text), .. }) => Some(text.clone()),
            _ => None,
        }
    }

    /// Returns the notice for people.
    pub fn notice(&self) -> Option<Notice> {
        if let Self::Foreign(notice) = self { Some(notice.clone()) } else { None }
    }

    /// Returns the text for people about a lasting problem for which there is no notice.
    pub fn told(&self) -> Option<String> {
        match self {
            Self::Write(WriteError { problem: WriteProblem::Escalation(text), .. }) => Some(format!(
                "the controller may not grant this, since its own role does not hold it; bind a ClusterRole with it to \
                 the controller, or grant less: {text}"
            )),
            Self::Write(error) if matches!(error.problem, WriteProblem::Forbidden(_) | WriteProblem::Invalid(_)) => {
                Some(error.to_string())
            }
            Self::Read { problem: WriteProblem::Forbidden(_), .. } => Some(self.to_string()),
            _ => None,
        }
    }

    /// Returns the reason of the Event.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Write(WriteError { problem: WriteProblem::Escalation(_), .. }) => PERMISSION_CEILING_EXCEEDED,
            Self::Write(WriteError { problem: WriteProblem::Invalid(_), .. }) => "Invalid",
            _ => "Forbidden",
        }
    }
}

/// Carries out a group, up to the first failure.
pub async fn carry_out(client: &Client, namespace: &str, group: &Group) -> Result<Outcome, Failure> {
    all(client, group, &group.steps).await?;
    let mut outcome = Outcome::default();
    if group.asks_for_pods() {
        outcome.is_used = is_used(client, namespace, &group.name).await?;
        if outcome.is_used {
            all(client, group, &group.if_used).await?;
            outcome.notice.clone_from(&group.notice_if_used);
        } else {
            all(client, group, &group.if_unused).await?;
        }
    }
    Ok(outcome)
}

/// Returns the steps that a run would carry out, and the notice for people.
pub async fn preview(client: &Client, namespace: &str, group: &Group) -> Result<(Vec<Step>, Option<Notice>), Failure> {
    let (mut planned, mut notice) = (group.steps.clone(), None);
    if group.asks_for_pods() {
        let is_used = is_used(client, namespace, &group.name).await?;
        planned.extend_from_slice(if is_used { &group.if_used } else { &group.if_unused });
        notice = group.notice_if_used.clone().filter(|_| is_used);
    }
    let mut steps = Vec::with_capacity(planned.len());
    for step in planned {
        // An existing object that the watch has not shown is applied but not created.
        let is_there = match &step {
            Step::Create(object) => there(client, group, object).await?.is_some(),
            _ => false,
        };
        if !is_there {
            steps.push(step);
        }
    }
    Ok((steps, notice))
}

async fn all(client: &Client, group: &Group, steps: &[Step]) -> Result<(), Failure> {
    // The object that the previous step created.
    let mut made: Option<Value> = None;
    for step in steps {
        let step = match (step, made.take()) {
            (Step::Apply(wanted), Some(made)) if json::text(wanted, &["metadata", "uid"]).is_empty() => {
                let mut wanted = wanted.clone();
                if let Some(metadata) = wanted.pointer_mut("/metadata").and_then(Value::as_object_mut) {
                    metadata.insert("uid".to_owned(), json::text(&made, &["metadata", "uid"]).into());
                }
                Step::Apply(wanted)
            }
            (step, _) => step.clone(),
        };
        match write::carry_out(client, &step).await {
            Ok(answer) => made = answer.filter(|_| matches!(step, Step::Create(_))),
            Err(error) => match (&step, &error.problem) {
                (Step::Create(object), WriteProblem::AlreadyExists) => {
                    let there = there(client, group, object).await?;
                    made = Some(there.ok_or_else(|| Failure::read(&error.kind, WriteProblem::NotFound))?);
                }
                _ => return Err(error.into()),
            },
        }
    }
    Ok(())
}

/// Returns the existing object that a `Create` would collide with. The watch has not shown it: it lost its label or is
/// new. It is Pillion's only if its annotation says so (MRG-2).
async fn there(client: &Client, group: &Group, object: &Value) -> Result<Option<Value>, Failure> {
    let text = |path: &[&str]| json::text(object, path).to_owned();
    let (api_version, kind) = (text(&["apiVersion"]), text(&["kind"]));
    let resource = resource(&api_version, &kind);
    let api: Api<kube::api::DynamicObject> =
        Api::namespaced_with(client.clone(), &text(&["metadata", "namespace"]), &resource);
    let found = read::one(&api, &group.name).await.map_err(|problem| Failure::read(&kind, problem))?;
    let Some(found) = found.map(|found| whole(found, &api_version, &kind)) else { return Ok(None) };
    if is_ours(&found) && json::at(&found, &["roleRef"]) == json::at(object, &["roleRef"]) {
        return Ok(Some(found));
    }
    let kind = KINDS.into_iter().map(|(_, known)| known).find(|known| *known == kind).unwrap_or_default();
    Err(Failure::Foreign(Notice::Foreign { kind, name: group.name.clone(), sets: group.sets.clone() }))
}

/// Asks the API server whether a Pod runs or will run under an account (MRG-10). One Pod is enough.
pub async fn is_used(client: &Client, namespace: &str, account: &str) -> Result<bool, Failure> {
    let fields = format!("spec.serviceAccountName={account},status.phase!=Succeeded,status.phase!=Failed");
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let some = read::in_time(pods.list_metadata(&ListParams::default().fields(&fields).limit(1))).await;
    let some = some.map_err(|problem| Failure::read("Pods", problem))?;
    Ok(!some.items.is_empty() || some.metadata.continue_.is_some_and(|more| !more.is_empty()))
}
