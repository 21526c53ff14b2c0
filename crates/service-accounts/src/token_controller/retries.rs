//! Limits the retries for each Secret of a namespace (TKN-8).

use std::collections::BTreeMap;

use pillion_kubernetes::time::Timestamp;

/// The number of retries before a Secret is dropped.
const RETRIES: u32 = 10;
/// How long a Secret stays dropped, in seconds. A token that is about to expire cannot wait for ever.
const DROPPED: i64 = 60 * 60;

/// The Secrets of a namespace that failed, by name.
#[derive(Default)]
pub(super) struct Retries(BTreeMap<String, Failed>);

struct Failed {
    /// The resource version that failed. The count starts again when the Secret changes.
    resource_version: String,
    count: u32,
    until: Option<Timestamp>,
}

/// The consequence of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The Secret is tried again.
    Again,
    /// The Secret is not tried again before this time, unless it changes.
    Dropped(Timestamp),
}

impl Retries {
    /// Returns the time until which this Secret is dropped; `None` if it may be tried.
    pub(super) fn dropped(&self, name: &str, version: &str, now: Timestamp) -> Option<Timestamp> {
        let known = self.0.get(name)?;
        known.until.filter(|until| known.resource_version == version && *until > now)
    }

    /// Records a failure of a Secret.
    pub(super) fn failed(&mut self, name: &str, version: &str, now: Timestamp) -> After {
        let fresh = || Failed { resource_version: version.to_owned(), count: 0, until: None };
        let known = self.0.entry(name.to_owned()).or_insert_with(fresh);
        if known.resource_version != version || known.until.is_some() {
            *known = fresh();
        }
        known.count += 1;
        if known.count <= RETRIES {
            return After::Again;
        }
        let until = Timestamp(now.0.saturating_add(DROPPED));
        known.until = Some(until);
        After::Dropped(until)
    }

    /// Forgets the failures of a Secret.
    pub(super) fn succeeded(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Forgets the failures of Secrets that are gone.
    pub(super) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_there(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(0);
    const LATER: Timestamp = Timestamp(3600);

    #[test]
    fn tkn8_after_ten_retries_a_secret_is_dropped() {
        let mut retries = Retries::default();
        for _ in 0..10 {
            assert_eq!(retries.failed("s", "1", NOW), After::Again);
            assert_eq!(retries.dropped("s", "1", NOW), None);
        }
        assert_eq!(retries.failed("s", "1", NOW), After::Dropped(LATER));
        assert_eq!(retries.dropped("s", "1", NOW), Some(LATER));
        assert_eq!(retries.dropped("other", "1", NOW), None, "others go on");
        assert_eq!(retries.dropped("s", "2", NOW), None, "it has changed");
        assert_eq!(retries.dropped("s", "1", LATER), None, "it has waited");
        assert_eq!(retries.failed("s", "1", LATER), After::Again, "and has ten more");
    }

    #[test]
    fn tkn8_success_and_change_begin_anew() {
        let mut retries = Retries::default();
        for round in 0..3 {
            for _ in 0..10 {
                assert_eq!(retries.failed("s", &round.to_string(), NOW), After::Again);
            }
        }
        retries.succeeded("s");
        for _ in 0..10 {
            assert_eq!(retries.failed("s", "2", NOW), After::Again);
        }
    }
}
