//! Timestamps as Kubernetes writes them.

use std::fmt;

use jiff::civil::{DateTime, date};
use jiff::tz::Offset;

/// The time at which a [`Timestamp`] is zero.
const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// The number of years after which the Gregorian calendar repeats.
const YEARS_OF_A_CYCLE: i64 = 400;
/// The number of seconds in that many years.
const CYCLE: i64 = 146_097 * 24 * 60 * 60;

/// Seconds since the Unix epoch. Printed in UTC as RFC 3339: `2026-01-02T03:04:05Z`, the form of `metav1.Time`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Parses a time as `metav1.Time` does, with Go's layout `time.RFC3339`. Drops a fraction of a second and applies
    /// an offset. Returns `None` if the text is malformed.
    ///
    /// Go accepts more than RFC 3339 (one digit for the hour, a comma before the fraction, an offset of 24 hours or 60
    /// minutes) and less (no `t`, `z` or leap second). Therefore only the calendar comes from `jiff`.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, time) = text.split_once('T')?;
        let (year, date) = number(date, 4)?;
        let (month, date) = number(date.strip_prefix('-')?, 2)?;
        let (day, "") = number(date.strip_prefix('-')?, 2)? else { return None };
        let digits_of_hour = time.find(':').filter(|digits| (1..=2).contains(digits))?;
        let (hour, time) = number(time, digits_of_hour)?;
        let (minute, time) = number(time.strip_prefix(':')?, 2)?;
        let (second, rest) = number(time.strip_prefix(':')?, 2)?;
        let offset = offset(fraction(rest)?)?;
        let small = |number: i16| i8::try_from(number).ok();
        let time =
            DateTime::new(year, small(month)?, small(day)?, small(hour)?, small(minute)?, small(second)?, 0).ok()?;
        Some(Self(time.duration_since(EPOCH).as_secs() - offset))
    }
}

impl fmt::Display for Timestamp {
    /// Parsing applies an offset, so the year can be outside 0 to 9999. Go writes the year before 0 as `-0001`, and the
    /// year after 9999 as `10000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `jiff` does not know all years. The calendar repeats every 400 years, so this computes with a year from 1970
        // on.
        let (cycles, rest) = (self.0.div_euclid(CYCLE), self.0.rem_euclid(CYCLE));
        let time = Offset::UTC.to_datetime(jiff::Timestamp::from_second(rest).unwrap_or_default());
        let year = i64::from(time.year()) + cycles * YEARS_OF_A_CYCLE;
        let (sign, year) = (if year < 0 { "-" } else { "" }, year.unsigned_abs());
        let (month, day) = (time.month(), time.day());
        write!(f, "{sign}{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", time.hour(), time.minute(), time.second())
    }
}

/// Splits off a number of `count` digits, at most four.
fn number(text: &str, count: usize) -> Option<(i16, &str)> {
    let (digits, rest) = text.split_at_checked(count)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((digits.parse().ok().filter(|_| is_number)?, rest))
}

/// Returns the rest of a text after a fraction of a second, which is dropped.
fn fraction(text: &str) -> Option<&str> {
    let Some(digits) = text.strip_prefix(['.', ',']) else { return Some(text) };
    let rest = digits.trim_start_matches(|one: char| one.is_ascii_digit());
    (rest.len() < digits.len()).then_some(rest)
}

