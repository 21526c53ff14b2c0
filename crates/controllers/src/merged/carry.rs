//! Carries out the plan for one merged account.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use pillion_kubernetes::json;
use pillion_plan::Step;
use pillion_plan::condition::PERMISSION_CEILING_EXCEEDED;
use pillion_plan::merged::{Group, KINDS, Notice, is_ours};
use pillion_runtime::controller::Failure;
use pillion_runtime::effects::Effects;
use pillion_runtime::problem::{WriteError, WriteProblem};
use pillion_runtime::read;
use pillion_runtime::store::{resource, whole};
use serde_json::Value;

/// The reasons of Events about problems for which there is no notice.
pub const FORBIDDEN: &str = "Forbidden";
/// See [`FORBIDDEN`].
pub const INVALID: &str = "Invalid";

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
pub enum Stopped {
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

impl From<WriteError> for Stopped {
    fn from(error: WriteError) -> Self {
        if error.problem == WriteProblem::NamespaceTerminating {
            Self::NamespaceTerminating
        } else {
            Self::Write(error)
        }
    }
}

impl Stopped {
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
    pub fn lasting_problem(&self) -> Option<String> {
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
            Self::Write(WriteError { problem: WriteProblem::Invalid(_), .. }) => INVALID,
            _ => FORBIDDEN,
        }
    }
}

/// Carries out a group, up to the first failure.
pub async fn carry_out(effects: &Effects, namespace: &str, group: &Group) -> Result<Outcome, Stopped> {
    all(effects, group, &group.steps).await?;
    let mut outcome = Outcome::default();
    if group.asks_for_pods() {
        outcome.is_used = is_used(effects.client(), namespace, &group.name).await?;
        if outcome.is_used {
            all(effects, group, &group.if_used).await?;
            outcome.notice.clone_from(&group.notice_if_used);
        } else {
            all(effects, group, &group.if_unused).await?;
        }
    }
    Ok(outcome)
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        let retry_after = match &stopped {
            Stopped::Write(error) => error.problem.retry_after(),
            Stopped::Read { problem, .. } => problem.retry_after(),
            Stopped::NamespaceTerminating | Stopped::Foreign(_) => None,
        };
        Self { text: stopped.to_string(), retry_after }
    }
}

fn why(sets: &[String]) -> String {
    if sets.is_empty() { "not needed any more".to_owned() } else { format!("for the SidecarSets {}", sets.join(", ")) }
}

async fn all(effects: &Effects, group: &Group, steps: &[Step]) -> Result<(), Stopped> {
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
        match effects.carry_out(&step, &why(&group.sets)).await {
            Ok(answer) => made = answer.filter(|_| matches!(step, Step::Create(_))),
            Err(error) => match (&step, &error.problem) {
                (Step::Create(object), WriteProblem::AlreadyExists) => {
                    let there = there(effects.client(), group, object).await?;
                    made = Some(there.ok_or_else(|| Stopped::read(&error.kind, WriteProblem::NotFound))?);
                }
                _ => return Err(error.into()),
            },
        }
    }
    Ok(())
}

/// Returns the existing object that a `Create` would collide with. The watch has not shown it: it lost its label or is
/// new. It is Pillion's only if its annotation says so (MRG-2).
async fn there(client: &Client, group: &Group, object: &Value) -> Result<Option<Value>, Stopped> {
    let text = |path: &[&str]| json::text(object, path).to_owned();
    let (api_version, kind) = (text(&["apiVersion"]), text(&["kind"]));
    let resource = resource(&api_version, &kind);
    let api: Api<kube::api::DynamicObject> =
        Api::namespaced_with(client.clone(), &text(&["metadata", "namespace"]), &resource);
    let found = read::one(&api, &group.name).await.map_err(|problem| Stopped::read(&kind, problem))?;
    let Some(found) = found.map(|found| whole(found, &api_version, &kind)) else { return Ok(None) };
    if is_ours(&found) && json::at(&found, &["roleRef"]) == json::at(object, &["roleRef"]) {
        return Ok(Some(found));
    }
    let kind = KINDS.into_iter().map(|known| known.kind).find(|known| *known == kind).unwrap_or_default();
    Err(Stopped::Foreign(Notice::Foreign { kind, name: group.name.clone(), sets: group.sets.clone() }))
}

/// Asks the API server whether a Pod runs or will run under an account (MRG-10). One Pod is enough.
pub async fn is_used(client: &Client, namespace: &str, account: &str) -> Result<bool, Stopped> {
    let fields = format!("spec.serviceAccountName={account},status.phase!=Succeeded,status.phase!=Failed");
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let some = read::in_time(pods.list_metadata(&ListParams::default().fields(&fields).limit(1))).await;
    let some = some.map_err(|problem| Stopped::read("Pods", problem))?;
    Ok(!some.items.is_empty() || some.metadata.continue_.is_some_and(|more| !more.is_empty()))
}
