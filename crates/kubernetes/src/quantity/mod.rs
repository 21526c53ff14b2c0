//! Resource quantities: `500m`, `1Gi`, `129e6` (QTY-1).
//!
//! Kubernetes hashes and compares the stored text of a quantity, so [`Quantity`] prints exactly what apimachinery's
//! `resource.Quantity` (v0.32) prints. Values of every accepted size are exact.

mod magnitude;
mod parse;
#[cfg(test)]
mod tests;
mod text;

use std::cmp::Ordering;

use magnitude::Magnitude;
use serde_json::Value;

/// The maximum number of digits of a quantity, and the largest power of ten that may multiply it. Both also apply to
/// the text that Kubernetes stores.
pub(crate) const MAX_DIGITS: usize = 4_096;

/// The kind of suffix that a quantity is printed with. A value keeps the format in which it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `n u m k M G T P E`: powers of 1,000. Also the default format of zero.
    #[default]
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`: powers of 1,024. A value below 1,024 or with a fraction prints as [`Self::DecimalSi`].
    BinarySi,
    /// `e3`, `e-6`: powers of ten, in steps of three.
    DecimalExponent,
}

/// The reason why a text or a JSON value is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text is not a number with a suffix.
    #[error(
        "not a quantity: write a number and, right after it, an optional suffix (n u m k M G T P E, Ki Mi Gi Ti Pi Ei) or exponent (e3), such as \"500m\" or \"1Gi\""
    )]
    Malformed,
    /// The suffix does not exist.
    #[error("unknown suffix {0:?}: use one of n u m k M G T P E, Ki Mi Gi Ti Pi Ei, an exponent such as e3, or none")]
    Suffix(String),
    /// The quantity has more digits or a larger exponent than [`MAX_DIGITS`].
    #[error(
        "too long: a quantity may have at most {MAX_DIGITS} digits and an exponent of at most {MAX_DIGITS}, also as Kubernetes prints it"
    )]
    TooLarge,
    /// The JSON value has another type.
    #[error("must be a string or a number, not {0}")]
    Type(&'static str),
}

/// A resource quantity.
///
/// Equality and order compare values: `1`, `1000m` and `1e0` are equal. The value is a multiple of a nano.
///
/// # Examples
/// Printing gives the text that Kubernetes stores:
/// ```
/// use pillion_kubernetes::quantity::Quantity;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// for (written, stored) in [
///     ("0.5", "500m"),
///     ("1024Mi", "1Gi"),
///     ("1.5Gi", "1536Mi"),
///     ("0.1Ki", "102400m"), // no binary suffix can express a fraction
///     ("2.5e3", "2500"),
///     ("1.234", "1.234"),   // Kubernetes keeps some short texts as written
/// ] {
///     assert_eq!(Quantity::parse(written)?.to_string(), stored);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    /// Never set for zero.
    negative: bool,
    magnitude: Magnitude,
    format: Format,
    /// The text as it was written, if Kubernetes keeps it.
    text: Option<Box<str>>,
}

impl Quantity {
    fn new(negative: bool, magnitude: Magnitude, format: Format, text: Option<Box<str>>) -> Self {
        Self { negative: negative && !magnitude.is_zero(), magnitude, format, text }
    }

