//! Changes of texts (as lists of characters) and of bytes.

use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::pool::Spot;

/// The maximum number of items after a repetition.
const REPEATED_MAX: usize = 1 << 18;

/// One change.
#[derive(Clone, Debug)]
pub enum Edit<T> {
    /// Insert the items at a place.
    Insert(Spot, Vec<T>),
    /// Replace the item at a place by these items.
    Set(Spot, Vec<T>),
    /// Remove the part between two places.
    Remove(Spot, Spot),
    /// Repeat the part between two places this many more times.
    Repeat(Spot, Spot, usize),
    /// Move the part between the first two places to the third.
    Move(Spot, Spot, Spot),
    /// Replace everything after the first place by the end of another sequence. The second selects the sequence, the
    /// third the start in it.
    Cross(Spot, Spot, Spot),
}

impl<T: Copy> Edit<T> {
    /// Applies the change. `others` are the sequences that [`Edit::Cross`] uses.
    pub fn apply(&self, items: &mut Vec<T>, others: &[Vec<T>]) {
        match self {
            Self::Insert(at, new) => {
                let at = at.index(items.len() + 1);
                items.splice(at..at, new.iter().copied());
            }
            Self::Set(at, new) if !items.is_empty() => {
                let at = at.index(items.len());
                items.splice(at..=at, new.iter().copied());
            }
            Self::Remove(one, other) => {
                let (start, end) = part(items, *one, *other);
                items.drain(start..end);
            }
            Self::Repeat(one, other, times) => {
                let (start, end) = part(items, *one, *other);
                let times = (*times).min(REPEATED_MAX / (end - start).max(1));
                let repeated = items.get(start..end).unwrap_or_default().repeat(times);
                items.splice(end..end, repeated);
            }
            Self::Move(one, other, to) => {
                let (start, end) = part(items, *one, *other);
                let moved: Vec<T> = items.drain(start..end).collect();
                let to = to.index(items.len() + 1);
                items.splice(to..to, moved);
            }
            Self::Cross(at, other, from) if !others.is_empty() => {
                let other = others.get(other.index(others.len())).map_or(&[][..], Vec::as_slice);
                items.truncate(at.index(items.len() + 1));
                items.extend(other.iter().skip(from.index(other.len() + 1)).copied());
            }
            Self::Set(..) | Self::Cross(..) => {}
        }
    }
}

/// Returns the start and end of the part between two places, in either order.
fn part<T>(items: &[T], one: Spot, other: Spot) -> (usize, usize) {
    let (one, other) = (one.index(items.len() + 1), other.index(items.len() + 1));
    (one.min(other), one.max(other))
}

/// Generates changes that insert one of `words` or some of `item`.
pub fn edits<T: Copy + Debug + 'static>(
    words: Vec<Vec<T>>,
    item: impl Strategy<Value = T> + Clone + 'static,
) -> impl Strategy<Value = Edit<T>> {
    let place = Spot::any;
    let new = move || prop_oneof![2 => select(words.clone()), 1 => vec(item.clone(), 1..4)];
    prop_oneof![
        4 => (place(), new()).prop_map(|(at, new)| Edit::Insert(at, new)),
        4 => (place(), new()).prop_map(|(at, new)| Edit::Set(at, new)),
        2 => (place(), place()).prop_map(|(one, other)| Edit::Remove(one, other)),
        1 => (place(), place(), 1..2_000_usize).prop_map(|(one, other, times)| Edit::Repeat(one, other, times)),
        1 => (place(), place(), place()).prop_map(|(one, other, to)| Edit::Move(one, other, to)),
        2 => (place(), place(), place()).prop_map(|(at, other, from)| Edit::Cross(at, other, from)),
    ]
}

/// Generates texts: `texts` with up to `most` changes, and sequences of `words`.
pub fn changed_texts(texts: &[String], words: &[&str], most: usize) -> impl Strategy<Value = String> + use<> {
    let others: Vec<Vec<char>> = texts.iter().map(|text| text.chars().collect()).collect();
    let words: Vec<Vec<char>> = words.iter().map(|word| word.chars().collect()).collect();
    let pieced = vec(select(words.clone()), 0..24).prop_map(|words| words.concat());
    let start = prop_oneof![3 => select(others.clone()), 1 => pieced];
    (start, vec(edits(words, any::<char>()), 0..=most)).prop_map(move |(mut text, edits)| {
        for edit in &edits {
            edit.apply(&mut text, &others);
        }
        text.into_iter().collect()
    })
}

#[cfg(test)]
mod tests {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;

    use super::*;

    const FIRST: Spot = Spot(0);
    const LAST: Spot = Spot(u32::MAX);

    fn changed(edit: &Edit<u8>) -> String {
        let mut bytes = b"abc".to_vec();
        edit.apply(&mut bytes, &[b"xyz".to_vec()]);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn each_change_does_what_it_says() {
        assert_eq!(changed(&Edit::Insert(FIRST, b"--".to_vec())), "--abc");
        assert_eq!(changed(&Edit::Set(LAST, b"--".to_vec())), "ab--");
        assert_eq!(changed(&Edit::Remove(LAST, FIRST)), "");
        assert_eq!(changed(&Edit::Repeat(FIRST, LAST, 2)), "abcabcabc");
        assert_eq!(changed(&Edit::Move(FIRST, FIRST, LAST)), "abc");
        assert_eq!(changed(&Edit::Cross(LAST, FIRST, FIRST)), "abcxyz");
    }

    #[test]
    fn an_empty_sequence_can_be_changed() {
        let mut runner = TestRunner::deterministic();
        let strategy = edits(vec![b"word".to_vec()], any::<u8>());
        for _ in 0..200 {
            let edit = strategy.new_tree(&mut runner).unwrap().current();
            edit.apply(&mut Vec::new(), &[]);
        }
    }

    #[test]
    fn generated_texts_differ() {
        let mut runner = TestRunner::deterministic();
        let strategy = changed_texts(&["cpu * 2".to_owned()], &["memory", "("], 4);
        let texts: std::collections::BTreeSet<String> =
            (0..100).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
        assert!(texts.len() > 50, "{texts:?}");
    }
}
