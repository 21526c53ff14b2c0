//! How often something is tried again (`serviceaccounts.md` C2.8).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use pillion_kubernetes::time::Timestamp;

/// How often a Secret is tried again before it is dropped.
const RETRIES: u32 = 10;
/// For how long it is dropped then, in seconds. A token that is about to end cannot wait for ever.
const DROPPED: i64 = 60 * 60;

/// Which Secrets failed.
#[derive(Default)]
pub(super) struct Retries(Mutex<Secrets>);

/// By namespace and name.
type Secrets = BTreeMap<String, BTreeMap<String, Failed>>;

struct Failed {
    /// How it was then: one that has changed is begun anew.
    resource_version: String,
    count: u32,
    until: Option<Timestamp>,
}

/// What becomes of a Secret that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It is tried again.
    Again,
    /// It is not tried again until then, unless it changes.
    Dropped(Timestamp),
}

impl Retries {
    /// Until when this Secret is dropped; nothing where it is to be tried.
    pub(super) fn dropped(&self, namespace: &str, name: &str, version: &str, now: Timestamp) -> Option<Timestamp> {
        self.with(|failed| {
            let known = failed.get(namespace)?.get(name)?;
            known.until.filter(|until| known.resource_version == version && *until > now)
        })
    }

    /// A Secret failed.
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

    /// A Secret is done with.
    pub(super) fn succeeded(&self, namespace: &str, name: &str) {
        self.forget_gone(namespace, |failed| failed == name);
    }

    /// Secrets that are gone have not failed.
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
    fn c2_8_after_ten_retries_a_secret_is_dropped() {
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
    fn c2_8_success_and_change_begin_anew() {
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
