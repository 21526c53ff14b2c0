//! Who answers the look-ups of the policies, and what becomes of the session.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pillion_admission::settings::Settings;
use pillion_host::session::{self, Exchange, Question, Recorder, Replay, Response};
use pillion_host::{Cluster, Live, NoCluster};
use pillion_kubernetes::json;
use serde_json::Value;

use crate::preview::{Accounts, Assume, Manifests, Note};
use crate::terminal::Terminal;

/// Who answers.
pub(super) struct Session {
    /// What the policies ask.
    cluster: Arc<dyn Cluster>,
    /// What stands between them and the cluster.
    accounts: Option<Assumed>,
    /// What becomes of it.
    file: File,
}

/// ServiceAccounts that are taken to exist.
struct Assumed {
    accounts: Arc<Accounts>,
    /// Everything else that a policy may ask, to be asked in any order.
    rest: Arc<dyn Cluster>,
}

/// The file of a session.
enum File {
    /// There is none.
    None,
    /// What is asked is written down.
    Recorded(Arc<Recorder>, PathBuf),
    /// It answers.
    Replayed(Arc<Replay>, PathBuf),
}

impl Session {
    /// Opens what the command line asks for. A cluster is only looked for where a policy may read something.
    ///
    /// # Errors
    /// Where the file cannot be read, or there is no cluster.
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

    /// Who answers.
    pub(super) fn cluster(&self) -> Arc<dyn Cluster> {
        Arc::clone(&self.cluster)
    }

    /// Makes what a policy with these settings will ask for when it gets the request, where that is assumed. Settings
    /// of another policy need nothing.
    pub(super) fn prepare(&self, request: &Value, settings: &Value) {
        let Some(Assumed { accounts, rest }) = &self.accounts else { return };
        if let Some(settings) = Settings::decode(settings.clone()).ok().and_then(|settings| settings.unbundled().ok()) {
            accounts.prepare(request, &settings, rest.as_ref());
        }
    }

    /// What was assumed since the last call.
    pub(super) fn notes(&self) -> Vec<Note> {
        self.accounts.as_ref().map(|assumed| assumed.accounts.notes()).unwrap_or_default()
    }

    /// Writes what was recorded; says what was not replayed.
    ///
    /// # Errors
    /// Where the file cannot be written.
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

/// The objects that a session shows.
fn objects(exchanges: &[Exchange]) -> Manifests {
    let shown = exchanges.iter().filter_map(|exchange| match (&exchange.question, &exchange.response) {
        (Question::KubernetesGetResource { .. }, Response::Success { payload }) => json::parse(payload.as_bytes()).ok(),
        _ => None,
    });
    Manifests::new(shown, "", BTreeMap::new())
}
