//! Evaluates the module with inputs that grow, and judges what that takes.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::Input;
use super::grow::{Growth, How};
use super::place::{self, Part};
use crate::engine::{Bounds, Counter, PAGE};

/// The most that an evaluation of less than a MiB may take.
pub const BOUNDS: Bounds = Bounds { instructions: 600_000_000, memory: 64 << 20 };
/// How often the work may grow where the input grows twice, in tenths.
const GROWTH: u64 = 23;
/// The allowance of every evaluation, so that a few instructions or one page more are no growth.
const SPARE_INSTRUCTIONS: u64 = 150_000;
const SPARE_MEMORY: u64 = 1 << 20;
/// The most bytes of input that [`BOUNDS`] are for.
const LENGTH: u64 = 1 << 20;
/// The share of [`BOUNDS`] that does not depend on the length of the input: a tenth.
const FIXED: Bounds = Bounds { instructions: BOUNDS.instructions / 10, memory: BOUNDS.memory / 8 };
/// Instructions and bytes of memory that each byte of input may take besides.
pub const INSTRUCTIONS_EACH: u64 = (BOUNDS.instructions - FIXED.instructions) / LENGTH;
const MEMORY_EACH: u64 = (BOUNDS.memory - FIXED.memory) as u64 / LENGTH;
/// How long an evaluation may take in a build for tests on a busy machine. Bulk operations count as one instruction; this
/// is what bounds them.
const TIME: Duration = Duration::from_secs(20);

/// Something that grows in a sample: one place, or two at once.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The sample.
    pub input: &'a Input,
    /// The places that grow, outer ones first.
    pub growths: Vec<Growth>,
}

/// The cost of an evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// Bytes of input.
    pub bytes: u64,
    /// Instructions.
    pub instructions: u64,
    /// Bytes of memory.
    pub memory: u64,
}

impl<'a> Case<'a> {
    fn alone(input: &'a Input, growth: Growth) -> Self {
        Self { input, growths: vec![growth] }
    }

    /// Its sample and what grows.
    pub fn name(&self) -> String {
        let growths: Vec<String> = self.growths.iter().map(ToString::to_string).collect();
        format!("{}: {}", self.input.name(), growths.join(" x "))
    }

    /// The sample with so many entries more.
    pub fn grown(&self, count: usize) -> Input {
        let mut document = self.input.document().clone();
        for growth in &self.growths {
            growth.apply(&mut document, count);
        }
        self.input.of(document)
    }

    /// The finding, if any, when the sample gets `count` entries more and twice as many.
    pub fn judge(&self, counter: &Counter, count: usize) -> Option<String> {
        self.told(self.judged(counter, count))
    }

    /// The same for what is a product by its nature, as many sidecars that share many mounts: it may grow as it likes while
    /// it stays within what its length allows.
    pub fn judge_product(&self, counter: &Counter, count: usize) -> Option<String> {
        let judged = || {
            let [base, once] = [evaluate(counter, self.input)?, evaluate(counter, &self.grown(count))?];
            if is_dear(base, once) { self.judged_whole(counter) } else { Ok(None) }
        };
        self.told(judged())
    }

    fn judged(&self, counter: &Counter, count: usize) -> anyhow::Result<Option<String>> {
        let base = evaluate(counter, self.input)?;
        let once = evaluate(counter, &self.grown(count))?;
        let twice = evaluate(counter, &self.grown(2 * count))?;
        if grows([base, once], [base, twice]).is_some() {
            // The answer may be another one than that of the sample: what counts is how the work goes on.
            let again = evaluate(counter, &self.grown(4 * count))?;
            if let Some(wrong) = grows([once, twice], [twice, again]) {
                return Ok(Some(wrong));
            }
        }
        // What is dear for its length at this size may be refused at another. What can be looked up is no input: others
        // than the author of the request write it.
        let is_input = self.growths.iter().any(|growth| !growth.place.pointer.starts_with("/objects"));
        if is_input && is_dear(base, twice) { self.judged_whole(counter) } else { Ok(None) }
    }

