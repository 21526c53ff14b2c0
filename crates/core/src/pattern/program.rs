//! Programs: what an expression is compiled to, and how a text runs through one.
//!
//! Thompson's simulation: all places that a program can be at are followed at once, one character at a time.

/// A step of a program. Distances are counted from the step itself, so that a part of a program can be copied.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// The next character must be in this set.
    Take(usize),
    /// Something must hold between two characters.
    Look(Look),
    /// Goes on at both.
    Fork(isize, isize),
    /// Goes on elsewhere.
    Jump(isize),
}

/// What can be asked of the place between two characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Start,
    End,
    StartOfLine,
    EndOfLine,
    WordBoundary,
    NoWordBoundary,
}

/// A set of characters.
#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    /// First and last character of each range.
    pub(super) ranges: Vec<(char, char)>,
    /// Whether the set is all other characters.
    pub(super) negated: bool,
    /// Whether an ASCII letter stands for its other case, too.
    pub(super) folded: bool,
}

impl Class {
    fn contains(&self, character: char) -> bool {
        let other = match character {
            'a'..='z' if self.folded => character.to_ascii_uppercase(),
            'A'..='Z' if self.folded => character.to_ascii_lowercase(),
            _ => character,
        };
        let is_in = |(first, last): &(char, char)| {
            (*first <= character && character <= *last) || (*first <= other && other <= *last)
        };
        self.ranges.iter().any(is_in) != self.negated
    }
}

/// A compiled expression. It matches where its end is reached.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    pub(super) classes: Vec<Class>,
}

fn is_word(character: Option<char>) -> bool {
    character.is_some_and(|character| character.is_ascii_alphanumeric() || character == '_')
}

impl Look {
    fn holds(self, before: Option<char>, after: Option<char>) -> bool {
        match self {
            Self::Start => before.is_none(),
            Self::End => after.is_none(),
            Self::StartOfLine => before.is_none_or(|character| character == '\n'),
            Self::EndOfLine => after.is_none_or(|character| character == '\n'),
            Self::WordBoundary => is_word(before) != is_word(after),
            Self::NoWordBoundary => is_word(before) == is_word(after),
        }
    }
}

impl Program {
    /// Whether the program matches somewhere in `text`.
    pub(super) fn is_match(&self, text: &str) -> bool {
        // In which round each step was last visited.
        let mut visited = vec![0_usize; self.steps.len()];
        let mut places: Vec<usize> = Vec::new();
        let mut waiting: Vec<(usize, usize)> = Vec::new();
        let mut before = None;
        let mut rest = text.chars();
        let mut round = 0;
        loop {
            round += 1;
            let after = rest.next();
            // A match may begin anywhere.
            places.push(0);
            while let Some(place) = places.pop() {
                let (Some(step), Some(last)) = (self.steps.get(place), visited.get_mut(place)) else { return true };
                if std::mem::replace(last, round) == round {
                    continue;
                }
                match *step {
                    Step::Take(class) => waiting.push((class, place + 1)),
                    Step::Look(look) if look.holds(before, after) => places.push(place + 1),
                    Step::Look(_) => {}
                    Step::Fork(one, other) => {
                        places.push(place.wrapping_add_signed(other));
                        places.push(place.wrapping_add_signed(one));
                    }
                    Step::Jump(distance) => places.push(place.wrapping_add_signed(distance)),
                }
            }
            let Some(character) = after else { return false };
            for (class, next) in waiting.drain(..) {
                if self.classes.get(class).is_some_and(|class| class.contains(character)) {
                    places.push(next);
                }
            }
            before = after;
        }
    }
}
