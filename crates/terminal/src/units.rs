//! Values with units, on the command line and in settings files.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use pillion_kubernetes::duration;
use serde::Deserialize;
use serde::de::Error as _;

/// A duration in Go's notation: `1s`, `500ms`, `1m30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let span = duration::Duration::parse(text).map_err(|error| error.to_string())?;
        let nanoseconds = u64::try_from(span.0).map_err(|_| "must not be negative".to_owned())?;
        Ok(Self(Duration::from_nanos(nanoseconds)))
    }
}

/// A number of bytes: `65536`, `64Ki`, `3Mi`, `1Gi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub usize);

const UNITS: [(&str, usize); 3] = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, unit) =
            UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes))).unwrap_or((text, 1));
        let number: usize = digits.parse().map_err(|_| "must be a number of bytes, as in 65536 or 64Mi".to_owned())?;
        number
            .checked_mul(unit)
            .filter(|bytes| *bytes > 0)
            .map(Self)
            .ok_or_else(|| "must be more than 0, and fit".to_owned())
    }
}

/// Reads a value that a file holds as a text or as a number, by the rules of the command line.
fn read<'de, T: FromStr<Err = String>, D: serde::Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Number(u64),
    }
    let text = match Written::deserialize(deserializer)? {
        Written::Text(text) => text,
        Written::Number(number) => number.to_string(),
    };
    text.parse().map_err(|problem| D::Error::custom(format_args!("invalid value {text:?}: {problem}")))
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().rev().find(|(_, bytes)| self.0.is_multiple_of(*bytes)) {
            Some((unit, bytes)) => write!(f, "{}{unit}", self.0 / bytes),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("65536", 65_536)]
    #[case("64Ki", 65_536)]
    #[case("3Mi", 3 * 1024 * 1024)]
    fn sizes_have_units(#[case] text: &str, #[case] bytes: usize) {
        assert_eq!(text.parse::<Size>(), Ok(Size(bytes)));
        assert_eq!(Size(bytes).to_string().parse::<Size>(), Ok(Size(bytes)));
    }

    #[rstest]
    #[case("")]
    #[case("0")]
    #[case("3MB")]
    #[case("-1")]
    #[case("99999999999999999999Gi")]
    fn other_texts_are_no_sizes(#[case] text: &str) {
        assert!(text.parse::<Size>().is_err());
    }

    #[rstest]
    #[case("1s", 1_000)]
    #[case("500ms", 500)]
    #[case("0", 0)]
    fn spans_are_gos(#[case] text: &str, #[case] milliseconds: u64) {
        assert_eq!(text.parse::<Span>(), Ok(Span(Duration::from_millis(milliseconds))));
    }

    #[test]
    fn negative_and_unknown_spans_are_refused() {
        assert_eq!("-1s".parse::<Span>(), Err("must not be negative".to_owned()));
        assert!("1d".parse::<Span>().unwrap_err().contains("unknown unit"));
    }
}
