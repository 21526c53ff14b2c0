//! RE2's syntax in the dialect of `regex-lite`.
//!
//! The two read most expressions alike. They differ in braces that count nothing, in minuses and brackets inside of a class,
//! in flags, in classes in which case does not count, in `\s`, `\<` and some escapes; `regex-lite` takes more groups and escapes than RE2. Groups become groups that
//! capture nothing, because the engine would reserve memory for each capture in each of its steps.

use std::collections::BTreeSet;

use super::{DEPTH_MAX, PatternError, ROUNDS_MAX, STEPS_MAX};

/// The classes that stand in `[:...:]`.
const NAMED: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];
/// Steps of a class with a name, at most: one for each of its ranges.
const NAMED_STEPS: usize = 6;
/// `\s` has no vertical tab in RE2, and has one in `regex-lite`.
const SPACE: &str = "\\t\\n\\f\\r ";
/// Everything but [`SPACE`].
const NO_SPACE: &str = "\\x00-\\x08\\x0B\\x0E-\\x1F!-\\x{10FFFF}";

/// Translates an expression: the text for `regex-lite`, and how many steps the compiled expression has at most.
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

/// A part that a repetition can follow.
#[derive(Clone, Copy)]
struct Part {
    /// How many steps it is compiled to, at most.
    steps: usize,
    /// How many rounds the counted repetitions in it have, nested ones multiplied.
    rounds: usize,
    /// How deep repetitions, sequences and alternatives are nested in it.
    depth: usize,
}

impl Part {
    /// A part without parts.
    const fn of_steps(steps: usize) -> Self {
        Self { steps, rounds: 1, depth: 0 }
    }
}

/// What has been read of a group.
#[derive(Default)]
struct Group {
    steps: usize,
    rounds: Option<usize>,
    /// The parts of the alternative that is read, without the last one, and the depth of the deepest.
    parts: usize,
    inner: usize,
    /// The depth of the deepest alternative before, if there was one.
    alternatives: Option<usize>,
    /// Not counted yet: a repetition may follow.
    last: Option<Part>,
    /// Whether upper and lower case are the same from here on.
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

    /// Ends an alternative; gives its depth.
    fn end(&mut self) -> usize {
        if let Some(last) = self.last.take() {
            self.count(last);
        }
        let is_sequence = std::mem::take(&mut self.parts) > 1;
        std::mem::take(&mut self.inner) + usize::from(is_sequence)
    }

    /// The next alternative begins.
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

/// What a backslash and its letter mean.
enum Escape {
    Character(char),
    /// `\d`, `\D`, `\w` or `\W`, which mean the same in both dialects.
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
    /// The groups around it, the outermost first.
    around: Vec<Group>,
    /// Whether a repetition has just been read.
    is_repeated: bool,
    /// The names of groups, each of which may be given once.
    names: BTreeSet<&'a str>,
}

impl<'a> Translator<'a> {
    fn next(&mut self) -> Option<char> {
        let mut rest = self.rest.chars();
        let one = rest.next();
        self.rest = rest.as_str();
        one
    }

    /// Reads `text`, if it comes next.
    fn skip(&mut self, text: &str) -> bool {
        self.rest.strip_prefix(text).inspect(|rest| self.rest = rest).is_some()
    }

    /// Reads up to `end`, and past it.
    fn take_until(&mut self, end: &str) -> Option<&'a str> {
        let (text, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(text)
    }

    /// The part that begins with `one`.
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

    /// A character that means itself, inside or outside of a class.
    fn literal(&mut self, one: char) {
        if "\\.+*?()|[]{}^$-&~#".contains(one) {
            self.out.push('\\');
        }
        self.out.push(one);
    }

    /// A repetition: `sign` alone, or the counts that follow a brace.
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
        // A question mark here belongs to the repetition.
        if self.skip("?") {
            self.out.push('?');
        }
        self.is_repeated = true;
        Ok(())
    }

    /// `n}`, `n,}` or `n,m}`, as RE2 reads it; anything else makes the brace an ordinary character.
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

    /// What follows an opening parenthesis: a question mark with a name, with flags or with a colon, or nothing.
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

    /// Flags: whether they make both cases the same, and the colon or the parenthesis that ends them.
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
        // The engine has no `(?)`, and without it a repetition would follow directly after the part before.
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

    /// What a backslash begins, outside of a class.
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

    /// What follows a backslash.
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

    /// `7F` or `{10FFFF}`, after `\x`.
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

    /// A class, after its opening bracket.
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

    /// A character, a range or a class inside of a class; gives the steps that it adds.
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

    /// The name in `[:name:]`. Without the closing pair, the bracket is an ordinary character.
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

    /// A character of a class, or an escape.
    fn character(&mut self) -> Result<Escape, PatternError> {
        match self.next().ok_or(PatternError::OpenClass)? {
            '\\' => self.escape(),
            one => Ok(Escape::Character(one)),
        }
    }

    /// A range of a class, and its letters in the other case if case does not count; gives the steps that it adds.
    ///
    /// The engine does the same, but only for the letters of one case in each range, and joins ranges before.
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

/// What stands in the braces of a repetition.
#[derive(Clone, Copy)]
struct Counts {
    least: usize,
    most: Option<usize>,
}
