//! Ages as kubectl prints them.

use pillion_kubernetes::time::Timestamp;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// Returns the time since a moment, as kubectl shows it in the column AGE: `45s`, `3m20s`, `5h`, `12d`. A moment in the
/// future counts as now. Without a moment, returns `<unknown>`.
pub fn since(moment: Option<Timestamp>, now: Timestamp) -> String {
    let Some(moment) = moment else { return "<unknown>".to_owned() };
    let seconds = u64::try_from(now.0.saturating_sub(moment.0)).unwrap_or_default();
    let two = |large: (u64, &str), small: (u64, &str)| {
        let rest = seconds % large.0 / small.0;
        let small = if rest == 0 { String::new() } else { format!("{rest}{}", small.1) };
        format!("{}{}{small}", seconds / large.0, large.1)
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two((MINUTE, "m"), (1, "s")),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two((HOUR, "h"), (MINUTE, "m")),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two((DAY, "d"), (HOUR, "h")),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two((YEAR, "y"), (DAY, "d")),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// The values that kubectl's `duration.HumanDuration` gives.
    #[rstest]
    #[case(0, "0s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(200, "3m20s")]
    #[case(600, "10m")]
    #[case(10_799, "179m")]
    #[case(10_860, "3h1m")]
    #[case(28_800, "8h")]
    #[case(172_800, "2d")]
    #[case(180_000, "2d2h")]
    #[case(691_200, "8d")]
    #[case(2 * YEAR + 3 * DAY, "2y3d")]
    #[case(9 * YEAR, "9y")]
    fn ages_are_those_of_kubectl(#[case] seconds: u64, #[case] expected: &str) {
        let now = Timestamp(i64::try_from(seconds).unwrap());
        assert_eq!(since(Some(Timestamp(0)), now), expected);
    }

    #[test]
    fn a_clock_that_is_late_gives_no_negative_age() {
        assert_eq!(since(Some(Timestamp(5)), Timestamp(0)), "0s");
        assert_eq!(since(None, Timestamp(0)), "<unknown>");
    }
}
