//! The events of libyaml, each with its range of bytes in the text.

use std::collections::BTreeMap;
use std::ops::Range;

use libyaml_safer::{Error, EventData, MappingStyle, Mark, Parser, ScalarStyle, SequenceStyle};

use super::depth::Depth;
use crate::problem::Problem;

/// An event and the bytes that it stands for.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) data: EventData,
    pub(super) range: Range<usize>,
}

/// Returns all events of a text.
///
/// # Errors
/// If the text is not YAML.
pub(super) fn events(text: &str) -> Result<Vec<Event>, Problem> {
    let Some(mut given) = Given::new(text) else {
        return Err(Problem::new("the text has all characters for private use", 0..0));
    };
    for _ in 0..MAX_READINGS {
        match given.read() {
            Ok(events) if given.gives_back(&events) => {}
            Err(Failure::Yaml(error)) if given.mends(&error) => {}
            Ok(events) => return Ok(events),
            Err(Failure::Yaml(error)) => return Err(given.problem(&error)),
            Err(Failure::Depth(problem)) => return Err(problem),
        }
    }
    let message =
        format!("more than {MAX_READINGS} unquoted texts in [...] or {{...}} end with a colon, or have ! and a comma");
    Err(Problem::new(message, 0..0).help("write these texts in quotes"))
}

/// Why a text cannot be read.
enum Failure {
    Yaml(Error),
    /// The parser takes long for many levels, so it stops at too many.
    Depth(Problem),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Yaml(error)
    }
}

/// How often a text may be read.
const MAX_READINGS: usize = 256;

/// The text that libyaml gets. It differs from the given text where Go's reader, another port of the same library, takes
/// a character otherwise:
///
/// * A colon at the end of an unquoted text in `[...]` or `{...}`, as in `[a:, b]`, is a part of the text.
/// * `\'` in double quotes is an apostrophe.
/// * A byte order mark within a document is a part of the text around it.
/// * A comma or a bracket at the end of a tag is a part of the tag. libyaml-safer 0.3.0 panics at such a comma, so it
///   never gets one.
struct Given<'a> {
    text: &'a str,
    own: Placeholders,
    /// The bytes of `text` that libyaml gets as another character.
    instead: BTreeMap<usize, char>,
}

/// Characters that are nothing special to YAML and not in the text, in place of one that is. What is read has the original
/// again.
#[derive(Clone, Copy)]
struct Placeholders {
    colon: char,
    comma: char,
    mark: char,
    /// In place of a backslash. What is read has nothing there.
    nothing: char,
}

impl Placeholders {
    /// Returns four characters for private use that the text does not have.
    fn missing_in(text: &str) -> Option<Self> {
        let mut free = ('\u{e000}'..='\u{f8ff}').chain('\u{f0000}'..='\u{ffffd}').filter(|char| !text.contains(*char));
        Some(Self { colon: free.next()?, comma: free.next()?, mark: free.next()?, nothing: free.next()? })
    }

    /// Puts the characters back that libyaml did not get.
    fn restored(self, data: EventData) -> EventData {
        match data {
            EventData::Scalar { anchor, tag, value, plain_implicit, quoted_implicit, style }
                if value.contains([self.colon, self.comma, self.mark, self.nothing]) =>
            {
                let value = value.replace(self.colon, ":").replace(self.comma, ",").replace(self.nothing, "");
                let value = value.replace(self.mark, BYTE_ORDER_MARK.encode_utf8(&mut [0; 4]));
                EventData::Scalar { anchor, tag, value, plain_implicit, quoted_implicit, style }
            }
            data => data,
        }
    }
}

/// What tags may have, in place of a comma or a bracket. No tag that means something has either.
const IN_TAG: char = '+';

const BYTE_ORDER_MARK: char = '\u{feff}';

impl<'a> Given<'a> {
    fn new(text: &'a str) -> Option<Self> {
        let own = Placeholders::missing_in(text)?;
        let commas = commas_of_tags(text).map(|at| (at, own.comma));
        let marks = text.match_indices(BYTE_ORDER_MARK).map(|(at, _)| (at, own.mark));
        Some(Self { text, own, instead: commas.chain(marks).collect() })
    }

    fn read(&self) -> Result<Vec<Event>, Failure> {
        let mut given = String::with_capacity(self.text.len() + 1);
        let mut from = 0;
        for (at, char) in &self.instead {
            given.push_str(self.text.get(from..*at).unwrap_or_default());
            given.push(*char);
            from = at + self.original(*at);
        }
        given.push_str(self.text.get(from..).unwrap_or_default());
        // kubectl reads lines, and ends the last one.
        if !given.ends_with('\n') {
            given.push('\n');
        }
        let mut bytes = given.as_bytes();
        let mut parser = Parser::new();
        parser.set_input_string(&mut bytes);
        let mut events = Vec::new();
        let mut depth = Depth::default();
        loop {
            let event = parser.parse()?;
            if event.data == EventData::StreamEnd {
                return Ok(events);
            }
            let start = self.at(event.start_mark);
            let range = start..self.at(event.end_mark).max(start);
            match event.data {
                EventData::SequenceStart { .. } | EventData::MappingStart { .. } => {
                    depth.enter(&range).map_err(Failure::Depth)?;
                }
                EventData::SequenceEnd | EventData::MappingEnd => depth.leave(),
                _ => {}
            }
            events.push(Event { data: self.own.restored(event.data), range });
        }
    }

    /// Returns the byte of the text at a mark, which counts the bytes that libyaml got.
    fn at(&self, mark: Mark) -> usize {
        let mut at = usize::try_from(mark.index).unwrap_or(usize::MAX);
        for (instead, char) in &self.instead {
            if *instead >= at {
                break;
            }
            at = at.saturating_sub(char.len_utf8() - self.original(*instead)).max(*instead);
        }
        at.min(self.text.len())
    }

