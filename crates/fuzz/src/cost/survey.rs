//! Evaluates the module with inputs that grow.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pillion_bench::engine::{Counter, PAGE};

use super::Input;
use super::grow::{Differs, Growth, GrowthKind, Order};
use super::judge::{Cost, LENGTH, costly, grows, may_be_costly, product_may_be_costly};
use super::place::{self, Part};
use super::samples;

/// The bytes of the first growth of a place. A growth twice as long follows, and those of eight and sixteen times this
/// length if there is a reason to look closer.
const STEP: usize = 4 << 10;
/// The growth in bytes of each of two places that grow together.
const PAIRED: usize = 4 * STEP;
/// The time limit of an evaluation in a test build on a busy machine. It bounds bulk operations, which count as one
/// instruction.
pub(crate) const TIME: Duration = Duration::from_secs(20);

/// A sample and its cost.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The sample.
    pub input: Input,
    /// Its cost.
    pub base: Cost,
}

/// Returns all samples with their costs.
///
/// # Errors
/// If a sample costs more than an evaluation may.
pub fn samples(counter: &Counter) -> anyhow::Result<Vec<Sample>> {
    let measured = |input: Input| Ok(Sample { base: evaluate(counter, &input)?, input });
    samples::all(counter)?.into_iter().map(measured).collect()
}

/// A growth of a sample: in one place, or in several at once.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The sample.
    pub sample: &'a Sample,
    /// The places that grow. Outer ones come first, unless their entries are to include the long inner ones.
    pub growths: Vec<Growth>,
}

impl<'a> Case<'a> {
    fn alone(sample: &'a Sample, growth: Growth) -> Self {
        Self { sample, growths: vec![growth] }
    }

    /// Returns the name of the sample and of what grows.
    pub fn name(&self) -> String {
        let growths: Vec<String> = self.growths.iter().map(ToString::to_string).collect();
        format!("{}: {}", self.sample.input.name(), growths.join(" x "))
    }

    /// Returns the sample with this many more bytes in each place.
    pub fn grown(&self, bytes: usize) -> Input {
        let mut document = self.sample.input.document().clone();
        for growth in &self.growths {
            growth.apply(&mut document, bytes);
        }
        self.sample.input.with_document(document)
    }

    /// Returns a finding if the cost of the sample grows faster than its length, or exceeds that of a mebibyte.
    pub fn judge(&self, counter: &Counter) -> Option<String> {
        self.finding(self.judged(counter))
    }

    /// The same for two places at once. A product of two, such as many sidecars that share many mounts, is no finding
    /// if the cost stays within what the length allows.
    pub fn judge_product(&self, counter: &Counter, alone: [Cost; 2]) -> Option<String> {
        let judged = || {
            let both = evaluate(counter, &self.grown(PAIRED))?;
            if product_may_be_costly(self.sample.base, alone, both) { self.in_full(counter) } else { Ok(None) }
        };
        self.finding(judged())
    }

    /// Returns a finding if the sample takes more than it may when its places grow to a mebibyte, each by as many
    /// bytes.
    pub fn judge_whole(&self, counter: &Counter) -> Option<String> {
        self.finding(self.in_full(counter))
    }

    fn judged(&self, counter: &Counter) -> anyhow::Result<Option<String>> {
        let base = self.sample.base;
        let once = evaluate(counter, &self.grown(STEP))?;
        let twice = evaluate(counter, &self.grown(2 * STEP))?;
        if grows([base, once], [base, twice]).is_some() {
            // The policy may answer differently than for the sample, so the further growth is decisive.
            let again = evaluate(counter, &self.grown(4 * STEP))?;
            if let Some(wrong) = grows([once, twice], [twice, again]) {
                return Ok(Some(wrong));
            }
        }
        let is_input = self.growths.iter().any(|growth| growth.place.is_input());
        if !is_input || !may_be_costly([base, once, twice]) {
            return Ok(None);
        }
        // A few kibibytes say little about a mebibyte: the longer the input, the less a single move of a list matters.
        let longer = self.unless_too_long(counter, 8 * STEP)?;
        let longest = self.unless_too_long(counter, 16 * STEP)?;
        match longer.zip(longest) {
            Some((longer, longest)) if !may_be_costly([twice, longer, longest]) => Ok(None),
            _ => self.in_full(counter),
        }
    }

