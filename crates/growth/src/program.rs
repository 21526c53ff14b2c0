//! The programs that are measured, as processes of their own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use pillion_stress::server::{free_port, program};
use pillion_stress::usage::Usage;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::objects;
use crate::plan::Plan;

/// How long a program may take until it is ready.
const PATIENCE: Duration = Duration::from_mins(10);
const LOOK: Duration = Duration::from_millis(50);
const ANSWER: Duration = Duration::from_secs(5);

/// The files of a run, and the program.
#[derive(Clone, Debug)]
pub struct Installation {
    /// The program `pillion`.
    pub program: PathBuf,
    /// A folder for files of this run.
    pub folder: PathBuf,
    /// The cluster.
    pub kubeconfig: PathBuf,
    /// The namespaces whose Secrets may be read.
    pub token_namespaces: Vec<String>,
}

/// A running program. It is stopped when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    health: SocketAddr,
    started: Instant,
    log: PathBuf,
}

impl Installation {
    /// Returns the installation in a cluster with the objects of a plan. The folder is for files of this run.
    pub fn new(program: PathBuf, folder: &Path, kubeconfig: PathBuf, plan: Plan) -> Self {
        let token_namespaces = plan.token_namespaces().into_iter().map(objects::namespace).collect();
        Self { program, folder: folder.to_owned(), kubeconfig, token_namespaces }
    }

    /// Starts `pillion controller`, with the controllers that are on by default and that of rollouts.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start_controllers(&self) -> anyhow::Result<Process> {
        let namespaces = format!("--token-namespaces={}", self.token_namespaces.join(","));
        let args = ["controller", "--controllers=*,sidecarset-rollout", &namespaces, "--namespace=pillion-system"];
        self.start("controllers", &args)
    }

    /// Starts a command of `pillion` with these arguments, and with the settings and a port for probes.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(&self, name: &str, args: &[&str]) -> anyhow::Result<Process> {
        let settings = self.folder.join("settings.json");
        std::fs::write(&settings, objects::settings().to_string()).context("the settings")?;
        let log = self.folder.join(format!("{name}.log"));
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log).context("the log")?;
        let health = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let mut command = program::command(&self.program);
        command.args(args).arg(format!("--settings={}", settings.display())).arg(format!("--health-listen={health}"));
        command.env("KUBECONFIG", &self.kubeconfig).env("MIMALLOC_PURGE_DELAY", "10");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let child = command.spawn().with_context(|| self.program.display().to_string())?;
        Ok(Process { child, health, started: Instant::now(), log })
    }
}

impl Process {
    /// Waits until it is ready. Returns the time since its start.
    ///
    /// # Errors
    /// It ends, or takes too long.
    pub async fn ready(&mut self) -> anyhow::Result<Duration> {
        while !self.answers("/readyz").await {
            self.still_runs()?;
            if self.started.elapsed() > PATIENCE {
                bail!("{}: not ready in {} s", self.log.display(), PATIENCE.as_secs());
            }
            sleep(LOOK).await;
        }
        Ok(self.started.elapsed())
    }

    /// Checks that it has not ended.
    ///
    /// # Errors
    /// It has ended.
    pub fn still_runs(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                let last = log.lines().last().unwrap_or_default();
                bail!("it has ended with {status}; the last line of its log: {last}")
            }
        }
    }

    async fn answers(&self, path: &str) -> bool {
        timeout(ANSWER, self.get(path))
            .await
            .is_ok_and(|answer| answer.is_ok_and(|text| text.starts_with("HTTP/1.1 200")))
    }

    async fn get(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.health).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    /// Returns the CPU time and the memory so far.
    ///
    /// # Errors
    /// This system does not report them.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        Usage::read(self.child.id()).context("/proc does not tell of the process: this needs Linux")
    }

    /// Asks it to end, and waits for that.
    ///
    /// # Errors
    /// It does not end.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status().context("kill")?;
        if !asked.success() {
            bail!("kill ended with {asked}");
        }
        let asked = Instant::now();
        while self.child.try_wait()?.is_none() {
            if asked.elapsed() > Duration::from_mins(1) {
                bail!("{}: it did not end", self.log.display());
            }
            sleep(LOOK).await;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
