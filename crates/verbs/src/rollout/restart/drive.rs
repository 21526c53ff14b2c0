//! Carries out a restart: looks, evicts what fits, waits, and looks again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pillion_cluster::{Evicted, Kind, Refusal, Trouble, Writer};
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_rollout::restart::Restart;
use pillion_terminal::Terminal;
use serde_json::Value;
use tokio::time::sleep;

use super::progress::{Progress, pods};
use super::scene::{Controller, Found, Scene, Scope};

/// The shortest time between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// A look takes at most this part of the time.
const SHARE: u32 = 5;
/// How long the cluster may fail to answer.
const OUTAGE: Duration = Duration::from_mins(1);
/// How long a controller that lacks Pods is not asked again.
const ASKED: Duration = Duration::from_secs(5);

/// How a restart ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Each Pod was evicted, and the new ones are ready.
    Done,
    /// So many Pods cannot be evicted. The others were.
    Impossible(usize),
    /// The time is over; what the restart waited for.
    TimedOut(String),
    /// Ctrl-C.
    Interrupted,
}

/// A Pod that a budget holds.
struct Held {
    until: Instant,
    /// The Pod, for messages.
    pod: String,
    /// What the API server says.
    message: String,
}

/// A restart under way.
pub struct Drive<'a> {
    writer: &'a Writer,
    scope: &'a Scope<'a>,
    restart: Restart,
    /// The restart is for Pods that were created before.
    time: Timestamp,
    /// Whether only outdated Pods are restarted.
    is_of_outdated: bool,
    /// Pods that a budget holds, by uid.
    held: BTreeMap<String, Held>,
    /// Pods that cannot be evicted.
    impossible: BTreeSet<String>,
    /// When each controller was asked how many Pods it wants, by uid.
    asked: BTreeMap<String, Instant>,
    evicted: usize,
    awaited: usize,
    pub progress: Progress,
}

impl<'a> Drive<'a> {
    /// Returns a restart that has evicted nothing yet.
    pub fn new(
        writer: &'a Writer,
        scope: &'a Scope<'a>,
        restart: Restart,
        time: Timestamp,
        is_of_outdated: bool,
        progress: Progress,
    ) -> Self {
        Self {
            writer,
            scope,
            restart,
            time,
            is_of_outdated,
            held: BTreeMap::new(),
            impossible: BTreeSet::new(),
            asked: BTreeMap::new(),
            evicted: 0,
            awaited: 0,
            progress,
        }
    }

    /// Returns the number of Pods that are restarted: evicted, and their replacements ready.
    pub fn done(&self) -> usize {
        self.evicted.saturating_sub(self.awaited)
    }

    /// Evicts one budget after another. `timeout` of zero is none.
    pub async fn run(&mut self, mut scene: Scene, timeout: Duration, terminal: &mut Terminal) -> anyhow::Result<Ended> {
        let started = Instant::now();
        let mut failing = None;
        let mut look_took = Duration::ZERO;
        loop {
            match self.step(&scene, terminal).await {
                Ok(Some(ended)) => return Ok(ended),
                Ok(None) => failing = None,
                Err(error) => failed(error, &mut failing, terminal)?,
            }
            loop {
                if !timeout.is_zero() && started.elapsed() >= timeout {
                    return Ok(Ended::TimedOut(self.waiting()));
                }
                sleep(PAUSE.max(look_took * SHARE)).await;
                let looked = Instant::now();
                match self.scope.look(self.writer, self.time).await {
                    Ok(found) => {
                        scene = found;
                        look_took = looked.elapsed();
                        break;
                    }
                    Err(error) => failed(error, &mut failing, terminal)?,
                }
            }
        }
    }

    /// Evicts what fits now. Returns how the restart ended, if it did.
    async fn step(&mut self, scene: &Scene, terminal: &mut Terminal) -> anyhow::Result<Option<Ended>> {
        self.check_versions(scene)?;
        self.ask_those_that_lack_pods(scene).await?;
        let now = Instant::now();
        let held: BTreeSet<String> =
            self.held.iter().filter(|(_, held)| held.until > now).map(|(uid, _)| uid.clone()).collect();
        let kept: BTreeSet<String> = held.union(&self.impossible).cloned().collect();
        // A controller that has fewer Pods than it wants may leave no room for the Pods that seem to fit.
        for position in self.restart.next(&scene.members, &kept) {
            self.ask(scene.found.get(position), scene).await?;
        }
        for position in self.restart.next(&scene.members, &kept) {
            self.evict(position, scene, terminal).await?;
        }
        self.awaited = self.restart.awaited(&scene.members);
        let left = self.restart.left(&scene.members).filter(|pod| !self.impossible.contains(&pod.uid)).count();
        self.held.retain(|uid, _| self.restart.left(&scene.members).any(|pod| pod.uid == *uid));
        if left + self.awaited > 0 {
            self.progress.show(self.done(), &self.waiting(), &self.waiting_for(), terminal)?;
        }
        Ok(match (left + self.awaited, self.impossible.len()) {
            (0, 0) => Some(Ended::Done),
            (0, count) => Some(Ended::Impossible(count)),
            _ => None,
        })
    }

