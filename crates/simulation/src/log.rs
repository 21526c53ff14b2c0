//! The changes that watches show.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard, watch};
use tokio::time::{Instant, sleep_until};
use tower::BoxError;

use super::answer::{AnswerBody, Refusal, of_body};
use super::objects::Key;
use super::place::{Place, Text};
use super::request::Selection;

/// How long a watch lasts that names no other time.
const WATCH: Duration = Duration::from_mins(5);
/// How often a watch that asks for bookmarks gets one, as from an API server.
const BOOKMARK: Duration = Duration::from_mins(1);
/// How many bytes of changes of one resource are remembered by default.
const REMEMBERED: usize = 256 << 20;
/// The most changes that one part of a body holds.
const BATCH: usize = 256;

/// The last changes of each resource.
pub(super) struct Log {
    /// How many bytes of changes of one resource are remembered.
    remembered: usize,
    resources: Mutex<BTreeMap<Resource, Recent>>,
    /// Held by the write that is under way: a write reads an object, and then replaces it.
    turn: AsyncMutex<()>,
}

/// Group and resource.
type Resource = (String, String);

/// The last changes of one resource, oldest first.
struct Recent {
    events: VecDeque<Event>,
    bytes: usize,
    /// The version of the newest change that is no longer remembered.
    forgotten: u64,
    /// Wakes the watches of the resource.
    changed: watch::Sender<()>,
}

impl Default for Recent {
    fn default() -> Self {
        Self { events: VecDeque::new(), bytes: 0, forgotten: 0, changed: watch::Sender::new(()) }
    }
}

/// A change of one object.
#[derive(Clone)]
pub(super) struct Event {
    pub(super) version: u64,
    pub(super) key: Key,
    /// The object before; `None` if it is new.
    pub(super) before: Option<Text>,
    /// The object after the change. If it is gone, as it was, with the version of its deletion.
    pub(super) last: Text,
    pub(super) is_gone: bool,
}

/// What a watch asks for.
pub(super) struct Asked {
    pub(super) place: Place,
    pub(super) api_version: String,
    pub(super) selection: Selection,
    /// The version after which the changes are shown.
    pub(super) after: u64,
    pub(super) time: Option<Duration>,
    pub(super) bookmarks: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self::remembering(REMEMBERED)
    }
}

impl Log {
    /// Returns a log that remembers so many bytes of changes of one resource.
    pub(super) fn remembering(remembered: usize) -> Self {
        Self { remembered, resources: Mutex::default(), turn: AsyncMutex::default() }
    }

    /// Waits until no other write is under way.
    pub(super) async fn turn(&self) -> AsyncMutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Adds a change.
    pub(super) fn add(&self, event: Event) {
        let mut resources = self.resources.lock();
        let recent = resources.entry((event.key.group.clone(), event.key.resource.clone())).or_default();
        recent.bytes += event.size();
        recent.events.push_back(event);
        while recent.bytes > self.remembered
            && let Some(oldest) = recent.events.pop_front()
        {
            recent.bytes -= oldest.size();
            recent.forgotten = oldest.version;
        }
        recent.changed.send_replace(());
    }

    /// Returns the changes of a place after a version, at most [`BATCH`], and the version that has been looked at.
    fn after(&self, place: &Place, version: u64) -> Result<(Vec<Event>, u64), Refusal> {
        let resources = self.resources.lock();
        let Some(recent) = resources.get(&(place.group.clone(), place.resource.clone())) else {
            return Ok((Vec::new(), version));
        };
        if version < recent.forgotten {
            return Err(Refusal::expired(version));
        }
        let first = recent.events.partition_point(|event| event.version <= version);
        let (mut found, mut seen) = (Vec::new(), version);
        for event in recent.events.range(first..) {
            if found.len() >= BATCH {
                break;
            }
            seen = event.version;
            if place.has(&event.key) {
                found.push(event.clone());
            }
        }
        Ok((found, seen))
    }

    fn changes(&self, place: &Place) -> watch::Receiver<()> {
        let mut resources = self.resources.lock();
        resources.entry((place.group.clone(), place.resource.clone())).or_default().changed.subscribe()
    }

    /// Answers a watch. `now` returns the newest version of all.
    pub(super) fn watch(
        self: &Arc<Self>,
        asked: Asked,
        now: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Response<AnswerBody> {
        let ends = Instant::now() + asked.time.unwrap_or(WATCH);
        let changed = self.changes(&asked.place);
        let watching = Watching { log: Arc::clone(self), version: asked.after, asked, changed, ends, is_over: false };
        let parts = stream::unfold((watching, now), async |(mut watching, now)| {
            let part = watching.next(&now).await?;
            Some((Ok::<_, BoxError>(Frame::data(part)), (watching, now)))
        });
        of_body(StatusCode::OK, StreamBody::new(parts.boxed()).boxed_unsync())
    }
}

impl Event {
    fn size(&self) -> usize {
        self.last.len()
    }

    /// Returns the line of a watch; `None` if the object neither was nor is selected.
    fn line(&self, selection: &Selection) -> Option<String> {
        let was_there = self.before.as_ref().is_some_and(|before| selection.takes_text(before));
        let is_there = !self.is_gone && selection.takes_text(&self.last);
        let kind = match (was_there, is_there) {
            (false, false) => return None,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        Some(format!("{{\"type\":\"{kind}\",\"object\":{}}}\n", self.last))
    }
}

/// A watch that is under way.
struct Watching {
    log: Arc<Log>,
    asked: Asked,
    version: u64,
    changed: watch::Receiver<()>,
    ends: Instant,
    is_over: bool,
}

impl Watching {
    /// Waits for the next part of the body; `None` at its end.
    async fn next(&mut self, now: &(impl Fn() -> u64 + Sync)) -> Option<Bytes> {
        while !self.is_over {
            self.changed.mark_unchanged();
            // Asked before the changes, so that none of them is passed over.
            let newest = now();
            match self.log.after(&self.asked.place, self.version) {
                Err(refusal) => {
                    self.is_over = true;
                    return Some(format!("{}\n", json!({"type": "ERROR", "object": refusal.status()})).into());
                }
                Ok((_, seen)) if seen == self.version => {}
                Ok((events, seen)) => {
                    self.version = seen;
                    let lines: String = events.iter().filter_map(|event| event.line(&self.asked.selection)).collect();
                    if !lines.is_empty() {
                        return Some(lines.into());
                    }
                    continue;
                }
            }
            let bookmark = Instant::now() + BOOKMARK;
            tokio::select! {
                // First: a bookmark must not pass over a change.
                biased;
                changed = self.changed.changed() => self.is_over = changed.is_err(),
                () = sleep_until(self.ends) => return None,
                () = sleep_until(bookmark), if self.asked.bookmarks => {
                    self.version = self.version.max(newest);
                    return Some(self.bookmark());
                }
            }
        }
        None
    }

    fn bookmark(&self) -> Bytes {
        let object = json!({
            "apiVersion": self.asked.api_version, "kind": "Bookmark",
            "metadata": {"resourceVersion": self.version.to_string(), "name": "", "creationTimestamp": null}, "spec": {}
        });
        format!("{}\n", json!({"type": "BOOKMARK", "object": object})).into()
    }
}
