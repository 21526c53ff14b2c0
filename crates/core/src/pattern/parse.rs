//! Text to program.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::str::Chars;

use super::program::{Class, Look, Program, Step};
use crate::format;

/// The most repetitions that RE2 allows.
const REPEAT_MAX: u32 = 1000;
/// How deep parts may be nested; parsing recurses.
const DEPTH_MAX: usize = 50;
/// The most steps: repetitions of repetitions multiply, and each step is taken for each character of a text.
const STEPS_MAX: usize = 1 << 13;

const TOO_DEEP: &str = "it is nested too deeply";
const OPEN_CLASS: &str = "a bracket is not closed";

type Ranges = &'static [(char, char)];
const DIGIT: Ranges = &[('0', '9')];
const SPACE: Ranges = &[('\t', '\r'), (' ', ' ')];
const WORD: Ranges = &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];
/// The classes that stand in `[:...:]`; ranges ascending.
const NAMED: [(&str, Ranges); 14] = [
    ("alnum", &[('0', '9'), ('A', 'Z'), ('a', 'z')]),
    ("alpha", &[('A', 'Z'), ('a', 'z')]),
    ("ascii", &[('\0', '\x7f')]),
    ("blank", &[('\t', '\t'), (' ', ' ')]),
    ("cntrl", &[('\0', '\x1f'), ('\x7f', '\x7f')]),
    ("digit", DIGIT),
    ("graph", &[('!', '~')]),
    ("lower", &[('a', 'z')]),
    ("print", &[(' ', '~')]),
    ("punct", &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')]),
    ("space", SPACE),
    ("upper", &[('A', 'Z')]),
    ("word", WORD),
    ("xdigit", &[('0', '9'), ('A', 'F'), ('a', 'f')]),
];

/// Compiles an expression. The error says what is wrong.
pub(super) fn parse(text: &str) -> Result<Program, String> {
    let mut parser = Parser {
        rest: text.chars().peekable(),
        flags: Flags { folded: false, lines: false, any: false },
        classes: Vec::new(),
        names: BTreeSet::new(),
    };
    let part = parser.alternatives(0)?;
    if parser.rest.peek().is_some() {
        return Err("a parenthesis is closed that is not open".to_owned());
    }
    if part.depth > DEPTH_MAX {
        return Err(TOO_DEEP.to_owned());
    }
    distance(part.steps.len())?;
    Ok(Program { steps: part.steps, classes: parser.classes })
}

/// A part of a program.
struct Part {
    steps: Vec<Step>,
    /// How deep groups, repetitions, sequences and alternatives are nested in it.
    depth: usize,
}

#[derive(Clone, Copy)]
struct Flags {
    /// `i`: upper and lower case are the same.
    folded: bool,
    /// `m`: `^` and `$` match at lines.
    lines: bool,
    /// `s`: the dot matches line breaks.
    any: bool,
}

/// What a backslash and its letter mean.
enum Escape {
    Character(char),
    Class { ranges: Ranges, negated: bool },
    Look(Look),
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    flags: Flags,
    classes: Vec<Class>,
    /// The names of groups, each of which may be given once.
    names: BTreeSet<String>,
}

impl Parser<'_> {
    /// Alternatives, up to the parenthesis that closes them, or the end.
    fn alternatives(&mut self, nested: usize) -> Result<Part, String> {
        if nested > DEPTH_MAX {
            return Err(TOO_DEEP.to_owned());
        }
        let mut alternatives = Vec::new();
        let mut parts: Vec<Part> = Vec::new();
        let mut repeated = false;
        while let Some(one) = self.rest.next_if(|one| *one != ')') {
            let was_repeated = std::mem::take(&mut repeated);
            let step = match one {
                '|' => {
                    alternatives.push(joined(std::mem::take(&mut parts)));
                    continue;
                }
                '(' => {
                    parts.extend(self.group(nested)?);
                    continue;
                }
                '*' | '+' | '?' | '{' => {
                    let counts = match one {
                        '*' => Some((0, None)),
                        '+' => Some((1, None)),
                        '?' => Some((0, Some(1))),
                        _ => self.counts()?,
                    };
                    if let Some((least, most)) = counts {
                        if was_repeated {
                            return Err("a repetition of a repetition; use parentheses".to_owned());
                        }
                        repeated = true;
                        // A question mark here belongs to the repetition.
                        self.rest.next_if_eq(&'?');
                        let part = parts.pop().ok_or("there is nothing to repeat")?;
                        parts.push(repetition(&part, least, most)?);
                        continue;
                    }
                    self.character(one)
                }
                '[' => self.class()?,
                '\\' => match self.escape()? {
                    Escape::Character(one) => self.character(one),
                    Escape::Class { ranges, negated } => {
                        self.take(Class { ranges: ranges.to_vec(), negated, folded: false })
                    }
                    Escape::Look(look) => Step::Look(look),
                },
                '.' => {
                    let breaks = if self.flags.any { Vec::new() } else { vec![('\n', '\n')] };
                    self.take(Class { ranges: breaks, negated: true, folded: false })
                }
                '^' => Step::Look(if self.flags.lines { Look::StartOfLine } else { Look::Start }),
                '$' => Step::Look(if self.flags.lines { Look::EndOfLine } else { Look::End }),
                _ => self.character(one),
            };
            parts.push(Part { steps: vec![step], depth: 0 });
        }
        let last = joined(parts);
        if alternatives.is_empty() {
            return Ok(last);
        }
        let depth = alternatives.iter().map(|part| part.depth).max().unwrap_or_default().max(last.depth) + 1;
        let mut steps = last.steps;
        for part in alternatives.into_iter().rev() {
            let mut before = vec![Step::Fork(1, distance(part.steps.len() + 2)?)];
            before.extend(part.steps);
            before.push(Step::Jump(distance(steps.len() + 1)?));
            before.append(&mut steps);
            steps = before;
        }
        Ok(Part { steps, depth })
    }

    fn take(&mut self, class: Class) -> Step {
        self.classes.push(class);
        Step::Take(self.classes.len() - 1)
    }

    fn character(&mut self, one: char) -> Step {
        self.take(Class { ranges: vec![(one, one)], negated: false, folded: self.flags.folded })
    }

    /// What stands in parentheses, after the one that opens; nothing where it only sets flags.
    fn group(&mut self, nested: usize) -> Result<Option<Part>, String> {
        const FLAGS: &str = "(? is not followed by a name, by flags (i, m, s, U) or by a colon";
        let outside = self.flags;
        let mut captures = true;
        if self.rest.next_if_eq(&'?').is_some() {
            captures = matches!(self.rest.peek(), Some('P' | '<'));
            if captures {
                self.name(FLAGS)?;
            } else if self.flags(FLAGS)? {
                return Ok(None);
            }
        }
        let mut part = self.alternatives(nested + 1)?;
        self.rest.next_if_eq(&')').ok_or("a parenthesis is not closed")?;
        self.flags = outside;
        part.depth += usize::from(captures);
        Ok(Some(part))
    }

    /// The name of a group: `<name>` or `P<name>`.
    fn name(&mut self, wrong: &str) -> Result<(), String> {
        self.rest.next_if_eq(&'P');
        self.rest.next_if_eq(&'<').ok_or(wrong)?;
        let mut name = String::new();
        while let Some(one) = self.rest.next_if(|one| *one != '>') {
            let fits = if name.is_empty() {
                one.is_alphabetic()
            } else {
                one.is_alphanumeric() || matches!(one, '.' | '[' | ']')
            };
            if !fits && one != '_' {
                return Err("the name of a group may have letters, digits and underscores".to_owned());
            }
            name.push(one);
        }
        if name.is_empty() || self.rest.next().is_none() {
            return Err(wrong.to_owned());
        }
        if self.names.insert(name) { Ok(()) } else { Err("two groups have the same name".to_owned()) }
    }

    /// Flags; whether they are for the rest of the group around them.
    fn flags(&mut self, wrong: &str) -> Result<bool, String> {
        let mut seen = String::new();
        for one in self.rest.by_ref() {
            let on = !format::has(&seen, b'-');
            match one {
                ':' | ')' => {
                    // `(?)` and flags that end in a minus say nothing.
                    let is_whole = if seen.is_empty() { one == ':' } else { !seen.ends_with('-') };
                    return if is_whole { Ok(one == ')') } else { Err(wrong.to_owned()) };
                }
                _ if seen.chars().any(|before| before == one) => break,
                'i' => self.flags.folded = on,
                'm' => self.flags.lines = on,
                's' => self.flags.any = on,
                // Which match is found first does not matter here.
                'U' | '-' => {}
                _ => break,
            }
            seen.push(one);
        }
        Err(wrong.to_owned())
    }

    /// `n}`, `n,}` or `n,m}`, as RE2 reads it; anything else makes the brace an ordinary character.
    fn counts(&mut self) -> Result<Option<(u32, Option<u32>)>, String> {
        let inside: String = self.rest.clone().take_while(|one| one.is_ascii_digit() || *one == ',').collect();
        let (least, most) = match inside.split_once(',') {
            Some((least, most)) => (least, Some(most)),
            None => (inside.as_str(), None),
        };
        let is_closed = self.rest.clone().nth(inside.len()) == Some('}');
        if !is_closed || least.is_empty() || most.is_some_and(|most| format::has(most, b',')) {
            return Ok(None);
        }
        (0..=inside.len()).for_each(|_| {
            self.rest.next();
        });
        let count = |text: &str| {
            let count = text.parse().ok().filter(|count| *count <= REPEAT_MAX);
            count.ok_or_else(|| format!("a repetition may have at most {REPEAT_MAX} rounds"))
        };
        let least = count(least)?;
        let most = match most {
            None => Some(least),
            Some("") => None,
            Some(most) => Some(count(most)?),
        };
        if most.is_some_and(|most| most < least) {
            return Err("a repetition has more rounds at least than at most".to_owned());
        }
        Ok(Some((least, most)))
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<Escape, String> {
        let one = self.rest.next().ok_or("it ends with a backslash")?;
        let class = |ranges, negated| Ok(Escape::Class { ranges, negated });
        match one {
            'd' | 'D' => class(DIGIT, one == 'D'),
            's' | 'S' => class(SPACE, one == 'S'),
            'w' | 'W' => class(WORD, one == 'W'),
            'A' => Ok(Escape::Look(Look::Start)),
            'z' => Ok(Escape::Look(Look::End)),
            'b' => Ok(Escape::Look(Look::WordBoundary)),
            'B' => Ok(Escape::Look(Look::NoWordBoundary)),
            'a' => Ok(Escape::Character('\x07')),
            'f' => Ok(Escape::Character('\x0c')),
            't' => Ok(Escape::Character('\t')),
            'n' => Ok(Escape::Character('\n')),
            'r' => Ok(Escape::Character('\r')),
            'v' => Ok(Escape::Character('\x0b')),
            'x' => self.code_point().map(Escape::Character),
            'p' | 'P' => Err("\\p is not supported; list the characters in brackets".to_owned()),
            'Q' => Err("\\Q...\\E is not supported; put a backslash before each special character".to_owned()),
            '0'..='9' => Err("back references are not supported".to_owned()),
            _ if one.is_ascii() && !one.is_ascii_alphanumeric() => Ok(Escape::Character(one)),
            _ => Err(format!("\\{one} is not supported")),
        }
    }

    /// `7F` or `{10FFFF}`, after `\x`.
    fn code_point(&mut self) -> Result<char, String> {
        const WRONG: &str = "\\x is not followed by two hexadecimal digits, or by a code point in braces";
        let mut digits = String::new();
        if self.rest.next_if_eq(&'{').is_some() {
            while let Some(digit) = self.rest.next_if(char::is_ascii_hexdigit) {
                digits.push(digit);
            }
            self.rest.next_if_eq(&'}').ok_or(WRONG)?;
        } else {
            for _ in 0..2 {
                digits.push(self.rest.next_if(char::is_ascii_hexdigit).ok_or(WRONG)?);
            }
        }
        u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32).ok_or_else(|| WRONG.to_owned())
    }

    /// A class, after its opening bracket.
    fn class(&mut self) -> Result<Step, String> {
        let mut class =
            Class { negated: self.rest.next_if_eq(&'^').is_some(), folded: self.flags.folded, ..Class::default() };
        while self.rest.next_if_eq(&'-').is_some() {
            class.ranges.push(('-', '-'));
        }
        let mut first = class.ranges.is_empty();
        loop {
            let one = self.rest.next().ok_or(OPEN_CLASS)?;
            if one == ']' && !std::mem::take(&mut first) {
                return Ok(self.take(class));
            }
            first = false;
            if one == '[' && self.named(&mut class)? {
                continue;
            }
            if one == '-' && self.rest.peek() == Some(&'-') {
                return Err("a minus in a class must stand first or last, or have a backslash".to_owned());
            }
            let start = self.member(one, &mut class)?;
            let mut after = self.rest.clone().skip(1);
            if self.rest.peek() != Some(&'-') || matches!(after.next(), Some(']' | '-')) {
                class.ranges.extend(start.map(|one| (one, one)));
                continue;
            }
            self.rest.next();
            let one = self.rest.next().ok_or(OPEN_CLASS)?;
            match (start, self.member(one, &mut class)?) {
                (Some(start), Some(end)) if start <= end => class.ranges.push((start, end)),
                _ => return Err("a range in a class does not go from one character to a later one".to_owned()),
            }
        }
    }

    /// A character of a class, or a class in it, whose ranges are added and which is no character.
    fn member(&mut self, one: char, class: &mut Class) -> Result<Option<char>, String> {
        if one != '\\' {
            return Ok(Some(one));
        }
        match self.escape()? {
            Escape::Character(one) => Ok(Some(one)),
            Escape::Class { ranges, negated } => {
                add(class, ranges, negated);
                Ok(None)
            }
            Escape::Look(_) => Err("a class holds characters only".to_owned()),
        }
    }

    /// `:name:]`, after a bracket inside a class; without the closing pair the bracket is an ordinary character.
    fn named(&mut self, class: &mut Class) -> Result<bool, String> {
        let mut ahead = self.rest.clone();
        if ahead.next() != Some(':') {
            return Ok(false);
        }
        let negated = ahead.next_if_eq(&'^').is_some();
        let mut name = String::new();
        while let Some(one) = ahead.next_if(|one| one.is_ascii_alphabetic() || *one == '^') {
            name.push(one);
        }
        if (ahead.next(), ahead.next()) != (Some(':'), Some(']')) {
            return Ok(false);
        }
        let found = NAMED.iter().find(|(known, _)| *known == name);
        let (_, ranges) = found.ok_or_else(|| format!("[:{name}:] is no class"))?;
        add(class, ranges, negated);
        self.rest = ahead;
        Ok(true)
    }
}

