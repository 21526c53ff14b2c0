//! Bytes to values, as `serde_json` reads them, or past values that nobody needs.
//!
//! Of the library only its [`Value`] is used: its parser is generic over what it makes, and brings printing and
//! reading of floats for error texts that never appear. A quarter of the module was that. What is accepted, what
//! comes out and where an error is found are the same, which a property test compares.

use std::fmt;
use std::ops::Range;

use serde_json::{Number, Value};

use crate::{Object, scan};

/// How deep lists and objects may be nested: the limit of `serde_json`. Values are read, copied and dropped by
/// recursion.
const NESTED_MAX: usize = 127;

/// Values that any text may hold, however short it is, and how many bytes each further one needs.
///
/// A value takes up to 360 bytes of memory, however few bytes of text it has. Texts of objects that people write have 10
/// and more bytes a value, and 40 and more bytes an object.
const VALUES: Allowance = Allowance { free: 16 * 1024, bytes_each: 6 };
/// The same for objects that are not empty, which take most of that memory.
const OBJECTS: Allowance = Allowance { free: 2 * 1024, bytes_each: 26 };

/// The members of an object that are put into it one by one. The others are sorted together: most are in some order, and then
/// each is compared with one other, not with twenty.
const FEW: usize = 64;

/// How many of something a text may hold.
struct Allowance {
    free: usize,
    bytes_each: usize,
}

impl Allowance {
    const fn of(&self, bytes: usize) -> usize {
        self.free + bytes / self.bytes_each
    }
}

/// Why a text is no JSON, or costs more to read than its length allows, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    problem: &'static str,
    /// From 1.
    line: usize,
    /// In bytes; 0 where the line has just begun.
    column: usize,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {} column {}", self.problem, self.line, self.column)
    }
}

impl std::error::Error for ParseError {}

impl ParseError {
    /// Whether the text may well be JSON, but holds more values than its length allows.
    pub fn is_too_dense(&self) -> bool {
        self.problem == TOO_DENSE
    }
}

const TOO_DENSE: &str = "too many small values";

const END_IN_VALUE: &str = "EOF while parsing a value";
const END_IN_STRING: &str = "EOF while parsing a string";
const INVALID_NUMBER: &str = "invalid number";
const END_IN_OBJECT: &str = "EOF while parsing an object";
const OBJECT_GOES_ON: &str = "expected `,` or `}`";
const TRAILING_COMMA: &str = "trailing comma";
const KEY: &str = "key must be a string";

/// Reads one value, and nothing may follow it but space.
///
/// Numbers keep the text in which they are written; only an exponent gets the sign that it has not, and a small
/// `e`. Of the values of one key the last stays.
///
/// # Errors
/// What is no JSON (RFC 8259), text that is no UTF-8, half of a surrogate pair, lists and objects that are nested
/// more than 127 deep, and more than 16,384 values and one for each 6 bytes, or more than 2,048 objects and one for each
/// 26 bytes.
pub fn parse(text: &[u8]) -> Result<Value, ParseError> {
    let mut reader = Reader::new(text);
    let value = reader.value()?;
    reader.end()?;
    Ok(value)
}

