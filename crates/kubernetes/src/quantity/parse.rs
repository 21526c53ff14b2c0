//! Parsing a quantity (QTY-1).

use super::magnitude::{Magnitude, NANO};
use super::{Format, MAX_DIGITS, Quantity, QuantityError};

/// The maximum number of decimal digits that Kubernetes stores as a 64-bit number, keeping the text as written.
const SHORT_DECIMAL: usize = 18;
/// The same limit for binary suffixes. Each step of 1,024 counts as three digits.
const SHORT_BINARY: usize = 14;

/// The suffix after the number.
#[derive(Clone, Copy)]
enum Suffix {
    /// Multiplies by `10^exponent`.
    Decimal { exponent: i64, format: Format },
    /// Multiplies by `1024^steps`.
    Binary { steps: u32 },
}

impl Suffix {
    fn read(text: &str) -> Result<Self, QuantityError> {
        let si = |exponent| Ok(Self::Decimal { exponent, format: Format::DecimalSi });
        let unknown = || QuantityError::Suffix(text.to_owned());
        match text {
            "n" => si(-9),
            "u" => si(-6),
            "m" => si(-3),
            "" => si(0),
            "k" => si(3),
            "M" => si(6),
            "G" => si(9),
            "T" => si(12),
            "P" => si(15),
            "E" => si(18),
            "Ki" => Ok(Self::Binary { steps: 1 }),
            "Mi" => Ok(Self::Binary { steps: 2 }),
            "Gi" => Ok(Self::Binary { steps: 3 }),
            "Ti" => Ok(Self::Binary { steps: 4 }),
            "Pi" => Ok(Self::Binary { steps: 5 }),
            "Ei" => Ok(Self::Binary { steps: 6 }),
            _ => {
                let exponent = text.strip_prefix(['e', 'E']).ok_or_else(unknown)?;
                // Kubernetes wraps an exponent beyond 32 bits around; here it is an error.
                let exponent: i32 = exponent.parse().map_err(|_| unknown())?;
                Ok(Self::Decimal { exponent: i64::from(exponent), format: Format::DecimalExponent })
            }
        }
    }
}

/// The parts of a number as it is written.
struct Parts<'a> {
    negative: bool,
    /// The digits before the point, without leading zeros.
    whole: &'a str,
    /// The digits after the point, as written.
    fraction: &'a str,
    /// Whether there is any digit, including leading zeros.
    has_digit: bool,
    suffix: &'a str,
}

/// Splits `text` after its leading digits.
fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

fn split(text: &str) -> Parts<'_> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (digits, rest) = split_digits(unsigned);
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    Parts {
        negative: text.starts_with('-'),
        whole: digits.trim_start_matches('0'),
        fraction,
        has_digit: !digits.is_empty() || !fraction.is_empty(),
        suffix,
    }
}

/// Whether `suffix` has the form of a suffix: letters of suffixes, a sign, digits.
fn is_suffix_shaped(suffix: &str) -> bool {
    let rest = suffix.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
    let digits = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses a quantity. See [`Quantity::parse`].
pub(super) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Malformed);
    }
    let parts = split(text);
    if !is_suffix_shaped(parts.suffix) {
        return Err(QuantityError::Malformed);
    }
    let suffix = Suffix::read(parts.suffix)?;
    // As in Kubernetes, a number without any digit is zero if it is short, and an error otherwise.
    let short = is_short(&parts, suffix);
    if !parts.has_digit && !short {
        return Err(QuantityError::Malformed);
    }
    if parts.whole.len() + parts.fraction.len() > MAX_DIGITS {
        return Err(QuantityError::TooLarge);
    }
    let digits = [parts.whole.as_bytes(), parts.fraction.as_bytes()].concat();
    let decimals = i64::try_from(parts.fraction.len()).unwrap_or(i64::MAX);
    let keeps_text = short && (keeps_text(&parts, &digits, suffix) || text == "0");
    let (magnitude, format) = match suffix {
        Suffix::Decimal { exponent, format } => {
            let limit = i64::try_from(MAX_DIGITS).unwrap_or(i64::MAX);
            if exponent > limit && digits.iter().any(|digit| *digit != b'0') {
                return Err(QuantityError::TooLarge);
            }
            // Zero may have any exponent.
            let magnitude = Magnitude::from_decimal(digits, exponent.saturating_sub(decimals));
            (magnitude.ok_or(QuantityError::TooLarge)?, format)
        }
        Suffix::Binary { steps } => binary(digits, decimals, steps)?,
    };
    let quantity = Quantity::new(parts.negative, magnitude, format, keeps_text.then(|| text.into()));
    if is_readable(&quantity) { Ok(quantity) } else { Err(QuantityError::TooLarge) }
}

