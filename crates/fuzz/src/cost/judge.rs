//! The rules by which the cost of an input is judged (E18).

use pillion_bench::engine::Bounds;

/// The limits of an evaluation with an input of less than [`LENGTH`] bytes.
pub const BOUNDS: Bounds = Bounds { instructions: 600_000_000, memory: 64 << 20 };
/// The input length up to which [`BOUNDS`] apply, in bytes: a mebibyte.
pub const LENGTH: u64 = 1 << 20;
/// The share of [`BOUNDS`] that does not depend on the length of the input: a quarter of the instructions, an eighth of
/// the memory. The costliest input for its length is a thousand SidecarSets that match one Pod: 430 million
/// instructions for 670 KB.
const FIXED: Bounds = Bounds { instructions: BOUNDS.instructions / 4, memory: BOUNDS.memory / 8 };
/// Instructions and bytes of memory that each byte of input may take in addition.
const INSTRUCTIONS_EACH: u64 = (BOUNDS.instructions - FIXED.instructions) / LENGTH;
const MEMORY_EACH: u64 = (BOUNDS.memory - FIXED.memory) as u64 / LENGTH;
/// The allowed growth of the cost when the input doubles, in tenths.
const GROWTH: u64 = 23;
/// The allowance of every evaluation: a few instructions or one more page are no growth.
const SPARE_INSTRUCTIONS: u64 = 150_000;
const SPARE_MEMORY: u64 = 1 << 20;

/// The cost of an evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes of input.
    pub bytes: u64,
    /// Instructions.
    pub instructions: u64,
    /// Bytes of memory.
    pub memory: u64,
}

/// Returns the instructions that an input of this length may take.
const fn allowed(bytes: u64) -> u64 {
    FIXED.instructions + INSTRUCTIONS_EACH * bytes
}

/// Returns a finding if an input takes more than its length allows.
pub fn costly(took: Cost) -> Option<String> {
    let memory = FIXED.memory as u64 + MEMORY_EACH * took.bytes;
    (took.instructions > allowed(took.bytes) || took.memory > memory).then(|| {
        format!("{} bytes take {} instructions and {} bytes of memory", took.bytes, took.instructions, took.memory)
    })
}

/// Returns a finding if a step that is twice as long takes much more than twice as much. A step is an input and the
/// longer input that it grows into.
pub fn grows(short: [Cost; 2], long: [Cost; 2]) -> Option<String> {
    let judge = |unit: &str, cost: fn(Cost) -> u64, spare: u64| {
        let [small, large] = [short, long].map(|[before, after]| cost(after).saturating_sub(cost(before)));
        let [short, long] = [short, long].map(|[before, after]| after.bytes.saturating_sub(before.bytes));
        (large * 10 > small * GROWTH + spare * 10)
            .then(|| format!("{short} bytes more take {small} {unit}, {long} bytes more take {large}"))
    };
    judge("instructions", |took| took.instructions, SPARE_INSTRUCTIONS)
        .or_else(|| judge("bytes of memory", |took| took.memory, SPARE_MEMORY))
}

/// Whether an input that keeps growing could take more than its length allows: a parabola through three of its costs
/// exceeds the bound at a mebibyte, or its memory grows faster than allowed. A positive result is a reason to measure,
/// not a finding.
pub fn may_be_costly(points: [Cost; 3]) -> bool {
    let [first, _, last] = points;
    remembers_too_much(first, last) || at_a_mebibyte(points) > i128::from(allowed(LENGTH))
}

/// The same for two parts of an input that grow together. `alone` are the costs if each of them grows, `both` is the
/// cost if both grow as much. Everything beyond the sum of the two counts as a product.
pub fn product_may_be_costly(base: Cost, alone: [Cost; 2], both: Cost) -> bool {
    let more = |took: Cost| i128::from(took.instructions) - i128::from(base.instructions);
    let bytes = both.bytes.saturating_sub(base.bytes).max(1);
    let room = i128::from(LENGTH.saturating_sub(base.bytes));
    let each: i128 = alone.into_iter().map(more).sum();
    let product = (more(both) - each).max(0);
    let bytes_more = i128::from(bytes);
    let expected = more(both).max(0) * room / bytes_more
        + product * room / bytes_more * (room - bytes_more).max(0) / bytes_more
        + i128::from(base.instructions);
    remembers_too_much(base, both) || expected > i128::from(allowed(LENGTH))
}

