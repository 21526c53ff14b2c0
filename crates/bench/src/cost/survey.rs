//! Evaluates the module with inputs that grow, and judges what that takes.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::grow::Growth;
use super::{Input, place};
use crate::engine::{Bounds, Counter, PAGE};

/// What an evaluation of less than a MiB may take.
pub const BOUNDS: Bounds = Bounds { instructions: 600_000_000, memory: 64 << 20 };
/// How often the work may grow where the input grows twice, in tenths.
const GROWTH: u64 = 23;
/// What every evaluation may take besides, so that a few instructions or one page more are no growth.
const SPARE_INSTRUCTIONS: u64 = 150_000;
const SPARE_MEMORY: u64 = 1 << 20;
/// Instructions and bytes of memory for each byte of input, beyond what the sample itself takes: [`BOUNDS`] for a MiB.
pub const INSTRUCTIONS_EACH: u64 = BOUNDS.instructions >> 20;
const MEMORY_EACH: u64 = (BOUNDS.memory >> 20) as u64;
/// How long an evaluation may take in a build for tests on a busy machine. Bulk operations count as one instruction; this
/// is what bounds them.
const TIME: Duration = Duration::from_secs(20);

/// Something that grows in a sample: one place, or two at once.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The sample.
    pub input: &'a Input,
    /// What grows, outer places first.
    pub growths: Vec<Growth>,
}

/// What an evaluation took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// Bytes of input.
    pub bytes: u64,
    /// Instructions.
    pub instructions: u64,
    /// Bytes of memory.
    pub memory: u64,
}

impl Case<'_> {
    fn name(&self) -> String {
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

    /// What is wrong with it, if anything.
    pub fn judge(&self, counter: &Counter, count: usize) -> Option<String> {
        self.judged(counter, count).unwrap_or_else(|error| Some(format!("{error:#}"))).map(|wrong| {
            format!("{}: {wrong}", self.name())
        })
    }

    fn judged(&self, counter: &Counter, count: usize) -> anyhow::Result<Option<String>> {
        let base = evaluate(counter, self.input)?;
        let once = evaluate(counter, &self.grown(count))?;
        let twice = evaluate(counter, &self.grown(2 * count))?;
        if let Some(wrong) = costly(base, twice) {
            return Ok(Some(wrong));
        }
        if grows(base, once, twice).is_none() {
            return Ok(None);
        }
        // A limit may lie between the two: beyond it, the work has to grow as before.
        let again = evaluate(counter, &self.grown(4 * count))?;
        Ok(costly(base, again).or_else(|| grows(base, twice, again)))
    }

    /// What is wrong with it at just below a MiB, if anything.
    pub fn judge_whole(&self, counter: &Counter) -> Option<String> {
        let judged = || -> anyhow::Result<Option<String>> {
            let (small, large) = (self.grown(8).length()?, self.grown(16).length()?);
            let each = (large - small).div_ceil(8).max(1);
            let room = (1_u64 << 20).saturating_sub(self.input.length()?);
            let took = evaluate(counter, &self.grown(usize::try_from(room / each)?))?;
            let is_within = took.instructions <= BOUNDS.instructions && took.memory <= BOUNDS.memory as u64;
            Ok((!is_within).then(|| format!("takes {took:?}")))
        };
        judged().unwrap_or_else(|error| Some(format!("{error:#}"))).map(|wrong| format!("{}: {wrong}", self.name()))
    }
}

/// The cases for each place of a sample alone. `thorough` asks for every part of the sample and every way to grow, else
/// for what this sample is about, and for the ways that differ most.
pub fn alone(input: &Input, thorough: bool) -> Vec<Case<'_>> {
    let document = input.document();
    let places = if thorough { place::places(document) } else { place::distinct(document) };
    places
        .into_iter()
        .filter(|place| thorough || input.is_about(place))
        .flat_map(|place| Growth::all(document, &place, thorough))
        .map(|growth| Case { input, growths: vec![growth] })
        .collect()
}

/// Judges all cases on all cores; the findings, in the order of the cases.
pub fn survey<T: Sync>(cases: &[T], judge: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((index, case)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|index| Some((index, cases.get(index)?))) {
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

/// What an input takes.
///
/// # Errors
/// Where the module traps, or takes longer than any copying may.
pub fn evaluate(counter: &Counter, input: &Input) -> anyhow::Result<Took> {
    let (payload, objects, bytes) = (input.payload()?, input.objects(), input.length()?);
    let start = Instant::now();
    let counts = counter
        .count(input.function(), &payload, &objects)
        .map_err(|error| error.context(format!("with {bytes} bytes of input")))?;
    let time = start.elapsed();
    anyhow::ensure!(time < TIME, "{bytes} bytes of input take {time:?}");
    Ok(Took { bytes, instructions: counts.start + counts.call, memory: counts.pages * PAGE })
}

/// Whether the input takes more than its length allows.
fn costly(base: Took, took: Took) -> Option<String> {
    let bytes = took.bytes.saturating_sub(base.bytes);
    let instructions = base.instructions + SPARE_INSTRUCTIONS + INSTRUCTIONS_EACH * bytes;
    let memory = base.memory + SPARE_MEMORY + MEMORY_EACH * bytes;
    (took.instructions > instructions || took.memory > memory).then(|| {
        let each = |all: u64, base: u64| all.saturating_sub(base) / bytes.max(1);
        format!(
            "{bytes} bytes more take {} instructions and {} bytes of memory each",
            each(took.instructions, base.instructions),
            each(took.memory, base.memory)
        )
    })
}

/// Whether twice the input takes much more than twice as much.
fn grows(base: Took, once: Took, twice: Took) -> Option<String> {
    let judge = |unit: &str, of: fn(Took) -> u64, spare: u64| {
        let [small, large] = [once, twice].map(|took| of(took).saturating_sub(of(base)));
        (large * 10 > small * GROWTH + spare * 10)
            .then(|| format!("{} bytes take {small} {unit} more, {} take {large}", once.bytes, twice.bytes))
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
        Took {
            bytes: BASE.bytes + bytes,
            instructions: BASE.instructions + instructions,
            memory: BASE.memory + memory,
        }
    }

    #[rstest]
    #[case::linear(20_000_000, 20 << 20, false)]
    #[case::with_a_logarithm(22_000_000, 20 << 20, false)]
    #[case::quadratic(40_000_000, 20 << 20, true)]
    #[case::quadratic_memory(20_000_000, 40 << 20, true)]
    fn e18_twice_the_input_may_take_twice_as_much(#[case] instructions: u64, #[case] memory: u64, #[case] found: bool) {
        let wrong = grows(BASE, took(100_000, 10_000_000, 10 << 20), took(200_000, instructions, memory));
        assert_eq!(wrong.is_some(), found, "{wrong:?}");
    }

    #[rstest]
    #[case::within(57_000_000, 6 << 20, false)]
    #[case::too_many_instructions(58_000_000, 6 << 20, true)]
    #[case::too_much_memory(1, 8 << 20, true)]
    fn e18_each_byte_has_its_price(#[case] instructions: u64, #[case] memory: u64, #[case] found: bool) {
        assert_eq!(costly(BASE, took(100_000, instructions, memory)).is_some(), found);
    }
}
