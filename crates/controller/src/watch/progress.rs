//! How far watches have come: for those who wait for one, and for readiness.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// How long a failed watch is taken for failed when nothing more is heard of it. It is tried again within a minute, and
/// one that works again says so only when something changes.
const FRESH: Duration = Duration::from_mins(2);

/// How far one has come. Its copies are the same.
#[derive(Clone, Debug)]
pub struct Progress(Arc<State>);

#[derive(Debug)]
struct State {
    is_complete: watch::Sender<bool>,
    problem: Mutex<Option<Problem>>,
}

#[derive(Debug)]
struct Problem {
    text: String,
    /// When it is taken for over; `None` where somebody will say.
    ends: Option<Instant>,
}

impl Default for Progress {
    fn default() -> Self {
        Self(Arc::new(State { is_complete: watch::Sender::new(false), problem: Mutex::default() }))
    }
}

impl Progress {
    /// Whether everything was seen once: before that, nothing may be concluded from what is not there.
    pub fn is_complete(&self) -> bool {
        *self.0.is_complete.borrow()
    }

    /// Waits until everything was seen once.
    pub async fn complete(&self) {
        // It can only fail without a sender, which is here.
        let _ = self.0.is_complete.subscribe().wait_for(|is_complete| *is_complete).await;
    }

    /// Why nothing is seen, where that is known.
    pub fn problem(&self) -> Option<String> {
        let problem = self.lock();
        let problem = problem.as_ref().filter(|problem| problem.ends.is_none_or(|ends| Instant::now() < ends));
        problem.map(|problem| problem.text.clone())
    }

    /// Everything was seen.
    pub fn done(&self) {
        self.works();
        self.0.is_complete.send_replace(true);
    }

    /// Nothing is wrong any more.
    pub(super) fn works(&self) {
        *self.lock() = None;
    }

    /// Nothing is seen until somebody says that it is.
    pub fn fail(&self, text: String) {
        *self.lock() = Some(Problem { text, ends: None });
    }

    /// Nothing is seen, which will be said again soon for as long as it is so.
    pub(super) fn fail_for_now(&self, text: String) {
        *self.lock() = Some(Problem { text, ends: Some(Instant::now() + FRESH) });
    }

    fn lock(&self) -> MutexGuard<'_, Option<Problem>> {
        self.0.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is to be seen before a process is ready.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    /// What it is, for people.
    name: String,
    is_one_of_many: bool,
    /// Gone where nobody watches it any more.
    progress: Weak<State>,
}

/// What keeps a process from being ready, and what should be known of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// With one of these it is not ready.
    pub problems: Vec<String>,
    /// These do not count.
    pub remarks: Vec<String>,
}

impl Registry {
    /// For as long as somebody keeps this progress. What `is_one_of_many` is told, and does not count.
    pub(super) fn add(&self, name: String, is_one_of_many: bool, progress: &Progress) {
        let mut entries = self.lock();
        entries.retain(|entry| entry.progress.strong_count() > 0);
        entries.push(Entry { name, is_one_of_many, progress: Arc::downgrade(&progress.0) });
    }

    /// What there is to say now.
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

    /// Those that show nothing, whether they count or not.
    pub(super) fn failures(&self) -> Vec<String> {
        let failure = |entry: &Entry| {
            let problem = entry.progress.upgrade().map(Progress)?.problem()?;
            Some(format!("{}: {problem}", entry.name))
        };
        self.lock().iter().filter_map(failure).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// A watch that goes on after an interruption says nothing before something changes.
    #[tokio::test(start_paused = true)]
    async fn a_failure_that_is_not_heard_of_again_is_over() {
        let progress = Progress::default();
        progress.fail_for_now("connection reset".to_owned());
        tokio::time::advance(FRESH / 2).await;
        assert_eq!(progress.problem().as_deref(), Some("connection reset"));

        progress.fail_for_now("connection refused".to_owned());
        tokio::time::advance(FRESH / 2).await;
        assert_eq!(progress.problem().as_deref(), Some("connection refused"));

        tokio::time::advance(FRESH / 2).await;
        assert_eq!(progress.problem(), None);
    }
}
