//! Timestamps, which only matter to scalars with the tag `!!timestamp`: others stay texts.

/// Whether Go's YAML reader takes a text for a timestamp: a date, or a date and a time.
pub(super) fn is_timestamp(text: &str) -> bool {
    let Some((date, time)) = text.split_at_checked(text.find(['T', 't', ' ']).unwrap_or(text.len())) else {
        return false;
    };
    let mut chars = time.chars();
    is_date(date)
        && match chars.next() {
            None => true,
            Some(' ') => is_time(chars.as_str()),
            Some(_) => zone_removed(chars.as_str()).is_some_and(is_time),
        }
}

fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let (Some(year), Some(month), Some(day), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let Some(year) = (year.len() == 4).then(|| digits(year, 4)).flatten() else { return false };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let (Some(month), Some(day)) = (digits(month, 2), digits(day, 2)) else { return false };
    let last = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=last).contains(&day)
}

/// A time without a zone: hour, minute, second, and a fraction of any length.
fn is_time(text: &str) -> bool {
    let (clock, fraction) = text.split_once(['.', ',']).map_or((text, None), |(clock, rest)| (clock, Some(rest)));
    let mut parts = clock.split(':').map(|part| digits(part, 2));
    let (Some(Some(hour)), Some(Some(minute)), Some(Some(second)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let is_fraction = fraction.is_none_or(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    hour < 24 && minute < 60 && second < 60 && is_fraction
}

/// Returns a time without its zone: `Z`, or hours and minutes with a sign.
fn zone_removed(text: &str) -> Option<&str> {
    if let Some(time) = text.strip_suffix('Z') {
        return Some(time);
    }
    let (time, zone) = text.split_at_checked(text.len().checked_sub(6)?)?;
    let (hour, minute) = zone.strip_prefix(['+', '-'])?.split_once(':')?;
    let in_range = |text: &str, last: u32| text.len() == 2 && digits(text, 2).is_some_and(|value| value <= last);
    (in_range(hour, 24) && in_range(minute, 60)).then_some(time)
}

/// Returns a number of at most `most` digits.
fn digits(text: &str, most: usize) -> Option<u32> {
    let is_number = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}