/// Whether the text that Kubernetes stores is also within the limits: `100e4096` is stored as `1e4098`.
fn is_readable(quantity: &Quantity) -> bool {
    if quantity.magnitude.digits() <= MAX_DIGITS {
        return true;
    }
    let text = quantity.to_string();
    let parts = split(&text);
    let exponent = parts.suffix.strip_prefix(['e', 'E']).and_then(|exponent| exponent.parse::<usize>().ok());
    parts.whole.len() + parts.fraction.len() <= MAX_DIGITS && exponent.is_none_or(|exponent| exponent <= MAX_DIGITS)
}

/// Returns the value of `digits * 10^-decimals * 1024^steps`, at most 2⁶³-1. The format is decimal if the value is
/// below one.
fn binary(digits: Vec<u8>, decimals: i64, steps: u32) -> Result<(Magnitude, Format), QuantityError> {
    // Multiply first, so that a fraction of a nano is rounded up once, at the end.
    let whole = Magnitude::from_decimal(digits, NANO).ok_or(QuantityError::TooLarge)?;
    let product = (0..steps).fold(whole, |product, _| product.times(1024));
    let magnitude = Magnitude::from_decimal(product.to_decimal(), -decimals).ok_or(QuantityError::TooLarge)?;
    let largest = Magnitude::from_scaled(i64::MAX.unsigned_abs(), 0);
    if magnitude > largest {
        return Ok((largest, Format::BinarySi));
    }
    let below_one = !magnitude.is_zero() && magnitude < Magnitude::from_scaled(1, 0);
    Ok((magnitude, if below_one { Format::DecimalSi } else { Format::BinarySi }))
}

/// Whether Kubernetes stores the number as a 64-bit mantissa.
fn is_short(parts: &Parts<'_>, suffix: Suffix) -> bool {
    let whole = parts.whole.len().max(1);
    match suffix {
        Suffix::Decimal { exponent, .. } => {
            whole + parts.fraction.len() <= SHORT_DECIMAL
                && exponent.saturating_sub(i64::try_from(parts.fraction.len()).unwrap_or(i64::MAX)) >= NANO
        }
        Suffix::Binary { steps } => {
            parts.fraction.is_empty() && whole + 3 * usize::try_from(steps).unwrap_or(usize::MAX) <= SHORT_BINARY
        }
    }
}

/// Whether a short number counts as canonical, so that Kubernetes stores its text as written.
///
/// Kubernetes' test is coarse: `1.`, `+1`, `00100` and `1.234` stay as they are.
fn keeps_text(parts: &Parts<'_>, digits: &[u8], suffix: Suffix) -> bool {
    match suffix {
        Suffix::Decimal { exponent, .. } => {
            let decimals = i64::try_from(parts.fraction.len()).unwrap_or_default();
            !parts.whole.is_empty() && (exponent - decimals) % 3 == 0 && !digits.ends_with(b"000")
        }
        Suffix::Binary { .. } => {
            let mantissa = digits
                .iter()
                .fold(0_u64, |value, digit| value.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0'))));
            mantissa % 8 != 0
        }
    }
}