    fn told(&self, judged: anyhow::Result<Option<String>>) -> Option<String> {
        let wrong = judged.unwrap_or_else(|error| Some(error.to_string()))?;
        Some(format!("{}: {wrong}", self.name()))
    }

    /// At just below a MiB.
    fn judged_whole(&self, counter: &Counter) -> anyhow::Result<Option<String>> {
        let (small, large) = (self.grown(64).length()?, self.grown(128).length()?);
        let room = LENGTH.saturating_sub(self.input.length()?);
        let count = room.saturating_mul(64) / large.saturating_sub(small).max(1);
        let took = evaluate(counter, &self.grown(usize::try_from(count)?))?;
        Ok(costly(took))
    }
}

/// The cases for each place of the samples alone: every part of every sample, in every way to grow.
pub fn each_thoroughly(inputs: &[Input]) -> Vec<Case<'_>> {
    let alone = |input| {
        let growths = place::places(Input::document(input)).into_iter();
        growths.flat_map(|place| Growth::all(input.document(), &place, true)).map(|growth| Case::alone(input, growth))
    };
    inputs.iter().flat_map(alone).collect()
}

/// The cases for each place of the samples alone, without those that differ little: each sample grows where it is about
/// something that others are not, in the ways that differ most; a text grows in one sample of those that have it.
pub fn each(inputs: &[Input]) -> Vec<Case<'_>> {
    let mut texts = BTreeSet::new();
    let mut cases = Vec::new();
    for input in inputs {
        for place in place::distinct(input.document()).into_iter().filter(|place| input.is_about(place)) {
            let is_text = !matches!(place.part, Part::List | Part::Map);
            if is_text && !texts.insert((input.function(), place.clone())) {
                continue;
            }
            let growths = Growth::all(input.document(), &place, false).into_iter();
            cases.extend(growths.map(|growth| Case::alone(input, growth)));
        }
    }
    cases
}

/// Two places of a sample that grow together: a list or a map, and anything after it.
pub fn pairs(input: &Input) -> Vec<Case<'_>> {
    let document = input.document();
    let places: Vec<_> = place::distinct(document).into_iter().filter(|place| input.is_about(place)).collect();
    let growth = |place| Growth::all(document, place, false).into_iter().find(|growth| growth.how != How::Bare);
    let growths: Vec<_> = places.iter().filter_map(growth).collect();
    let is_counted = |growth: &&Growth| matches!(growth.place.part, Part::List | Part::Map);
    let mut pairs = Vec::new();
    for (index, one) in growths.iter().enumerate().filter(|(_, growth)| is_counted(growth)) {
        // Texts before it are paired with it, too: of two lists the first comes first.
        let others = growths.iter().enumerate().filter(|(other, growth)| *other > index || !is_counted(growth));
        pairs.extend(others.map(|(_, other)| Case { input, growths: vec![one.clone(), other.clone()] }));
    }
    pairs
}

/// The pair of the places at two pointers of a sample.
pub fn pair<'a>(input: &'a Input, pointers: [&str; 2]) -> Option<Case<'a>> {
    let document = input.document();
    let places = place::places(document);
    let growth = |pointer: &str| {
        let place = places.iter().find(|place| place.pointer == pointer)?;
        Growth::all(document, place, false).into_iter().find(|growth| growth.how != How::Bare)
    };
    let growths = pointers.into_iter().map(growth).collect::<Option<Vec<_>>>()?;
    Some(Case { input, growths })
}

