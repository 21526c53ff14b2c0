//! What follows when the API server has not accepted a write to a Pod.

use std::time::Duration;

use pillion_plan::problem::WriteProblem;

/// What follows from a write that the API server has not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unwritten {
    /// Another client changed the Pod at the same time, or it is gone. The next round sees it as it is then.
    Overtaken,
    /// The round ends (ROLL-44).
    Failed {
        /// Whether the API server may have carried the write out. Until the Pod was seen to change, it counts as
        /// unavailable.
        is_uncertain: bool,
    },
}

/// What follows from an eviction that the API server has not accepted (ROLL-66).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unevicted {
    /// The Pod waits for a PodDisruptionBudget.
    Held {
        /// What the API server says.
        message: String,
        /// How long to wait, if the API server says so.
        after: Option<Duration>,
        /// Whether several budgets select the Pod, which no waiting solves.
        has_several_budgets: bool,
    },
    /// What follows from every other write, too.
    Other(Unwritten),
}

/// What follows from a resize that the API server has not accepted (ROLL-65).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresized {
    /// The Pod records why, and is not asked again until the version changes.
    Refused(String),
    /// The Pod is gone. If it is there, the API server has no such subresource, and the resize is refused with
    /// [`NO_RESIZE`].
    NotFound,
    /// What follows from every other write, too.
    Other(Unwritten),
}

/// Why a resize is refused by an API server without the subresource.
pub const NO_RESIZE: &str = "it has no subresource \"resize\" of Pods; Kubernetes 1.33 and newer have it";

impl From<&WriteProblem> for Unwritten {
    fn from(problem: &WriteProblem) -> Self {
        if problem.is_overtaken() {
            return Self::Overtaken;
        }
        Self::Failed { is_uncertain: matches!(problem, WriteProblem::Failed(_) | WriteProblem::Later { .. }) }
    }
}

impl From<&WriteProblem> for Unevicted {
    fn from(problem: &WriteProblem) -> Self {
        match problem {
            WriteProblem::Held { message, after } => {
                Self::Held { message: message.to_string(), after: *after, has_several_budgets: false }
            }
            WriteProblem::SeveralBudgets(message) => {
                Self::Held { message: message.clone(), after: None, has_several_budgets: true }
            }
            problem => Self::Other(problem.into()),
        }
    }
}

impl From<&WriteProblem> for Unresized {
    fn from(problem: &WriteProblem) -> Self {
        match problem {
            WriteProblem::Invalid(text) => Self::Refused(text.clone()),
            // A right that is missing is no refusal of this resize.
            WriteProblem::Forbidden(text) if !text.contains("cannot patch resource") => Self::Refused(text.clone()),
            WriteProblem::NotFound => Self::NotFound,
            problem => Self::Other(problem.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const UNCERTAIN: Unwritten = Unwritten::Failed { is_uncertain: true };
    const CERTAIN: Unwritten = Unwritten::Failed { is_uncertain: false };

    fn no() -> String {
        "no".to_owned()
    }

    fn later() -> WriteProblem {
        WriteProblem::Later { message: no(), after: Duration::from_secs(7) }
    }

    #[rstest]
    #[case::changed(WriteProblem::Conflict, Unwritten::Overtaken)]
    #[case::gone(WriteProblem::NotFound, Unwritten::Overtaken)]
    #[case::its_namespace_goes(WriteProblem::NamespaceTerminating, Unwritten::Overtaken)]
    #[case::no_answer(WriteProblem::Failed(no()), UNCERTAIN)]
    #[case::overloaded(later(), UNCERTAIN)]
    #[case::invalid(WriteProblem::Invalid(no()), CERTAIN)]
    #[case::forbidden(WriteProblem::Forbidden(no()), CERTAIN)]
    fn roll44_a_write_whose_outcome_is_not_known_keeps_the_pod_unavailable(
        #[case] problem: WriteProblem,
        #[case] expected: Unwritten,
    ) {
        assert_eq!(Unwritten::from(&problem), expected);
    }

    #[rstest]
    #[case::one_budget(WriteProblem::Held { message: "no".into(), after: Some(Duration::from_secs(7)) }, Some(7), false)]
    #[case::a_budget_without_a_time(WriteProblem::Held { message: "no".into(), after: None }, None, false)]
    #[case::several(WriteProblem::SeveralBudgets(no()), None, true)]
    fn roll66_a_pod_waits_for_its_budget(
        #[case] problem: WriteProblem,
        #[case] after: Option<u64>,
        #[case] has_several_budgets: bool,
    ) {
        let after = after.map(Duration::from_secs);
        assert_eq!(Unevicted::from(&problem), Unevicted::Held { message: no(), after, has_several_budgets });
    }

    #[rstest]
    #[case::gone(WriteProblem::NotFound, Unwritten::Overtaken)]
    #[case::overloaded(later(), UNCERTAIN)]
    #[case::forbidden(WriteProblem::Forbidden(no()), CERTAIN)]
    fn roll66_no_budget_holds_other_evictions(#[case] problem: WriteProblem, #[case] expected: Unwritten) {
        assert_eq!(Unevicted::from(&problem), Unevicted::Other(expected));
    }

    #[rstest]
    #[case::invalid(WriteProblem::Invalid(no()), Unresized::Refused(no()))]
    #[case::a_quota(WriteProblem::Forbidden("exceeded quota".to_owned()), Unresized::Refused("exceeded quota".to_owned()))]
    #[case::a_missing_right(
        WriteProblem::Forbidden("cannot patch resource \"pods/resize\"".to_owned()),
        Unresized::Other(CERTAIN)
    )]
    #[case::not_found(WriteProblem::NotFound, Unresized::NotFound)]
    #[case::changed(WriteProblem::Conflict, Unresized::Other(Unwritten::Overtaken))]
    #[case::no_answer(WriteProblem::Failed(no()), Unresized::Other(UNCERTAIN))]
    fn roll65_only_answers_about_the_amounts_refuse_a_resize(
        #[case] problem: WriteProblem,
        #[case] expected: Unresized,
    ) {
        assert_eq!(Unresized::from(&problem), expected);
    }
}
