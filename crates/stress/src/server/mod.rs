//! `pillion serve` in a child process, which [`load`](crate::load) and [`faults`](crate::faults) start.

mod authority;
pub mod program;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use pillion_kubernetes::paths;
use pillion_server::client::{Client, Protocol, TlsServer};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::sleep;

pub use self::authority::Authority;
use self::authority::NAME;
use crate::usage::Usage;

/// How long a server may take to start: without a code cache, it compiles its module first.
const START: Duration = Duration::from_mins(2);

/// How to start a server.
pub struct Start<'a> {
    /// The program `pillion`.
    pub program: &'a Path,
    /// The authority of its certificate.
    pub authority: &'a Authority,
    /// The settings.
    pub settings: Value,
    /// Further arguments.
    pub args: Vec<String>,
    /// Further variables of the environment.
    pub environment: BTreeMap<&'a str, PathBuf>,
    /// Whether no line of the log can be written.
    pub is_log_full: bool,
}

impl<'a> Start<'a> {
    /// Returns how to start a server with these settings, without a cluster.
    pub fn new(program: &'a Path, authority: &'a Authority, settings: Value) -> Self {
        Self {
            program,
            authority,
            settings,
            args: ["--cluster", "none"].map(str::to_owned).into(),
            environment: BTreeMap::new(),
            is_log_full: false,
        }
    }
}

/// A running server. Dropping it stops the process.
pub struct Server {
    process: Child,
    target: TlsServer,
    folder: TempDir,
}

impl Server {
    /// Starts a server and waits until it is ready.
    ///
    /// # Errors
    /// It cannot be started, or does not become ready.
    pub async fn start(start: Start<'_>) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("a folder for the server")?;
        let settings = folder.path().join("settings.json");
        std::fs::write(&settings, start.settings.to_string()).context("the settings of the server")?;
        let [certificate, key] = start.authority.write(folder.path())?;
        let log = if start.is_log_full { PathBuf::from("/dev/full") } else { folder.path().join("log") };
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&log).context("the log of the server")?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let mut command = program::command(start.program);
        command.args(["serve", "--listen", &address, "--certificates", "files", "--tls-name", NAME]);
        command.arg("--tls-cert-file").arg(&certificate).arg("--tls-key-file").arg(&key);
        command.arg("--settings").arg(&settings).args(["--log-format", "json", "--drain-delay", "2s"]);
        command.args(&start.args).envs(&start.environment);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process = command.spawn().context("a server could not be started")?;
        let target = TlsServer { address, name: NAME.to_owned(), roots: start.authority.roots()? };
        let mut server = Self { process, target, folder };
        server.ready().await?;
        Ok(server)
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            if let Ok(mut client) = Client::connect(&self.target, Protocol::Http2).await
                && client.get(paths::READYZ).await.is_ok_and(|answer| answer.status == 200)
            {
                return Ok(());
            }
            if self.process.try_wait()?.is_some() || started.elapsed() > START {
                bail!("the server did not start: {}", self.log());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn target(&self) -> &TlsServer {
        &self.target
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the id of its process.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// Opens connections with HTTP/2.
    ///
    /// # Errors
    /// The server does not accept them.
    pub async fn connections(&self, count: usize) -> anyhow::Result<Vec<Client>> {
        let mut connections = Vec::new();
        for _ in 0..count {
            connections.push(Client::connect(&self.target, Protocol::Http2).await?);
        }
        Ok(connections)
    }

    /// Opens connections that say nothing.
    pub(crate) async fn silent_connections(&self, count: usize) -> anyhow::Result<Vec<TcpStream>> {
        let mut connections = Vec::new();
        for _ in 0..count {
            connections.push(TcpStream::connect(&self.target.address).await?);
        }
        Ok(connections)
    }

    /// Returns the number of open file descriptors.
    pub(crate) fn descriptors(&self) -> anyhow::Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.process())).context("the server's files")?.count())
    }

    /// Runs a program with the server's process id as its last argument.
    pub(crate) fn tool(&self, program: &str, args: &[&str]) -> anyhow::Result<()> {
        let status = Command::new(program).args(args).arg(self.process().to_string()).status();
        match status.with_context(|| program.to_owned())? {
            status if status.success() => Ok(()),
            status => bail!("{program}: {status}"),
        }
    }

    /// Waits for the end of the process, and returns its exit code.
    pub(crate) async fn ended(&mut self) -> anyhow::Result<Option<i32>> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status.code());
            }
            if started.elapsed() > Duration::from_mins(1) {
                bail!("the server did not end");
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns the sum of a metric's series whose labels contain this text.
    pub(crate) async fn metric(&self, name: &str, label: &str) -> anyhow::Result<u64> {
        let answer = Client::connect(&self.target, Protocol::Http2).await?.get(paths::METRICS).await?;
        let text = String::from_utf8(answer.body).context("the metrics")?;
        let series = text.lines().filter_map(|line| line.strip_prefix(name)).filter(|rest| rest.contains(label));
        Ok(series.filter_map(|rest| rest.rsplit(' ').next()?.parse::<u64>().ok()).sum())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the resident memory of a process in bytes; 0 if it has ended.
pub(crate) fn memory(process: u32) -> u64 {
    Usage::read(process).map_or(0, |usage| usage.memory.now)
}

/// Returns a port of this machine on which nothing listens.
///
/// # Errors
/// No port is free.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
