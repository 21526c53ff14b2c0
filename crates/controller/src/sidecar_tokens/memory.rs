//! Remembers the attempts for each account. So no write is repeated before the watch has shown its result, failures are
//! retried with growing delays, and each trouble is reported once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pillion_plan::Step;
use pillion_plan::sidecar_tokens::{Move, Why};
use tokio::time::Instant;

use crate::queue::BACKOFF;

/// How long the watch may take to show a write.
const LAG: Duration = Duration::from_secs(10);
/// The delay if the live object differs from what the watch has shown.
const NOT_SEEN_YET: Duration = Duration::from_secs(2);
/// The minimum interval between repairs of a Secret that others delete or empty.
const REPAIR: Duration = Duration::from_secs(5);
/// The delay if a Pod mounts a Secret that was to be deleted.
const IN_USE: Duration = Duration::from_secs(30);
/// The interval between checks for a foreign Secret whose own watch has not shown that it is gone.
const FOREIGN: Duration = Duration::from_mins(5);

/// An attempt that is about to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// The observed `resourceVersion` of the Secret; `None` if there is no Secret.
    version: Option<String>,
    /// Whether the attempt may undo a change by others.
    is_repair: bool,
}

impl Attempt {
    pub(super) fn of(what: &Move) -> Self {
        let version = match what {
            Move::Mint { secret, .. } | Move::Collect(secret) => Some(secret.resource_version.clone()),
            Move::Write(Step::Patch { resource_version, .. } | Step::Delete { resource_version, .. }) => {
                resource_version.clone()
            }
            Move::Create { .. } | Move::Write(Step::Create(_) | Step::Apply(_)) => None,
        };
        let is_repair = matches!(what, Move::Create { .. } | Move::Mint { why: Why::Empty | Why::Edited, .. });
        Self { version, is_repair }
    }

    /// Whether the attempt creates a Secret.
    fn is_create(&self) -> bool {
        self.version.is_none()
    }
}

#[derive(Debug, Default)]
struct Entry {
    /// The version that the last write was based on, and the time of that write.
    wrote: Option<(Option<String>, Instant)>,
    /// When a token was last written.
    filled: Option<Instant>,
    failures: u32,
    not_before: Option<Instant>,
    /// Before this time no Secret is created, because a foreign Secret has the name.
    foreign: Option<Instant>,
    told: Option<String>,
}

/// The entries, by namespace and account.
#[derive(Debug, Default)]
pub(super) struct Memory(BTreeMap<String, BTreeMap<String, Entry>>);

impl Memory {
    /// Checks whether an attempt may start now.
    ///
    /// # Errors
    /// The time to wait.
    pub(super) fn may(&self, namespace: &str, account: &str, attempt: &Attempt, now: Instant) -> Result<(), Duration> {
        let Some(entry) = self.0.get(namespace).and_then(|accounts| accounts.get(account)) else { return Ok(()) };
        let seen_at = entry.wrote.as_ref().filter(|(version, _)| *version == attempt.version).map(|(_, at)| *at + LAG);
        let repaired = entry.filled.filter(|_| attempt.is_repair).map(|at| at + REPAIR);
        let foreign = entry.foreign.filter(|_| attempt.is_create());
        match entry.not_before.max(seen_at).max(repaired).max(foreign).filter(|time| *time > now) {
            // The watch announces the written Secret earlier. This delay covers the case that the Secret has changed
            // since.
            Some(time) => Err(time - now),
            None => Ok(()),
        }
    }

    /// Records that an attempt was carried out; `is_filled` tells whether it wrote a token.
    pub(super) fn wrote(&mut self, namespace: &str, account: &str, attempt: Attempt, is_filled: bool, now: Instant) {
        let entry = self.entry(namespace, account);
        entry.wrote = Some((attempt.version, now));
        if is_filled {
            entry.filled = Some(now);
        }
        (entry.failures, entry.not_before, entry.foreign, entry.told) = (0, None, None, None);
    }

    /// Records a failure. Returns the time to wait.
    pub(super) fn failed(&mut self, namespace: &str, account: &str, now: Instant) -> Duration {
        let entry = self.entry(namespace, account);
        let delay = BACKOFF.after(entry.failures);
        entry.failures = entry.failures.saturating_add(1);
        entry.not_before = Some(now + delay);
        delay
    }

    /// Records that the live object differs from what the watch has shown. Returns the time to wait.
    pub(super) fn not_seen_yet(&mut self, namespace: &str, account: &str, now: Instant) -> Duration {
        self.hold(namespace, account, NOT_SEEN_YET, now)
    }

    /// Records that a Pod mounts a Secret that was to be deleted. Returns the time to wait.
    pub(super) fn in_use(&mut self, namespace: &str, account: &str, now: Instant) -> Duration {
        self.hold(namespace, account, IN_USE, now)
    }

    /// Records that a foreign Secret has the name. Returns the time to wait.
    pub(super) fn foreign(&mut self, namespace: &str, account: &str, now: Instant) -> Duration {
        self.entry(namespace, account).foreign = Some(now + FOREIGN);
        FOREIGN
    }

