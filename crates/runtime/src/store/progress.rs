//! The progress of watches, for code that waits for one and for readiness.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a failure of a watch counts after its next attempt, if that does not fail, too: a watch that works again reports
/// only changes. The API server answers an attempt at once, or the Lease is lost by then.
const TRIED: Duration = Duration::from_secs(15);

/// Progress of one watch. Clones share state.
#[derive(Clone, Debug)]
pub struct Progress(Arc<ProgressState>);

#[derive(Debug)]
struct ProgressState {
    is_complete: watch::Sender<bool>,
    problem: Mutex<Option<WatchFailure>>,
    /// The last sign of life.
    alive: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct WatchFailure {
    text: String,
    /// When the failure stops counting; `None` if it counts until success is reported.
    ends: Option<Instant>,
    /// What the log says when success is reported; `None` if it does not have the failure either.
    told: Option<String>,
}

impl Default for Progress {
    fn default() -> Self {
        Self(Arc::new(ProgressState {
            is_complete: watch::Sender::new(false),
            problem: Mutex::default(),
            alive: Mutex::default(),
        }))
    }
}

impl Progress {
    /// Whether everything was listed once. Before that, the absence of an object proves nothing.
    pub fn is_complete(&self) -> bool {
        *self.0.is_complete.borrow()
    }

    /// Waits until everything was listed once.
    pub async fn complete(&self) {
        // This fails only if the sender is dropped, and `self` holds the sender.
        let _ = self.0.is_complete.subscribe().wait_for(|is_complete| *is_complete).await;
    }

    /// Returns why the watch shows nothing, if known.
    pub fn problem(&self) -> Option<String> {
        let problem = self.lock();
        let problem = problem.as_ref().filter(|problem| problem.ends.is_none_or(|ends| Instant::now() < ends));
        problem.map(|problem| problem.text.clone())
    }

    /// Reports that everything was listed.
    pub fn done(&self) {
        self.works();
        self.0.is_complete.send_replace(true);
    }

    /// Returns the time since the last sign of life: everything that changed before that is seen. `None` before the first
    /// list. If the client does not listen for signs of life ([`listening`](super::listening)), only lists are.
    pub fn age(&self) -> Option<Duration> {
        self.0.alive.lock().map(|alive| alive.elapsed())
    }

    /// Whether there was a sign of life after this.
    pub(super) fn is_alive_since(&self, at: Instant) -> bool {
        self.0.alive.lock().is_some_and(|alive| alive > at)
    }

    /// Reports that everything that changed before this is seen.
    pub fn alive(&self, at: Instant) {
        let mut alive = self.0.alive.lock();
        *alive = alive.max(Some(at));
    }

    /// Reports that the watch works again.
    pub(super) fn works(&self) {
        let failure = self.lock().take();
        if let Some(told) = failure.and_then(|failure| failure.told) {
            tracing::info!("{told}");
        }
    }

    /// Reports a failure that lasts until success is reported.
    pub fn fail(&self, text: String) {
        *self.lock() = Some(WatchFailure { text, ends: None, told: None });
    }

    /// Reports a failure that lasts until success is reported. The log gets it once, with this warning, and only if it
    /// follows another failure or `lasts`: connections break every day. Success is then told, too.
    pub fn fail_told(&self, text: String, lasts: bool, warning: &str, success: String) {
        let mut problem = self.lock();
        let lasts = lasts || problem.is_some();
        if lasts && !problem.as_ref().is_some_and(|known| known.told.is_some() && known.text == text) {
            tracing::warn!("{warning}");
        }
        *problem = Some(WatchFailure { text, ends: None, told: lasts.then_some(success) });
    }

    /// Reports a failure before the next attempt, which fails, too, if it lasts.
    pub(super) fn fail_for_now(&self, text: String, next_attempt: Duration) {
        *self.lock() = Some(WatchFailure { text, ends: Some(Instant::now() + next_attempt + TRIED), told: None });
    }

    fn lock(&self) -> MutexGuard<'_, Option<WatchFailure>> {
        self.0.problem.lock()
    }
}

/// The watches that must be complete before the process is ready.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    /// The name of the watch, for people.
    name: String,
    is_one_of_many: bool,
    /// Dangling once the watch is dropped.
    progress: Weak<ProgressState>,
}

/// The reasons why a process is not ready, and further remarks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Problems. With any of them, the process is not ready.
    pub problems: Vec<String>,
    /// Remarks. They do not affect readiness.
    pub remarks: Vec<String>,
}

impl Registry {
    /// Adds a watch, which counts until its progress is dropped. A problem with a watch that `is_one_of_many` is only a
    /// remark.
    pub(super) fn add(&self, name: String, is_one_of_many: bool, progress: &Progress) {
        let mut entries = self.lock();
        entries.retain(|entry| entry.progress.strong_count() > 0);
        entries.push(Entry { name, is_one_of_many, progress: Arc::downgrade(&progress.0) });
    }

