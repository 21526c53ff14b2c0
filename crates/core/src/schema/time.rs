//! Times as Go's `metav1.Time` reads and writes them.

/// The time in UTC and whole seconds, as `metav1.Time` writes it; `None` where `text` is no time that Go reads with
/// its layout `time.RFC3339`.
///
/// Go takes more than RFC 3339 (one digit for the hour, a comma before the fraction) and less (no `t`, `z` or leap
/// second). Times outside the years 0 to 9999 after the change to UTC are refused: they cannot be written.
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
    write(days_from_civil(year, month, day) * 1440 + hour * 60 + minute - offset, second)
}

fn write(minutes: i64, second: i64) -> Option<String> {
    let (year, month, day) = civil_from_days(minutes.div_euclid(1440));
    let minute_of_day = minutes.rem_euclid(1440);
    (0..=9999).contains(&year).then(|| {
        format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{second:02}Z", minute_of_day / 60, minute_of_day % 60)
    })
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
