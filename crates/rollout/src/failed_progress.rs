//! What people are told about a rollout that has failed (ROLL-61), and about the way back (ROLL-62).

use pillion_plan::failure::{Back, Failed};

use crate::counts::Counts;
use crate::round::{Rest, Round};
use crate::status::Progress;

/// The reason while Pods go back to the revision that is in force.
pub const ROLLING_BACK: &str = "RollingBack";
/// The reason when they are back.
pub const ROLLED_BACK: &str = "RolledBack";

const UNTIL: &str = "no further Pod is changed until spec or an annotation under pillion.dev/ changes";

fn numbers(counts: Counts) -> String {
    let Counts { matched, updated, updated_ready, .. } = counts;
    format!("{updated} of {matched} Pods have it, {updated_ready} of them are ready")
}

/// Returns the progress of a rollout that has failed. `back` is the way back if it is the one that has failed, and
/// `is_wanted` tells whether a way back is asked for.
pub fn failed(revision: &str, record: &Failed, back: Option<&Back<'_>>, is_wanted: bool, counts: Counts) -> Progress {
    let Failed { at, reason, message, .. } = record;
    let what = match back {
        Some(back) => format!("{}, and failed as well at {at}: {message}", back.text()),
        None => format!("revision \"{revision}\" failed at {at}: {message}"),
    };
    let hint = match back {
        None if is_wanted => "; there is no earlier revision to go back to",
        _ => "",
    };
    Progress::stalled(reason.as_str(), format!("{what}{hint}; {UNTIL}; {}", numbers(counts)))
}

/// Returns the progress of the way back. `left` is the number of Pods that still have the failed version, and `note`
/// says what else people should know, or is empty.
pub fn back(back: &Back<'_>, round: &Round, normal: Progress, (counts, left): (Counts, usize), note: &str) -> Progress {
    let stuck = match round {
        Round::Upgrade { not_upgradable, chosen, .. } if chosen.is_empty() => not_upgradable.len(),
        _ => 0,
    };
    let pods = match left {
        0 => String::new(),
        _ if stuck > 0 => format!("; {left} Pods have the failed revision, and {stuck} of them must be created again"),
        _ => format!("; {left} Pods have the failed revision"),
    };
    let separator = if note.is_empty() { "" } else { "; " };
    let message = format!("{}{pods}; {}{separator}{note}", back.text(), numbers(counts));
    let is_ready = counts.updated == counts.updated_ready;
    match round {
        Round::Rest(Rest::Unreadable) => normal,
        Round::Rest(Rest::Paused) if left > 0 => Progress { message, ..normal },
        Round::Rest(Rest::NotUpdate | Rest::Paused) => Progress::stalled(ROLLED_BACK, message),
        _ if left == stuck && is_ready => Progress::stalled(ROLLED_BACK, message),
        _ => Progress::reconciling(ROLLING_BACK, message),
    }
}
