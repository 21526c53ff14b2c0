//! A property test: every input of less than a mebibyte stays within its bounds.

use pillion_fuzz::cost::judge::{BOUNDS, LENGTH};
use pillion_fuzz::cost::mix::{self, Mix, Share};
use pillion_fuzz::cost::survey;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::surveyed;

/// The number of inputs in a test run without `PROPTEST_CASES`. A thousand take some minutes.
const CASES: u32 = 48;

/// The numbers behind the inputs are the same in every run, so a longer run begins with the inputs of a shorter one. A
/// counter-example is reduced to the fewest places, each with the least growth, that still cost too much.
#[test]
fn e18_any_input_stays_within_the_bounds() {
    let Some((counter, samples)) = surveyed() else { return };
    let mixes = select((0..samples.len()).collect::<Vec<_>>()).prop_flat_map(|index| {
        let growths = mix::growths(&samples[index]);
        let share = (select(growths), 0..=8_u32).prop_map(|(growth, level)| Share::new(growth, level));
        vec(share, 1..=5).prop_map(move |shares| Mix { sample: &samples[index], shares })
    });
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { Config::default().cases } else { CASES };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let ran = runner.run(&mixes, |mix| {
        let input = mix.input();
        prop_assert!(input.length().unwrap() < LENGTH, "{mix:?}: too long");
        let took = survey::evaluate(counter, &input).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(took.instructions <= BOUNDS.instructions, "{took:?}");
        Ok(())
    });
    if let Err(error) = ran {
        panic!("{error}");
    }
}
