//! JSON as Go's `encoding/json` writes it: compact, sorted maps, and its own escapes.
//!
//! What is stored in clusters was written by it, so bytes matter (H-5 to H-7, M-10, R-2).

use std::slice;
use std::vec;

use serde_json::Value;

use crate::json::Object;
use crate::ordered::sort_by;

/// Which characters of a string are written as escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escapes {
    /// Those that JSON demands.
    Json,
    /// Go's: `<`, `>`, `&`, U+2028 and U+2029, too (H-6).
    Go,
}

/// Writes `text` as a JSON string (H-6): `<`, `>`, `&` and U+2028, U+2029 escaped, everything else that JSON allows
/// left as it is.
///
/// Go writes `\ufffd` for a byte that is no UTF-8. Such a byte cannot be in a `str`; U+FFFD itself stays unescaped.
pub fn write_string(out: &mut String, text: &str) {
    write_text(out, text, Escapes::Go);
}

fn write_text(out: &mut String, text: &str, escapes: Escapes) {
    out.reserve(text.len() + 2);
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' => write_escape(out, char),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if escapes == Escapes::Go => write_escape(out, char),
            char => out.push(char),
        }
    }
    out.push('"');
}

fn write_escape(out: &mut String, char: char) {
    out.push_str("\\u");
    for shift in [12, 8, 4, 0] {
        out.push(char::from_digit((u32::from(char) >> shift) & 0xf, 16).unwrap_or('0'));
    }
}

/// The JSON of a generic value: keys sorted bytewise at every level, numbers as they were written.
pub fn to_string_sorted(value: &Value) -> String {
    let mut out = String::new();
    write_sorted(&mut out, value);
    out
}

/// An object or a list that is being written.
enum Open<'a> {
    List(slice::Iter<'a, Value>),
    Map(vec::IntoIter<(&'a String, &'a Value)>),
}

/// Writes what [`to_string_sorted`] answers.
pub fn write_sorted(out: &mut String, value: &Value) {
    write(out, value, Escapes::Go);
}

/// Writes a value. Does not recurse, so no depth of input is too much.
pub fn write(out: &mut String, value: &Value, escapes: Escapes) {
    let mut open = Vec::new();
    write_start(out, value, escapes, &mut open);
    while let Some(innermost) = open.last_mut() {
        let next = match innermost {
            Open::List(items) => items.next().map(|value| (None, value)),
            Open::Map(entries) => entries.next().map(|(key, value)| (Some(key), value)),
        };
        let Some((key, value)) = next else {
            out.push(if matches!(innermost, Open::List(_)) { ']' } else { '}' });
            open.pop();
            continue;
        };
        separate(out);
        if let Some(key) = key {
            write_text(out, key, escapes);
            out.push(':');
        }
        write_start(out, value, escapes, &mut open);
    }
}

/// Writes a scalar, or the bracket that opens a list or an object.
fn write_start<'a>(out: &mut String, value: &'a Value, escapes: Escapes, open: &mut Vec<Open<'a>>) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(number.as_str()),
        Value::String(text) => write_text(out, text, escapes),
        Value::Array(list) => {
            out.push('[');
            open.push(Open::List(list.iter()));
        }
        Value::Object(object) => {
            out.push('{');
            open.push(Open::Map(sorted(object).into_iter()));
        }
    }
}

/// The comma before an item or an entry that is not the first. A value never ends in an opening bracket, except in
/// a string, and that ends in its quote.
pub(crate) fn separate(out: &mut String) {
    if !out.ends_with(['{', '[']) {
        out.push(',');
    }
}

/// The entries of a map in Go's order.
pub(crate) fn sorted(object: &Object) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = object.iter().collect();
    sort_by(&mut entries, |(one, _), (other, _)| one.cmp(other));
    entries
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn string(text: &str) -> String {
        let mut out = String::new();
        write_string(&mut out, text);
        out
    }

    #[rstest]
    #[case::html("a && <c>", r#""a \u0026\u0026 \u003cc\u003e""#)]
    #[case::line_separators("\u{2028}\u{2029}", r#""\u2028\u2029""#)]
    #[case::short_forms("\u{8}\u{c}\n\r\t\"\\", r#""\b\f\n\r\t\"\\""#)]
    #[case::other_controls("\0\u{1}\u{b}\u{1f}", r#""\u0000\u0001\u000b\u001f""#)]
    #[case::untouched("/ \u{7f} é 😀 \u{fffd}", "\"/ \u{7f} é 😀 \u{fffd}\"")]
    #[case::empty("", "\"\"")]
    fn h6_strings_are_escaped_as_go_escapes_them(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(string(text), expected);
    }

    #[test]
    fn h7_keys_are_sorted_bytewise_at_every_level() {
        let value = json!({"b": {"é": 1, "z": 2, "Z": 3}, "a": [], "": {}, "a/b": [[], {}, null, true, "["]});
        assert_eq!(to_string_sorted(&value), r#"{"":{},"a":[],"a/b":[[],{},null,true,"["],"b":{"Z":3,"z":2,"é":1}}"#);
    }

    #[test]
    fn m11_number_literals_are_preserved() {
        let literals = r"[1.50,1e+3,-0,123456789012345678901234567890,1e+2]";
        // serde_json gives every exponent a sign as it reads it; all else is the literal.
        let value: Value = serde_json::from_str(literals).unwrap();
        assert_eq!(to_string_sorted(&value), literals);
    }

    #[test]
    fn deep_values_are_written_whole() {
        let mut value = Value::Null;
        for _ in 0..500 {
            value = Value::Array(vec![value]);
        }
        assert_eq!(to_string_sorted(&value).len(), 1_004);
    }
}