/// Parses the offset from UTC, in seconds: `Z`, `+hh:mm` or `-hh:mm`.
fn offset(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hours, rest) = number(text.strip_prefix(['+', '-'])?, 2)?;
    let (minutes, "") = number(rest.strip_prefix(':')?, 2)? else { return None };
    (hours <= 24 && minutes <= 60).then_some(sign * (i64::from(hours) * 60 + i64::from(minutes)) * 60)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1970-01-01T00:00:00Z", 0)]
    #[case("2000-02-29T23:59:59Z", 951_868_799)]
    #[case("2026-01-02T03:04:05Z", 1_767_323_045)]
    #[case("1969-12-31T23:59:59Z", -1)]
    fn prints_and_parses(#[case] text: &str, #[case] seconds: i64) {
        assert_eq!(Timestamp(seconds).to_string(), text);
        assert_eq!(Timestamp::parse(text), Some(Timestamp(seconds)));
    }

    #[rstest]
    #[case::as_written("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z")]
    #[case::fractions_are_dropped("2026-01-02T03:04:05.999999Z", "2026-01-02T03:04:05Z")]
    #[case::comma("2026-01-02T03:04:05,5Z", "2026-01-02T03:04:05Z")]
    #[case::one_digit_hour("2026-01-02T3:04:05Z", "2026-01-02T03:04:05Z")]
    #[case::east("2026-01-01T00:30:00+02:30", "2025-12-31T22:00:00Z")]
    #[case::west("2024-02-28T23:59:59-00:01", "2024-02-29T00:00:59Z")]
    #[case::leap_century("2000-02-29T00:00:00Z", "2000-02-29T00:00:00Z")]
    #[case::before_year_0("0000-01-01T00:00:00+01:00", "-0001-12-31T23:00:00Z")]
    #[case::after_year_9999("9999-12-31T23:59:59-01:00", "10000-01-01T00:59:59Z")]
    #[case::offset_of_a_day("2026-01-02T03:04:05+24:00", "2026-01-01T03:04:05Z")]
    #[case::offset_of_sixty_minutes("2026-01-02T03:04:05+00:60", "2026-01-02T02:04:05Z")]
    fn times_are_written_in_utc(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(Timestamp::parse(text).map(|time| time.to_string()).as_deref(), Some(expected));
    }

    #[rstest]
    #[case::empty("")]
    #[case::date("2026-01-02")]
    #[case::no_zone("2026-01-02T03:04:05")]
    #[case::lower_case("2026-01-02t03:04:05z")]
    #[case::space("2026-01-02 03:04:05Z")]
    #[case::month_13("2026-13-02T03:04:05Z")]
    #[case::no_leap_day("2100-02-29T03:04:05Z")]
    #[case::day_0("2026-01-00T03:04:05Z")]
    #[case::hour_24("2026-01-02T24:00:00Z")]
    #[case::leap_second("2026-12-31T23:59:60Z")]
    #[case::three_digits_for_the_hour("2026-01-02T003:04:05Z")]
    #[case::no_digit_for_the_hour("2026-01-02T:04:05Z")]
    #[case::one_digit_for_the_day("2026-01-2T03:04:05Z")]
    #[case::sign_in_a_number("2026-+1-02T03:04:05Z")]
    #[case::year_with_a_sign("-026-01-02T03:04:05Z")]
    #[case::offset_of_25_hours("2026-01-02T03:04:05+25:00")]
    #[case::offset_of_61_minutes("2026-01-02T03:04:05+00:61")]
    #[case::offset_with_seconds("2026-01-02T03:04:05+01:00:00")]
    #[case::empty_fraction("2026-01-02T03:04:05.Z")]
    #[case::offset_without_colon("2026-01-02T03:04:05+0100")]
    #[case::more("2026-01-02T03:04:05Z ")]
    #[case::not_ascii("２026-01-02T03:04:05Z")]
    fn other_texts_are_no_times(#[case] text: &str) {
        assert_eq!(Timestamp::parse(text), None);
    }

    proptest! {
        #[test]
        fn every_second_of_four_digit_years_round_trips(seconds in -62_135_596_800_i64..253_402_300_800) {
            prop_assert_eq!(Timestamp::parse(&Timestamp(seconds).to_string()), Some(Timestamp(seconds)));
        }

        #[test]
        fn parsing_and_printing_never_panic(text in "\\PC{0,40}", seconds: i64) {
            let _ = Timestamp::parse(&text);
            let _ = Timestamp(seconds).to_string();
        }
    }
}
