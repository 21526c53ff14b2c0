//! One cluster, in which the controllers start, roll out SidecarSets, rest and start again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures_util::future::join_all;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{interval, sleep};

use crate::admission;
use crate::counts::{Counted, Counts, since};
use crate::kubelet::Kubelet;
use crate::measured::{Phase, Point, Rollout};
use crate::objects::{self, MAX_UNAVAILABLE};
use crate::plan::{Plan, Sidecars, Size};
use crate::program::{Installation, Process};
use crate::progress::tell;
use crate::requests::{MERGE, STRATEGIC, create, delete, get, patch, pod_path};

/// How long a container takes to restart.
const RESTART: Duration = Duration::from_secs(1);
/// How long the controllers must do nothing until a phase counts as ended.
const QUIET: u32 = 3;
const SECOND: Duration = Duration::from_secs(1);
/// The CPU time of a second in which the controllers do nothing.
const IDLE: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_mins(20);
/// How often the status of a SidecarSet is read.
const LOOK: Duration = Duration::from_millis(100);
/// The share of the Pods that is rolled out.
const ROLLED_OUT: usize = 10;
/// The share of the Pods that is replaced in a minute.
const REPLACED: usize = 100;
/// The versions of the images that are rolled out.
const FIRST: usize = 2;
const NEXT: usize = 3;

/// A cluster with the objects of a plan.
pub struct Surroundings {
    /// A client with all rights, which is not counted.
    pub client: Client,
    /// The requests of the controllers, if somebody counts them.
    pub counts: Option<Arc<Counts>>,
    /// How the controllers are started.
    pub installation: Installation,
    /// The kubeconfig of `pillion serve`.
    pub server_kubeconfig: PathBuf,
}

/// How long to look on.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// While Pods are replaced.
    pub churn: Duration,
    /// While nothing changes.
    pub rest: Duration,
}

/// A cluster that is measured.
struct Scene<'a> {
    plan: Plan,
    around: &'a Surroundings,
    kubelet: Kubelet,
    /// The paths of the Pods of each SidecarSet without an identity.
    pods: Vec<Vec<String>>,
}

/// The beginning of a phase.
struct Beginning {
    at: Instant,
    cpu: Duration,
    counted: Counted,
}

/// Measures all phases in a cluster.
///
/// # Errors
/// A program ends, takes too long, or leaves out a Pod.
pub async fn measure(size: Size, around: &Surroundings, times: Times) -> anyhow::Result<Point> {
    let plan = Plan { size };
    let kubelet = Kubelet::start(around.client.clone(), RESTART).await?;
    let scene = Scene { plan, around, kubelet, pods: plan.paths() };
    let any = scene.pods.iter().flatten().next().context("no Pod has a sidecar")?;
    let pod = get(&around.client, any).await?.to_string().len();
    let (changed, pods) = scene.share();
    let baseline = scene.baseline(changed, pods).await?;
    let (mut process, start) = scene.start().await?;
    told("start", &start);
    let first = scene.roll_out(&mut process, changed, pods, FIRST).await?;
    told("rollout", &first);
    let next = scene.roll_out(&mut process, changed, pods, NEXT).await?;
    told("next rollout", &next);
    let rollout = Rollout { sidecar_sets: changed, pods, baseline, first, next };
    let server = admission::Server { program: &around.installation.program, kubeconfig: &around.server_kubeconfig };
    // The last SidecarSet was not rolled out.
    let admission = admission::measure(server, &around.client, plan, plan.logs().saturating_sub(1)).await?;
    tell(&format!("  admission: {:.1} s", admission.time.as_secs_f64()));
    scene.settle(&mut process).await?;
    let churn = scene.churn(&mut process, times.churn).await?;
    told("churn", &churn);
    scene.settle(&mut process).await?;
    let rest = scene.rest(&mut process, times.rest).await?;
    told("rest", &rest);
    process.stop().await?;
    let (process, restart) = scene.start().await?;
    told("restart", &restart);
    process.stop().await?;
    Ok(Point { size, pod, start, rollout, admission, churn, rest, restart })
}

fn told(name: &str, phase: &Phase) {
    let last_write = phase.last_write.map(|time| format!(", last write {:.1} s", time.as_secs_f64()));
    let last_write = last_write.unwrap_or_default();
    tell(&format!(
        "  {name}: {:.1} s{last_write}, CPU {:.1} s, {} MiB, at most {} MiB",
        phase.time.as_secs_f64(),
        phase.cpu.as_secs_f64(),
        phase.memory >> 20,
        phase.peak >> 20,
    ));
}

