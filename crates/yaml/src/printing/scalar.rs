//! Writes scalars, quoted so that every parser of YAML 1.1 or 1.2 reads the same value.

use std::fmt::Write as _;

use serde_json::Value;

/// Words, in lower case, that some parser reads as a boolean, null or a number.
const RESERVED: [&str; 22] = [
    "y", "yes", "n", "no", "true", "false", "on", "off", "null", "~", "nan", "inf", "infinity", ".nan", ".inf",
    "+.inf", "-.inf", "+inf", "-inf", "+nan", "-nan", "none",
];
/// The characters of numbers of any base, dates, times and versions.
const NUMERIC: &str = "0123456789abcdefABCDEFxXoO_.+-: TtZz";

/// Writes a scalar. `indent` applies to the lines of a multi-line text.
pub(super) fn value(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::String(text) if is_block(text) => block(text, indent, out),
        Value::String(text) => line(text, out),
        // The literal of a JSON number is valid YAML.
        other => out.push_str(&other.to_string()),
    }
}

/// Writes the key of a map.
pub(super) fn key(text: &str, out: &mut String) {
    line(text, out);
}

/// Writes a text on one line.
fn line(text: &str, out: &mut String) {
    if is_plain(text) {
        out.push_str(text);
    } else if text.contains(['"', '\\']) && text.chars().all(is_printable) {
        // Such a text is mostly JSON, as in annotations. Single quotes keep it readable.
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    } else {
        double_quoted(text, out);
    }
}

fn double_quoted(text: &str, out: &mut String) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            char if is_printable(char) => out.push(char),
            // Writing to a String cannot fail.
            char => {
                let code = u32::from(char);
                let _ = if code > 0xffff { write!(out, "\\U{code:08x}") } else { write!(out, "\\u{code:04x}") };
            }
        }
    }
    out.push('"');
}

/// Whether a text has several lines and can be written verbatim behind `|`.
fn is_block(text: &str) -> bool {
    // A parser would take leading spaces of the first line for the indentation of the block.
    let starts_plainly = !text.starts_with([' ', '\t', '\n']);
    text.contains('\n')
        && starts_plainly
        && text.chars().all(|char| char == '\n' || char == '\t' || is_printable(char))
        // Some parsers read a final line of spaces as an empty line.
        && !text.trim_end_matches('\n').ends_with([' ', '\t'])
}

fn block(text: &str, indent: usize, out: &mut String) {
    let body = text.trim_end_matches('\n');
    let end = text.len() - body.len();
    out.push_str(match end {
        0 => "|-",
        1 => "|",
        _ => "|+",
    });
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            super::spaces(indent, out);
            out.push_str(line);
        }
    }
    // The caller that ends the line writes the last line feed.
    out.extend(std::iter::repeat_n('\n', end.saturating_sub(1)));
}

/// Whether a text without quotes is read as itself.
fn is_plain(text: &str) -> bool {
    let Some(first) = text.chars().next() else { return false };
    let second = text.chars().nth(1);
    let starts_plainly = first.is_ascii_alphanumeric()
        || matches!(first, '_' | '/' | '.' | '$' | '(' | '^' | '+')
        || (first == '-' && second.is_some_and(|char| !char.is_ascii_whitespace()));
    starts_plainly
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.starts_with("---")
        && !text.starts_with("...")
        && text.chars().all(is_printable)
        && !RESERVED.contains(&text.to_ascii_lowercase().as_str())
        && !looks_numeric(text, first)
}

fn looks_numeric(text: &str, first: char) -> bool {
    // A number may have underscores, behind its sign, too.
    let starts_so = |char: char| char.is_ascii_digit() || matches!(char, '.' | '_');
    let starts = starts_so(first) || (matches!(first, '+' | '-') && text.chars().nth(1).is_none_or(starts_so));
    starts && text.chars().all(|char| NUMERIC.contains(char))
}

/// Whether YAML allows the character unescaped and it is visible. Line breaks do not count.
fn is_printable(char: char) -> bool {
    !char.is_control()
        && !matches!(char, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        && u32::from(char) & 0xfffe != 0xfffe
}
