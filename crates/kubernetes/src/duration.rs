//! Durations as Go reads and writes them (`time.ParseDuration`, `Duration.String`; D12).
//!
//! Gardener decodes durations with Go, so this module accepts exactly what Go accepts, down to the nanosecond.

use std::fmt;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The units that Go knows. Two different characters for mu are in use, and Go accepts both.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", MICROSECOND),
    ("\u{b5}s", MICROSECOND),
    ("\u{3bc}s", MICROSECOND),
    ("ms", MILLISECOND),
    ("s", SECOND),
    ("m", MINUTE),
    ("h", HOUR),
];
/// Units that users write but Go does not know, in hours.
const LONG_UNITS: [(&str, u64); 2] = [("d", 24), ("w", 168)];
/// One more than the largest duration, in nanoseconds.
const LIMIT: u64 = 1 << 63;

/// A span of time in nanoseconds, possibly negative: up to 292 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(pub i64);

impl Duration {
    /// Returns a duration of `hours` hours, or the longest duration if that is too much.
    pub const fn hours(hours: u32) -> Self {
        Self((hours as i64).saturating_mul(3_600_000_000_000))
    }

    /// Parses numbers with units: `720h`, `-1.5h`, `1h30m`. Zero needs no unit.
    ///
    /// # Errors
    /// The text is not a duration. The message is Go's own: `time: unknown unit "d" in duration "45d"`.
    ///
    /// # Examples
    /// ```
    /// use pillion_kubernetes::duration::Duration;
    ///
    /// for (text, result) in [
    ///     ("720h", Ok("720h0m0s")),
    ///     ("-1.5h", Ok("-1h30m0s")),
    ///     ("1h30m0.5s", Ok("1h30m0.5s")),
    ///     ("1500us", Ok("1.5ms")),
    ///     ("0", Ok("0s")),
    ///     ("45d", Err("time: unknown unit \"d\" in duration \"45d\"")),
    ///     ("90", Err("time: missing unit in duration \"90\"")),
    /// ] {
    ///     let parsed = Duration::parse(text).map(Duration::text).map_err(|error| error.to_string());
    ///     assert_eq!(parsed, result.map(str::to_owned).map_err(str::to_owned));
    /// }
    /// ```
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        nanoseconds(text.as_bytes()).map(Self).map_err(|problem| ParseError::new(&problem, text))
    }

    /// Returns the text that Go prints: hours, minutes and seconds from one second on (`2160h0m0.5s`), else one smaller
    /// unit (`1.5ms`).
    pub fn text(self) -> String {
        let mut text = String::new();
        if self.0 < 0 {
            text.push('-');
        }
        let span = self.0.unsigned_abs();
        let (unit, nanoseconds, digits) = match span {
            0 => ("s", 0, 0),
            1..MICROSECOND => ("ns", span, 0),
            MICROSECOND..MILLISECOND => ("\u{b5}s", span, 3),
            MILLISECOND..SECOND => ("ms", span, 6),
            _ => {
                if span >= HOUR {
                    push_decimal(span / HOUR, 0, &mut text);
                    text.push('h');
                }
                if span >= MINUTE {
                    push_decimal(span / MINUTE % 60, 0, &mut text);
                    text.push('m');
                }
                ("s", span % MINUTE, 9)
            }
        };
        push_decimal(nanoseconds, digits, &mut text);
        text.push_str(unit);
        text
    }
}

/// Converts a whole number of days or weeks, which Go does not read, to hours: `45d` becomes `1080h`.
///
/// # Examples
/// ```
/// use pillion_kubernetes::duration::in_hours;
///
/// for (text, hours) in [("45d", Some("1080h")), ("2w", Some("336h")), ("1.5d", None), ("24h", None)] {
///     assert_eq!(in_hours(text).as_deref(), hours);
/// }
/// ```
pub fn in_hours(text: &str) -> Option<String> {
    let (unit, hours) = LONG_UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = text.strip_suffix(unit)?;
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut hours = number.parse::<u64>().ok()?.checked_mul(*hours)?.to_string();
    hours.push('h');
    Some(hours)
}

