//! Times as Go's `metav1.Time` reads and writes them.

/// Go's zero time, which `metav1.Time` writes as `null`.
pub(super) const ZERO: &str = "0001-01-01T00:00:00Z";

/// The time in UTC and whole seconds, as `metav1.Time` writes it; `None` where `text` is no time that Go reads with
/// its layout `time.RFC3339`.
///
/// Go takes more than RFC 3339 (one digit for the hour, a comma before the fraction) and less (no `t`, `z` or leap
/// second).
pub(super) fn canonical(text: &str) -> Option<String> {
    let mut rest = text.as_bytes();
    let year = digits(&mut rest, 4)?;
    byte(&mut rest, b'-')?;
    let month = digits(&mut rest, 2)?;
    byte(&mut rest, b'-')?;
    let day = digits(&mut rest, 2)?;
    byte(&mut rest, b'T')?;
    let hour = if rest.get(1) == Some(&b':') { digits(&mut rest, 1)? } else { digits(&mut rest, 2)? };
    byte(&mut rest, b':')?;
    let minute = digits(&mut rest, 2)?;
    byte(&mut rest, b':')?;
    let second = digits(&mut rest, 2)?;
    fraction(&mut rest)?;
    let offset = offset(&mut rest)?;
    let in_range = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !in_range || !rest.is_empty() {
        return None;
    }
    Some(write(days_from_civil(year, month, day) * 1440 + hour * 60 + minute - offset, second))
}

/// The change to UTC can leave the years 0 to 9999: Go writes the year before 0 as `-0001`.
fn write(minutes: i64, second: i64) -> String {
    let (year, month, day) = civil_from_days(minutes.div_euclid(1440));
    let (hour, minute) = (minutes.rem_euclid(1440) / 60, minutes.rem_euclid(60));
    let sign = if year < 0 { "-" } else { "" };
    format!("{sign}{:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z", year.abs())
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

/// Days since 1 March of the year 0 in the proleptic Gregorian calendar: years that start in March put the leap day
/// at their end.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 + day - 1
}

/// Year, month and day; the inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

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
        assert_eq!(canonical(text).as_deref(), Some(expected));
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
        assert_eq!(canonical(text), None);
    }
}