    /// Returns the current report.
    pub(super) fn report(&self) -> Report {
        let mut report = Report::default();
        for Entry { name, is_one_of_many, progress } in &*self.lock() {
            let Some(progress) = progress.upgrade().map(Progress) else { continue };
            let problem = match progress.problem() {
                Some(problem) => format!("{name}: {problem}"),
                None if progress.is_complete() => continue,
                None => format!("{name}: not seen yet"),
            };
            if *is_one_of_many { &mut report.remarks } else { &mut report.problems }.push(problem);
        }
        report
    }

    /// Returns the watches that have failed, including those that do not affect readiness.
    pub(super) fn failures(&self) -> Vec<String> {
        let failure = |entry: &Entry| {
            let problem = entry.progress.upgrade().map(Progress)?.problem()?;
            Some(format!("{}: {problem}", entry.name))
        };
        self.lock().iter().filter_map(failure).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(problems: &[&str], remarks: &[&str]) -> Report {
        let all = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Report { problems: all(problems), remarks: all(remarks) }
    }

    #[test]
    fn what_is_not_seen_or_cannot_be_counts_until_it_is() {
        let (registry, progress) = (Registry::default(), Progress::default());
        registry.add("one: Role".to_owned(), false, &progress);
        assert_eq!(registry.report(), report(&["one: Role: not seen yet"], &[]));
        assert_eq!(registry.failures(), [""; 0]);

        progress.fail("forbidden".to_owned());
        assert_eq!(registry.report(), report(&["one: Role: forbidden"], &[]));

        progress.done();
        assert_eq!(registry.report(), Report::default());
        assert!(progress.is_complete());

        progress.fail("forbidden".to_owned());
        assert_eq!(registry.report(), report(&["one: Role: forbidden"], &[]), "seen once, and not any more");
    }

    #[test]
    fn one_of_many_is_told_and_does_not_count() {
        let (registry, progress) = (Registry::default(), Progress::default());
        registry.add("Secret of \"shop\"".to_owned(), true, &progress);
        progress.fail("forbidden".to_owned());
        assert_eq!(registry.report(), report(&[], &["Secret of \"shop\": forbidden"]));
        assert_eq!(registry.failures(), ["Secret of \"shop\": forbidden"]);
    }

    #[test]
    fn what_nobody_watches_any_more_does_not_count() {
        let (registry, progress) = (Registry::default(), Progress::default());
        registry.add("one: Role".to_owned(), false, &progress);
        drop(progress);
        assert_eq!(registry.report(), Report::default());
    }

    #[test]
    fn a_failure_is_told_once_and_only_if_it_lasts() {
        let progress = Progress::default();
        let fail = |text: &str, lasts| {
            progress.fail_told(text.to_owned(), lasts, &format!("not watched: {text}"), "watched again".to_owned());
            progress.lock().as_ref().map(|failure| (failure.text.clone(), failure.told.is_some()))
        };
        let shown = |text: &str, told| Some((text.to_owned(), told));
        assert_eq!(fail("connection reset", false), shown("connection reset", false));
        assert_eq!(fail("connection refused", false), shown("connection refused", true), "it failed again");
        progress.works();
        assert_eq!(progress.problem(), None);
        assert_eq!(fail("connection reset", false), shown("connection reset", false), "another one");
        progress.done();
        assert_eq!(fail("forbidden", true), shown("forbidden", true));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_sign_of_life_counts() {
        let (progress, start) = (Progress::default(), Instant::now());
        assert_eq!(progress.age(), None);
        tokio::time::advance(Duration::from_secs(5)).await;
        progress.alive(start + Duration::from_secs(2));
        progress.alive(start + Duration::from_secs(1));
        assert_eq!(progress.age(), Some(Duration::from_secs(3)));
        assert!(progress.is_alive_since(start) && !progress.is_alive_since(start + Duration::from_secs(2)));
    }

    /// A watch that resumes after an interruption reports nothing until something changes.
    #[tokio::test(start_paused = true)]
    async fn a_failure_that_is_not_heard_of_again_is_over() {
        let (progress, delay) = (Progress::default(), Duration::from_secs(30));
        progress.fail_for_now("connection reset".to_owned(), delay);
        tokio::time::advance(delay).await;
        assert_eq!(progress.problem().as_deref(), Some("connection reset"));

        progress.fail_for_now("connection refused".to_owned(), delay);
        tokio::time::advance(delay).await;
        assert_eq!(progress.problem().as_deref(), Some("connection refused"));

        tokio::time::advance(TRIED).await;
        assert_eq!(progress.problem(), None);
    }
}
