//! Amounts of a resource: `500m`, `1Gi`, `129e6` (`sidecarset.md`, 5.7).
//!
//! The text that Kubernetes stores for a quantity is hashed and compared, so [`Quantity`] keeps to the letter what
//! apimachinery's `resource.Quantity` (v0.32) prints. Values are exact at every size that is accepted.

mod magnitude;
mod parse;
#[cfg(test)]
mod tests;
mod text;

use std::cmp::Ordering;

use magnitude::Magnitude;
use serde_json::Value;

use crate::format;

/// The most digits that a quantity may be written with, and the largest power of ten that it may be multiplied by; also in
/// the text that Kubernetes stores for it.
pub const MAX_DIGITS: usize = 4_096;

/// Which suffixes a quantity is printed with. A value keeps the format that it was written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `n u m k M G T P E`: powers of 1,000. Also the format of zero where nothing says otherwise.
    #[default]
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`: powers of 1,024. A value below 1,024 or with a fraction prints as [`Self::DecimalSi`].
    BinarySi,
    /// `e3`, `E-6`: powers of ten, by three.
    DecimalExponent,
}

/// Why a text or a JSON value is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number with a suffix.
    #[error(
        "not a quantity: write a number and, right after it, an optional suffix (n u m k M G T P E, Ki Mi Gi Ti Pi Ei) or exponent (e3), such as \"500m\" or \"1Gi\""
    )]
    Malformed,
    /// A number with a suffix that does not exist.
    #[error("unknown suffix {0:?}: use one of n u m k M G T P E, Ki Mi Gi Ti Pi Ei, an exponent such as e3, or none")]
    Suffix(String),
    /// More digits or a larger exponent than [`MAX_DIGITS`].
    #[error(
        "too long: a quantity may have at most {MAX_DIGITS} digits and an exponent of at most {MAX_DIGITS}, also as Kubernetes prints it"
    )]
    TooLarge,
    /// JSON of another type.
    #[error("must be a string or a number, not {0}")]
    Type(&'static str),
}

/// An amount of a resource.
///
/// Equality and order are those of the value: `1`, `1000m` and `1e0` are equal. The value is a multiple of a nano.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    /// Never set for zero.
    negative: bool,
    magnitude: Magnitude,
    format: Format,
    /// The text as it was written, where Kubernetes keeps it.
    text: Option<Box<str>>,
}

impl Quantity {
    fn new(negative: bool, magnitude: Magnitude, format: Format, text: Option<Box<str>>) -> Self {
        Self { negative: negative && !magnitude.is_zero(), magnitude, format, text }
    }

    /// Reads a quantity as apimachinery's `ParseQuantity` does; a value below a nano becomes a nano, a binary one
    /// above 2⁶³-1 becomes that (E-20).
    ///
    /// Errors: see [`QuantityError`]. Spaces are errors here; [`Self::from_json`] takes them off.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::parse(text)
    }

    /// Reads a quantity from JSON: a string, spaces around it allowed; a number; null, which is zero (E-20).
    pub fn from_json(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::Null => Ok(Self::default()),
            // A tab or a line break can only stand in JSON as an escape, which Kubernetes does not undo here.
            Value::String(text) => {
                Self::parse(text.trim_matches(|c: char| c == ' ' || (c.is_whitespace() && !c.is_ascii())))
            }
            // serde_json writes every exponent with a sign; people leave the plus out.
            Value::Number(number) => match format::cut(number.as_str(), "e+") {
                Some((digits, exponent)) => Self::parse(&[digits, "e", exponent].concat()),
                None => Self::parse(number.as_str()),
            },
            Value::Bool(_) => Err(QuantityError::Type("a boolean")),
            Value::Array(_) => Err(QuantityError::Type("a list")),
            Value::Object(_) => Err(QuantityError::Type("an object")),
        }
    }

    /// `value` units.
    pub fn from_units(value: i64, format: Format) -> Self {
        Self::new(value < 0, Magnitude::from_scaled(value.unsigned_abs(), 0), format, None)
    }

    /// `value` thousandths.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Self::new(value < 0, Magnitude::from_scaled(value.unsigned_abs(), 3), format, None)
    }

    /// The format that it is printed in.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether it is 0.
    pub fn is_zero(&self) -> bool {
        self.magnitude.is_zero()
    }

    /// Whether it is below 0.
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// Whether it is a whole number of units.
    pub fn is_whole(&self) -> bool {
        self.magnitude.is_whole()
    }

    /// The sum in this quantity's format, or in the other's where this one is 0; `None` where it is too large.
    #[must_use]
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        self.plus(other.negative, other)
    }

    /// The difference, in the format of [`Self::checked_add`].
    #[must_use]
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        self.plus(!other.negative, other)
    }

    fn plus(&self, other_negative: bool, other: &Self) -> Option<Self> {
        let (negative, magnitude) = if self.negative == other_negative {
            (self.negative, self.magnitude.plus(&other.magnitude))
        } else if self.magnitude >= other.magnitude {
            (self.negative, self.magnitude.minus(&other.magnitude))
        } else {
            (other_negative, other.magnitude.minus(&self.magnitude))
        };
        let format = if self.is_zero() { other.format } else { self.format };
        (magnitude.digits() <= MAX_DIGITS * 3).then(|| Self::new(negative, magnitude, format, None))
    }

    /// The same amount with the other sign.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self::new(!self.negative, self.magnitude.clone(), self.format, None)
    }

    /// Rounded away from zero to a multiple of a thousandth (D-5). Unchanged, its text too, where it is one.
    #[must_use]
    pub fn round_up_to_milli(&self) -> Self {
        self.rounded(3)
    }

    /// Rounded away from zero to a whole number of units. Unchanged, its text too, where it is one.
    #[must_use]
    pub fn round_up_to_whole(&self) -> Self {
        self.rounded(0)
    }

    fn rounded(&self, decimals: u32) -> Self {
        let magnitude = self.magnitude.ceil(decimals).times(10_u32.saturating_pow(9_u32.saturating_sub(decimals)));
        if magnitude == self.magnitude {
            return self.clone();
        }
        Self::new(self.negative, magnitude, self.format, None)
    }

    /// Units, rounded away from zero; `None` beyond 64 bits.
    pub fn to_i64_ceil(&self) -> Option<i64> {
        self.scaled(0)
    }

    /// Thousandths, rounded away from zero; `None` beyond 64 bits.
    pub fn to_milli_ceil(&self) -> Option<i64> {
        self.scaled(3)
    }

    fn scaled(&self, decimals: u32) -> Option<i64> {
        let magnitude = self.magnitude.ceil(decimals).to_u64()?;
        if self.negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.magnitude.cmp(&other.magnitude),
            (true, true) => other.magnitude.cmp(&self.magnitude),
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}
