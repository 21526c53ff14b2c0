//! JSON as Go's `encoding/json` writes it: compact, sorted maps, and its own escapes.
//!
//! Go wrote the objects that clusters store, so every byte matters (HASH-5 to HASH-7, INJ-10, REV-2).

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// A formatter that also escapes `<`, `>`, `&`, U+2028 and U+2029 (HASH-6).
///
/// Go writes `\ufffd` for a byte that is not UTF-8. A `str` has no such byte, and the character U+FFFD stays unescaped.
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

/// Returns the first character that Go escapes and JSON does not, with the text before and after it.
fn next_special(text: &str) -> Option<(&str, char, &str)> {
    // The first byte of U+2028 and U+2029 is that of all characters from U+2000 to U+2FFF.
    let may_be = |byte: &u8| matches!(byte, b'<' | b'>' | b'&' | 0xe2);
    if !text.as_bytes().iter().any(may_be) {
        return None;
    }
    let (at, special) =
        text.char_indices().find(|(_, char)| matches!(char, '<' | '>' | '&' | '\u{2028}' | '\u{2029}'))?;
    let (plain, behind) = text.split_at_checked(at)?;
    Some((plain, special, behind.get(special.len_utf8()..)?))
}

/// A writer that appends the output of a serializer to a text.
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

/// A writer that compares the output of a serializer with a text, and fails at the first difference.
struct Compared<'a>(&'a [u8]);

impl Write for Compared<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.strip_prefix(bytes).ok_or(io::ErrorKind::InvalidData)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether [`to_string_sorted`] returns this text for the value. Stops at the first difference.
pub fn is_text_of(text: &str, value: &Value) -> bool {
    let mut compared = Compared(text.as_bytes());
    value.serialize(&mut Serializer::with_formatter(&mut compared, Go)).is_ok() && compared.0.is_empty()
}

/// Appends the JSON of a value. This cannot fail: keys are strings, and each written piece is UTF-8.
fn append<T: Serialize + ?Sized>(out: &mut String, value: &T) {
    let written = value.serialize(&mut Serializer::with_formatter(Appended(out), Go));
    debug_assert!(written.is_ok());
}

/// Writes `text` as a JSON string (HASH-6). Escapes `<`, `>`, `&`, U+2028 and U+2029, and else only what JSON requires.
pub fn write_string(out: &mut String, text: &str) {
    append(out, text);
}

/// Returns the JSON of a value: keys sorted bytewise at every level, numbers as they were written.
pub fn to_string_sorted(value: &Value) -> String {
    let mut out = String::new();
    write_sorted(&mut out, value);
    out
}

/// Appends the result of [`to_string_sorted`] to `out`.
pub fn write_sorted(out: &mut String, value: &Value) {
    append(out, value);
}

/// Appends the comma before an item or an entry that is not the first. A value never ends in an opening bracket, except
/// within a string, which ends in its quote.
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
    fn hash6_strings_are_escaped_as_go_escapes_them(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(string(text), expected);
    }

    #[test]
    fn hash7_keys_are_sorted_bytewise_at_every_level() {
        let value = json!({"b": {"é": 1, "z": 2, "Z": 3}, "a": [], "": {}, "a/b": [[], {}, null, true, "["]});
        assert_eq!(to_string_sorted(&value), r#"{"":{},"a":[],"a/b":[[],{},null,true,"["],"b":{"Z":3,"z":2,"é":1}}"#);
    }

    #[rstest]
    #[case::the_same(r#"{"a":"\u003c","b":[1.50]}"#, true)]
    #[case::shorter(r#"{"a":"\u003c","b":[1.50"#, false)]
    #[case::longer(r#"{"a":"\u003c","b":[1.50]} "#, false)]
    #[case::another_order(r#"{"b":[1.50],"a":"\u003c"}"#, false)]
    #[case::another_escape(r#"{"a":"<","b":[1.50]}"#, false)]
    #[case::empty("", false)]
    fn e18_a_text_is_compared_without_writing_the_value(#[case] text: &str, #[case] expected: bool) {
        let value: Value = serde_json::from_str(r#"{"b":[1.50],"a":"<"}"#).unwrap();
        assert_eq!(is_text_of(text, &value), expected);
        assert_eq!(to_string_sorted(&value) == text, expected);
    }

    #[test]
    fn inj11_number_literals_are_preserved() {
        let literals = r"[1.50,1e+3,-0,123456789012345678901234567890,1e+2]";
        // serde_json gives every exponent a sign when it parses it; the rest of the literal is unchanged.
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
