//! The process that runs the servers (`testenv/keeper`): when this process ends, it ends them and removes their folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::Error;

/// The pause between two checks of the keeper's messages.
const LOOK: Duration = Duration::from_millis(10);
/// The keeper's maximum response time on a busy machine: it only starts processes and removes folders.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of log lines in an error.
const TAIL: usize = 25;

/// The state of a server according to the keeper's messages.
#[derive(Clone, Debug)]
enum Server {
    Asked,
    Running,
    Failed(String),
    Ended(String),
}

/// The keeper's messages so far.
#[derive(Debug, Default)]
struct Messages {
    servers: BTreeMap<String, Server>,
    gone: bool,
}

/// A running keeper. The servers end with it; dropping it waits for that.
#[derive(Debug)]
pub(crate) struct Keeper {
    program: PathBuf,
    process: Child,
    /// `None` once the keeper was told to end.
    requests: Mutex<Option<ChildStdin>>,
    messages: Arc<Mutex<Messages>>,
    folder: PathBuf,
}

impl Keeper {
    /// Starts the keeper, and waits for its folder.
    pub(crate) fn start(program: &Path) -> Result<Self, Error> {
        // The keeper gets its own process group, so that signals to the tests' group leave it time to clean up.
        let mut process =
            Command::new(program)
                .process_group(0)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| Error::Keeper(format!("could not be started: {}: {error}", program.display())))?;
        let requests = process.stdin.take();
        let Some(output) = process.stdout.take() else {
            return Err(Error::Keeper("has no output".to_owned()));
        };
        let mut lines = BufReader::new(output);
        let mut first = String::new();
        let folder = lines.read_line(&mut first).ok().and_then(|_| {
            let message: Value = serde_json::from_str(&first).ok()?;
            message.get("folder")?.as_str().map(PathBuf::from)
        });
        let Some(folder) = folder else {
            return Err(Error::Keeper("made no folder".to_owned()));
        };
        let messages = Arc::new(Mutex::new(Messages::default()));
        thread::spawn({
            let messages = Arc::clone(&messages);
            move || listen(lines, &messages)
        });
        Ok(Self { program: program.to_owned(), process, requests: Mutex::new(requests), messages, folder })
    }

    /// Returns the folder that is removed with the keeper.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a server. Returns once its process exists, whether or not it is ready.
    pub(crate) async fn run(&self, server: &str, program: &Path, arguments: &[String]) -> Result<(), Error> {
        if self.is_there(server) {
            return Err(Error::Start { server: server.to_owned(), reason: "it is running already".to_owned() });
        }
        self.messages.lock().servers.insert(server.to_owned(), Server::Asked);
        self.ask(&json!({ "start": server, "program": program, "arguments": arguments }))?;
        match self.wait_for(server, PATIENCE, |server| !matches!(server, Server::Asked)).await? {
            Server::Failed(reason) => Err(Error::Start { server: server.to_owned(), reason }),
            _ => Ok(()),
        }
    }

    /// Ends a server with SIGTERM, and with SIGKILL after the seconds of grace. Returns when it has ended, or at once
    /// if it already has.
    pub(crate) async fn end(&self, server: &str, grace: u8) -> Result<(), Error> {
        if !self.is_there(server) {
            return Ok(());
        }
        self.ask(&json!({ "stop": server, "grace": grace }))?;
        let patience = PATIENCE + Duration::from_secs(grace.into());
        self.wait_for(server, patience, |server| matches!(server, Server::Ended(_) | Server::Failed(_))).await.map(drop)
    }

    fn is_there(&self, server: &str) -> bool {
        matches!(self.messages.lock().servers.get(server), Some(Server::Asked | Server::Running))
    }

    /// Checks that a server has not ended.
    pub(crate) fn still_runs(&self, server: &str) -> Result<(), Error> {
        let messages = self.messages.lock();
        match messages.servers.get(server) {
            _ if messages.gone => Err(gone()),
            Some(Server::Ended(reason) | Server::Failed(reason)) => {
                Err(Error::Ended { server: server.to_owned(), reason: reason.clone(), log: self.log(server) })
            }
            _ => Ok(()),
        }
    }

    /// Returns the last lines of a server's log.
    pub(crate) fn log(&self, server: &str) -> String {
        let log = fs::read(self.folder.join("logs").join(format!("{server}.log"))).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let mut last: Vec<&str> = log.lines().rev().take(TAIL).collect();
        last.reverse();
        last.join("\n")
    }

    fn ask(&self, request: &Value) -> Result<(), Error> {
        let mut requests = self.requests.lock();
        let written = requests.as_mut().map(|pipe| writeln!(pipe, "{request}").and_then(|()| pipe.flush()));
        if matches!(written, Some(Ok(()))) { Ok(()) } else { Err(gone()) }
    }

    async fn wait_for(
        &self,
        server: &str,
        patience: Duration,
        enough: impl Fn(&Server) -> bool,
    ) -> Result<Server, Error> {
        let asked = Instant::now();
        loop {
            {
                let messages = self.messages.lock();
                if let Some(server) = messages.servers.get(server).filter(|server| enough(server)) {
                    return Ok(server.clone());
                }
                if messages.gone {
                    return Err(gone());
                }
            }
            if asked.elapsed() > patience {
                return Err(Error::Keeper(format!("said nothing about \"{server}\" for {} s", patience.as_secs())));
            }
            sleep(LOOK).await;
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // The end of its input makes the keeper clean up.
        self.requests.get_mut().take();
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE {
            match self.process.try_wait() {
                Ok(None) => thread::sleep(LOOK),
                Ok(Some(status)) if status.success() => return,
                _ => break,
            }
        }
        // If the keeper did not end, it is killed, which ends the servers too.
        let _ = self.process.kill();
        let _ = self.process.wait();
        // The next keeper removes what a killed one leaves: the folder, and the cgroups of nodes. This one gets no work.
        let mut next = Command::new(&self.program);
        let _ = next.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn gone() -> Error {
    Error::Keeper("is gone".to_owned())
}

/// Records the keeper's messages until its output closes.
fn listen(lines: BufReader<ChildStdout>, messages: &Mutex<Messages>) {
    for line in lines.lines().map_while(Result::ok) {
        if let Some((name, server)) = serde_json::from_str(&line).ok().and_then(|message| understand(&message)) {
            messages.lock().servers.insert(name, server);
        }
    }
    messages.lock().gone = true;
}

fn understand(message: &Value) -> Option<(String, Server)> {
    let word = |key| message.get(key).and_then(Value::as_str).map(str::to_owned);
    let reason = || word("reason").unwrap_or_default();
    (word("started").map(|name| (name, Server::Running)))
        .or_else(|| word("failed").map(|name| (name, Server::Failed(reason()))))
        .or_else(|| word("ended").map(|name| (name, Server::Ended(reason()))))
}
