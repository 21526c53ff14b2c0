//! Translation of RE2's syntax to the dialect of `regex-lite`.
//!
//! The two dialects agree on most expressions. They differ in braces that are not counts, in minus signs and brackets
//! inside classes, in flags, in classes that ignore case, and in `\s`, `\<` and some other escapes. `regex-lite` also
//! accepts more groups and escapes than RE2. The translation makes all groups non-capturing, because the engine would
//! reserve memory for each capture in each of its steps.

use std::collections::BTreeSet;

use super::{DEPTH_MAX, PatternError, ROUNDS_MAX, STEPS_MAX};

/// The names of the classes `[:...:]`.
const NAMED: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];
/// The maximum number of steps of a named class: one for each of its ranges.
const NAMED_STEPS: usize = 6;
/// The characters of RE2's `\s`. In `regex-lite`, `\s` also includes the vertical tab.
const SPACE: &str = "\\t\\n\\f\\r ";
/// All characters except [`SPACE`].
const NO_SPACE: &str = "\\x00-\\x08\\x0B\\x0E-\\x1F!-\\x{10FFFF}";

/// Translates an expression. Returns the text for `regex-lite`, and an upper bound for the number of steps of the
/// compiled expression.
pub(super) fn translate(text: &str) -> Result<(String, usize), PatternError> {
    let mut translator = Translator { rest: text, ..Translator::default() };
    while let Some(one) = translator.next() {
        translator.part(one)?;
    }
    if !translator.around.is_empty() {
        return Err(PatternError::OpenGroup);
    }
    let Part { steps, depth, .. } = translator.group.into_part();
    if steps > STEPS_MAX {
        Err(PatternError::TooLarge)
    } else if depth > DEPTH_MAX {
        Err(PatternError::TooDeep)
    } else {
        Ok((translator.out, steps))
    }
}

/// A part of an expression that a repetition can follow.
#[derive(Clone, Copy)]
struct Part {
    /// The maximum number of compiled steps.
    steps: usize,
    /// The number of rounds of the counted repetitions in it; those of nested repetitions are multiplied.
    rounds: usize,
    /// The nesting depth of repetitions, sequences and alternatives in it.
    depth: usize,
}

impl Part {
    /// Returns a part without inner parts.
    const fn of_steps(steps: usize) -> Self {
        Self { steps, rounds: 1, depth: 0 }
    }
}

/// The state of a group that is being parsed.
#[derive(Default)]
struct Group {
    steps: usize,
    rounds: Option<usize>,
    /// The number of parts of the current alternative, without the last one, and the depth of the deepest of them.
    parts: usize,
    inner: usize,
    /// The depth of the deepest of the preceding alternatives, if there are any.
    alternatives: Option<usize>,
    /// The last part. It is not counted yet, because a repetition may follow.
    last: Option<Part>,
    /// Whether case is ignored from here on.
    is_folded: bool,
}

impl Group {
    fn push(&mut self, part: Part) {
        if let Some(before) = self.last.replace(part) {
            self.count(before);
        }
    }

    fn count(&mut self, part: Part) {
        self.steps = self.steps.saturating_add(part.steps);
        self.rounds = self.rounds.max(Some(part.rounds));
        self.parts += 1;
        self.inner = self.inner.max(part.depth);
    }

    /// Ends an alternative and returns its depth.
    fn end(&mut self) -> usize {
        if let Some(last) = self.last.take() {
            self.count(last);
        }
        let is_sequence = std::mem::take(&mut self.parts) > 1;
        std::mem::take(&mut self.inner) + usize::from(is_sequence)
    }

    /// Starts the next alternative.
    fn alternative(&mut self) {
        let depth = self.end();
        self.alternatives = self.alternatives.max(Some(depth));
        self.steps = self.steps.saturating_add(1);
    }

    fn into_part(mut self) -> Part {
        let last = self.end();
        let depth = self.alternatives.map_or(last, |before| before.max(last) + 1);
        Part { steps: self.steps.max(1), rounds: self.rounds.unwrap_or(1), depth }
    }
}

/// The meaning of a backslash and the letter after it.
enum Escape {
    Character(char),
    /// `\d`, `\D`, `\w` or `\W`, which are the same in both dialects.
    Class(char),
    /// `\s` or `\S`.
    Space(char),
    /// `\A`, `\z`, `\b` or `\B`.
    Look(char),
}

