//! What the kubelet says about a container of a Pod.

use internment::ArcIntern;
use pillion_kubernetes::nullable;
use serde::{Deserialize, Deserializer, Serialize};

use super::condition::Time;
use super::resize::Resources;

/// The status of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// The name of the container.
    #[serde(deserialize_with = "shared")]
    pub name: ArcIntern<str>,
    /// The image that it runs. A runtime may write any tag of that image.
    #[serde(deserialize_with = "shared")]
    pub image: ArcIntern<str>,
    /// The id of that image, as the container runtime has it.
    #[serde(rename = "imageID", deserialize_with = "shared")]
    pub image_id: ArcIntern<str>,
    /// The id of the container. Each restart makes another one.
    #[serde(rename = "containerID", deserialize_with = "nullable::or_default")]
    pub container_id: String,
    /// Whether it is ready.
    #[serde(rename = "ready", deserialize_with = "nullable::or_default")]
    pub is_ready: bool,
    /// How often it was started again.
    #[serde(rename = "restartCount", deserialize_with = "nullable::or_default")]
    pub restarts: i64,
    /// Whether it has the cpu and memory of the spec.
    #[serde(skip)]
    pub has_resources: bool,
    /// `resources`, until they are compared with the spec.
    pub(super) resources: Option<Box<Resources>>,
    /// `state`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub state: ContainerState,
    /// The exit code of the container before this one: `lastState.terminated.exitCode`.
    #[serde(rename = "lastState", deserialize_with = "exit_code")]
    pub last_exit_code: Option<i64>,
}

/// Many Pods share the names and the images of their containers.
fn shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ArcIntern<str>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.unwrap_or_default().as_str().into())
}

/// The `state` of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawState")]
pub struct ContainerState {
    /// Why it does not run, if it waits for more than its usual start.
    pub trouble: Option<Trouble>,
    /// When it was started, if it runs.
    pub started_at: Option<Time>,
    /// Whether the kubelet is going to start it, or to start it again.
    pub is_starting: bool,
}

/// Why a container does not run (ROLL-61). Reasons that alternate are one trouble, so that no Pod wakes its SidecarSets
/// each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum Trouble {
    /// It ends again and again.
    Crash,
    /// Its image cannot be pulled.
    Image,
    /// It cannot be created or started.
    Start,
}

impl Trouble {
    /// Returns the trouble that the kubelet calls by this reason; `None` for the reasons of a usual start.
    pub fn from_reason(reason: &str) -> Option<Self> {
        match reason {
            "CrashLoopBackOff" => Some(Self::Crash),
            "ErrImagePull"
            | "ImagePullBackOff"
            | "InvalidImageName"
            | "ErrImageNeverPull"
            | "ImageInspectError"
            | "RegistryUnavailable"
            | "SignatureValidationFailed" => Some(Self::Image),
            "CreateContainerConfigError"
            | "CreateContainerError"
            | "RunContainerError"
            | "PreCreateHookError"
            | "PreStartHookError"
            | "PostStartHookError" => Some(Self::Start),
            _ => None,
        }
    }

    /// Returns what the container does, as text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Crash => "crashes",
            Self::Image => "has an image that cannot be pulled",
            Self::Start => "cannot be started",
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawState {
    waiting: Option<Waiting>,
    running: Option<Running>,
    terminated: Option<Terminated>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Waiting {
    #[serde(deserialize_with = "nullable::or_default")]
    reason: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Running {
    started_at: Option<Time>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: Option<i64>,
}

impl From<RawState> for ContainerState {
    fn from(state: RawState) -> Self {
        Self {
            is_starting: state.waiting.is_some() || state.terminated.is_some(),
            trouble: state.waiting.and_then(|waiting| Trouble::from_reason(&waiting.reason)),
            started_at: state.running.and_then(|running| running.started_at),
        }
    }
}

fn exit_code<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let state = Option::<RawState>::deserialize(deserializer)?;
    Ok(state.and_then(|state| state.terminated?.exit_code))
}