/// Judges all cases on all cores; the findings, in the order of the cases.
pub fn survey<T: Sync>(cases: &[T], judge: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(index) else { return };
            if let Some(finding) = judge(case) {
                found.lock().unwrap_or_else(PoisonError::into_inner).push((index, finding));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort();
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// Measures the cost of an input.
///
/// # Errors
/// The module traps, or takes longer than any copying may.
pub fn evaluate(counter: &Counter, input: &Input) -> anyhow::Result<Took> {
    let (payload, objects, bytes) = (input.payload()?, input.objects(), input.length()?);
    let start = Instant::now();
    let counts = counter
        .count(input.function(), &payload, &objects)
        .map_err(|error| anyhow::anyhow!("{bytes} bytes of input: {}", last_line(&error)))?;
    let time = start.elapsed();
    anyhow::ensure!(time < TIME, "{bytes} bytes of input take {time:?}");
    Ok(Took { bytes, instructions: counts.start + counts.call, memory: counts.pages * PAGE })
}

/// The last line of an error of the engine, behind the addresses of functions.
fn last_line(error: &anyhow::Error) -> String {
    error.to_string().lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

/// Whether an input takes more than its length allows.
fn costly(took: Took) -> Option<String> {
    let instructions = FIXED.instructions + INSTRUCTIONS_EACH * took.bytes;
    let memory = FIXED.memory as u64 + MEMORY_EACH * took.bytes;
    (took.instructions > instructions || took.memory > memory).then(|| {
        format!("{} bytes take {} instructions and {} bytes of memory", took.bytes, took.instructions, took.memory)
    })
}

/// Whether the input could take more than its length allows if it went on like that.
fn is_dear(base: Took, took: Took) -> bool {
    let bytes = took.bytes.saturating_sub(base.bytes);
    took.instructions > base.instructions + SPARE_INSTRUCTIONS + INSTRUCTIONS_EACH * bytes
        || took.memory > base.memory + SPARE_MEMORY + MEMORY_EACH * bytes
}

/// Whether a step that is twice as long takes much more than twice as much. A step is an input and the longer one that it
/// becomes.
fn grows(short: [Took; 2], long: [Took; 2]) -> Option<String> {
    let judge = |unit: &str, of: fn(Took) -> u64, spare: u64| {
        let [small, large] = [short, long].map(|[before, after]| of(after).saturating_sub(of(before)));
        let [short, long] = [short, long].map(|[before, after]| after.bytes.saturating_sub(before.bytes));
        (large * 10 > small * GROWTH + spare * 10)
            .then(|| format!("{short} bytes more take {small} {unit}, {long} bytes more take {large}"))
    };
    judge("instructions", |took| took.instructions, SPARE_INSTRUCTIONS)
        .or_else(|| judge("bytes of memory", |took| took.memory, SPARE_MEMORY))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const BASE: Took = Took { bytes: 1_000, instructions: 1_000_000, memory: 1 << 20 };

    fn took(bytes: u64, instructions: u64, memory: u64) -> Took {
        Took { bytes: BASE.bytes + bytes, instructions: BASE.instructions + instructions, memory: BASE.memory + memory }
    }

    #[rstest]
    #[case::linear(20_000_000, 20 << 20, false)]
    #[case::with_a_logarithm(22_000_000, 20 << 20, false)]
    #[case::quadratic(40_000_000, 20 << 20, true)]
    #[case::quadratic_memory(20_000_000, 40 << 20, true)]
    fn e18_twice_the_input_may_take_twice_as_much(#[case] instructions: u64, #[case] memory: u64, #[case] found: bool) {
        let wrong = grows([BASE, took(100_000, 10_000_000, 10 << 20)], [BASE, took(200_000, instructions, memory)]);
        assert_eq!(wrong.is_some(), found, "{wrong:?}");
    }

    #[rstest]
    #[case::within(110_000_000, 13 << 20, false)]
    #[case::too_many_instructions(120_000_000, 13 << 20, true)]
    #[case::too_much_memory(1, 15 << 20, true)]
    fn e18_each_byte_has_its_price(#[case] instructions: u64, #[case] memory: u64, #[case] found: bool) {
        assert_eq!(costly(Took { bytes: 100_000, instructions, memory }).is_some(), found);
    }

    #[test]
    fn e18_a_mebibyte_has_the_whole_price() {
        let took = |instructions| Took { bytes: LENGTH, instructions, memory: 0 };
        assert_eq!(costly(took(BOUNDS.instructions - LENGTH)), None);
        assert!(costly(took(BOUNDS.instructions + 1)).is_some());
    }
}
