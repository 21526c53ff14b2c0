//! Points in time, as Kubernetes writes them.

use std::fmt;

const DAY: i64 = 86_400;

/// Seconds since the Unix epoch. Printed as RFC 3339 in UTC: `2026-01-02T03:04:05Z`, the form of `metav1.Time`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Reads RFC 3339; a fraction of a second is dropped, an offset applied, as `metav1.Time` does when it is
    /// written again. `None` where the text is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = bytes.get(from..to)?;
            digits.iter().all(u8::is_ascii_digit).then_some(())?;
            digits.iter().try_fold(0_i64, |sum, digit| Some(sum * 10 + i64::from(digit - b'0')))
        };
        let is = |index: usize, byte: u8| bytes.get(index) == Some(&byte);
        if !(is(4, b'-') && is(7, b'-') && is(10, b'T') && is(13, b':') && is(16, b':')) {
            return None;
        }
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        let days_of_month = match month {
            4 | 6 | 9 | 11 => 30,
            2 if leap => 29,
            2 => 28,
            1..=12 => 31,
            _ => return None,
        };
        if !(1..=days_of_month).contains(&day) || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let mut rest = bytes.get(19..)?;
        if let Some(fraction) = rest.strip_prefix(b".").or_else(|| rest.strip_prefix(b",")) {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                return None;
            }
            rest = fraction.get(digits..)?;
        }
        let offset = match rest {
            b"Z" => 0,
            [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2]
                if [h1, h2, m1, m2].iter().all(|byte| byte.is_ascii_digit()) =>
            {
                let two = |high: &u8, low: &u8| i64::from(high - b'0') * 10 + i64::from(low - b'0');
                let (hours, minutes) = (two(h1, h2), two(m1, m2));
                if hours > 24 || minutes > 60 {
                    return None;
                }
                let seconds = hours * 3600 + minutes * 60;
                if *sign == b'-' { -seconds } else { seconds }
            }
            _ => return None,
        };
        let days = days_from_civil(year, month, day);
        Some(Self(days * DAY + hour * 3600 + minute * 60 + second - offset))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.0.div_euclid(DAY));
        let second = self.0.rem_euclid(DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
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
    #[case("2026-01-02T03:04:05.999Z", "2026-01-02T03:04:05Z")]
    #[case("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z")]
    #[case("2026-01-01T00:04:05-01:30", "2026-01-01T01:34:05Z")]
    fn offsets_and_fractions_are_folded(#[case] text: &str, #[case] printed: &str) {
        assert_eq!(Timestamp::parse(text).map(|time| time.to_string()).as_deref(), Some(printed));
    }

    #[rstest]
    #[case("")]
    #[case("2026-01-02")]
    #[case("2026-01-02 03:04:05Z")]
    #[case("2026-01-02T03:04:05")]
    #[case("2026-02-30T03:04:05Z")]
    #[case("2026-13-01T03:04:05Z")]
    #[case("2026-01-02T24:04:05Z")]
    #[case("2026-01-02T03:04:05.Z")]
    #[case("2026-01-02T03:04:05+2:00")]
    #[case("éééééééééééééééé")]
    fn malformed_times_are_refused(#[case] text: &str) {
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
