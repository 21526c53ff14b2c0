//! Fingerprints of lines, by which GitHub recognises a finding when lines before it change.
//!
//! The algorithm is that of GitHub's action `upload-sarif`: a rolling hash over the hundred characters from the beginning
//! of the line, without spaces and tabs, and a number for lines with the same hash. So the action agrees with the
//! fingerprints, and an upload without the action has them, too.

use std::collections::{BTreeMap, VecDeque};

/// The number of characters in a hash.
const BLOCK: usize = 100;
/// The factor of the rolling hash.
const FACTOR: u64 = 37;
/// The factor of a character that leaves the window: [`FACTOR`] to the power of [`BLOCK`].
const LEAVING: u64 = FACTOR.wrapping_pow(100);
/// Stands for the end of the text.
const END: u64 = 0xffff;

const TAB: u64 = 0x09;
const LINE_FEED: u64 = 0x0a;
const CARRIAGE_RETURN: u64 = 0x0d;
const SPACE: u64 = 0x20;

/// Returns the fingerprint of each line, the first one at index 0.
pub(super) fn of_lines(text: &str) -> Vec<String> {
    let mut rolling = Rolling { is_line_start: true, hash: 0, window: VecDeque::from(vec![Slot::default(); BLOCK]) };
    let mut hashes = Vec::new();
    let mut was_carriage_return = false;
    for unit in text.encode_utf16().map(u64::from).chain([END]) {
        let is_second = was_carriage_return && unit == LINE_FEED;
        was_carriage_return = unit == CARRIAGE_RETURN;
        if !matches!(unit, SPACE | TAB) && !is_second {
            hashes.extend(rolling.take(if was_carriage_return { LINE_FEED } else { unit }));
        }
    }
    hashes.extend((0..BLOCK).filter_map(|_| rolling.shift(Slot::default())));
    let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
    let numbered = hashes.into_iter().map(|hash| {
        let count = counts.entry(hash).or_default();
        *count += 1;
        format!("{hash:x}:{count}")
    });
    numbered.collect()
}

/// A character of the window.
#[derive(Clone, Copy, Default)]
struct Slot {
    unit: u64,
    /// Whether a line begins with it.
    begins_line: bool,
}

struct Rolling {
    is_line_start: bool,
    hash: u64,
    window: VecDeque<Slot>,
}

impl Rolling {
    /// Takes a character. Returns the hash of a line if it is complete.
    fn take(&mut self, unit: u64) -> Option<u64> {
        let begins_line = std::mem::replace(&mut self.is_line_start, unit == LINE_FEED);
        self.shift(Slot { unit, begins_line })
    }

    /// Moves the window by a character. Returns the hash of the line that begins with the character that leaves it.
    fn shift(&mut self, slot: Slot) -> Option<u64> {
        let leaving = self.window.pop_front().unwrap_or_default();
        let complete = leaving.begins_line.then_some(self.hash);
        self.hash =
            self.hash.wrapping_mul(FACTOR).wrapping_add(slot.unit).wrapping_sub(LEAVING.wrapping_mul(leaving.unit));
        self.window.push_back(slot);
        complete
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// The expected hashes are those of the tests of GitHub's action.
    #[rstest]
    #[case::nothing("", &["c129715d7a2bc9a3:1"])]
    #[case::a_space(" ", &["c129715d7a2bc9a3:1"])]
    #[case::lines("a\nb\nc\nd", &["271789c17abda88f:1", "54703d4cd895b18:1", "180aee12dab6264:1", "a23a3dc5e078b07b:1"])]
    fn lines_have_the_hashes_of_githubs_action(#[case] text: &str, #[case] expected: &[&str]) {
        assert_eq!(of_lines(text), expected);
    }

    #[test]
    fn lines_with_the_same_text_are_numbered() {
        let text = "x: 1\n".repeat(300);
        let hashes = of_lines(&text);
        assert_eq!(hashes.len(), 301);
        let hash = hashes[0].split(':').next().unwrap();
        assert_eq!((hashes[0].as_str(), hashes[1].as_str()), (&*format!("{hash}:1"), &*format!("{hash}:2")));
    }

    #[test]
    fn lines_above_indentation_and_line_ends_do_not_matter() {
        let last = |text: &str| of_lines(text).last().cloned();
        assert_eq!(last("a: 1\nb: 2"), last("c: 3\n\na: 1\n  b:\t2"));
        assert_eq!(of_lines("a: 1\r\nb: 2\r\n"), of_lines("a: 1\nb: 2\n"));
        assert_ne!(last("b: 2"), last("b: 3"));
    }
}
