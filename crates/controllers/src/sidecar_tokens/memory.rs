//! Remembers the attempts for each Secret of a namespace. So failures are retried with growing delays, and a repair is
//! not repeated at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pillion_plan::Step;
use pillion_plan::credential::Credential;
use pillion_plan::sidecar_tokens::{Move, Why};
use pillion_runtime::backoff::Backoff;
use tokio::time::Instant;

/// The delays after failures of one Secret.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), most: Duration::from_mins(5) };
/// The delay if the live object differs from what is known.
const NOT_SEEN_YET: Duration = Duration::from_secs(2);
/// The minimum interval between repairs of a Secret that others delete or empty.
const REPAIR: Duration = Duration::from_secs(5);
/// The delay if a Pod mounts a Secret that was to be deleted.
const IN_USE: Duration = Duration::from_secs(30);
/// The interval between checks for a foreign Secret whose own watch has not shown that it is gone.
const FOREIGN: Duration = Duration::from_mins(5);

/// An attempt that is about to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// Whether it creates a Secret.
    is_create: bool,
    /// Whether it may undo a change by others.
    is_repair: bool,
}

impl Attempt {
    pub(super) fn from_move(what: &Move) -> Self {
        let is_create = matches!(what, Move::Create { .. } | Move::Write(Step::Create(_)));
        let is_repair = matches!(what, Move::Create { .. } | Move::Mint { why: Why::Empty | Why::Edited, .. });
        Self { is_create, is_repair }
    }
}

#[derive(Debug, Default)]
struct Entry {
    /// When a token was last written.
    filled: Option<Instant>,
    failures: u32,
    not_before: Option<Instant>,
    /// Before this time no Secret is created, because a foreign Secret has the name.
    foreign: Option<Instant>,
}

/// The entries, by what the Secret is for.
#[derive(Debug, Default)]
pub(super) struct Memory(BTreeMap<Credential, Entry>);

impl Memory {
    /// Checks whether an attempt may start now.
    ///
    /// # Errors
    /// The time to wait.
    pub(super) fn may(&self, credential: &Credential, attempt: Attempt, now: Instant) -> Result<(), Duration> {
        let Some(entry) = self.0.get(credential) else { return Ok(()) };
        let repaired = entry.filled.filter(|_| attempt.is_repair).map(|at| at + REPAIR);
        let foreign = entry.foreign.filter(|_| attempt.is_create);
        match entry.not_before.max(repaired).max(foreign).filter(|time| *time > now) {
            Some(time) => Err(time - now),
            None => Ok(()),
        }
    }

    /// Records that an attempt was carried out; `is_filled` tells whether it wrote a token.
    pub(super) fn wrote(&mut self, credential: &Credential, is_filled: bool, now: Instant) {
        let entry = self.entry(credential);
        if is_filled {
            entry.filled = Some(now);
        }
        (entry.failures, entry.not_before, entry.foreign) = (0, None, None);
    }

    /// Records a failure. Returns the time to wait: at least `least`, which the API server may ask for.
    pub(super) fn failed(&mut self, credential: &Credential, least: Option<Duration>, now: Instant) -> Duration {
        let entry = self.entry(credential);
        let delay = BACKOFF.after(entry.failures).max(least.unwrap_or_default());
        entry.failures = entry.failures.saturating_add(1);
        entry.not_before = Some(now + delay);
        delay
    }

    /// Records that the live object differs from what is known. Returns the time to wait.
    pub(super) fn not_seen_yet(&mut self, credential: &Credential, now: Instant) -> Duration {
        self.hold(credential, NOT_SEEN_YET, now)
    }

    /// Records that a Pod mounts a Secret that was to be deleted. Returns the time to wait.
    pub(super) fn in_use(&mut self, credential: &Credential, now: Instant) -> Duration {
        self.hold(credential, IN_USE, now)
    }

    /// Records that a foreign Secret has the name. Returns the time to wait.
    pub(super) fn foreign(&mut self, credential: &Credential, now: Instant) -> Duration {
        self.entry(credential).foreign = Some(now + FOREIGN);
        FOREIGN
    }

    /// Records that the foreign Secret is gone.
    pub(super) fn free(&mut self, credential: &Credential) {
        self.entry(credential).foreign = None;
    }

    fn hold(&mut self, credential: &Credential, delay: Duration, now: Instant) -> Duration {
        self.entry(credential).not_before = Some(now + delay);
        delay
    }

    /// Drops the entries of all Secrets other than these.
    pub(super) fn settle(&mut self, all: &BTreeSet<&Credential>) {
        self.0.retain(|credential, _| all.contains(credential));
    }

    fn entry(&mut self, credential: &Credential) -> &mut Entry {
        self.0.entry(credential.clone()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const CREATE: Attempt = Attempt { is_create: true, is_repair: true };
    const REFILL: Attempt = Attempt { is_create: false, is_repair: true };
    const RENEW: Attempt = Attempt { is_create: false, is_repair: false };

    fn credential_of(account: &str) -> Credential {
        Credential::shared(account)
    }

    fn seconds(wait: Result<(), Duration>) -> u64 {
        wait.err().map_or(0, |wait| wait.as_secs())
    }

    #[rstest]
    #[case::due(RENEW, 0)]
    #[case::emptied_by_somebody(REFILL, 5)]
    #[case::deleted_by_somebody(CREATE, 5)]
    fn a_repair_is_not_repeated_at_once(#[case] next: Attempt, #[case] wait: u64) {
        let (mut memory, now) = (Memory::default(), Instant::now());
        assert_eq!(memory.may(&credential_of("a"), next, now), Ok(()));

        memory.wrote(&credential_of("a"), true, now);

        assert_eq!(seconds(memory.may(&credential_of("a"), next, now)), wait);
        assert_eq!(memory.may(&credential_of("a"), next, now + REPAIR), Ok(()));
        assert_eq!(memory.may(&credential_of("b"), next, now), Ok(()));
    }

    #[test]
    fn each_failure_waits_twice_as_long_until_something_works() {
        let (mut memory, now) = (Memory::default(), Instant::now());

        let delays: Vec<u64> = (0..4).map(|_| memory.failed(&credential_of("a"), None, now).as_secs()).collect();

        assert_eq!(delays, [1, 2, 4, 8]);
        assert_eq!(seconds(memory.may(&credential_of("a"), RENEW, now)), 8);
        memory.wrote(&credential_of("a"), true, now);
        assert_eq!(memory.failed(&credential_of("a"), None, now).as_secs(), 1);
        assert_eq!(
            memory.failed(&credential_of("a"), Some(Duration::from_secs(30)), now).as_secs(),
            30,
            "the API server asks for it"
        );
    }

    #[test]
    fn somebody_elses_secret_keeps_from_creating_until_it_is_gone_and_from_nothing_else() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        memory.foreign(&credential_of("a"), now);
        assert_eq!(seconds(memory.may(&credential_of("a"), CREATE, now)), 300);
        assert_eq!(memory.may(&credential_of("a"), RENEW, now), Ok(()), "it is ours by now");

        memory.free(&credential_of("a"));
        assert_eq!(memory.may(&credential_of("a"), CREATE, now), Ok(()));
    }

    #[test]
    fn what_nobody_speaks_of_any_more_is_forgotten() {
        let mut memory = Memory::default();
        for account in ["a", "b"] {
            memory.failed(&credential_of(account), None, Instant::now());
        }
        memory.settle(&BTreeSet::from([&credential_of("b")]));
        assert_eq!(memory.0.into_keys().collect::<Vec<_>>(), [credential_of("b")]);
    }
}