    fn finding(&self, judged: anyhow::Result<Option<String>>) -> Option<String> {
        let wrong = judged.unwrap_or_else(|error| Some(error.to_string()))?;
        Some(format!("{}: {wrong}", self.name()))
    }

    /// Judges the cost at a mebibyte and at shorter lengths, since the policy may refuse an input at one length and
    /// spend much at another. A shorter input may take as much as a mebibyte does: the policy reads 16,384 values of
    /// the shortest kind whatever the length of the input.
    fn in_full(&self, counter: &Counter) -> anyhow::Result<Option<String>> {
        let room = usize::try_from(LENGTH.saturating_sub(self.sample.base.bytes))? / self.growths.len().max(1);
        let mut longest = None;
        for bytes in [room / 64, room / 16, room / 4, room] {
            let Some(took) = self.unless_too_long(counter, bytes)? else { break };
            longest = Some(took);
        }
        Ok(longest.and_then(costly))
    }

    /// Returns the cost with this many more bytes in each place, unless the input then exceeds a mebibyte, as the text
    /// of a bundle of short SidecarSets does.
    fn unless_too_long(&self, counter: &Counter, bytes: usize) -> anyhow::Result<Option<Cost>> {
        let grown = self.grown(bytes);
        if grown.length()? > LENGTH { Ok(None) } else { evaluate(counter, &grown).map(Some) }
    }
}

/// Returns the cases of each place alone: every part of every sample, in every way to grow.
pub fn each_thoroughly(samples: &[Sample]) -> Vec<Case<'_>> {
    samples
        .iter()
        .flat_map(|sample| {
            let document = sample.input.document();
            let places = place::places(document).into_iter();
            places.flat_map(|place| Growth::all(document, &place, true)).map(|growth| Case::alone(sample, growth))
        })
        .collect()
}

/// Returns the cases of each place alone, without those that differ little: each sample grows in the parts that it
/// covers, in the ways that differ most; a text grows in one of the samples that have it.
pub fn each(samples: &[Sample]) -> Vec<Case<'_>> {
    let mut texts = BTreeSet::new();
    let mut cases = Vec::new();
    for sample in samples {
        let input = &sample.input;
        for place in place::distinct(input.document()).into_iter().filter(|place| input.grows_alone(place)) {
            let is_text = !matches!(place.part, Part::List | Part::Map);
            if is_text && !texts.insert((input.function(), place.clone())) {
                continue;
            }
            let growths = Growth::all(input.document(), &place, false).into_iter();
            cases.extend(growths.map(|growth| Case::alone(sample, growth)));
        }
    }
    cases
}

/// Returns the most significant cases of [`each`]: entries in random order, which no sorting makes cheap, and the
/// shortest entries. Maps and texts have only one way to grow.
pub fn each_briefly(samples: &[Sample]) -> Vec<Case<'_>> {
    let tells_most = |growth: &Growth| match growth.place.part {
        Part::List => matches!(growth.kind, GrowthKind::Bare | GrowthKind::Entries(Order::Random, ..)),
        _ => true,
    };
    each(samples).into_iter().filter(|case| case.growths.iter().all(tells_most)).collect()
}

/// Two places of a sample that grow together: a list or a map, and any other place.
#[derive(Clone, Debug)]
pub struct Pair<'a> {
    case: Case<'a>,
    alone: [Cost; 2],
}

impl Pair<'_> {
    /// Returns a finding if the two places cost more than their length allows.
    pub fn judge(&self, counter: &Counter) -> Option<String> {
        self.case.judge_product(counter, self.alone)
    }
}

