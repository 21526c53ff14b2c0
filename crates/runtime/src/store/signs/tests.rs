//! A table is never older than its age says, whatever an API server and the network do.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, ResourceExt as _};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::super::resource;
use super::super::table::Table;
use super::super::watch::{Watch, keep};
use super::*;

const BOUND: Duration = Duration::from_secs(3);
/// How often the table is compared with the API server.
const LOOK: Duration = Duration::from_millis(10);
const NAMES: [&str; 3] = ["a", "b", "c"];

type Pieces = BoxStream<'static, Result<Frame<Bytes>, io::Error>>;

/// An API server with three objects at most. The value of an object is its version.
#[derive(Default)]
struct Server {
    state: Mutex<ServerState>,
    changed: Notify,
}

#[derive(Default)]
struct ServerState {
    version: u32,
    objects: BTreeMap<&'static str, u32>,
    /// Version and line of each event.
    events: Vec<(u32, String)>,
    /// When each object got which value; `None`: it was deleted.
    history: Vec<(Instant, &'static str, Option<u32>)>,
    /// Objects of lists that are under way.
    snapshots: Vec<(u32, Vec<Value>)>,
    /// Watches from versions before this one are told to list again.
    forgotten: u32,
    /// Decides what goes wrong; 0 is nothing.
    chances: VecDeque<u8>,
}

fn object(name: &str, version: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": name, "resourceVersion": version.to_string()}, "value": version})
}

fn answer_of(code: u16, body: Pieces) -> Response<StreamBody<Pieces>> {
    Response::builder().status(code).body(StreamBody::new(body)).unwrap()
}

/// A body whose end comes late.
fn whole_body(body: &Value) -> Pieces {
    let line = Ok(Frame::data(Bytes::from(format!("{body}\n"))));
    let end = stream::once(sleep(Duration::from_millis(200))).filter_map(async |()| None);
    stream::iter([line]).chain(end).boxed()
}

fn failure(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no", "reason": "No", "code": code})
}

impl Server {
    fn chance(&self, of: u8) -> u8 {
        let mut state = self.state.lock();
        let Some(chance) = state.chances.pop_front() else { return 0 };
        chance % of
    }

    /// Changes an object, or deletes it.
    fn change(&self, name: &'static str, deletes: bool) {
        let mut state = self.state.lock();
        if deletes && !state.objects.contains_key(name) {
            return;
        }
        state.version += 1;
        let version = state.version;
        let known = if deletes { state.objects.remove(name) } else { state.objects.insert(name, version) };
        let kind = match (deletes, known) {
            (true, _) => "DELETED",
            (false, None) => "ADDED",
            (false, Some(_)) => "MODIFIED",
        };
        let line = format!("{}\n", json!({"type": kind, "object": object(name, version)}));
        state.events.push((version, line));
        state.history.push((Instant::now(), name, (!deletes).then_some(version)));
        drop(state);
        self.changed.notify_waiters();
    }

    async fn answer(self: Arc<Self>, request: Request<Body>) -> Result<Response<StreamBody<Pieces>>, io::Error> {
        sleep(Duration::from_millis([0, 0, 20, 400][usize::from(self.chance(4))])).await;
        match self.chance(12) {
            9 => return Err(io::ErrorKind::ConnectionReset.into()),
            10 => return Ok(answer_of(403, whole_body(&failure(403)))),
            11 => std::future::pending().await,
            _ => {}
        }
        let query = request.uri().query().unwrap_or_default();
        let of = |key: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.filter(|(known, _)| *known == key).map(|(_, value)| value.to_owned()).next()
        };
        if of("watch").is_some() {
            let from: u32 = of("resourceVersion").unwrap().parse().unwrap();
            let period = Duration::from_secs(of("timeoutSeconds").unwrap().parse().unwrap());
            if from < self.state.lock().forgotten && self.chance(2) == 1 {
                return Ok(answer_of(410, whole_body(&failure(410))));
            }
            let opened = Opened { from, end: Instant::now() + period, is_new: true, rest: String::new(), over: false };
            return Ok(answer_of(200, self.watch(opened)));
        }
        Ok(answer_of(200, whole_body(&self.list(of("continue").as_deref()))))
    }

    /// Lists one object a page, as they were when the first page was asked for.
    fn list(&self, next: Option<&str>) -> Value {
        let mut state = self.state.lock();
        let (list, page) = if let Some((list, page)) = next.and_then(|next| next.split_once('.')) {
            (list.parse::<usize>().unwrap(), page.parse::<usize>().unwrap())
        } else {
            let objects = state.objects.iter().map(|(name, version)| object(name, *version)).collect();
            let snapshot = (state.version, objects);
            state.snapshots.push(snapshot);
            (state.snapshots.len() - 1, 0)
        };
        let (version, objects) = &state.snapshots[list];
        let more = (page + 1 < objects.len()).then(|| format!("{list}.{}", page + 1));
        let metadata = json!({"resourceVersion": version.to_string(), "continue": more});
        json!({"apiVersion": "v1", "kind": "ThingList", "metadata": metadata, "items": objects.get(page).into_iter().collect::<Vec<_>>()})
    }

    fn watch(self: Arc<Self>, opened: Opened) -> Pieces {
        let pieces = stream::unfold((self, opened), |(server, mut opened)| async move {
            let pieces = server.next(&mut opened).await?;
            Some((stream::iter(pieces), (server, opened)))
        });
        pieces.flatten().map_ok(|text: String| Frame::data(Bytes::from(text))).boxed()
    }

