//! Long tests judge a sample of their cases. `PILLION_WHOLE=1` makes them judge all.

/// Whether long tests judge all of their cases.
pub fn is_whole() -> bool {
    std::env::var_os("PILLION_WHOLE").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Returns every `step`-th case, or all. The order of the cases decides what the sample covers: put cases of a kind
/// together.
pub fn every<T>(step: usize, cases: impl IntoIterator<Item = T>) -> Vec<T> {
    cases.into_iter().step_by(if is_whole() { 1 } else { step }).collect()
}
