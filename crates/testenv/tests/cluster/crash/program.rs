//! `pillion controller` as a process that can be killed at any time.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use parking_lot::{Mutex, MutexGuard};
use pillion_testenv::{Cluster, free_port};
use serde_json::Value;

/// The process, and how to start it. It is killed when this is dropped.
pub struct Program {
    path: PathBuf,
    arguments: Vec<String>,
    kubeconfig: PathBuf,
    log: PathBuf,
    name: String,
    child: Mutex<Option<Child>>,
}

impl Program {
    /// Prepares a process that talks to the API server through a proxy on this port. It does not run yet.
    pub fn new(cluster: &Cluster, port: u16, name: &str, settings: &Value, flags: &[&str]) -> Self {
        let mut kubeconfig: Value = serde_json::from_str(&cluster.as_admin().kubeconfig()).unwrap();
        kubeconfig["clusters"][0]["cluster"]["server"] = format!("http://127.0.0.1:{port}").into();
        let file = |kind: &str| cluster.folder().join(format!("{name}.{kind}"));
        fs::write(file("kubeconfig"), kubeconfig.to_string()).unwrap();
        fs::write(file("settings"), settings.to_string()).unwrap();
        let mut arguments = vec!["controller".to_owned(), format!("--settings={}", file("settings").display())];
        arguments.push(format!("--health-listen=127.0.0.1:{}", free_port().unwrap()));
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        Self {
            path: crate::support::program(),
            arguments,
            kubeconfig: file("kubeconfig"),
            log: file("log"),
            name: name.to_owned(),
            child: Mutex::default(),
        }
    }

    /// Starts the process.
    pub fn start(&self) {
        *self.lock() = Some(self.spawned());
    }

    /// Kills the process (SIGKILL), if it runs.
    pub fn kill(&self) {
        end(&mut self.lock());
    }

    /// Kills the process and starts it again. Requests that arrive at the same time may ask for this at once.
    pub fn restart(&self) {
        let mut child = self.lock();
        end(&mut child);
        *child = Some(self.spawned());
    }

    fn spawned(&self) -> Child {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        Command::new(&self.path)
            .args(&self.arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("POD_NAME", &self.name)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock()
    }

    /// Asks the process to end (SIGTERM), and waits for it. Returns whether it reports success.
    pub fn stop(&self) -> bool {
        let Some(mut child) = self.lock().take() else { return false };
        let asked = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status().unwrap();
        asked.success() && child.wait().unwrap().success()
    }

    /// Whether the process runs.
    pub fn is_running(&self) -> bool {
        let mut child = self.lock();
        child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// Returns what the process has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Kills a process, if there is one.
fn end(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
