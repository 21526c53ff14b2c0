//! Measures times such that disturbances of the machine affect all contestants alike.

use std::time::{Duration, Instant};

use serde::Serialize;

/// The time that a contestant runs before the next one takes over.
const TURN: Duration = Duration::from_millis(10);

/// A repeatable operation.
pub type Contestant<'a> = Box<dyn FnMut() -> anyhow::Result<()> + 'a>;

/// A summary of many times, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// Half of the times were shorter.
    pub median: f64,
    /// One time in ten was shorter.
    pub p10: f64,
    /// One time in ten was longer.
    pub p90: f64,
    /// The number of times.
    pub samples: usize,
}

impl Times {
    fn from_samples(mut samples: Vec<u64>) -> Self {
        samples.sort_unstable();
        let at = |percent: usize| {
            let index = samples.len().saturating_sub(1) * percent / 100;
            samples.get(index).copied().map_or(0.0, nanoseconds)
        };
        Self { median: at(50), p10: at(10), p90: at(90), samples: samples.len() }
    }
}

#[allow(clippy::cast_precision_loss, reason = "an evaluation takes less than the 52 days that a float can count")]
const fn nanoseconds(count: u64) -> f64 {
    count as f64
}

/// Runs the contestants in turns, each for at least `budget` in total, after a warm-up of a tenth of that. Each
/// execution is timed separately.
///
/// # Errors
/// The first error of a contestant.
pub fn race(contestants: &mut [Contestant<'_>], budget: Duration) -> anyhow::Result<Vec<Times>> {
    for contestant in &mut *contestants {
        turn(contestant, budget / 10, &mut Vec::new())?;
    }
    let mut samples: Vec<Vec<u64>> = vec![Vec::new(); contestants.len()];
    let started = Instant::now();
    let total = budget * u32::try_from(contestants.len())?;
    while started.elapsed() < total {
        for (contestant, samples) in contestants.iter_mut().zip(&mut samples) {
            turn(contestant, TURN, samples)?;
        }
    }
    Ok(samples.into_iter().map(Times::from_samples).collect())
}

fn turn(contestant: &mut Contestant<'_>, length: Duration, samples: &mut Vec<u64>) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let before = Instant::now();
        contestant()?;
        let after = Instant::now();
        samples.push(u64::try_from((after - before).as_nanos())?);
        if after - started >= length {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles_are_of_the_sorted_times() {
        let times = Times::from_samples((1..=101).rev().collect());
        assert_eq!((times.median, times.p10, times.p90, times.samples), (51.0, 11.0, 91.0, 101));
        assert_eq!(Times::from_samples(Vec::new()).samples, 0);
    }

    #[test]
    fn contestants_take_turns_until_the_time_is_up() {
        let (mut one, mut other) = (0, 0);
        let mut contestants: Vec<Contestant<'_>> = vec![
            Box::new(|| {
                one += 1;
                std::thread::sleep(Duration::from_millis(2));
                Ok(())
            }),
            Box::new(|| {
                other += 1;
                std::thread::sleep(Duration::from_millis(5));
                Ok(())
            }),
        ];
        let times = race(&mut contestants, Duration::from_millis(30)).unwrap();
        drop(contestants);
        assert!(one > other && other >= 2, "{one} and {other}");
        let [short, long] = times.as_slice() else { panic!("{times:?}") };
        assert!(short.median < long.median);
    }

    #[test]
    fn an_error_ends_the_race() {
        let mut contestants: Vec<Contestant<'_>> = vec![Box::new(|| anyhow::bail!("no"))];
        assert_eq!(race(&mut contestants, Duration::from_secs(1)).unwrap_err().to_string(), "no");
    }
}