/// Adds ranges, or what lies between them.
fn add(class: &mut Class, ranges: &[(char, char)], negated: bool) {
    if !negated {
        class.ranges.extend_from_slice(ranges);
        return;
    }
    let mut free = '\0';
    for (first, last) in ranges {
        // All ranges are ASCII.
        if *first > free {
            class.ranges.push((free, char::from_u32(u32::from(*first) - 1).unwrap_or(free)));
        }
        free = char::from_u32(u32::from(*last) + 1).unwrap_or(free);
    }
    class.ranges.push((free, char::MAX));
}

/// One part after the other.
fn joined(mut parts: Vec<Part>) -> Part {
    if parts.len() == 1
        && let Some(part) = parts.pop()
    {
        return part;
    }
    let depth = parts.iter().map(|part| part.depth + 1).max().unwrap_or_default();
    let mut steps = Vec::new();
    for part in parts {
        steps.extend(part.steps);
    }
    Part { steps, depth }
}

/// A part, from `least` times to `most` times.
fn repetition(part: &Part, least: u32, most: Option<u32>) -> Result<Part, String> {
    let length = part.steps.len();
    let rounds = usize::try_from(most.unwrap_or(least)).unwrap_or(usize::MAX);
    distance(length.saturating_add(1).saturating_mul(rounds.saturating_add(1)))?;
    let mut steps = Vec::new();
    for _ in 0..least {
        steps.extend_from_slice(&part.steps);
    }
    match most {
        None if least > 0 => steps.push(Step::Fork(-distance(length)?, 1)),
        None => {
            steps.push(Step::Fork(1, distance(length + 2)?));
            steps.extend_from_slice(&part.steps);
            steps.push(Step::Jump(-distance(length + 1)?));
        }
        Some(most) => {
            for _ in least..most {
                steps.push(Step::Fork(1, distance(length + 1)?));
                steps.extend_from_slice(&part.steps);
            }
        }
    }
    // Neither nothing nor once is a repetition.
    let depth = match most {
        Some(0) => 0,
        Some(1) if least == 1 => part.depth,
        _ => part.depth + 1,
    };
    Ok(Part { steps, depth })
}

/// So many steps, where that is not too many.
fn distance(steps: usize) -> Result<isize, String> {
    let distance = isize::try_from(steps).ok().filter(|_| steps <= STEPS_MAX);
    distance.ok_or_else(|| "it is too large: repetitions multiply".to_owned())
}
