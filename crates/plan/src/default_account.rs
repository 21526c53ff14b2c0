//! A ServiceAccount `default` in every namespace (ACC-1).

use serde_json::json;

use super::Step;

/// The ServiceAccount of Pods that name none.
pub const NAME: &str = "default";
/// The only phase of a namespace (`status.phase`) in which a controller creates the account (ACC-1).
pub const ACTIVE: &str = "Active";

/// Returns the step that creates the account in a namespace of this phase; `is_there` tells whether the account exists.
/// An existing account is never changed (ACC-4). A new account has only its name (ACC-3).
pub fn plan(namespace: &str, phase: &str, is_there: bool) -> Option<Step> {
    (phase == ACTIVE && !is_there).then(|| {
        Step::Create(json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": NAME, "namespace": namespace}
        }))
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::acc1_active_without_the_account("Active", false, true)]
    #[case::acc4_the_account_is_there("Active", true, false)]
    #[case::acc1_terminating("Terminating", false, false)]
    #[case::acc1_no_phase_yet("", false, false)]
    fn the_account_is_made_where_it_is_missing(#[case] phase: &str, #[case] is_there: bool, #[case] is_made: bool) {
        assert_eq!(plan("shop", phase, is_there).is_some(), is_made);
    }

    #[test]
    fn acc3_it_says_nothing_but_its_name() {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "shop"}
        });
        assert_eq!(plan("shop", "Active", false), Some(Step::Create(account)));
    }
}
