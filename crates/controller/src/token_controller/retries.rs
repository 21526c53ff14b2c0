//! Limits the retries for each Secret (TKN-8).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use pillion_kubernetes::time::Timestamp;

/// The number of retries before a Secret is dropped.
const RETRIES: u32 = 10;
/// How long a Secret stays dropped, in seconds. A token that is about to expire cannot wait for ever.
const DROPPED: i64 = 60 * 60;

/// The Secrets that failed.
#[derive(Default)]
pub(super) struct Retries(Mutex<Secrets>);

/// The failures, by namespace and name of the Secret.
type Secrets = BTreeMap<String, BTreeMap<String, Failed>>;

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
    pub(super) fn dropped(&self, namespace: &str, name: &str, version: &str, now: Timestamp) -> Option<Timestamp> {
        self.with(|failed| {
            let known = failed.get(namespace)?.get(name)?;
            known.until.filter(|until| known.resource_version == version && *until > now)
        })
    }

    /// Records a failure of a Secret.
    pub(super) fn failed(&self, namespace: &str, name: &str, version: &str, now: Timestamp) -> After {
        self.with(|failed| {
            let fresh = || Failed { resource_version: version.to_owned(), count: 0, until: None };
            let known = failed.entry(namespace.to_owned()).or_default().entry(name.to_owned()).or_insert_with(fresh);
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
        })
    }

    /// Forgets the failures of a Secret.
    pub(super) fn succeeded(&self, namespace: &str, name: &str) {
        self.forget_gone(namespace, |failed| failed == name);
    }

    /// Forgets the failures of Secrets that are gone.
    pub(super) fn forget_gone(&self, namespace: &str, is_gone: impl Fn(&str) -> bool) {
        self.with(|failed| {
            let Some(secrets) = failed.get_mut(namespace) else { return };
            secrets.retain(|name, _| !is_gone(name));
            if secrets.is_empty() {
                failed.remove(namespace);
            }
        });
    }

    fn with<T>(&self, change: impl FnOnce(&mut Secrets) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(0);
    const LATER: Timestamp = Timestamp(3600);

    #[test]
    fn tkn8_after_ten_retries_a_secret_is_dropped() {
        let retries = Retries::default();
        for _ in 0..10 {
            assert_eq!(retries.failed("shop", "s", "1", NOW), After::Again);
            assert_eq!(retries.dropped("shop", "s", "1", NOW), None);
        }
        assert_eq!(retries.failed("shop", "s", "1", NOW), After::Dropped(LATER));
        assert_eq!(retries.dropped("shop", "s", "1", NOW), Some(LATER));
        assert_eq!(retries.dropped("shop", "other", "1", NOW), None, "others go on");
        assert_eq!(retries.dropped("shop", "s", "2", NOW), None, "it has changed");
        assert_eq!(retries.dropped("shop", "s", "1", LATER), None, "it has waited");
        assert_eq!(retries.failed("shop", "s", "1", LATER), After::Again, "and has ten more");
    }

    #[test]
    fn tkn8_success_and_change_begin_anew() {
        let retries = Retries::default();
        for round in 0..3 {
            for _ in 0..10 {
                assert_eq!(retries.failed("shop", "s", &round.to_string(), NOW), After::Again);
            }
        }
        retries.succeeded("shop", "s");
        for _ in 0..10 {
            assert_eq!(retries.failed("shop", "s", "2", NOW), After::Again);
        }
    }
}
