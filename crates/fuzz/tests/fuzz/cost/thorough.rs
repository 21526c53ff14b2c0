//! The tests of `make cost`: each place alone takes some minutes; all ways to grow and all pairs take hours.
//!
//! `PILLION_COST_EVERY=100` judges every hundredth case, the same ones in each run.

use pillion_fuzz::cost::survey::{self, Case, Sample};

use super::{expect_none, surveyed};

/// Returns the step between judged cases: 1 judges all of them.
fn every() -> usize {
    std::env::var("PILLION_COST_EVERY").map_or(1, |every| every.parse().unwrap())
}

#[test]
fn e18_each_list_map_text_and_number_alone() {
    judge_alone(survey::each);
}

#[test]
fn e18_each_list_map_text_and_number_alone_in_every_way() {
    judge_alone(survey::each_thoroughly);
}

fn judge_alone(cases: fn(&[Sample]) -> Vec<Case<'_>>) {
    let Some((counter, samples)) = surveyed() else { return };
    let cases: Vec<_> = cases(samples).into_iter().step_by(every()).collect();
    expect_none(&survey::survey(&cases, |case| case.judge(counter)));
}

#[test]
fn e18_pairs_of_two_objects() {
    let Some((counter, samples)) = surveyed() else { return };
    let mut found = Vec::new();
    for sample in samples.iter().filter(|sample| sample.input.name().starts_with("pod/")) {
        let pairs: Vec<_> = survey::crossed(counter, sample).into_iter().step_by(every()).collect();
        found.extend(survey::survey(&pairs, |pair| pair.judge(counter)));
    }
    expect_none(&found);
}

#[test]
fn e18_all_pairs() {
    let Some((counter, samples)) = surveyed() else { return };
    let mut found = Vec::new();
    // Samples are judged one after the other, since all pairs together are a million.
    for sample in samples {
        let pairs: Vec<_> = survey::pairs(counter, sample).into_iter().step_by(every()).collect();
        found.extend(survey::survey(&pairs, |pair| pair.judge(counter)));
    }
    expect_none(&found);
}
