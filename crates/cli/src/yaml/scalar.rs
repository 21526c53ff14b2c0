//! Scalars, quoted so that every parser of YAML 1.1 or 1.2 reads what was meant.

use std::fmt::Write as _;

use serde_json::Value;

/// Words that some parser takes for a boolean, null or a number, in lower case.
const RESERVED: [&str; 22] = [
    "y", "yes", "n", "no", "true", "false", "on", "off", "null", "~", "nan", "inf", "infinity", ".nan", ".inf",
    "+.inf", "-.inf", "+inf", "-inf", "+nan", "-nan", "none",
];
/// Numbers of any base, dates, times and versions are made of these.
const NUMERIC: &str = "0123456789abcdefABCDEFxXoO_.+-: TtZz";

/// Writes a scalar; the lines of a text with line feeds are indented.
pub(super) fn value(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::String(text) if is_block(text) => block(text, indent, out),
        Value::String(text) => line(text, out),
        // The literal of a number is YAML, too.
        other => out.push_str(&other.to_string()),
    }
}

/// Writes the key of a map.
pub(super) fn key(text: &str, out: &mut String) {
    line(text, out);
}

/// A text on one line.
fn line(text: &str, out: &mut String) {
    if is_plain(text) {
        out.push_str(text);
    } else if text.contains(['"', '\\']) && text.chars().all(is_printable) {
        // Mostly JSON, as in annotations, which single quotes leave readable.
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

/// A text of several lines that can stand as it is, behind `|`.
fn is_block(text: &str) -> bool {
    // Otherwise the indentation of the first line would be taken for that of the block.
    let starts_plainly = !text.starts_with([' ', '\t', '\n']);
    text.contains('\n')
        && starts_plainly
        && text.chars().all(|char| char == '\n' || char == '\t' || is_printable(char))
        // A line of spaces at the end would count as an empty one to some parsers.
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
    // The last line feed is written by whoever ends the line.
    out.extend(std::iter::repeat_n('\n', end.saturating_sub(1)));
}

/// Whether a text means itself without quotes.
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
    let starts_so = |char: char| char.is_ascii_digit() || char == '.';
    let starts = starts_so(first) || (matches!(first, '+' | '-') && text.chars().nth(1).is_none_or(starts_so));
    starts && text.chars().all(|char| NUMERIC.contains(char))
}

/// Whether YAML allows a character outside of escapes and everyone sees it. Breaks of lines are not among them.
fn is_printable(char: char) -> bool {
    !char.is_control()
        && !matches!(char, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        && u32::from(char) & 0xfffe != 0xfffe
}