#[derive(Default)]
struct Translator<'a> {
    rest: &'a str,
    out: String,
    group: Group,
    /// The enclosing groups, the outermost first.
    around: Vec<Group>,
    /// Whether the last part read is a repetition.
    is_repeated: bool,
    /// The names of groups; a name may be used only once.
    names: BTreeSet<&'a str>,
}

impl<'a> Translator<'a> {
    fn next(&mut self) -> Option<char> {
        let mut rest = self.rest.chars();
        let one = rest.next();
        self.rest = rest.as_str();
        one
    }

    /// Skips `text` if it comes next. Returns whether it did.
    fn skip(&mut self, text: &str) -> bool {
        self.rest.strip_prefix(text).inspect(|rest| self.rest = rest).is_some()
    }

    /// Returns the text before `end`, and skips both.
    fn take_until(&mut self, end: &str) -> Option<&'a str> {
        let (text, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(text)
    }

    /// Translates the part that begins with `one`.
    fn part(&mut self, one: char) -> Result<(), PatternError> {
        let was_repeated = std::mem::take(&mut self.is_repeated);
        let counts = match one {
            '*' | '+' | '?' => Some(None),
            '{' => self.counts()?.map(Some),
            _ => None,
        };
        if let Some(counts) = counts {
            return if was_repeated { Err(PatternError::RepeatedRepetition) } else { self.repetition(one, counts) };
        }
        match one {
            '\\' => return self.escaped(),
            '[' => return self.class(),
            '(' => return self.open(),
            ')' => return self.close(),
            '|' => {
                self.out.push(one);
                self.group.alternative();
                return Ok(());
            }
            '.' | '^' | '$' => self.out.push(one),
            _ => self.literal(one),
        }
        self.step();
        Ok(())
    }

    fn step(&mut self) {
        self.group.push(Part::of_steps(1));
    }

    /// Writes a character that stands for itself, inside or outside a class.
    fn literal(&mut self, one: char) {
        if "\\.+*?()|[]{}^$-&~#".contains(one) {
            self.out.push('\\');
        }
        self.out.push(one);
    }

    /// Translates a repetition: `sign` alone, or a brace with the counts that follow it.
    fn repetition(&mut self, sign: char, counts: Option<Counts>) -> Result<(), PatternError> {
        let part = self.group.last.as_mut().ok_or(PatternError::NothingToRepeat)?;
        self.out.push(sign);
        if let Some(Counts { least, most }) = counts {
            let copies = most.unwrap_or(least).max(usize::from(most.is_none()));
            part.rounds = part.rounds.saturating_mul(copies);
            part.steps = part.steps.saturating_mul(copies);
            let least = least.to_string();
            let most = most.map_or_else(String::new, |most| most.to_string());
            self.out.extend([&least, ",", &most, "}"]);
            part.steps = part.steps.saturating_add(copies);
        }
        part.steps = part.steps.saturating_add(1);
        part.depth += 1;
        if part.rounds > ROUNDS_MAX {
            return Err(PatternError::TooManyRounds);
        }
        if part.steps > STEPS_MAX {
            return Err(PatternError::TooLarge);
        }
        // A question mark here is part of the repetition.
        if self.skip("?") {
            self.out.push('?');
        }
        self.is_repeated = true;
        Ok(())
    }

