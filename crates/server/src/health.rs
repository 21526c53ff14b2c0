//! Readiness of the server.

use std::fmt::Write as _;
use std::sync::Arc;

/// Returns an error text if the condition does not hold.
pub type Check = dyn Fn() -> Result<(), String> + Send + Sync;

/// The conditions for the server to be ready.
#[derive(Clone, Default)]
pub struct Readiness {
    checks: Vec<(&'static str, Arc<Check>)>,
}

impl Readiness {
    /// Adds a condition. Every probe evaluates it, so it must return at once.
    #[must_use]
    pub fn when(mut self, name: &'static str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.checks.push((name, Arc::new(check)));
        self
    }

    /// Combines two sets of conditions.
    #[must_use]
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.checks.extend(other.checks);
        self
    }

    /// Returns whether all conditions hold, and a line for each in the format of Kubernetes' own servers.
    pub(crate) fn report(&self) -> (bool, String) {
        let mut is_ready = true;
        let mut text = String::new();
        for (name, check) in &self.checks {
            // Writing to a String cannot fail.
            let _ = match check() {
                Ok(()) => writeln!(text, "[+]{name} ok"),
                Err(problem) => {
                    is_ready = false;
                    writeln!(text, "[-]{name} failed: {problem}")
                }
            };
        }
        (is_ready, text + if is_ready { "ready\n" } else { "not ready\n" })
    }
}

impl std::fmt::Debug for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.checks.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_is_told() {
        let readiness = Readiness::default().when("settings", || Ok(()));
        assert_eq!(readiness.report(), (true, "[+]settings ok\nready\n".to_owned()));
        let readiness = readiness.when("cache", || Err("not synced".to_owned())).when("certificate", || Ok(()));
        let text = "[+]settings ok\n[-]cache failed: not synced\n[+]certificate ok\nnot ready\n";
        assert_eq!(readiness.report(), (false, text.to_owned()));
    }
}
