//! The session: the source of look-ups, and the file that records or replays them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pillion_admission::settings::Settings;
use pillion_host::session::{self, Exchange, Question, Recorder, Replay, Response};
use pillion_host::{Cluster, Live, NoCluster};
use pillion_kubernetes::json;
use pillion_preview::{Accounts, Assume, Manifests, Note};
use pillion_terminal::Terminal;
use serde_json::Value;

/// An open session.
pub(super) struct Session {
    /// The cluster that the policies ask.
    cluster: Arc<dyn Cluster>,
    /// Assumed ServiceAccounts, which answer before the cluster does.
    accounts: Option<Assumed>,
    /// The session file.
    file: File,
}

/// ServiceAccounts assumed to exist.
struct Assumed {
    accounts: Arc<Accounts>,
    /// All other objects. Unlike a replay, it can be asked in any order.
    rest: Arc<dyn Cluster>,
}

/// The file of a session.
enum File {
    /// No file.
    None,
    /// Records the exchanges into the file.
    Recorded(Arc<Recorder>, PathBuf),
    /// Answers from the exchanges in the file.
    Replayed(Arc<Replay>, PathBuf),
}

impl Session {
    /// Opens the session of the command line. Connects to a cluster only if a policy may read something.
    ///
    /// # Errors
    /// If the file cannot be read, or there is no cluster.
    pub(super) fn open(
        record: Option<&Path>,
        replay: Option<&Path>,
        reads_cluster: bool,
        assume_service_accounts: bool,
    ) -> anyhow::Result<Self> {
        let mut file = File::None;
        let mut rest: Arc<dyn Cluster> = Arc::new(NoCluster);
        let mut cluster = Arc::clone(&rest);
        if let Some(path) = replay {
            let exchanges = session::load(path)?;
            rest = Arc::new(objects(&exchanges));
            let replay = Arc::new(Replay::new(exchanges));
            cluster = Arc::clone(&replay) as _;
            file = File::Replayed(replay, path.to_owned());
        } else if reads_cluster {
            cluster = Arc::new(Live::infer()?);
            rest = Arc::clone(&cluster);
        }
        let mut accounts = None;
        if assume_service_accounts {
            let assumed = Arc::new(Accounts::new(cluster, Assume::All));
            cluster = Arc::clone(&assumed) as _;
            accounts = Some(Assumed { accounts: assumed, rest });
        }
        if let Some(path) = record {
            let recorder = Arc::new(Recorder::new(cluster));
            cluster = Arc::clone(&recorder) as _;
            file = File::Recorded(recorder, path.to_owned());
        }
        Ok(Self { cluster, accounts, file })
    }

    /// Returns the cluster that the policies ask.
    pub(super) fn cluster(&self) -> Arc<dyn Cluster> {
        Arc::clone(&self.cluster)
    }

    /// Creates the assumed objects that a policy with these settings looks up for the request. Does nothing if none are
    /// assumed, or if the settings belong to another policy.
    pub(super) fn prepare(&self, request: &Value, settings: &Value) {
        let Some(Assumed { accounts, rest }) = &self.accounts else { return };
        if let Some(settings) = Settings::decode(settings.clone()).ok().and_then(|settings| settings.unbundled().ok()) {
            accounts.prepare(request, &settings, rest.as_ref());
        }
    }

    /// Returns the assumptions made since the last call.
    pub(super) fn notes(&self) -> Vec<Note> {
        self.accounts.as_ref().map(|assumed| assumed.accounts.notes()).unwrap_or_default()
    }

    /// Writes the recorded exchanges, or warns of exchanges that were not replayed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn close(self, terminal: &mut Terminal) -> anyhow::Result<()> {
        match self.file {
            File::None => {}
            File::Recorded(recorder, path) => session::save(&path, &recorder.exchanges())?,
            File::Replayed(replay, path) => {
                let left = replay.left_over();
                if let Some(first) = left.first() {
                    terminal.warn(format_args!(
                        "{}: {} of the recorded exchanges have not been replayed, the first is {:?}",
                        path.display(),
                        left.len(),
                        first.question
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Returns the objects in the exchanges of a session.
fn objects(exchanges: &[Exchange]) -> Manifests {
    let shown = exchanges.iter().filter_map(|exchange| match (&exchange.question, &exchange.response) {
        (Question::KubernetesGetResource { .. }, Response::Success { payload }) => json::parse(payload.as_bytes()).ok(),
        _ => None,
    });
    Manifests::new(shown, "", BTreeMap::new())
}