    /// Parses `n}`, `n,}` or `n,m}` as RE2 does. Returns `None` for anything else: then the brace is an ordinary
    /// character.
    fn counts(&mut self) -> Result<Option<Counts>, PatternError> {
        let end = self.rest.find(|one: char| !one.is_ascii_digit() && one != ',').unwrap_or_default();
        let (inside, rest) = self.rest.split_at_checked(end).unwrap_or_default();
        let Some(rest) = rest.strip_prefix('}') else { return Ok(None) };
        let (least, most) = inside.split_once(',').unwrap_or((inside, inside));
        let is_number = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_digit())
                && !text.is_empty()
                && (text == "0" || !text.starts_with('0'))
        };
        if !is_number(least) || !(most.is_empty() || is_number(most)) {
            return Ok(None);
        }
        self.rest = rest;
        let count = |text: &str| match text.parse() {
            Ok(count) if count <= ROUNDS_MAX => Ok(count),
            _ => Err(PatternError::TooManyRounds),
        };
        let least = count(least)?;
        let most = if most.is_empty() { None } else { Some(count(most)?) };
        if most.is_some_and(|most| most < least) { Err(PatternError::Rounds) } else { Ok(Some(Counts { least, most })) }
    }

    /// Translates an opening parenthesis and what belongs to it: a question mark with a name, with flags or with a
    /// colon, or nothing.
    fn open(&mut self) -> Result<(), PatternError> {
        let mut is_folded = self.group.is_folded;
        if self.skip("?P<") || self.skip("?<") {
            let name = self.take_until(">").ok_or(PatternError::Flags)?;
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(PatternError::GroupName);
            }
            if !self.names.insert(name) {
                return Err(PatternError::SameName);
            }
            self.out.push_str("(?:");
        } else if self.skip("?") {
            let (folded, end) = self.flags()?;
            is_folded = folded.unwrap_or(is_folded);
            if end == ')' {
                self.group.is_folded = is_folded;
                return Ok(());
            }
        } else {
            self.out.push_str("(?:");
        }
        if self.around.len() >= DEPTH_MAX {
            return Err(PatternError::TooDeep);
        }
        let inner = Group { is_folded, ..Group::default() };
        self.around.push(std::mem::replace(&mut self.group, inner));
        Ok(())
    }

    /// Translates flags. Returns whether they switch case-insensitivity on or off, if they do, and the colon or the
    /// parenthesis that ends them.
    fn flags(&mut self) -> Result<(Option<bool>, char), PatternError> {
        let (mut on, mut off) = (BTreeSet::new(), BTreeSet::new());
        let (mut negative, mut is_whole) = (false, true);
        let end = loop {
            match self.next() {
                Some(flag @ ('i' | 'm' | 's' | 'U')) => {
                    let (to, from) = if negative { (&mut off, &mut on) } else { (&mut on, &mut off) };
                    to.insert(flag);
                    from.remove(&flag);
                    is_whole = true;
                }
                Some('-') if !negative => (negative, is_whole) = (true, false),
                Some(end @ (':' | ')')) if is_whole => break end,
                _ => return Err(PatternError::Flags),
            }
        };
        // The engine has no `(?)`. Dropping it would put a following repetition directly after the part before it.
        if end == ')' && on.is_empty() && off.is_empty() {
            return Err(PatternError::Flags);
        }
        self.out.push_str("(?");
        self.out.extend(&on);
        if !off.is_empty() {
            self.out.push('-');
            self.out.extend(&off);
        }
        self.out.push(end);
        let folded = if on.contains(&'i') { Some(true) } else { off.contains(&'i').then_some(false) };
        Ok((folded, end))
    }

    fn close(&mut self) -> Result<(), PatternError> {
        let outer = self.around.pop().ok_or(PatternError::ClosedGroup)?;
        let inner = std::mem::replace(&mut self.group, outer);
        self.group.push(inner.into_part());
        self.out.push(')');
        Ok(())
    }

    /// Translates an escape outside a class.
    fn escaped(&mut self) -> Result<(), PatternError> {
        let escape = self.escape()?;
        let steps = if matches!(escape, Escape::Class(_) | Escape::Space(_)) { NAMED_STEPS } else { 1 };
        match escape {
            Escape::Character(one) => self.literal(one),
            Escape::Class(one) | Escape::Look(one) => self.out.extend(['\\', one]),
            Escape::Space(one) => self.out.extend([if one == 'S' { "[^" } else { "[" }, SPACE, "]"]),
        }
        self.group.push(Part::of_steps(steps));
        Ok(())
    }

    /// Parses the part of an escape after the backslash.
    fn escape(&mut self) -> Result<Escape, PatternError> {
        let one = self.next().ok_or(PatternError::TrailingBackslash)?;
        Ok(match one {
            'd' | 'D' | 'w' | 'W' => Escape::Class(one),
            's' | 'S' => Escape::Space(one),
            'A' | 'z' | 'b' | 'B' => Escape::Look(one),
            'a' => Escape::Character('\x07'),
            'f' => Escape::Character('\x0c'),
            't' => Escape::Character('\t'),
            'n' => Escape::Character('\n'),
            'r' => Escape::Character('\r'),
            'v' => Escape::Character('\x0b'),
            'x' => Escape::Character(self.code_point()?),
            'p' | 'P' => return Err(PatternError::UnicodeClass),
            'Q' => return Err(PatternError::Quoted),
            '0'..='9' => return Err(PatternError::BackReference),
            _ if one.is_ascii() && !one.is_ascii_alphanumeric() => Escape::Character(one),
            _ => return Err(PatternError::Escape(one)),
        })
    }

    /// Parses `7F` or `{10FFFF}`, after `\x`.
    fn code_point(&mut self) -> Result<char, PatternError> {
        let digits = if self.skip("{") {
            self.take_until("}")
        } else {
            self.rest.split_at_checked(2).map(|(digits, rest)| {
                self.rest = rest;
                digits
            })
        };
        digits
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .and_then(char::from_u32)
            .ok_or(PatternError::CodePoint)
    }

    /// Translates a class, after its opening bracket.
    fn class(&mut self) -> Result<(), PatternError> {
        self.out.push('[');
        if self.skip("^") {
            self.out.push('^');
        }
        let mut steps = 1;
        let mut is_first = true;
        while std::mem::take(&mut is_first) || !self.rest.starts_with(']') {
            steps += self.member()?;
        }
        self.rest = self.rest.strip_prefix(']').ok_or(PatternError::OpenClass)?;
        self.out.push(']');
        self.group.push(Part::of_steps(steps));
        Ok(())
    }

    /// Translates a character, a range or a class inside a class. Returns the number of steps that it adds.
    fn member(&mut self) -> Result<usize, PatternError> {
        if let Some(name) = self.named()? {
            self.out.extend(["[:", name, ":]"]);
            if self.group.is_folded && name.ends_with("er") {
                self.out.push_str("A-Za-z");
            }
            return Ok(NAMED_STEPS);
        }
        let start = match self.character()? {
            Escape::Character(one) => one,
            Escape::Class(one) => {
                self.out.extend(['\\', one]);
                return Ok(NAMED_STEPS);
            }
            Escape::Space(one) => {
                self.out.push_str(if one == 'S' { NO_SPACE } else { SPACE });
                return Ok(NAMED_STEPS);
            }
            Escape::Look(one) => return Err(PatternError::Escape(one)),
        };
        let is_range = self.rest.strip_prefix('-').is_some_and(|rest| !rest.is_empty() && !rest.starts_with(']'));
        if !is_range {
            return Ok(self.folded_range(start, start));
        }
        self.next();
        match self.character()? {
            Escape::Character(end) if start <= end => Ok(self.folded_range(start, end)),
            _ => Err(PatternError::Range),
        }
    }

    /// Parses the name in `[:name:]`. Returns `None` without the closing `:]`: then the bracket is an ordinary
    /// character.
    fn named(&mut self) -> Result<Option<&'a str>, PatternError> {
        let Some(rest) = self.rest.strip_prefix("[:") else { return Ok(None) };
        let end = rest.find(|one: char| !one.is_ascii_alphabetic() && one != '^').unwrap_or_default();
        let (name, rest) = rest.split_at_checked(end).unwrap_or_default();
        let Some(rest) = rest.strip_prefix(":]") else { return Ok(None) };
        self.rest = rest;
        if NAMED.contains(&name.strip_prefix('^').unwrap_or(name)) {
            Ok(Some(name))
        } else {
            Err(PatternError::NamedClass(name.to_owned()))
        }
    }

    /// Parses a character of a class, or an escape.
    fn character(&mut self) -> Result<Escape, PatternError> {
        match self.next().ok_or(PatternError::OpenClass)? {
            '\\' => self.escape(),
            one => Ok(Escape::Character(one)),
        }
    }

    /// Writes a range of a class, and its letters in the other case if case is ignored. Returns the number of steps
    /// that it adds.
    ///
    /// The engine also adds the other case, but only for the letters of one case in each range, and after joining
    /// ranges.
    fn folded_range(&mut self, start: char, end: char) -> usize {
        self.range(start, end);
        if !self.group.is_folded {
            return 1;
        }
        for (first, last) in [('a', 'z'), ('A', 'Z')] {
            let (first, last) = (start.max(first), end.min(last));
            if first <= last {
                let other =
                    |one: char| if first.is_lowercase() { one.to_ascii_uppercase() } else { one.to_ascii_lowercase() };
                self.range(other(first), other(last));
            }
        }
        3
    }

    fn range(&mut self, start: char, end: char) {
        self.literal(start);
        if start < end {
            self.out.push('-');
            self.literal(end);
        }
    }
}

/// The counts in the braces of a repetition.
#[derive(Clone, Copy)]
struct Counts {
    least: usize,
    most: Option<usize>,
}