fn remembers_too_much(before: Cost, after: Cost) -> bool {
    after.memory > before.memory + SPARE_MEMORY + MEMORY_EACH * after.bytes.saturating_sub(before.bytes)
}

/// Returns the extrapolated instructions of a mebibyte: on the parabola through three inputs, or on the line through
/// the longer two if that is steeper at first. If the inputs do not grow in length, returns the cost of the longest.
fn at_a_mebibyte([first, second, third]: [Cost; 3]) -> i128 {
    let wide = |took: Cost| (i128::from(took.bytes), i128::from(took.instructions));
    let [(x0, y0), (x1, y1), (x2, y2)] = [first, second, third].map(wide);
    if x1 <= x0 || x2 <= x1 {
        return y2;
    }
    let x = i128::from(LENGTH).max(x2);
    // The slopes are per mebibyte because integers have no fractions.
    let scale = i128::from(LENGTH);
    let (before, after) = ((y1 - y0) * scale / (x1 - x0), (y2 - y1) * scale / (x2 - x1));
    let bend = (after - before).max(0) / (x2 - x0);
    y2 + (after + bend * (x - x1)) * (x - x2) / scale
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const BASE: Cost = Cost { bytes: 1_000, instructions: 1_000_000, memory: 1 << 20 };

    fn took(bytes: u64, instructions: u64, memory: u64) -> Cost {
        Cost { bytes: BASE.bytes + bytes, instructions: BASE.instructions + instructions, memory: BASE.memory + memory }
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
    #[case::within(190_000_000, 13 << 20, false)]
    #[case::too_many_instructions(195_000_000, 13 << 20, true)]
    #[case::too_much_memory(1, 15 << 20, true)]
    fn e18_each_byte_has_its_price(#[case] instructions: u64, #[case] memory: u64, #[case] found: bool) {
        assert_eq!(costly(Cost { bytes: 100_000, instructions, memory }).is_some(), found);
    }

    #[test]
    fn e18_a_mebibyte_has_the_whole_price() {
        let took = |instructions| Cost { bytes: LENGTH, instructions, memory: 0 };
        assert_eq!(costly(took(BOUNDS.instructions - LENGTH)), None);
        assert!(costly(took(BOUNDS.instructions + 1)).is_some());
    }

    /// Entries of 40 bytes: each costs `each` instructions, and each pair of them costs `pair`.
    #[rstest]
    #[case::linear(15_000, 0, false)]
    #[case::dear_entries(30_000, 0, true)]
    #[case::a_product_that_fits(4_000, 1, false)]
    #[case::a_product(4_000, 3, true)]
    fn e18_the_cost_of_a_mebibyte_follows_from_that_of_a_few_kibibytes(
        #[case] each: u64,
        #[case] pair: u64,
        #[case] found: bool,
    ) {
        let cost = |count: u64| took(40 * count, count * each + count * count * pair / 2, 0);
        assert_eq!(may_be_costly([cost(0), cost(100), cost(200)]), found);
        assert_eq!(may_be_costly([cost(200), cost(800), cost(1_600)]), found);
    }

    #[rstest]
    #[case::a_sum(4_000, 0, false)]
    #[case::a_product_that_fits(4_000, 1, false)]
    #[case::a_product(4_000, 4, true)]
    fn e18_the_cost_of_two_lists_follows_from_that_of_each(#[case] each: u64, #[case] pair: u64, #[case] found: bool) {
        let cost = |one: u64, other: u64| took(40 * (one + other), (one + other) * each + one * other * pair, 0);
        assert_eq!(product_may_be_costly(cost(0, 0), [cost(200, 0), cost(0, 200)], cost(200, 200)), found);
    }
}