/// The error for a text that is not a duration. Prints Go's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(String);

impl ParseError {
    /// Returns Go's message.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn new(problem: &Malformation<'_>, text: &str) -> Self {
        let text = quoted(text.as_bytes());
        Self(match problem {
            Malformation::Malformed => format!("time: invalid duration {text}"),
            Malformation::NoUnit => format!("time: missing unit in duration {text}"),
            Malformation::UnknownUnit(unit) => format!("time: unknown unit {} in duration {text}", quoted(unit)),
        })
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for ParseError {}

enum Malformation<'a> {
    Malformed,
    NoUnit,
    UnknownUnit(&'a [u8]),
}

fn nanoseconds(text: &[u8]) -> Result<i64, Malformation<'_>> {
    let (negative, mut rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if rest == b"0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(Malformation::Malformed);
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (digits, after) = split(rest, |byte| byte.is_ascii_digit());
        let whole = whole(digits).ok_or(Malformation::Malformed)?;
        let (decimals, after) = match after {
            [b'.', after @ ..] => split(after, |byte| byte.is_ascii_digit()),
            _ => (&[][..], after),
        };
        if digits.is_empty() && decimals.is_empty() {
            return Err(Malformation::Malformed);
        }
        let (name, after) = split(after, |byte| byte != b'.' && !byte.is_ascii_digit());
        if name.is_empty() {
            return Err(Malformation::NoUnit);
        }
        let Some((_, unit)) = UNITS.iter().find(|(known, _)| known.as_bytes() == name) else {
            return Err(Malformation::UnknownUnit(name));
        };
        if whole > LIMIT / unit {
            return Err(Malformation::Malformed);
        }
        let part = whole * unit + fraction(decimals, *unit);
        // The sum may wrap, as Go's does: twice 2^63 becomes zero.
        total = total.wrapping_add(part);
        if part > LIMIT || total > LIMIT {
            return Err(Malformation::Malformed);
        }
        rest = after;
    }
    if negative {
        return Ok(0_i64.wrapping_sub_unsigned(total));
    }
    i64::try_from(total).map_err(|_| Malformation::Malformed)
}

/// Splits off the leading bytes that satisfy `belongs`.
fn split(text: &[u8], belongs: fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !belongs(*byte)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, &[]))
}

/// Returns the number that the digits write, or 0 if there are none. `None` above 2^63.
fn whole(digits: &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for digit in digits {
        number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        if number > LIMIT {
            return None;
        }
    }
    Some(number)
}

/// Converts the decimals of a unit to nanoseconds, rounding down. Ignores the decimals that do not fit into 63 bits.
///
/// Uses floating point because Go does: an exact result would differ from Go's in the last nanosecond.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
fn fraction(decimals: &[u8], unit: u64) -> u64 {
    let mut number = 0_u64;
    let mut scale = 1.0_f64;
    for digit in decimals {
        if number > (LIMIT - 1) / 10 {
            break;
        }
        let next = number * 10 + u64::from(digit - b'0');
        if next > LIMIT {
            break;
        }
        number = next;
        scale *= 10.0;
    }
    (number as f64 * (unit as f64 / scale)) as u64
}

/// Quotes a text as Go's `time` package does: bytes that are not printable ASCII become `\x` escapes.
fn quoted(text: &[u8]) -> String {
    let escaped = |byte: &u8| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(*byte)),
        b' '..0x80 => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    format!("\"{}\"", text.iter().map(escaped).collect::<String>())
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// Appends `number` with its last `digits` digits after a decimal point, without trailing zeros.
fn push_decimal(number: u64, digits: u32, into: &mut String) {
    let one = 10_u64.pow(digits);
    into.push_str(&(number / one).to_string());
    let fraction = number % one;
    if fraction != 0 {
        // The leading one keeps the zeros after the point.
        let padded = (one + fraction).to_string();
        into.push('.');
        into.push_str(padded.strip_prefix('1').unwrap_or_default().trim_end_matches('0'));
    }
}

#[cfg(test)]
mod tests;
