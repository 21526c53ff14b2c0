use std::collections::{BTreeMap, BTreeSet};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::sleep;

use super::*;
use crate::metrics::Metrics;
use crate::rights::{Right, Situation};

/// What the controller under test does and has done.
#[derive(Default)]
struct Board {
    keys: BTreeSet<u8>,
    /// The results of the next reconciliations of each key, the last first. Without any, they succeed.
    results: BTreeMap<u8, Vec<Result<Done, Failure>>>,
    /// The reconciliations: the key, its state before, and the seconds since the start.
    seen: Vec<(u8, u32, u64)>,
    forgotten: Vec<u8>,
    running: BTreeSet<u8>,
}

type Shared = Arc<Mutex<Board>>;

struct Counting {
    board: Shared,
    started: Instant,
}

impl Controller for Counting {
    const NAME: &'static str = "counting";
    const IS_ON_BY_DEFAULT: bool = false;

    type Options = (Shared, Arc<Mutex<Option<Wakes<u8>>>>);
    type Key = u8;
    type KeyState = u32;

    async fn start(_: Context, (board, shared): Self::Options, wakes: Wakes<u8>) -> Self {
        *shared.lock() = Some(wakes);
        Self { board, started: Instant::now() }
    }

    fn keys(&self) -> Vec<u8> {
        self.board.lock().keys.iter().copied().collect()
    }

    fn exists(&self, key: &u8) -> bool {
        self.board.lock().keys.contains(key)
    }

    async fn reconcile(&self, key: &u8, state: &mut u32) -> Result<Done, Failure> {
        assert!(self.board.lock().running.insert(*key), "{key} is reconciled twice at a time");
        let seconds = self.started.elapsed().as_secs();
        self.board.lock().seen.push((*key, *state, seconds));
        *state += 1;
        sleep(Duration::from_millis(300)).await;
        let mut board = self.board.lock();
        board.running.remove(key);
        board.results.get_mut(key).and_then(Vec::pop).unwrap_or(Ok(Done::Settled))
    }

    fn forget(&self, key: &u8) {
        self.board.lock().forgotten.push(*key);
    }

    fn rights(_: &Situation) -> Vec<Right> {
        Vec::new()
    }
}

struct Running {
    board: Shared,
    wakes: Arc<Mutex<Option<Wakes<u8>>>>,
    metrics: Arc<Metrics>,
    _task: tokio::task::JoinSet<()>,
}

impl Running {
    fn start(board: Board) -> Self {
        let (board, wakes) = (Arc::new(Mutex::new(board)), Arc::default());
        let nothing = tower::service_fn(async |_: Request<Body>| Ok::<_, std::io::Error>(Response::new(Body::empty())));
        let context = Context::new(Client::new(nothing, "default"), watch::channel(Arc::default()).1);
        let metrics = Arc::clone(&context.metrics);
        let mut task = tokio::task::JoinSet::new();
        task.spawn(run::<Counting>(context, (Arc::clone(&board), Arc::clone(&wakes))));
        Self { board, wakes, metrics, _task: task }
    }

    fn wake(&self, keys: Keys<u8>) {
        self.wakes.lock().as_ref().expect("a start").wake(keys);
    }

    /// The number of keys that fail, as metrics tell it.
    fn failing(&self) -> Option<String> {
        let text = self.metrics.encoded();
        let mut lines = text.lines();
        lines.find_map(|line| {
            line.strip_prefix("pillion_controller_failing{controller=\"counting\"} ").map(str::to_owned)
        })
    }

    fn seen(&self) -> Vec<(u8, u32, u64)> {
        self.board.lock().seen.clone()
    }
}

fn board(keys: &[u8]) -> Board {
    Board { keys: keys.iter().copied().collect(), ..Board::default() }
}

