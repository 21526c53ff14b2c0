//! JSON as Go's `encoding/json` writes it: compact, sorted maps, and its own escapes.
//!
//! What is stored in clusters was written by it, so bytes matter (H-5 to H-7, M-10, R-2).
#![allow(clippy::single_char_add_str, reason = "the one byte of a text is stored, a character is encoded by a call")]

use std::slice;
use std::vec;

use serde_json::Value;

use crate::{Object, scan};

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
    out.reserve(text.len() + 3);
    out.push_str("\"");
    let mut rest = text;
    while !rest.is_empty() {
        let plain = plain_text(rest.as_bytes(), escapes);
        if plain == rest.len() {
            out.push_str(rest);
            break;
        }
        // Nothing that is escaped stands within a character of several bytes.
        let (run, more) = rest.split_at_checked(plain).unwrap_or((rest, ""));
        out.push_str(run);
        let mut chars = more.chars();
        if let Some(char) = chars.next() {
            write_char(out, char, escapes);
        }
        rest = chars.as_str();
    }
    out.push_str("\"");
}

/// How many bytes at the beginning are written as they are; where that ends, a character begins.
fn plain_text(bytes: &[u8], escapes: Escapes) -> usize {
    let (plain, _) = scan::plain(bytes);
    if escapes == Escapes::Json {
        return plain;
    }
    // U+2028 and U+2029 begin like all characters from U+2000 to U+2FFF.
    let special = |byte: &u8| matches!(byte, b'<' | b'>' | b'&' | 0xe2);
    bytes.iter().take(plain).position(special).unwrap_or(plain)
}

/// Writes a character that [`plain_text`] has stopped at.
#[inline(never)]
fn write_char(out: &mut String, char: char, escapes: Escapes) {
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

#[inline(never)]
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
    Map(serde_json::map::Iter<'a>),
    /// An object whose entries are not in order by themselves.
    Unsorted(vec::IntoIter<(&'a String, &'a Value)>),
}

/// Writes what [`to_string_sorted`] answers.
pub fn write_sorted(out: &mut String, value: &Value) {
    write(out, value, Escapes::Go);
}

/// Writes a value. Does not recurse, so no depth of input is too much.
pub fn write(out: &mut String, value: &Value, escapes: Escapes) {
    let mut open = Vec::new();
    let sorts = sorts();
    write_start(out, value, (escapes, sorts), &mut open);
    while let Some(innermost) = open.last_mut() {
        let next = match innermost {
            Open::List(items) => items.next().map(|value| (None, value)),
            Open::Map(entries) => entries.next().map(|(key, value)| (Some(key), value)),
            Open::Unsorted(entries) => entries.next().map(|(key, value)| (Some(key), value)),
        };
        let Some((key, value)) = next else {
            out.push_str(if matches!(innermost, Open::List(_)) { "]" } else { "}" });
            open.pop();
            continue;
        };
        separate(out);
        if let Some(key) = key {
            write_text(out, key, escapes);
            out.push_str(":");
        }
        write_start(out, value, (escapes, sorts), &mut open);
    }
}

/// Whether maps have their entries in order by themselves: unless a feature of `serde_json` that somebody else has turned
/// on keeps another.
fn sorts() -> bool {
    let mut map = Object::new();
    for key in ["b", "a"] {
        map.insert(key.to_owned(), Value::Null);
    }
    map.keys().next().is_some_and(|key| key == "a")
}

/// Writes a scalar, or the bracket that opens a list or an object.
fn write_start<'a>(out: &mut String, value: &'a Value, (escapes, sorts): (Escapes, bool), open: &mut Vec<Open<'a>>) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(number.as_str()),
        Value::String(text) => write_text(out, text, escapes),
        Value::Array(list) => {
            out.push_str("[");
            open.push(Open::List(list.iter()));
        }
        Value::Object(object) => {
            out.push_str("{");
            open.push(if sorts { Open::Map(object.iter()) } else { Open::Unsorted(sorted(object).into_iter()) });
        }
    }
}

/// The comma before an item or an entry that is not the first. A value never ends in an opening bracket, except in
/// a string, and that ends in its quote.
pub fn separate(out: &mut String) {
    if !matches!(out.as_bytes().last(), Some(b'{' | b'[')) {
        out.push_str(",");
    }
}

/// The entries of a map in Go's order.
pub fn sorted(object: &Object) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = object.iter().collect();
    // They mostly are in order already: see `sorts`.
    if !entries.is_sorted_by_key(|(key, _)| *key) {
        for end in 1..entries.len() {
            for at in (1..=end).rev() {
                if entries.get(at - 1).map(|(key, _)| *key) <= entries.get(at).map(|(key, _)| *key) {
                    break;
                }
                entries.swap(at - 1, at);
            }
        }
    }
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
