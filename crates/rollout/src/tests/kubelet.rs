//! A simulated kubelet: it sees a change late, stops the former container, backs off, pulls and starts, and reports each
//! of these states as a real one does.

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::time::Timestamp;
use serde_json::{Value, json};

/// How a runtime writes the name of a running image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// As the Pod does.
    AsWritten,
    /// With the registry.
    InFull,
    /// By the first tag that the image ever had.
    FirstTag,
}

/// What a node does with images.
#[derive(Clone, Debug)]
pub(super) struct Runtime {
    pub(super) naming: Naming,
    /// Whether all tags of an image have one id.
    pub(super) is_retagged: bool,
    /// The images that end with an error.
    pub(super) crashing: BTreeSet<String>,
    /// The images that cannot be pulled.
    pub(super) missing: BTreeSet<String>,
}

impl Runtime {
    fn repository(image: &str) -> &str {
        image.split([':', '@']).next().unwrap()
    }

    fn id(&self, image: &str) -> String {
        if self.is_retagged { format!("id-of-{}", Self::repository(image)) } else { format!("id-of-{image}") }
    }

    fn name(&self, image: &str) -> String {
        match self.naming {
            Naming::AsWritten => image.to_owned(),
            Naming::FirstTag if self.is_retagged => format!("docker.io/library/{}:v1", Self::repository(image)),
            Naming::InFull | Naming::FirstTag => format!("docker.io/library/{image}"),
        }
    }
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RunState {
    Running {
        is_ready: bool,
        since: i64,
    },
    /// It has ended with this code, and starts at the next step.
    Ended(i64),
    /// It waits with this reason.
    Waiting(&'static str, i64),
}

/// A container of a Pod.
#[derive(Clone, Debug)]
struct Container {
    image: String,
    number: usize,
    restarts: usize,
    state: RunState,
    /// The images that ran before: their back-off is kept.
    known: BTreeSet<String>,
    /// For how many steps it still backs off.
    backs_off: usize,
}

/// A Pod and what its kubelet does with it.
#[derive(Clone, Debug)]
pub(super) struct Kubelet {
    containers: BTreeMap<String, Container>,
    /// Whether the node is away: the kubelet sees and reports nothing.
    pub(super) is_away: bool,
}

fn containers(pod: &Value) -> impl Iterator<Item = (String, String)> + '_ {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    pod["spec"]["containers"].as_array().unwrap().iter().map(move |it| (text(&it["name"]), text(&it["image"])))
}

impl Kubelet {
    /// Returns the kubelet of a Pod whose containers run and are ready.
    pub(super) fn new(pod: &Value) -> Self {
        let container = |image: String| Container {
            known: [image.clone()].into(),
            image,
            number: 1,
            restarts: 0,
            state: RunState::Running { is_ready: true, since: 0 },
            backs_off: 0,
        };
        Self { containers: containers(pod).map(|(name, image)| (name, container(image))).collect(), is_away: false }
    }

    /// Whether all containers are those of the spec and ready.
    pub(super) fn serves(&self, pod: &Value) -> bool {
        containers(pod).all(|(name, image)| {
            let container = &self.containers[&name];
            container.image == image && matches!(container.state, RunState::Running { is_ready: true, .. })
        })
    }

    /// Brings each container one step nearer to the spec.
    pub(super) fn step(&mut self, pod: &Value, runtime: &Runtime, now: Timestamp) {
        if self.is_away {
            return;
        }
        for (name, image) in containers(pod) {
            self.containers.get_mut(&name).unwrap().step(&image, runtime, now);
        }
    }

    /// Writes the states into the Pod's status.
    pub(super) fn report(&self, pod: &mut Value, runtime: &Runtime, now: Timestamp) {
        if !self.is_away {
            let names = containers(pod);
            let statuses: Vec<Value> = names.map(|(name, _)| self.containers[&name].status(&name, runtime)).collect();
            pod["status"]["containerStatuses"] = statuses.into();
        }
        let statuses = pod["status"]["containerStatuses"].as_array().unwrap();
        let is_ready = !self.is_away && statuses.iter().all(|status| status["ready"] == true);
        let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
        let ready = conditions.iter_mut().find(|condition| condition["type"] == "Ready").unwrap();
        let status = if is_ready { "True" } else { "False" };
        if ready["status"] != status {
            *ready = json!({"type": "Ready", "status": status, "lastTransitionTime": now.to_string()});
        }
    }

    /// The kubelet starts again: probes have to succeed anew.
    pub(super) fn restart(&mut self) {
        for container in self.containers.values_mut() {
            if let RunState::Running { is_ready, .. } = &mut container.state {
                *is_ready = false;
            }
        }
    }
}

impl Container {
    fn step(&mut self, image: &str, runtime: &Runtime, now: Timestamp) {
        match self.state {
            // A container that the kubelet stops may end with any code.
            RunState::Running { .. } if self.image != image => {
                self.state = RunState::Ended(if self.number.is_multiple_of(2) { 0 } else { 137 });
                self.backs_off = if self.known.contains(image) { 3 } else { 0 };
            }
            RunState::Running { .. } if runtime.crashing.contains(image) => {
                self.state = RunState::Ended(1);
                self.backs_off = 2;
            }
            RunState::Running { since, .. } => self.state = RunState::Running { is_ready: true, since },
            RunState::Ended(code) | RunState::Waiting(_, code) => self.start(image, code, runtime, now),
        }
    }

    fn start(&mut self, image: &str, code: i64, runtime: &Runtime, now: Timestamp) {
        if runtime.missing.contains(image) {
            self.state = RunState::Waiting("ImagePullBackOff", code);
            return;
        }
        if self.image != image && matches!(self.state, RunState::Waiting("CrashLoopBackOff", _)) {
            // The back-off is that of the image.
            self.backs_off = self.backs_off.min(if self.known.contains(image) { 2 } else { 0 });
        }
        if self.backs_off > 0 {
            self.backs_off -= 1;
            self.state = RunState::Waiting("CrashLoopBackOff", code);
            return;
        }
        self.image = image.to_owned();
        self.known.insert(self.image.clone());
        self.number += 1;
        self.restarts += 1;
        self.state = RunState::Running { is_ready: false, since: now.0 };
    }

    fn status(&self, name: &str, runtime: &Runtime) -> Value {
        let terminated = |code: i64| json!({"terminated": {"exitCode": code}});
        let (state, last, is_ready) = match self.state {
            RunState::Running { is_ready, since } => {
                (json!({"running": {"startedAt": Timestamp(since).to_string()}}), json!({}), is_ready)
            }
            RunState::Ended(code) => (terminated(code), json!({}), false),
            RunState::Waiting(reason, code) => (json!({"waiting": {"reason": reason}}), terminated(code), false),
        };
        json!({
            "name": name, "image": runtime.name(&self.image), "imageID": runtime.id(&self.image),
            "containerID": format!("containerd://{name}-{}", self.number), "restartCount": self.restarts,
            "ready": is_ready, "state": state, "lastState": last,
        })
    }
}
