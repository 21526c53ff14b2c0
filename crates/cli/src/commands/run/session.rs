//! Who answers the look-ups of the policies, and what becomes of the session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pillion_host::session::{self, Recorder, Replay};
use pillion_host::{Cluster, Live, NoCluster};

use crate::terminal::Terminal;

/// Who answers.
pub(super) enum Session {
    /// The cluster, where there is something to read in it.
    Direct(Arc<dyn Cluster>),
    /// The same, and it is written down.
    Recorded(Arc<Recorder>, PathBuf),
    /// A file.
    Replayed(Arc<Replay>, PathBuf),
}

impl Session {
    /// Opens what the command line asks for. A cluster is only looked for where a policy may read something.
    ///
    /// # Errors
    /// Where the file cannot be read, or there is no cluster.
    pub(super) fn open(record: Option<&Path>, replay: Option<&Path>, reads_cluster: bool) -> anyhow::Result<Self> {
        if let Some(path) = replay {
            return Ok(Self::Replayed(Arc::new(Replay::new(session::load(path)?)), path.to_owned()));
        }
        let cluster: Arc<dyn Cluster> = if reads_cluster { Arc::new(Live::infer()?) } else { Arc::new(NoCluster) };
        Ok(match record {
            Some(path) => Self::Recorded(Arc::new(Recorder::new(cluster)), path.to_owned()),
            None => Self::Direct(cluster),
        })
    }

    /// Who answers.
    pub(super) fn cluster(&self) -> Arc<dyn Cluster> {
        match self {
            Self::Direct(cluster) => Arc::clone(cluster),
            Self::Recorded(recorder, _) => Arc::clone(recorder) as Arc<dyn Cluster>,
            Self::Replayed(replay, _) => Arc::clone(replay) as Arc<dyn Cluster>,
        }
    }

    /// Writes what was recorded; says what was not replayed.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub(super) fn close(self, terminal: &mut Terminal) -> anyhow::Result<()> {
        match self {
            Self::Direct(_) => {}
            Self::Recorded(recorder, path) => session::save(&path, &recorder.exchanges())?,
            Self::Replayed(replay, path) => {
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
