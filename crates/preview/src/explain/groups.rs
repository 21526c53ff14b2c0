//! Pods with the same outcome: how many there are, and which of them to print.

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use pillion_terminal::{ERROR, WARNING};

use super::subject::ExplainedPod;

/// The style of what is injected.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// The style of headings.
pub const HEAD: Style = Style::new().bold();

/// The outcome for a Pod, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Group {
    /// Pods that get a sidecar or an annotation, or have it already.
    Injected,
    /// Pods that the policy, the policy server or the API server refuses.
    Refused,
    /// Pods for which there is no SidecarSet, or only ones that are paused or give way.
    NotSelected,
    /// Pods about which the API server does not ask the policy, or whose answer is not heeded.
    NotAsked,
}

impl Group {
    const ALL: [Self; 4] = [Self::Injected, Self::Refused, Self::NotSelected, Self::NotAsked];

    /// Returns the group of a Pod.
    pub fn from_explained(explained: &ExplainedPod) -> Self {
        if explained.is_refused() {
            Self::Refused
        } else if explained.not_asked.is_some() || !explained.policy.is_empty() {
            Self::NotAsked
        } else if explained.injected > 0 || explained.answer.mutated_object.is_some() {
            Self::Injected
        } else {
            Self::NotSelected
        }
    }

    /// Returns the style of the group.
    pub fn style(self) -> Style {
        match self {
            Self::Injected => GOOD,
            Self::Refused => ERROR,
            Self::NotSelected => Style::new(),
            Self::NotAsked => WARNING,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Injected => "injected",
            Self::Refused => "refused",
            Self::NotSelected => "not selected",
            Self::NotAsked => "not asked",
        }
    }
}

/// Returns the numbers of Pods in each group that has some: `5 Pods and workloads: 2 injected, 3 not selected`.
pub fn summary(explained: &[ExplainedPod]) -> String {
    let counts = Group::ALL.into_iter().filter_map(|group| {
        let number = explained.iter().filter(|explained| Group::from_explained(explained) == group).count();
        let style = group.style();
        (number > 0).then(|| format!("{style}{number} {}{style:#}", group.words()))
    });
    let what = if explained.len() == 1 { "Pod or workload" } else { "Pods and workloads" };
    format!("{HEAD}{} {what}{HEAD:#}: {}", explained.len(), counts.collect::<Vec<_>>().join(", "))
}