    async fn evict(&mut self, position: usize, scene: &Scene, terminal: &mut Terminal) -> anyhow::Result<()> {
        let (Some(found), Some(member)) = (scene.found.get(position), scene.members.get(position)) else {
            return Ok(());
        };
        let metadata = &found.pod.metadata;
        match self.writer.evict(&metadata.namespace, &metadata.name, &metadata.uid, false).await? {
            Evicted::Yes => {
                self.restart.evicted(member);
                self.held.remove(&member.uid);
                self.evicted += 1;
                let line = format!("pod/{} evicted from namespace {}", metadata.name, metadata.namespace);
                self.progress.line(&line, terminal)?;
            }
            Evicted::Gone => {
                self.restart.evicted(member);
                self.held.remove(&member.uid);
                self.evicted += 1;
            }
            Evicted::Held { message, again } => {
                let held = Held { until: Instant::now() + again, pod: found.to_string(), message };
                self.held.insert(member.uid.clone(), held);
            }
            Evicted::Impossible(message) => {
                self.impossible.insert(member.uid.clone());
                self.progress.line(&format!("{found} cannot be evicted: {message}"), terminal)?;
            }
        }
        Ok(())
    }

    /// Says what the restart waits for.
    fn waiting(&self) -> String {
        let mut parts = Vec::new();
        if self.awaited > 0 {
            parts.push(format!("waiting for {} to be ready", pods(self.awaited)));
        }
        if let Some((_, held)) = self.held.first_key_value() {
            let Held { pod, message, .. } = held;
            parts.push(format!("{} held by a PodDisruptionBudget ({pod}: {message})", pods(self.held.len())));
        }
        if parts.is_empty() { "waiting for Pods that are not ready".to_owned() } else { parts.join(", ") }
    }

    /// Says what the restart waits for, without numbers.
    fn waiting_for(&self) -> String {
        let held: BTreeSet<&str> = self.held.values().map(|held| held.message.as_str()).collect();
        format!("{} {held:?}", self.awaited > 0)
    }

    /// Stops if a Pod that was created anew does not have the version: it would be evicted for ever (ROLL-68).
    fn check_versions(&self, scene: &Scene) -> Result<(), Refusal> {
        if !self.is_of_outdated {
            return Ok(());
        }
        for (found, member) in scene.found.iter().zip(&scene.members) {
            let is_new = found.pod.metadata.creation_timestamp.is_some_and(|created| created.0 >= self.time);
            let is_replacement = member.owner.as_ref().is_some_and(|owner| self.restart.has_touched(owner));
            if is_new && is_replacement && member.is_alive && !self.scope.has_version(&found.pod) {
                return Err(Refusal(format!(
                    "{found} was created anew and does not have the version in force, so evicting more Pods is of no use; \
                     `pillion explain` says what new Pods get"
                )));
            }
        }
        Ok(())
    }

    async fn ask_those_that_lack_pods(&mut self, scene: &Scene) -> Result<(), Trouble> {
        let lacking = self.restart.lacking(&scene.members);
        let now = Instant::now();
        let is_due = |uid: &String| self.asked.get(uid).is_none_or(|asked| now.duration_since(*asked) > ASKED);
        let due: BTreeSet<String> = lacking.into_iter().filter(is_due).collect();
        for uid in due {
            let of = |found: &&Found| found.controller.as_ref().is_some_and(|controller| controller.uid == uid);
            if let Some(controller) = scene.found.iter().find(of) {
                self.asked.remove(&uid);
                self.ask(Some(controller), scene).await?;
            } else {
                // Neither the controller nor any of its Pods is there any more.
                self.restart.wants(&uid, 0, None, &scene.members);
            }
        }
        Ok(())
    }

    /// Asks the controller of a Pod how many Pods it wants, unless it was asked before.
    async fn ask(&mut self, found: Option<&Found>, scene: &Scene) -> Result<(), Trouble> {
        let Some((found, controller)) = found.and_then(|found| Some((found, found.controller.as_ref()?))) else {
            return Ok(());
        };
        let Controller { api_version, kind, name, uid } = controller;
        if self.asked.contains_key(uid) {
            return Ok(());
        }
        let namespace = Some(found.pod.metadata.namespace.as_str());
        match self.writer.get(Kind(api_version, kind), namespace, name).await {
            Ok(Some(object)) if json::text(&object, &["metadata", "uid"]) == uid => {
                if let Some((wants, has)) = replicas(&object) {
                    self.restart.wants(uid, wants, has, &scene.members);
                }
            }
            Ok(_) => self.restart.wants(uid, 0, None, &scene.members),
            // Without this right, the number of its Pods at the start counts.
            Err(Trouble::Forbidden { .. }) => {}
            Err(trouble) => return Err(trouble),
        }
        self.asked.insert(uid.clone(), Instant::now());
        Ok(())
    }
}

/// Returns how many Pods a controller wants, and how many it has.
fn replicas(object: &Value) -> Option<(usize, Option<usize>)> {
    let number = |path: &[&str]| json::at(object, path).and_then(Value::as_u64).and_then(|it| usize::try_from(it).ok());
    if json::is_terminating(object) {
        return Some((0, None));
    }
    match number(&["status", "desiredNumberScheduled"]) {
        Some(wants) => Some((wants, number(&["status", "currentNumberScheduled"]))),
        None => Some((number(&["spec", "replicas"])?, Some(number(&["status", "replicas"]).unwrap_or_default()))),
    }
}

/// Lets failures pass for some time: the API server may be restarting. Tells the first one.
fn failed(error: anyhow::Error, failing: &mut Option<Instant>, terminal: &mut Terminal) -> anyhow::Result<()> {
    let may_pass = matches!(error.downcast_ref(), Some(Trouble::Refused { .. } | Trouble::Unreachable(_)));
    let is_first = failing.is_none();
    let since = *failing.get_or_insert_with(Instant::now);
    if !may_pass || since.elapsed() > OUTAGE {
        return Err(error);
    }
    if is_first {
        terminal.warn(format_args!("{error:#}; trying again"));
    }
    Ok(())
}