    /// Returns the length in bytes of the character at a place.
    fn original(&self, at: usize) -> usize {
        self.text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
    }

    /// Gives back the first comma that turns out to be in an unquoted text of `[...]` or `{...}`, which it may end.
    /// Returns whether there is one.
    fn gives_back(&mut self, events: &[Event]) -> bool {
        if self.instead.is_empty() {
            return false;
        }
        let mut flow = 0_usize;
        let mut texts = events.iter().filter(|event| {
            match &event.data {
                EventData::SequenceStart { style: SequenceStyle::Flow, .. }
                | EventData::MappingStart { style: MappingStyle::Flow, .. } => flow += 1,
                // In [...] and {...} is no other collection.
                EventData::SequenceEnd | EventData::MappingEnd => flow = flow.saturating_sub(1),
                _ => {}
            }
            flow > 0 && matches!(event.data, EventData::Scalar { style: ScalarStyle::Plain, .. })
        });
        let within = |event: &Event| {
            let range = event.range.clone();
            self.instead.range(range).find(|(_, char)| **char == self.own.comma).map(|(at, _)| *at)
        };
        let first = texts.find_map(within);
        first.is_some_and(|comma| self.instead.remove(&comma).is_some())
    }

    /// Replaces the character at which libyaml fails and Go's reader does not, or gives commas back. Returns whether it
    /// did.
    fn mends(&mut self, error: &Error) -> bool {
        let at = self.at(error.problem_mark().unwrap_or_default());
        let is = |texts: &[&str]| texts.iter().any(|text| self.is_at(at, text));
        let is_tag = matches!(error.context(), Some("while scanning a tag" | "while parsing a tag"));
        match error.problem() {
            "found unexpected ':'" if is(&[":"]) => self.instead.insert(at, self.own.colon).is_none(),
            "found unknown escape character" if is(&["\\'"]) => self.instead.insert(at, self.own.nothing).is_none(),
            "did not find expected tag URI" | "did not find expected whitespace or line break"
                if is_tag && is(&[",", "[", "]"]) =>
            {
                self.instead.insert(at, IN_TAG) != Some(IN_TAG)
            }
            _ if is_tag => false,
            // libyaml came here without finding a tag at the first of the commas, so it is in a text.
            _ => {
                let mut before = self.instead.range(..=at);
                let first = before.find(|(_, char)| **char == self.own.comma).map(|(at, _)| *at);
                first.is_some_and(|comma| self.instead.remove(&comma).is_some())
            }
        }
    }

    fn problem(&self, error: &Error) -> Problem {
        let at = self.at(error.problem_mark().unwrap_or_default());
        let start = error.context_mark().map_or(at, |mark| self.at(mark));
        let is_end = self.text.get(at..).is_none_or(|rest| rest.trim().is_empty());
        let context = error.context().unwrap_or_default();
        match (error.problem(), context) {
            ("did not find expected <document start>", _) => self
                .line(at, "the document ends before this line: kubectl would drop the rest")
                .help("documents in one file are separated by ---"),
            (problem, "while parsing a flow sequence") if is_end => self.at_char(start, problem).help("close this ["),
            (problem, "while parsing a flow mapping") if is_end => self.at_char(start, problem).help("close this {"),
            (problem, "while scanning a quoted scalar") => {
                self.at_char(start, problem).help("close this quotation mark")
            }
            (problem @ "could not find expected ':'", _) => self.line(start, problem),
            (problem @ "found character that cannot start any token", _) if self.is_at(at, "\t") => {
                self.at_char(at, problem).help("indent with spaces, not with a tab")
            }
            (problem @ "found character that cannot start any token", _) => {
                self.at_char(at, problem).help("write the text in quotes")
            }
            (problem @ "mapping values are not allowed in this context", _) => {
                self.at_char(at, problem).help("write a text with \": \" in quotes, and each key on a line of its own")
            }
            ("control characters are not allowed", _) => {
                let is_control = |char: char| char.is_control() && !matches!(char, '\t' | '\n' | '\r' | '\u{85}');
                let at =
                    self.text.find(|char| is_control(char) || matches!(char, '\u{fffe}' | '\u{ffff}')).unwrap_or(at);
                self.at_char(at, "control characters are not allowed")
                    .help("remove it, or write it as \\u.... in double quotes")
            }
            (problem, "") => self.at_char(at, problem),
            (problem, context) => self.at_char(at, &format!("{problem} {context}")),
        }
    }

    /// A problem of the rest of a line.
    fn line(&self, at: usize, message: &str) -> Problem {
        let line = self.text.get(at..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        Problem::new(message, at..at + line.trim_end().len())
    }

    fn at_char(&self, at: usize, message: &str) -> Problem {
        let at = at.min(self.text.len());
        Problem::new(message, at..(at + self.original(at)).min(self.text.len()))
    }

    fn is_at(&self, at: usize, text: &str) -> bool {
        self.text.get(at..).is_some_and(|rest| rest.starts_with(text))
    }
}

/// Returns the commas that may be at the end of a tag or in it. Some of them are in texts.
fn commas_of_tags(text: &str) -> impl Iterator<Item = usize> {
    let mut is_tag = false;
    let mut before = ' ';
    text.char_indices().filter_map(move |(at, char)| {
        // Behind <, a ! is part of !<...>, or of a text.
        is_tag = (is_tag && is_of_tag(char)) || (char == '!' && before != '<');
        let is_end = is_tag || before == '>';
        before = char;
        (char == ',' && is_end).then_some(at)
    })
}

fn is_of_tag(char: char) -> bool {
    char.is_ascii_alphanumeric() || "_-;/?:@&=+$.%!~*'(),[]".contains(char)
}
