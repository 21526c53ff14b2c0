//! Which value a scalar has: what Go's reader of YAML 1.1 takes it for.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use super::timestamp;
use crate::scalar::Scalar;

/// The tags of YAML 1.1 that decide a type.
const PREFIX: &str = "tag:yaml.org,2002:";

/// A tag that a scalar has, or that its text suggests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Null,
    Bool,
    Int,
    Float,
    Timestamp,
    Text,
}

impl Tag {
    const fn name(self) -> &'static str {
        match self {
            Self::Null => "!!null",
            Self::Bool => "!!bool",
            Self::Int => "!!int",
            Self::Float => "!!float",
            Self::Timestamp => "!!timestamp",
            Self::Text => "!!str",
        }
    }
}

/// Returns the value of a scalar with a tag, or of an unquoted one without.
///
/// # Errors
/// What is wrong, if the text is not of the type that the tag says, or the number has no JSON.
pub(super) fn resolve(tag: Option<&str>, text: &str) -> Result<Scalar, String> {
    let wanted = match tag.map(|tag| tag.strip_prefix(PREFIX).unwrap_or(tag)) {
        None | Some("") => None,
        Some("null") => Some(Tag::Null),
        Some("bool") => Some(Tag::Bool),
        Some("int") => Some(Tag::Int),
        Some("float") => Some(Tag::Float),
        Some("timestamp") => Some(Tag::Timestamp),
        Some("binary") => return binary(text).map(Scalar::Text),
        // Text, and all tags that are not known.
        Some(_) => return Ok(Scalar::Text(text.to_owned())),
    };
    let (found, value) = plain(text, wanted);
    match (wanted, value) {
        (Some(Tag::Float), Scalar::Int(value)) => {
            #[expect(clippy::cast_precision_loss, reason = "Go converts it so")]
            let value = value as f64;
            Ok(Scalar::Float(value))
        }
        (Some(wanted), _) if wanted != found => Err(format!("`{text}` is no {}", wanted.name())),
        (_, value) => Ok(value),
    }
}

/// Returns what an unquoted text stands for.
fn plain(text: &str, wanted: Option<Tag>) -> (Tag, Scalar) {
    let as_text = || (Tag::Text, Scalar::Text(text.to_owned()));
    let Some(first) = text.chars().next() else { return (Tag::Null, Scalar::Null) };
    match first {
        'y' | 'Y' | 'n' | 'N' | 't' | 'T' | 'f' | 'F' | 'o' | 'O' | '~' => word(text).unwrap_or_else(as_text),
        '.' => word(text)
            .or_else(|| decimal(&without_underscores(text)?).map(|value| (Tag::Float, Scalar::Float(value))))
            .unwrap_or_else(as_text),
        '+' | '-' | '0'..='9' => {
            if matches!(wanted, None | Some(Tag::Timestamp)) && timestamp::is_timestamp(text) {
                return (Tag::Timestamp, Scalar::Text(text.to_owned()));
            }
            word(text).or_else(|| number(&text.replace('_', ""))).unwrap_or_else(as_text)
        }
        _ => as_text(),
    }
}

fn word(text: &str) -> Option<(Tag, Scalar)> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            (Tag::Bool, Scalar::Bool(true))
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            (Tag::Bool, Scalar::Bool(false))
        }
        "~" | "null" | "Null" | "NULL" => (Tag::Null, Scalar::Null),
        ".nan" | ".NaN" | ".NAN" => (Tag::Float, Scalar::Float(f64::NAN)),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => (Tag::Float, Scalar::Float(f64::INFINITY)),
        "-.inf" | "-.Inf" | "-.INF" => (Tag::Float, Scalar::Float(f64::NEG_INFINITY)),
        _ => return None,
    })
}

/// Returns the number that a text without underscores is; integers may have another base.
fn number(text: &str) -> Option<(Tag, Scalar)> {
    let (sign, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match (lower.as_str(), lower.strip_prefix('0')) {
        (_, Some(rest)) if rest.starts_with('x') => (16, rest.get(1..)?),
        (_, Some(rest)) if rest.starts_with('b') => (2, rest.get(1..)?),
        (_, Some(rest)) if rest.starts_with('o') => (8, rest.get(1..)?),
        (_, Some(rest)) if !rest.is_empty() => (8, rest),
        (all, _) => (10, all),
    };
    // A second sign is no digit.
    let is_number = digits.starts_with(|char: char| char.is_digit(radix));
    if let Some(value) = is_number.then(|| i128::from_str_radix(digits, radix).ok()).flatten() {
        let value = if sign { -value } else { value };
        if let Ok(value) = i64::try_from(value) {
            return Some((Tag::Int, Scalar::Int(value)));
        }
        if let (Ok(value), None) = (u64::try_from(value), text.strip_prefix(['+', '-'])) {
            return Some((Tag::Int, Scalar::Uint(value)));
        }
    }
    // Go allows a sign behind this prefix, and so does Rust's parser.
    if let Some(value) = text.strip_prefix("0b").and_then(|digits| i64::from_str_radix(digits, 2).ok()) {
        return Some((Tag::Int, Scalar::Int(value)));
    }
    decimal(text).map(|value| (Tag::Float, Scalar::Float(value)))
}

/// Returns a decimal number with a fraction or an exponent, unless it is too large.
fn decimal(text: &str) -> Option<f64> {
    let is_of_number = |char: char| char.is_ascii_digit() || matches!(char, '.' | 'e' | 'E' | '+' | '-');
    let value: f64 = text.chars().all(is_of_number).then(|| text.parse().ok()).flatten()?;
    value.is_finite().then_some(value)
}

/// Returns a number without underscores, which may stand between digits.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let is_between = |(at, _): (usize, &str)| is_digit(at.checked_sub(1)) && is_digit(at.checked_add(1));
    text.match_indices('_').all(is_between).then(|| text.replace('_', ""))
}

/// Decodes base64. Each byte that is no UTF-8 becomes U+FFFD, as in Go's JSON.
fn binary(text: &str) -> Result<String, String> {
    const STRICT: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    let engine = GeneralPurpose::new(&base64::alphabet::STANDARD, STRICT);
    let text: String = text.chars().filter(|char| !matches!(char, '\r' | '\n')).collect();
    let bytes = engine.decode(text).map_err(|_| "the value of !!binary is no base64".to_owned())?;
    let replaced = |invalid: &[u8]| "\u{fffd}".repeat(invalid.len());
    Ok(bytes.utf8_chunks().map(|chunk| chunk.valid().to_owned() + &replaced(chunk.invalid())).collect())
}