async fn wait(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn every_key_is_reconciled_at_the_start_and_then_those_that_are_woken() {
    let running = Running::start(board(&[1, 2]));
    wait(5).await;
    let mut first = running.seen();
    first.sort_unstable();
    assert_eq!(first, [(1, 0, 0), (2, 0, 0)]);
    for _ in 0..3 {
        running.wake(Keys::One(2));
    }
    wait(5).await;
    assert_eq!(running.seen().get(2..), Some(&[(2, 1, 5)][..]), "a burst is one reconciliation");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_goes_takes_its_state_with_it() {
    let running = Running::start(board(&[1]));
    wait(5).await;
    running.board.lock().keys.clear();
    running.wake(Keys::One(1));
    wait(5).await;
    assert_eq!(running.board.lock().forgotten, [1]);
    running.board.lock().keys.insert(1);
    running.wake(Keys::All);
    wait(5).await;
    assert_eq!(running.seen(), [(1, 0, 0), (1, 0, 10)], "it has a new state");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_goes_while_it_is_reconciled_is_forgotten() {
    let running = Running::start(board(&[1]));
    sleep(Duration::from_millis(250)).await;
    assert_eq!(running.seen().len(), 1);
    running.board.lock().results = BTreeMap::from([(1, vec![Err(Failure::new("no"))])]);
    running.board.lock().keys.clear();
    wait(1).await;
    assert_eq!(running.failing().as_deref(), Some("0"), "it fails no longer");
    assert_eq!(running.board.lock().forgotten, [1]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_retried_with_growing_delays_and_the_others_go_on() {
    let failure = || Err(Failure::new("no"));
    let results = BTreeMap::from([(1, vec![failure(), failure(), failure()])]);
    let running = Running::start(Board { results, ..board(&[1, 2]) });
    wait(1).await;
    assert_eq!(running.failing().as_deref(), Some("1"));
    wait(59).await;
    assert_eq!(running.failing().as_deref(), Some("0"));
    let seen = running.seen();
    let times: Vec<u64> = seen.iter().filter(|(key, ..)| *key == 1).map(|(_, _, seconds)| *seconds).collect();
    assert_eq!(times.len(), 4, "{times:?}");
    let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[0] >= 1 && pauses[1] >= 2 && pauses[2] >= 4 && pauses[2] <= 6, "{pauses:?}");
    assert_eq!(seen.iter().filter(|(key, ..)| *key == 2).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_api_server_says_when_to_come_back_and_no_change_comes_sooner() {
    let failure = Failure { retry_after: Some(Duration::from_secs(30)), ..Failure::new("too many requests") };
    let results = BTreeMap::from([(1, vec![Err(failure)])]);
    let running = Running::start(Board { results, ..board(&[1]) });
    wait(5).await;
    running.wake(Keys::One(1));
    wait(60).await;
    let times: Vec<u64> = running.seen().iter().map(|(_, _, seconds)| *seconds).collect();
    assert_eq!(times.len(), 2, "{times:?}");
    assert!(times[1] >= 30, "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_key_is_looked_at_again_when_it_asks_for_that() {
    let results = BTreeMap::from([(1, vec![Ok(Done::LookAgain(Duration::from_secs(20)))])]);
    let running = Running::start(Board { results, ..board(&[1]) });
    wait(19).await;
    assert_eq!(running.seen().len(), 1);
    wait(5).await;
    assert_eq!(running.seen().len(), 2);
    wait(100).await;
    assert_eq!(running.seen().len(), 2, "it asked once");
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_reconciliation_is_not_lost() {
    let running = Running::start(board(&[1]));
    sleep(Duration::from_millis(250)).await;
    assert_eq!(running.seen().len(), 1);
    running.wake(Keys::One(1));
    wait(5).await;
    assert_eq!(running.seen().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_changes_all_the_time_is_reconciled_all_the_same() {
    let running = Running::start(board(&[1]));
    wait(5).await;
    for _ in 0..100 {
        running.wake(Keys::One(1));
        sleep(Duration::from_millis(50)).await;
    }
    let during = running.seen().len() - 1;
    assert!((10..=17).contains(&during), "{during} in five seconds, each of 300 ms");
}
