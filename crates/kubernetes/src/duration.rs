//! Durations as Go reads and writes them (`time.ParseDuration`, `Duration.String`; D12).
//!
//! Gardener decodes durations with Go, so what Go takes is what is valid, to the nanosecond and to the last oddity.

use std::fmt;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The units that Go knows; both characters that look like a Greek mu are in use.
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
/// Units that people write and Go does not know, in hours.
const LONG_UNITS: [(&str, u64); 2] = [("d", 24), ("w", 168)];
/// One more than the largest duration, in nanoseconds.
const LIMIT: u64 = 1 << 63;

/// A span of time in nanoseconds, negative ones included: up to 292 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(pub i64);

impl Duration {
    /// So many hours; more than a duration can hold is the longest.
    pub const fn hours(hours: u32) -> Self {
        Self((hours as i64).saturating_mul(3_600_000_000_000))
    }

    /// Reads numbers with units: `720h`, `-1.5h`, `1h30m`. Zero needs no unit.
    ///
    /// # Errors
    /// Go's own text: `time: unknown unit "d" in duration "45d"`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        nanoseconds(text.as_bytes()).map(Self).map_err(|problem| ParseError::of(&problem, text))
    }

    /// The text that Go prints: hours, minutes and seconds from one second on (`2160h0m0.5s`), else one smaller unit
    /// (`1.5ms`).
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

/// The text in hours that stands for a whole number of days or weeks, which Go does not read: `45d` is `1080h`.
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

/// A text that is no duration. Prints what Go says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(String);

impl ParseError {
    /// What Go says.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn of(problem: &Problem<'_>, text: &str) -> Self {
        let mut message = "time: ".to_owned();
        match problem {
            Problem::Malformed => message.push_str("invalid duration "),
            Problem::NoUnit => message.push_str("missing unit in duration "),
            Problem::UnknownUnit(unit) => {
                message.push_str("unknown unit ");
                quote(unit, &mut message);
                message.push_str(" in duration ");
            }
        }
        quote(text.as_bytes(), &mut message);
        Self(message)
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for ParseError {}

enum Problem<'a> {
    Malformed,
    NoUnit,
    UnknownUnit(&'a [u8]),
}

fn nanoseconds(text: &[u8]) -> Result<i64, Problem<'_>> {
    let (negative, mut rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if rest == b"0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(Problem::Malformed);
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (digits, after) = split(rest, |byte| byte.is_ascii_digit());
        let whole = whole(digits).ok_or(Problem::Malformed)?;
        let (decimals, after) = match after {
            [b'.', after @ ..] => split(after, |byte| byte.is_ascii_digit()),
            _ => (&[][..], after),
        };
        if digits.is_empty() && decimals.is_empty() {
            return Err(Problem::Malformed);
        }
        let (name, after) = split(after, |byte| byte != b'.' && !byte.is_ascii_digit());
        if name.is_empty() {
            return Err(Problem::NoUnit);
        }
        let Some((_, unit)) = UNITS.iter().find(|(known, _)| known.as_bytes() == name) else {
            return Err(Problem::UnknownUnit(name));
        };
        if whole > LIMIT / unit {
            return Err(Problem::Malformed);
        }
        let part = whole * unit + fraction(decimals, *unit);
        // The sum may wrap, as Go's does: twice 2^63 is zero there.
        total = total.wrapping_add(part);
        if part > LIMIT || total > LIMIT {
            return Err(Problem::Malformed);
        }
        rest = after;
    }
    if negative {
        return Ok(0_i64.wrapping_sub_unsigned(total));
    }
    i64::try_from(total).map_err(|_| Problem::Malformed)
}

/// The leading bytes that belong together, and the others.
fn split(text: &[u8], belongs: fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !belongs(*byte)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, &[]))
}

/// The number that digits write, 0 where there are none; nothing above 2^63.
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

/// Decimals of a unit in nanoseconds, cut off below. Decimals that do not fit into 63 bits are passed over.
///
/// In floating point because Go computes it so: an exact result would differ from its in the last nanosecond.
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

/// In quotes as Go's `time` package does it: what is not printable ASCII as its bytes.
fn quote(text: &[u8], into: &mut String) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let hex = |digit: u8| HEX.get(usize::from(digit)).map_or('0', |digit| char::from(*digit));
    into.push('"');
    for byte in text.iter().copied() {
        if (b' '..0x80).contains(&byte) {
            if byte == b'"' || byte == b'\\' {
                into.push('\\');
            }
            into.push(char::from(byte));
        } else {
            into.push_str("\\x");
            into.push(hex(byte >> 4));
            into.push(hex(byte & 0xf));
        }
    }
    into.push('"');
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// `number` with its last `digits` digits behind a point, without zeros at the end.
fn push_decimal(number: u64, digits: u32, into: &mut String) {
    let one = 10_u64.pow(digits);
    into.push_str(&(number / one).to_string());
    let fraction = number % one;
    if fraction != 0 {
        // The leading one keeps the zeros behind the point.
        let padded = (one + fraction).to_string();
        into.push('.');
        into.push_str(padded.strip_prefix('1').unwrap_or_default().trim_end_matches('0'));
    }
}

#[cfg(test)]
mod tests;
