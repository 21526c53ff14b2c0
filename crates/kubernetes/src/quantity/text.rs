//! Printing a quantity as its canonical text (QTY-1).

use std::fmt;

use super::magnitude::{LIMB_DIGITS, Magnitude};
use super::{Format, Quantity};

const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl fmt::Display for Quantity {
    /// Prints the text that Kubernetes stores: the text as written if that counts as canonical, else the canonical
    /// form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        if self.magnitude.is_zero() {
            return f.write_str("0");
        }
        if self.negative {
            f.write_str("-")?;
        }
        match self.format {
            Format::BinarySi if is_binary(&self.magnitude) => binary(&self.magnitude, f),
            Format::BinarySi | Format::DecimalSi => decimal(&self.magnitude, true, f),
            Format::DecimalExponent => decimal(&self.magnitude, false, f),
        }
    }
}

/// Whether a binary suffix can express the value: it is whole, and at least 1,024.
fn is_binary(magnitude: &Magnitude) -> bool {
    magnitude.is_whole() && *magnitude >= Magnitude::from_scaled(1024, 0)
}

fn binary(magnitude: &Magnitude, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // `rest` counts units, not nanos.
    let mut rest = magnitude.ceil(0);
    let mut suffixes = BINARY_SUFFIXES.iter();
    let mut suffix = suffixes.next();
    for larger in suffixes {
        let (quotient, remainder) = rest.divided(1024);
        if remainder {
            break;
        }
        rest = quotient;
        suffix = Some(larger);
    }
    digits(&rest.to_decimal(), f)?;
    f.write_str(suffix.unwrap_or(&""))
}

/// Prints with the largest suffix, or exponent divisible by three, that leaves no fraction.
fn decimal(magnitude: &Magnitude, si: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let text = magnitude.to_decimal();
    let zeros = text.iter().rev().take_while(|digit| **digit == b'0').count();
    // The number of thousands that the suffix expresses, from nano upwards. There is no suffix above E, so larger
    // values keep their digits.
    let steps = if si { (zeros / 3).min(DECIMAL_SUFFIXES.len() - 1) } else { zeros / 3 };
    digits(text.get(..text.len() - steps * 3).unwrap_or_default(), f)?;
    if si {
        return f.write_str(DECIMAL_SUFFIXES.get(steps).unwrap_or(&""));
    }
    match (steps * 3, LIMB_DIGITS) {
        (exponent, nano) if exponent < nano => write!(f, "e-{}", nano - exponent),
        (exponent, nano) if exponent > nano => write!(f, "e{}", exponent - nano),
        _ => Ok(()),
    }
}

fn digits(digits: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(std::str::from_utf8(digits).unwrap_or_default())
}