/// Returns all pairs of a sample, after evaluating each place alone.
pub fn pairs<'a>(counter: &Counter, sample: &'a Sample) -> Vec<Pair<'a>> {
    let document = sample.input.document();
    let places: Vec<_> = place::distinct(document).into_iter().filter(|place| sample.input.is_about(place)).collect();
    let growth = |place| Growth::all(document, place, false).into_iter().find(|growth| growth.kind != GrowthKind::Bare);
    let growths: Vec<_> = places.iter().filter_map(growth).collect();
    // The survey of single places reports a place that cannot be evaluated alone. Here it counts as free.
    let alone = in_parallel(&growths, |growth| {
        evaluate(counter, &Case::alone(sample, growth.clone()).grown(PAIRED)).unwrap_or(sample.base)
    });
    let growths: Vec<_> = growths.into_iter().zip(alone).collect();
    let is_counted = |growth: &Growth| matches!(growth.place.part, Part::List | Part::Map);
    // A text multiplies nothing. In an object that can be looked up, it is not input either.
    let counts = |growth: &Growth| is_counted(growth) || growth.place.is_input();
    let growths: Vec<_> = growths.into_iter().filter(|(growth, _)| counts(growth)).collect();
    let mut pairs = Vec::new();
    for (index, (one, one_alone)) in growths.iter().enumerate().filter(|(_, (growth, _))| is_counted(growth)) {
        // Of two lists, the first comes first. Texts before a list are paired with it, too.
        let others = growths.iter().enumerate().filter(|(other, (growth, _))| *other > index || !is_counted(growth));
        pairs.extend(others.map(|(_, (other, other_alone))| Pair {
            case: Case { sample, growths: vec![one.clone(), other.clone()] },
            alone: [*one_alone, *other_alone],
        }));
    }
    pairs
}

/// Returns the pairs of a list, a map or an object in a text of the request, and one of the settings or of a bundle:
/// what one user writes times what others write. Lists grow by each of their entries.
pub fn crossed<'a>(counter: &Counter, sample: &'a Sample) -> Vec<Pair<'a>> {
    let document = sample.input.document();
    let is_counted = |growth: &Growth| {
        matches!(growth.kind, GrowthKind::Entries(Order::Ascending, Differs::All, _) | GrowthKind::Members)
    };
    let growths_of = |part: &str| -> Vec<(Growth, Cost)> {
        let places = place::places(document).into_iter().filter(|place| place.pointer.starts_with(part));
        let growths: Vec<_> = places.flat_map(|place| Growth::all(document, &place, true)).filter(is_counted).collect();
        let alone = in_parallel(&growths, |growth| {
            evaluate(counter, &Case::alone(sample, growth.clone()).grown(PAIRED)).unwrap_or(sample.base)
        });
        growths.into_iter().zip(alone).collect()
    };
    let written: Vec<_> = ["/settings", "/bundle"].into_iter().flat_map(growths_of).collect();
    let mut pairs = Vec::new();
    for (one, one_alone) in growths_of("/request/object") {
        pairs.extend(written.iter().map(|(other, other_alone)| Pair {
            case: Case { sample, growths: vec![one.clone(), other.clone()] },
            alone: [one_alone, *other_alone],
        }));
    }
    pairs
}

/// Returns the pair of the places at two pointers of a sample.
pub fn pair<'a>(sample: &'a Sample, pointers: [&str; 2]) -> Option<Case<'a>> {
    let document = sample.input.document();
    let places = place::places(document);
    let growth = |pointer: &str| {
        let place = places.iter().find(|place| place.pointer == pointer)?;
        Growth::all(document, place, false).into_iter().find(|growth| growth.kind != GrowthKind::Bare)
    };
    let growths = pointers.into_iter().map(growth).collect::<Option<Vec<_>>>()?;
    Some(Case { sample, growths })
}

/// Judges all cases on all cores. Returns the findings in the order of the cases. Prints each finding at once, since a
/// survey can take hours.
pub fn survey<T: Sync>(cases: &[T], judge: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let reported = |case: &T| judge(case).inspect(|finding| eprintln!("{finding}"));
    in_parallel(cases, reported).into_iter().flatten().collect()
}

fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let result = work(item);
            results.lock().push((index, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(worker);
        }
    });
    let mut results = results.into_inner();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Measures the cost of an input.
///
/// # Errors
/// If the module traps, or takes longer than any copying may.
pub fn evaluate(counter: &Counter, input: &Input) -> anyhow::Result<Cost> {
    let (payload, objects, bytes) = (input.payload()?, input.objects(), input.length()?);
    let start = Instant::now();
    let counts = counter
        .count(input.function(), &payload, &objects)
        .map_err(|error| anyhow::anyhow!("{bytes} bytes of input: {}", last_line(&error)))?;
    let time = start.elapsed();
    anyhow::ensure!(time < TIME, "{bytes} bytes of input take {time:?}");
    Ok(Cost { bytes, instructions: counts.start + counts.call, memory: counts.pages * PAGE })
}

/// Returns the last line of an error of the engine. The lines before it are addresses of functions.
fn last_line(error: &anyhow::Error) -> String {
    error.to_string().lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}