/// Reads a text from its beginning to its end, and makes values of what its user wants to have.
#[derive(Debug)]
pub struct Reader<'a> {
    text: &'a [u8],
    /// The index of the next byte.
    at: usize,
    /// How many lists and objects are open.
    nested: usize,
    /// Whether values are passed over. They are read all the same: what is no JSON is refused wherever it stands.
    skips: bool,
    /// How many more values, and objects that are not empty, may be made of the text.
    values_left: usize,
    objects_left: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the beginning of a text.
    pub const fn new(text: &'a [u8]) -> Self {
        let (values_left, objects_left) = (VALUES.of(text.len()), OBJECTS.of(text.len()));
        Self { text, at: 0, nested: 0, skips: false, values_left, objects_left }
    }

    /// Passes over the next value; answers where it stands.
    ///
    /// # Errors
    /// As [`parse`].
    pub fn skip(&mut self) -> Result<Range<usize>, ParseError> {
        self.peek_after_space();
        let start = self.at;
        let skips = std::mem::replace(&mut self.skips, true);
        let read = self.value();
        self.skips = skips;
        read.map(|_| start..self.at)
    }

    /// Passes over the next value if it is a string that needs no reading: ASCII without escapes. Answers where its text
    /// is, between the quotes.
    pub fn skip_plain_text(&mut self) -> Option<Range<usize>> {
        self.peek_after_space().filter(|byte| *byte == b'"')?;
        let start = self.at + 1;
        let (length, is_ascii) = scan::plain_long(self.text.get(start..)?);
        let end = start + length;
        (is_ascii && self.text.get(end) == Some(&b'"')).then(|| {
            self.at = end + 1;
            start..end
        })
    }

    /// Whether the next value is an object.
    pub fn is_at_object(&mut self) -> bool {
        self.peek_after_space() == Some(b'{')
    }

    /// Reads the next value, entry by entry where it is an object: `entry` gets each key, and has to read its value.
    /// Any other value is passed over.
    ///
    /// # Errors
    /// As [`parse`].
    pub fn entries(
        &mut self,
        entry: &mut dyn FnMut(String, &mut Self) -> Result<(), ParseError>,
    ) -> Result<(), ParseError> {
        if !self.is_at_object() {
            return self.skip().map(drop);
        }
        self.open()?;
        let mut first = true;
        while self.goes_on(first, b'}', END_IN_OBJECT, OBJECT_GOES_ON)? {
            first = false;
            let key = self.key()?;
            entry(key, self)?;
        }
        Ok(())
    }

    /// Nothing may follow but space.
    ///
    /// # Errors
    /// Something does.
    pub fn end(&mut self) -> Result<(), ParseError> {
        match self.peek_after_space() {
            None => Ok(()),
            Some(_) => Err(self.ahead("trailing characters")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn peek_after_space(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
        self.peek()
    }

    /// An error at the last byte that was read.
    #[cold]
    #[inline(never)]
    fn here(&self, problem: &'static str) -> ParseError {
        let mut error = ParseError { problem, line: 1, column: 0 };
        for byte in self.text.iter().take(self.at) {
            error.column += 1;
            if *byte == b'\n' {
                error.line += 1;
                error.column = 0;
            }
        }
        error
    }

    /// An error at the byte that comes next.
    #[cold]
    #[inline(never)]
    fn ahead(&mut self, problem: &'static str) -> ParseError {
        self.next();
        self.here(problem)
    }

    /// The next value, without its contents where values are passed over.
    ///
    /// # Errors
    /// As [`parse`].
    pub fn value(&mut self) -> Result<Value, ParseError> {
        if !self.skips {
            self.values_left = self.values_left.checked_sub(1).ok_or_else(|| self.here(TOO_DENSE))?;
        }
        match self.peek_after_space() {
            Some(b'{') => self.object(),
            Some(b'[') => self.list(),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'n') => self.word(b"null", Value::Null),
            Some(b't') => self.word(b"true", Value::Bool(true)),
            Some(b'f') => self.word(b"false", Value::Bool(false)),
            Some(_) => Err(self.ahead("expected value")),
            None => Err(self.here(END_IN_VALUE)),
        }
    }

    #[inline(never)]
    fn word(&mut self, word: &[u8], value: Value) -> Result<Value, ParseError> {
        for expected in word {
            match self.next() {
                Some(byte) if byte == *expected => {}
                Some(_) => return Err(self.here("expected ident")),
                None => return Err(self.here(END_IN_VALUE)),
            }
        }
        Ok(value)
    }

    fn open(&mut self) -> Result<(), ParseError> {
        if self.nested == NESTED_MAX {
            return Err(self.ahead("recursion limit exceeded"));
        }
        self.nested += 1;
        self.at += 1;
        Ok(())
    }

    /// Whether an item or an entry follows, before which there is a comma unless it is the first; reads that comma,
    /// or the bracket that closes.
    fn goes_on(
        &mut self,
        first: bool,
        close: u8,
        end: &'static str,
        expected: &'static str,
    ) -> Result<bool, ParseError> {
        match self.peek_after_space() {
            None => Err(self.here(end)),
            Some(byte) if byte == close => {
                self.at += 1;
                self.nested -= 1;
                Ok(false)
            }
            Some(_) if first => Ok(true),
            Some(b',') => {
                self.at += 1;
                match self.peek_after_space() {
                    Some(byte) if byte == close => Err(self.ahead(TRAILING_COMMA)),
                    Some(_) => Ok(true),
                    None => Err(self.here(END_IN_VALUE)),
                }
            }
            Some(_) => Err(self.ahead(expected)),
        }
    }

    fn list(&mut self) -> Result<Value, ParseError> {
        self.open()?;
        let mut items = Vec::new();
        let mut first = true;
        while self.goes_on(first, b']', "EOF while parsing a list", "expected `,` or `]`")? {
            first = false;
            let item = self.value()?;
            if !self.skips {
                items.push(item);
            }
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self) -> Result<Value, ParseError> {
        let (mut object, mut more) = (Object::new(), Vec::new());
        self.open()?;
        let mut first = true;
        while self.goes_on(first, b'}', END_IN_OBJECT, OBJECT_GOES_ON)? {
            if first && !self.skips {
                self.objects_left = self.objects_left.checked_sub(1).ok_or_else(|| self.here(TOO_DENSE))?;
            }
            first = false;
            let key = self.key()?;
            let value = self.value()?;
            if self.skips {
                continue;
            }
            if object.len() < FEW {
                object.insert(key, value);
            } else {
                more.push((key, value));
            }
        }
        if !more.is_empty() {
            object.append(&mut Object::from_iter(more));
        }
        Ok(Value::Object(object))
    }

    /// Reads a key and the colon behind it.
    fn key(&mut self) -> Result<String, ParseError> {
        if self.peek() != Some(b'"') {
            return Err(self.ahead(KEY));
        }
        let key = self.string()?;
        match self.peek_after_space() {
            Some(b':') => self.at += 1,
            Some(_) => return Err(self.ahead("expected `:`")),
            None => return Err(self.here(END_IN_OBJECT)),
        }
        Ok(key)
    }

    /// Reads digits; whether there are any.
    fn digits(&mut self) -> bool {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        self.at > start
    }

    #[inline(never)]
    fn number(&mut self) -> Result<Value, ParseError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.next() {
            Some(b'0') => {
                if let Some(b'0'..=b'9') = self.peek() {
                    return Err(self.ahead(INVALID_NUMBER));
                }
            }
            Some(b'1'..=b'9') => {
                self.digits();
            }
            Some(_) => return Err(self.here(INVALID_NUMBER)),
            None => return Err(self.here(END_IN_VALUE)),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if !self.digits() {
                let problem = if self.peek().is_some() { INVALID_NUMBER } else { END_IN_VALUE };
                return Err(self.ahead(problem));
            }
        }
        let mantissa = start..self.at;
        let mut exponent = None;
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            let start = self.at;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if !self.digits() {
                let problem = if self.peek().is_some() { INVALID_NUMBER } else { END_IN_VALUE };
                return Err(self.ahead(problem));
            }
            exponent = Some(start..self.at);
        }
        if self.skips {
            return Ok(Value::Null);
        }
        let mut literal = self.ascii(mantissa).to_owned();
        if let Some(exponent) = exponent {
            let exponent = self.ascii(exponent);
            literal.push_str(if exponent.starts_with(['+', '-']) { "e" } else { "e+" });
            literal.push_str(exponent);
        }
        // The only way to a number of any length that does not go through the library's parser.
        Ok(Value::Number(Number::from_string_unchecked(literal)))
    }

    /// What was read, which is known to be ASCII.
    fn ascii(&self, range: Range<usize>) -> &'a str {
        str::from_utf8(self.text.get(range).unwrap_or_default()).unwrap_or_default()
    }

    /// Reads a string, from its first quote to its last; empty where it is passed over.
    fn string(&mut self) -> Result<String, ParseError> {
        self.at += 1;
        let mut out = String::new();
        // How long the text is, and how much of it is UTF-8 if not all of it is: told of when nothing else is wrong.
        let mut length = 0;
        let mut valid = None;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let (plain, is_ascii) = scan::plain(rest);
            if !(is_ascii && self.skips) {
                match str::from_utf8(rest.get(..plain).unwrap_or_default()) {
                    // Nearly every text is one run, and as long as it has to be.
                    Ok(run) if !self.skips && length == 0 && rest.get(plain) == Some(&b'"') => {
                        self.at += plain + 1;
                        return Ok(run.to_owned());
                    }
                    Ok(run) if !self.skips => out.push_str(run),
                    Ok(_) => {}
                    Err(error) => valid = valid.or(Some(length + error.valid_up_to())),
                }
            }
            length += plain;
            self.at += plain;
            match self.next() {
                None => return Err(self.here(END_IN_STRING)),
                Some(b'"') => break,
                Some(b'\\') => {
                    let escaped = self.escaped()?;
                    length += escaped.len_utf8();
                    out.push(escaped);
                }
                Some(_) => return Err(self.here("control character (\\u0000-\\u001F) found while parsing a string")),
            }
        }
        let Some(valid) = valid else { return Ok(out) };
        // Only about there where escapes stand behind it.
        self.at = self.at.saturating_sub(length - valid);
        Err(self.here("invalid unicode code point"))
    }

    /// The character of an escape, after the backslash.
    #[inline(never)]
    fn escaped(&mut self) -> Result<char, ParseError> {
        match self.next() {
            Some(byte @ (b'"' | b'\\' | b'/')) => Ok(char::from(byte)),
            Some(b'b') => Ok('\u{8}'),
            Some(b'f') => Ok('\u{c}'),
            Some(b'n') => Ok('\n'),
            Some(b'r') => Ok('\r'),
            Some(b't') => Ok('\t'),
            Some(b'u') => self.unicode(),
            Some(_) => Err(self.here("invalid escape")),
            None => Err(self.here(END_IN_STRING)),
        }
    }

    /// The character of one hexadecimal escape, or of two that make a surrogate pair, after `\u`.
    #[inline(never)]
    fn unicode(&mut self) -> Result<char, ParseError> {
        const LONE: &str = "lone leading surrogate in hex escape";
        let high = self.hex()?;
        if let Some(character) = char::from_u32(high) {
            return Ok(character);
        }
        if high >= 0xdc00 {
            return Err(self.here(LONE));
        }
        for expected in [b'\\', b'u'] {
            match self.next() {
                Some(byte) if byte == expected => {}
                Some(_) => return Err(self.here("unexpected end of hex escape")),
                None => return Err(self.here(END_IN_STRING)),
            }
        }
        let low = self.hex()?;
        if !(0xdc00..=0xdfff).contains(&low) {
            return Err(self.here(LONE));
        }
        char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)).ok_or_else(|| self.here(LONE))
    }

    /// Four hexadecimal digits.
    fn hex(&mut self) -> Result<u32, ParseError> {
        let Some(digits) = self.text.get(self.at..self.at + 4) else {
            self.at = self.text.len();
            return Err(self.here(END_IN_STRING));
        };
        self.at += 4;
        let value = digits.iter().try_fold(0, |value, digit| Some(value * 16 + char::from(*digit).to_digit(16)?));
        value.ok_or_else(|| self.here("invalid escape"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(item: &str, count: usize, padding: usize) -> String {
        format!("[{}]{}", vec![item; count].join(","), " ".repeat(padding))
    }

    #[test]
    fn short_texts_may_be_dense() {
        assert!(parse(list("0", 10_000, 0).as_bytes()).is_ok());
        assert!(parse(list("{\"\":0}", 2_000, 0).as_bytes()).is_ok());
    }

    #[test]
    fn values_are_counted_against_the_length_of_the_text() {
        let dense = list("0", 100_000, 0);
        let error = parse(dense.as_bytes()).unwrap_err();
        assert!(error.is_too_dense());
        assert_eq!(error.to_string(), "too many small values at line 1 column 99433");
        assert!(parse(list("0", 100_000, 500_000).as_bytes()).is_ok());
        // Passed over, they cost little.
        let mut reader = Reader::new(dense.as_bytes());
        assert_eq!(reader.skip(), Ok(0..dense.len()));
    }

    /// Of the values of one key the last stays, also among many members.
    #[test]
    fn many_members_are_read_as_few_are() {
        let members = |keys: std::ops::Range<usize>| keys.map(|key| format!("\"{key}\":{key}")).collect::<Vec<_>>();
        let all = [members(0..200), members(50..150), vec!["\"0\":\"last\"".to_owned(), "\"199\":\"last\"".to_owned()]];
        let text = format!("{{{}}}", all.concat().join(","));
        let expected: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parse(text.as_bytes()).unwrap(), expected);
        assert_eq!((&expected["0"], &expected["199"]), (&"last".into(), &"last".into()));
    }

    #[test]
    fn objects_are_counted_apart() {
        let dense = list("{\"a\":\"bcdefg\"}", 20_000, 0);
        assert!(parse(dense.as_bytes()).unwrap_err().is_too_dense());
        assert!(parse(list("{\"a\":\"bcdefghijklmnopqrstuv\"}", 20_000, 0).as_bytes()).is_ok());
        assert!(!parse(b"[").unwrap_err().is_too_dense());
    }
}
