//! Points in time, as Kubernetes writes them.

use std::fmt;

const DAY: i64 = 86_400;

/// Seconds since the Unix epoch. Printed as RFC 3339 in UTC: `2026-01-02T03:04:05Z`, the form of `metav1.Time`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Reads a time as `metav1.Time` does, with Go's layout `time.RFC3339`; a fraction of a second is dropped, an
    /// offset applied. `None` where the text is malformed.
    ///
    /// Go takes more than RFC 3339 (one digit for the hour, a comma before the fraction) and less (no `t`, `z` or leap
    /// second).
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.as_bytes();
        let rest = &mut rest;
        let (year, month, day) = (number(rest, 4, b'-')?, number(rest, 2, b'-')?, number(rest, 2, b'T')?);
        let digits_of_hour = if rest.get(1) == Some(&b':') { 1 } else { 2 };
        let (hour, minute) = (number(rest, digits_of_hour, b':')?, number(rest, 2, b':')?);
        let second = digits(rest, 2)?;
        fraction(rest)?;
        let offset = offset(rest)?;
        let in_range = (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        if !in_range || !rest.is_empty() {
            return None;
        }
        Some(Self(days_from_civil(year, month, day) * DAY + (hour * 60 + minute - offset) * 60 + second))
    }
}

impl fmt::Display for Timestamp {
    /// An offset can lead out of the years 0 to 9999: Go writes the year before 0 as `-0001`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.0.div_euclid(DAY));
        let second = self.0.rem_euclid(DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let (sign, year) = (if year < 0 { "-" } else { "" }, year.unsigned_abs());
        write!(f, "{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// A number of so many digits, and the byte after it.
fn number(rest: &mut &[u8], count: usize, after: u8) -> Option<i64> {
    let number = digits(rest, count)?;
    byte(rest, after)?;
    Some(number)
}

fn byte(rest: &mut &[u8], expected: u8) -> Option<()> {
    let (first, others) = rest.split_first()?;
    (*first == expected).then(|| *rest = others)
}

fn digits(rest: &mut &[u8], count: usize) -> Option<i64> {
    let (first, others) = rest.split_at_checked(count)?;
    *rest = others;
    first.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

/// A fraction of a second, if there is one. It is not kept.
fn fraction(rest: &mut &[u8]) -> Option<()> {
    if !matches!(rest.first(), Some(b'.' | b',')) {
        return Some(());
    }
    let length = rest.iter().skip(1).take_while(|digit| digit.is_ascii_digit()).count();
    *rest = rest.get(1 + length..)?;
    (length > 0).then_some(())
}

/// The distance from UTC in minutes: `Z`, `+hh:mm` or `-hh:mm`.
fn offset(rest: &mut &[u8]) -> Option<i64> {
    let (sign, others) = rest.split_first()?;
    *rest = others;
    let sign = match sign {
        b'Z' => return Some(0),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let hours = digits(rest, 2)?;
    byte(rest, b':')?;
    let minutes = digits(rest, 2)?;
    (hours <= 24 && minutes <= 60).then_some(sign * (hours * 60 + minutes))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since the epoch of a date of the proleptic Gregorian calendar, counted in eras of 400 years that begin in
/// March, so that the leap day is the last day of its year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
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
