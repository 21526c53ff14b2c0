//! JSON as Go's `encoding/json` writes it: compact, sorted maps, and its own escapes.
//!
//! Go wrote what is stored in clusters, so bytes matter (H-5 to H-7, M-10, R-2).

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// Escapes `<`, `>`, `&`, U+2028 and U+2029, too (H-6).
///
/// Go writes `\ufffd` for a byte that is not UTF-8. A `str` has no such byte; U+FFFD itself stays unescaped.
struct Go;

impl Formatter for Go {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((plain, special, behind)) = next_special(rest) {
            writer.write_all(plain.as_bytes())?;
            write!(writer, "\\u{:04x}", u32::from(special))?;
            rest = behind;
        }
        writer.write_all(rest.as_bytes())
    }
}

/// The first character that Go escapes and JSON does not, with the text before and behind it.
fn next_special(text: &str) -> Option<(&str, char, &str)> {
    // U+2028 and U+2029 begin like all characters from U+2000 to U+2FFF.
    let may_be = |byte: &u8| matches!(byte, b'<' | b'>' | b'&' | 0xe2);
    if !text.as_bytes().iter().any(may_be) {
        return None;
    }
    let (at, special) =
        text.char_indices().find(|(_, char)| matches!(char, '<' | '>' | '&' | '\u{2028}' | '\u{2029}'))?;
    let (plain, behind) = text.split_at_checked(at)?;
    Some((plain, special, behind.get(special.len_utf8()..)?))
}

/// Appends what a serializer writes to a text.
struct Appended<'a>(&'a mut String);

impl Write for Appended<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push_str(str::from_utf8(bytes).map_err(io::Error::other)?);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Nothing that is written here fails: keys are strings, and a text takes every piece, each of which is UTF-8.
fn append<T: Serialize + ?Sized>(out: &mut String, value: &T) {
    let written = value.serialize(&mut Serializer::with_formatter(Appended(out), Go));
    debug_assert!(written.is_ok());
}

/// Writes `text` as a JSON string (H-6): `<`, `>`, `&` and U+2028, U+2029 escaped, everything else that JSON allows left as
/// it is.
pub fn write_string(out: &mut String, text: &str) {
    append(out, text);
}

/// The JSON of a generic value: keys sorted bytewise at every level, numbers as they were written.
pub fn to_string_sorted(value: &Value) -> String {
    let mut out = String::new();
    write_sorted(&mut out, value);
    out
}

/// Writes what [`to_string_sorted`] answers.
pub fn write_sorted(out: &mut String, value: &Value) {
    append(out, value);
}

/// The comma before an item or an entry that is not the first. A value never ends in an opening bracket, except in
/// a string, and that ends in its quote.
pub fn separate(out: &mut String) {
    if !out.ends_with(['{', '[']) {
        out.push(',');
    }
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
