//! A ServiceAccount `default` in every namespace (`serviceaccounts.md` C1).

use serde_json::json;

use super::Step;

/// The ServiceAccount that Pods have that name none.
pub const NAME: &str = "default";
/// The only phase of a namespace (`status.phase`) in which something is made (C1.1).
pub const ACTIVE: &str = "Active";

/// What is missing in a namespace of this phase, `is_there` telling whether it has the account. One that is there is
/// never changed (C1.4), and one that is made says nothing but its name (C1.3).
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
    #[case::c1_1_active_without_the_account("Active", false, true)]
    #[case::c1_4_the_account_is_there("Active", true, false)]
    #[case::c1_1_terminating("Terminating", false, false)]
    #[case::c1_1_no_phase_yet("", false, false)]
    fn the_account_is_made_where_it_is_missing(#[case] phase: &str, #[case] is_there: bool, #[case] is_made: bool) {
        assert_eq!(plan("shop", phase, is_there).is_some(), is_made);
    }

    #[test]
    fn c1_3_it_says_nothing_but_its_name() {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "shop"}
        });
        assert_eq!(plan("shop", "Active", false), Some(Step::Create(account)));
    }
}