    /// Parses a quantity as apimachinery's `ParseQuantity` does: rounds a fraction of a nano up to a nano, and limits a
    /// binary quantity to 2⁶³-1 (QTY-1).
    ///
    /// # Errors
    /// See [`QuantityError`]. Spaces are errors here; [`Self::from_json`] removes them.
    ///
    /// # Examples
    /// ```
    /// use pillion_kubernetes::quantity::{Quantity, QuantityError};
    ///
    /// for (text, error) in [
    ///     ("1K", QuantityError::Suffix("K".to_owned())), // 1k or 1Ki
    ///     ("1 Gi", QuantityError::Malformed),
    ///     ("", QuantityError::Malformed),
    ///     ("1e4097", QuantityError::TooLarge),
    /// ] {
    ///     assert_eq!(Quantity::parse(text), Err(error));
    /// }
    /// ```
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::parse(text)
    }

    /// Reads a quantity from JSON: a string, possibly with spaces around it; a number; or null, which is zero (QTY-1).
    pub fn from_json(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::Null => Ok(Self::default()),
            // In JSON a tab or a line break can only be an escape, which Kubernetes does not decode here.
            Value::String(text) => {
                Self::parse(text.trim_matches(|c: char| c == ' ' || (c.is_whitespace() && !c.is_ascii())))
            }
            // serde_json writes every exponent with a sign; users omit the plus.
            Value::Number(number) => match number.as_str().split_once("e+") {
                Some((digits, exponent)) => Self::parse(&format!("{digits}e{exponent}")),
                None => Self::parse(number.as_str()),
            },
            Value::Bool(_) => Err(QuantityError::Type("a boolean")),
            Value::Array(_) => Err(QuantityError::Type("a list")),
            Value::Object(_) => Err(QuantityError::Type("an object")),
        }
    }

    /// Creates a quantity of `value` units.
    pub fn from_units(value: i64, format: Format) -> Self {
        Self::new(value < 0, Magnitude::from_scaled(value.unsigned_abs(), 0), format, None)
    }

    /// Creates a quantity of `value` thousandths.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Self::new(value < 0, Magnitude::from_scaled(value.unsigned_abs(), 3), format, None)
    }

    /// Returns the format in which the quantity is printed.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether the value is 0.
    pub fn is_zero(&self) -> bool {
        self.magnitude.is_zero()
    }

    /// Whether the value is below 0.
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// Whether the value is a whole number of units.
    pub fn is_whole(&self) -> bool {
        self.magnitude.is_whole()
    }

    /// Whether the value may have more than `digits` decimal digits, those of a nano included.
    pub fn is_longer_than(&self, digits: usize) -> bool {
        self.magnitude.digits() > digits
    }

    /// Returns the sum, in this quantity's format, or in the other's if this one is 0. Returns `None` if the sum is too
    /// large.
    #[must_use]
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        self.plus(other.negative, other)
    }

    /// Returns the sum as [`Self::checked_add`] does. Adding many short quantities to a long one does not copy the long
    /// one each time.
    #[must_use]
    pub fn increased(mut self, other: &Self) -> Option<Self> {
        if self.negative != other.negative || self.is_zero() {
            return self.checked_add(other);
        }
        self.magnitude.add(&other.magnitude);
        self.text = None;
        (self.magnitude.digits() <= MAX_DIGITS * 3).then_some(self)
    }

    /// Returns the difference, with the format and the limit of [`Self::checked_add`].
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

    /// Returns the same amount with the opposite sign.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self::new(!self.negative, self.magnitude.clone(), self.format, None)
    }

    /// Rounds away from zero to a multiple of a thousandth (DEF-5). A multiple of a thousandth keeps its value and
    /// text.
    ///
    /// # Examples
    /// ```
    /// use pillion_kubernetes::quantity::Quantity;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// for (exact, rounded) in [("0.0001", "1m"), ("1.2345", "1235m"), ("-0.0001", "-1m"), ("1.234", "1.234")] {
    ///     assert_eq!(Quantity::parse(exact)?.round_up_to_milli().to_string(), rounded);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn round_up_to_milli(&self) -> Self {
        self.rounded(3)
    }

    /// Rounds away from zero to a whole number of units. A whole number keeps its value and text.
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

    /// Returns the number of units, rounded away from zero; `None` beyond 64 bits.
    pub fn to_i64_ceil(&self) -> Option<i64> {
        self.scaled(0)
    }

    /// Returns the number of thousandths, rounded away from zero; `None` beyond 64 bits.
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