impl Scene<'_> {
    /// Returns how many SidecarSets are rolled out, and the number of their Pods.
    fn share(&self) -> (usize, usize) {
        let wanted = self.plan.size.pods / ROLLED_OUT;
        let mut found = (0, 0);
        for pods in &self.pods {
            if found.1 >= wanted || 2 * (found.0 + 1) > self.pods.len() {
                break;
            }
            found = (found.0 + 1, found.1 + pods.len());
        }
        found
    }

    /// Upgrades as many Pods as the rollout, of other SidecarSets, with a client that sends nothing but patches of images
    /// and knows at once when a Pod is ready.
    async fn baseline(&self, sets: usize, pods: usize) -> anyhow::Result<Duration> {
        let started = Instant::now();
        let upgrades = self.pods.iter().enumerate().skip(sets).take(sets).map(async |(number, pods)| {
            for wave in pods.chunks(at_once(pods.len())) {
                let upgrades = wave.iter().map(async |pod| {
                    let name = objects::log(number);
                    let containers = json!([{"name": name, "image": objects::image(&name, 9)}]);
                    patch(&self.around.client, pod, STRATEGIC, &json!({"spec": {"containers": containers}})).await?;
                    self.kubelet.restarted(pod, 1).await;
                    anyhow::Ok(())
                });
                join_all(upgrades).await.into_iter().collect::<anyhow::Result<()>>()?;
            }
            anyhow::Ok(())
        });
        join_all(upgrades).await.into_iter().collect::<anyhow::Result<()>>()?;
        let restarts = self.kubelet.take();
        let took = restarts.last.map_or(Duration::ZERO, |last| last.duration_since(started));
        tell(&format!(
            "  a client upgraded {} Pods in {:.1} s; the rollout has {pods}",
            restarts.counts.len(),
            took.as_secs_f64()
        ));
        Ok(took)
    }

    async fn start(&self) -> anyhow::Result<(Process, Phase)> {
        let beginning = Beginning { at: Instant::now(), cpu: Duration::ZERO, counted: self.counted() };
        let mut process = self.around.installation.start_controllers()?;
        let ready = process.ready().await?;
        self.settle(&mut process).await?;
        let phase = self.phase(&process, &beginning, ready)?;
        Ok((process, phase))
    }

    /// Changes the images of SidecarSets to this version, and waits until all their Pods are upgraded.
    async fn roll_out(&self, process: &mut Process, sets: usize, pods: usize, version: usize) -> anyhow::Result<Phase> {
        let beginning = self.begin(process)?;
        // All at once: one after the other, they would wait behind the upgrades of the first ones.
        let changes = (0..sets).map(async |number| {
            let containers = &self.plan.log_set(number, version)["spec"]["containers"];
            let change = json!({"spec": {"containers": containers}});
            patch(&self.around.client, &objects::set_path(&objects::log(number)), MERGE, &change).await
        });
        join_all(changes).await.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        self.finished(process, sets).await?;
        let restarts = self.kubelet.take();
        if restarts.counts.len() != pods || restarts.counts.values().any(|count| *count != 1) {
            bail!("{} of {pods} Pods were upgraded, some of them more than once", restarts.counts.len());
        }
        let took = restarts.last.map_or(Duration::ZERO, |last| last.duration_since(beginning.at));
        self.settle(process).await?;
        self.phase(process, &beginning, took)
    }

    /// Waits until the status of SidecarSets says that all their Pods are updated and ready.
    async fn finished(&self, process: &mut Process, sets: usize) -> anyhow::Result<()> {
        let (mut open, started): (Vec<usize>, _) = ((0..sets).collect(), Instant::now());
        while let Some(number) = open.last() {
            let set = get(&self.around.client, &objects::set_path(&objects::log(*number))).await?;
            let pods = self.pods.get(*number).map_or(0, Vec::len);
            let is_ready = |condition: &Value| {
                condition["type"] == "Ready"
                    && condition["status"] == "True"
                    && condition["observedGeneration"] == set["metadata"]["generation"]
            };
            let is_done = set["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(is_ready));
            // The status leaves out a number that is 0.
            let updated = set["status"]["updatedReadyPods"].as_u64().unwrap_or_default();
            if is_done && usize::try_from(updated) == Ok(pods) {
                open.pop();
                continue;
            }
            process.still_runs()?;
            if started.elapsed() > PATIENCE {
                bail!("SidecarSet {}: {} is not {pods} Pods", objects::log(*number), set["status"]);
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Replaces a hundredth of the Pods in each minute.
    async fn churn(&self, process: &mut Process, time: Duration) -> anyhow::Result<Phase> {
        let beginning = self.begin(process)?;
        let all: Vec<&String> = self.pods.iter().flatten().collect();
        let mut ticks = interval(SECOND);
        let mut replaced = 0;
        while beginning.at.elapsed() < time {
            ticks.tick().await;
            let due = self.plan.size.pods as u128 * beginning.at.elapsed().as_millis() / (60_000 * REPLACED as u128);
            let due = usize::try_from(due)?;
            // Pods of all parts of the cluster: a prime steps over neighbours.
            let pods = (replaced..due).map(|number| (number, all.get(number * 7_919 % all.len().max(1))));
            stream::iter(pods)
                .map(Ok)
                .try_for_each_concurrent(16, |(number, path)| async move {
                    match path {
                        Some(path) => self.replace(path, number).await,
                        None => Ok(()),
                    }
                })
                .await?;
            replaced = due;
            process.still_runs()?;
        }
        self.phase(process, &beginning, beginning.at.elapsed())
    }

    /// Deletes a Pod and creates another one in its place, as a `ReplicaSet`'s controller does.
    async fn replace(&self, path: &str, number: usize) -> anyhow::Result<()> {
        // A Pod that was replaced before is gone.
        let Ok(mut pod) = get(&self.around.client, path).await else { return Ok(()) };
        delete(&self.around.client, path).await?;
        let name = format!("{}-r{number}", pod["metadata"]["name"].as_str().unwrap_or_default());
        if let Some(pod) = pod.as_object_mut() {
            pod.remove("status");
        }
        if let Some(metadata) = pod["metadata"].as_object_mut() {
            metadata.retain(|key, _| !matches!(key.as_str(), "uid" | "resourceVersion" | "creationTimestamp"));
            metadata.insert("name".to_owned(), name.into());
        }
        let (list, _) = path.rsplit_once('/').context("the path of a Pod")?;
        create(&self.around.client, list, &pod).await?;
        Ok(())
    }

    async fn rest(&self, process: &mut Process, time: Duration) -> anyhow::Result<Phase> {
        let beginning = self.begin(process)?;
        sleep(time).await;
        process.still_runs()?;
        self.phase(process, &beginning, beginning.at.elapsed())
    }

    /// Waits until the controllers neither write nor compute.
    async fn settle(&self, process: &mut Process) -> anyhow::Result<()> {
        let (mut quiet, started) = (0, Instant::now());
        while quiet < QUIET {
            let (cpu, at) = (process.usage()?.cpu, Instant::now());
            sleep(SECOND).await;
            process.still_runs()?;
            let has_written = self.last_write().is_some_and(|last| last > at);
            let is_idle = process.usage()?.cpu.saturating_sub(cpu) < IDLE;
            quiet = if is_idle && !has_written { quiet + 1 } else { 0 };
            if started.elapsed() > PATIENCE {
                bail!("the controllers do not come to rest");
            }
        }
        Ok(())
    }

    fn begin(&self, process: &Process) -> anyhow::Result<Beginning> {
        Ok(Beginning { at: Instant::now(), cpu: process.usage()?.cpu, counted: self.counted() })
    }

    fn phase(&self, process: &Process, beginning: &Beginning, time: Duration) -> anyhow::Result<Phase> {
        let usage = process.usage()?;
        let last_write = self.last_write().filter(|last| *last > beginning.at);
        Ok(Phase {
            time,
            last_write: last_write.map(|last| last.duration_since(beginning.at)),
            cpu: usage.cpu.saturating_sub(beginning.cpu),
            memory: usage.memory.now,
            peak: usage.memory.peak,
            counted: since(&beginning.counted, &self.counted()),
        })
    }

    fn counted(&self) -> Counted {
        self.around.counts.as_ref().map(|counts| counts.counted()).unwrap_or_default()
    }

    fn last_write(&self) -> Option<Instant> {
        self.around.counts.as_ref().and_then(|counts| counts.last_write())
    }
}

/// Returns the number of Pods of a SidecarSet that are upgraded at the same time.
fn at_once(pods: usize) -> usize {
    (pods * MAX_UNAVAILABLE).div_ceil(100).max(1)
}

impl Plan {
    /// Returns the paths of the Pods of each SidecarSet without an identity.
    fn paths(&self) -> Vec<Vec<String>> {
        let mut all = vec![Vec::new(); self.logs()];
        for workload in self.workloads() {
            if let Sidecars::Log(number) = workload.sidecars
                && let Some(paths) = all.get_mut(number)
            {
                paths.extend(
                    (0..workload.replicas)
                        .map(|replica| pod_path(&objects::namespace(workload.namespace), &workload.pod_name(replica))),
                );
            }
        }
        all
    }
}