    /// Records that the foreign Secret is gone.
    pub(super) fn free(&mut self, namespace: &str, account: &str) {
        self.entry(namespace, account).foreign = None;
    }

    fn hold(&mut self, namespace: &str, account: &str, delay: Duration, now: Instant) -> Duration {
        self.entry(namespace, account).not_before = Some(now + delay);
        delay
    }

    /// Records a note to people. Returns whether it differs from the last one.
    pub(super) fn tell(&mut self, namespace: &str, account: &str, note: &str) -> bool {
        let told = &mut self.entry(namespace, account).told;
        let is_new = told.as_deref() != Some(note);
        *told = Some(note.to_owned());
        is_new
    }

    /// Drops the entries of all accounts of a namespace other than `all`, and the last notes of accounts that are not
    /// `ailing`.
    pub(super) fn settle(&mut self, namespace: &str, all: &BTreeSet<&str>, ailing: &BTreeSet<&str>) {
        let Some(accounts) = self.0.get_mut(namespace) else { return };
        accounts.retain(|account, entry| {
            if !ailing.contains(account.as_str()) {
                entry.told = None;
            }
            all.contains(account.as_str())
        });
    }

    /// Forgets a namespace.
    pub(super) fn forget(&mut self, namespace: &str) {
        self.0.remove(namespace);
    }

    fn entry(&mut self, namespace: &str, account: &str) -> &mut Entry {
        self.0.entry(namespace.to_owned()).or_default().entry(account.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn attempt(version: Option<&str>, is_repair: bool) -> Attempt {
        Attempt { version: version.map(str::to_owned), is_repair }
    }

    fn seconds(wait: Result<(), Duration>) -> u64 {
        wait.err().map_or(0, |wait| wait.as_secs())
    }

    #[rstest]
    #[case::not_seen_yet(attempt(Some("1"), false), 10)]
    #[case::seen(attempt(Some("2"), false), 0)]
    #[case::emptied_by_somebody(attempt(Some("2"), true), 5)]
    #[case::deleted_by_somebody(attempt(None, true), 5)]
    fn what_was_written_is_not_written_again_before_it_is_seen(#[case] next: Attempt, #[case] wait: u64) {
        let (mut memory, now) = (Memory::default(), Instant::now());
        assert_eq!(memory.may("n", "a", &next, now), Ok(()));

        memory.wrote("n", "a", attempt(Some("1"), false), true, now);

        assert_eq!(seconds(memory.may("n", "a", &next, now)), wait);
        assert_eq!(memory.may("n", "a", &next, now + LAG), Ok(()));
        assert_eq!(memory.may("n", "b", &next, now), Ok(()));
        assert_eq!(memory.may("m", "a", &next, now), Ok(()));
    }

    #[test]
    fn each_failure_waits_twice_as_long_until_something_works() {
        let (mut memory, now) = (Memory::default(), Instant::now());

        let delays: Vec<u64> = (0..4).map(|_| memory.failed("n", "a", now).as_secs()).collect();

        assert_eq!(delays, [1, 2, 4, 8]);
        assert_eq!(seconds(memory.may("n", "a", &attempt(None, false), now)), 8);
        memory.wrote("n", "a", attempt(None, true), true, now);
        assert_eq!(memory.failed("n", "a", now).as_secs(), 1);
    }

    #[test]
    fn somebody_elses_secret_keeps_from_creating_until_it_is_gone_and_from_nothing_else() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        let (create, fill) = (attempt(None, true), attempt(Some("1"), false));
        memory.foreign("n", "a", now);
        assert_eq!(seconds(memory.may("n", "a", &create, now)), 300);
        assert_eq!(memory.may("n", "a", &fill, now), Ok(()), "it is ours by now");

        memory.free("n", "a");
        assert_eq!(memory.may("n", "a", &create, now), Ok(()));
    }

    #[test]
    fn people_are_told_once_until_it_is_over_or_something_else() {
        let mut memory = Memory::default();
        let all = BTreeSet::from(["a"]);
        assert!(memory.tell("n", "a", "missing"));
        assert!(!memory.tell("n", "a", "missing"));
        assert!(memory.tell("n", "a", "terminating"));

        memory.settle("n", &all, &all);
        assert!(!memory.tell("n", "a", "terminating"));
        memory.settle("n", &all, &BTreeSet::new());
        assert!(memory.tell("n", "a", "terminating"));
    }

    #[test]
    fn what_nobody_speaks_of_any_more_is_forgotten() {
        let mut memory = Memory::default();
        for account in ["a", "b"] {
            memory.failed("n", account, Instant::now());
        }
        memory.settle("n", &BTreeSet::from(["b"]), &BTreeSet::new());
        assert_eq!(memory.0["n"].keys().collect::<Vec<_>>(), ["b"]);
        memory.forget("n");
        assert!(memory.0.is_empty());
    }
}
