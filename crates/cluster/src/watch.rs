//! Watches objects of a cluster.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Error};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use serde_json::Value;
use tokio::time::sleep;

use super::kind::Kind;
use super::reader::{Reader, plain};
use super::trouble::Trouble;

/// How long the API server keeps a watch before it begins anew, in seconds. It is shorter than the time after which a
/// connection without answers counts as lost.
const ROUND: u32 = 25;

/// What a watch sees.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An object is there, or has changed.
    Seen(Value),
    /// An object is gone. Its name.
    Gone(String),
    /// The connection is lost, for this reason. The watch tries again.
    Lost(String),
}

/// How a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended<T> {
    /// The caller has seen enough.
    Decided(T),
    /// The time is over.
    TimedOut,
    /// The user interrupted the program.
    Interrupted,
}

impl Reader {
    /// Watches the objects of a kind in no namespace: all, that of one name, or those with these labels, until `see`
    /// returns something, the user interrupts the program, or `limit` is over. Connects again whenever the connection is
    /// lost. The first events are the objects that are there.
    ///
    /// # Errors
    /// [`Trouble`] if the API server does not allow the watch.
    pub fn watch<T>(
        &self,
        kind: Kind<'_>,
        name: Option<&str>,
        labels: Option<&str>,
        limit: Option<Duration>,
        mut see: impl FnMut(Event) -> Option<T>,
    ) -> Result<Ended<T>, Trouble> {
        let mut config = watcher::Config::default().timeout(ROUND);
        if let Some(name) = name {
            config = config.fields(&format!("metadata.name={name}"));
        }
        if let Some(labels) = labels {
            config = config.labels(labels);
        }
        let trouble =
            |error: &kube::Error, verb: &'static str| Trouble::from_kube(error, verb, format!("{}s", kind.1), kind);
        let ended = self.runtime.block_on(async {
            let mut events = pin!(watch(self.api(kind, None), config).default_backoff());
            let mut known = Known::default();
            let mut over = pin!(async {
                match limit {
                    Some(limit) => sleep(limit).await,
                    None => std::future::pending().await,
                }
            });
            let mut interrupted = pin!(tokio::signal::ctrl_c());
            loop {
                let event = tokio::select! {
                    event = events.next() => event,
                    () = &mut over => return Ok(Ended::TimedOut),
                    Ok(()) = &mut interrupted => return Ok(Ended::Interrupted),
                };
                let events = match event {
                    None => return Ok(Ended::TimedOut),
                    Some(Ok(event)) => known.apply(event),
                    Some(Err(Error::InitialListFailed(error))) => lost(&error, trouble(&error, "list"))?,
                    Some(Err(Error::WatchStartFailed(error) | Error::WatchFailed(error))) => {
                        lost(&error, trouble(&error, "watch"))?
                    }
                    // The versions are too old, so the watch lists again.
                    Some(Err(Error::WatchError(_) | Error::NoResourceVersion)) => Vec::new(),
                };
                if let Some(decided) = events.into_iter().find_map(&mut see) {
                    return Ok(Ended::Decided(decided));
                }
            }
        });
        ended.map_err(|trouble| self.note(trouble))
    }
}

/// Returns what an error of a watch tells, or the trouble if trying again cannot help.
fn lost(error: &kube::Error, trouble: Trouble) -> Result<Vec<Event>, Trouble> {
    let is_final = matches!(error, kube::Error::Api(status) if matches!(status.code, 401 | 403 | 404));
    if is_final { Err(trouble) } else { Ok(vec![Event::Lost(trouble.to_string())]) }
}

/// The objects that a watch has seen: their UIDs, by name.
#[derive(Debug, Default)]
struct Known {
    now: BTreeMap<String, String>,
    /// Those of the list that is being read.
    listed: Option<BTreeMap<String, String>>,
}

impl Known {
    /// Returns what an event of the watch tells. An object that was replaced by another one of its name is gone first.
    fn apply(&mut self, event: watcher::Event<DynamicObject>) -> Vec<Event> {
        match event {
            watcher::Event::Init => {
                self.listed = Some(BTreeMap::new());
                Vec::new()
            }
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                let name = object.metadata.name.clone().unwrap_or_default();
                let uid = object.metadata.uid.clone().unwrap_or_default();
                let mut events = Vec::new();
                if self.now.insert(name.clone(), uid.clone()).is_some_and(|before| before != uid) {
                    events.push(Event::Gone(name.clone()));
                }
                if let Some(listed) = &mut self.listed {
                    listed.insert(name, uid);
                }
                events.extend(plain(object).map(Event::Seen));
                events
            }
            watcher::Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let gone =
                    self.now.keys().filter(|name| !listed.contains_key(*name)).cloned().map(Event::Gone).collect();
                self.now = listed;
                gone
            }
            watcher::Event::Delete(object) => {
                let name = object.metadata.name.unwrap_or_default();
                self.now.remove(&name);
                vec![Event::Gone(name)]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};

    use super::*;

    fn object(name: &str, uid: &str) -> DynamicObject {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "uid": uid}});
        serde_json::from_value(object).unwrap()
    }

    /// Returns what the events tell, objects by their names.
    fn names(known: &mut Known, events: Vec<watcher::Event<DynamicObject>>) -> Vec<String> {
        let events = events.into_iter().flat_map(|event| known.apply(event));
        events
            .map(|event| match event {
                Event::Seen(object) => object["metadata"]["name"].as_str().unwrap().to_owned(),
                Event::Gone(name) => format!("no {name}"),
                Event::Lost(why) => why,
            })
            .collect()
    }

    #[test]
    fn objects_that_a_further_list_lacks_are_gone() {
        let mut known = Known::default();
        let first =
            vec![Init, InitApply(object("a", "1")), InitApply(object("b", "2")), InitDone, Apply(object("c", "3"))];
        assert_eq!(names(&mut known, first), ["a", "b", "c"]);
        assert_eq!(names(&mut known, vec![Init, InitApply(object("b", "2")), InitDone]), ["b", "no a", "no c"]);
        assert_eq!(names(&mut known, vec![Delete(object("b", "2"))]), ["no b"]);
    }

    #[test]
    fn an_object_that_was_made_anew_is_gone_first() {
        let mut known = Known::default();
        let events = vec![Init, InitApply(object("a", "1")), InitDone, Init, InitApply(object("a", "2")), InitDone];
        assert_eq!(names(&mut known, events), ["a", "no a", "a"]);
    }
}