    /// Returns the next pieces of a watch, which arrive together.
    async fn next(&self, opened: &mut Opened) -> Option<Vec<Result<String, io::Error>>> {
        if opened.over {
            return None;
        }
        loop {
            let changed = self.changed.notified();
            if opened.from < self.state.lock().forgotten {
                opened.over = true;
                return Some(vec![Ok(format!("{}\n", json!({"type": "ERROR", "object": failure(410)})))]);
            }
            let stalls = !opened.is_new && self.chance(6) == 5;
            let late = opened.is_new && self.chance(3) == 2;
            sleep(Duration::from_millis(if stalls {
                500
            } else if late {
                20
            } else {
                0
            }))
            .await;
            let mut text = std::mem::take(&mut opened.rest);
            for (version, line) in &self.state.lock().events {
                if *version > opened.from {
                    opened.from = *version;
                    text.push_str(line);
                }
            }
            let is_new = std::mem::take(&mut opened.is_new);
            if !text.is_empty() {
                let middle = text.len() / 2;
                match if is_new { 0 } else { self.chance(8) } {
                    4 => {
                        // The end of a line comes with what happens next.
                        opened.rest = text.split_off(text.len() - 4);
                        return Some(vec![Ok(text)]);
                    }
                    5 | 6 => {
                        let second = text.split_off(middle);
                        return Some(vec![Ok(text), Ok(second)]);
                    }
                    7 => {
                        opened.over = true;
                        return Some(vec![Ok(text), Err(io::ErrorKind::ConnectionReset.into())]);
                    }
                    _ => return Some(vec![Ok(text)]),
                }
            }
            tokio::select! {
                () = changed => {}
                () = sleep_until(opened.end) => {
                    if self.state.lock().version > opened.from {
                        continue;
                    }
                    opened.over = true;
                    match self.chance(6) {
                        3 => return None,
                        4 => std::future::pending().await,
                        5 => {
                            let mut state = self.state.lock();
                            state.forgotten = state.version;
                        }
                        _ => {}
                    }
                    let version = opened.from.to_string();
                    let mark = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"resourceVersion": version}});
                    return Some(vec![Ok(format!("{}\n", json!({"type": "BOOKMARK", "object": mark})))]);
                }
            }
        }
    }

    /// Checks that an object in the table is as it was at this time or later.
    fn check(&self, table: &Table<u32>, at: Instant) -> TestCaseResult {
        let state = self.state.lock();
        for name in NAMES {
            let known = table.get("", name).as_deref().copied();
            let states = state.history.iter().filter(|(_, of, _)| *of == name);
            let before = states.clone().rfind(|(when, ..)| *when < at).map(|(_, _, value)| *value);
            let mut since = states.filter(|(when, ..)| *when >= at).map(|(_, _, value)| *value);
            let is_right = known == before.flatten() || since.any(|value| value == known);
            prop_assert!(is_right, "{name} is {known:?}; {:?} ago it was {before:?}", at.elapsed());
        }
        Ok(())
    }
}

/// An open watch.
struct Opened {
    from: u32,
    end: Instant,
    is_new: bool,
    /// The end of a piece that was cut.
    rest: String,
    over: bool,
}

/// Changes the objects at these times, and looks at the table all the time.
async fn run(chances: Vec<u8>, steps: Vec<(u64, u8)>) -> TestCaseResult {
    let server = Arc::new(Server::default());
    {
        let mut state = server.state.lock();
        (state.version, state.chances) = (1, chances.into());
    }
    let service = {
        let server = Arc::clone(&server);
        service_fn(move |request| Arc::clone(&server).answer(request))
    };
    let table = Arc::new(Table::<u32>::default());
    let client = listening(Client::new(service, "default"), table.progress().clone());
    let thing: ApiResource = resource("v1", "Thing");
    let watch = Watch::new(Api::<DynamicObject>::all_with(client, &thing), "Thing").max_staleness(BOUND);
    let task = tokio::spawn(keep(watch, Arc::clone(&table), |object: DynamicObject| {
        object.resource_version().and_then(|version| version.parse().ok())
    }));
    let check = || table.progress().age().map_or(Ok(()), |age| server.check(&table, Instant::now() - age));
    let look_for = async |time: Duration, pause: Duration| {
        let until = Instant::now() + time;
        while Instant::now() < until {
            check()?;
            sleep(pause).await;
        }
        Ok::<(), TestCaseError>(())
    };
    for (pause, what) in steps {
        look_for(Duration::from_millis(pause), LOOK).await?;
        server.change(NAMES[usize::from(what) % NAMES.len()], what % 5 == 4);
    }
    // Nothing goes wrong any more: it recovers, and then stays fresh.
    server.state.lock().chances.clear();
    look_for(Duration::from_mins(2), LOOK * 50).await?;
    let end = Instant::now() + BOUND * 3;
    while Instant::now() < end {
        let age = table.progress().age();
        prop_assert!(age.is_some_and(|age| age <= BOUND), "{age:?}");
        prop_assert_eq!(table.problem(), None);
        sleep(LOOK).await;
    }
    server.check(&table, Instant::now())?;
    task.abort();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_table_is_never_older_than_its_age(
        chances in prop::collection::vec(any::<u8>(), 0..600),
        steps in prop::collection::vec((prop_oneof![0_u64..30, 0_u64..2_000], any::<u8>()), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run(chances, steps))?;
    }
}
