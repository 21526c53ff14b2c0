//! Limits on the time and memory of one evaluation.
//!
//! The engine is the provider's, with its own configuration. Each instance takes a slot of a pool; whenever a slot is
//! taken, its memory is reset to what the module defines. A clock interrupts evaluations that run too long.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use wasmtime_provider::ResourceLimits;
use wasmtime_provider::errors::Error;
use wasmtime_provider::wasmtime::{
    Cache, CacheConfig, Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig,
    Result as EngineResult,
};

/// Resolution of the clock: an evaluation stops at most this long after its time is up.
const TICK: Duration = Duration::from_millis(10);
/// The bytes of memory that a slot keeps for the next instance. Zeroing them is cheaper than returning them to the
/// system and allocating them again. An evaluation uses 1.2 MiB, of which most is stack that it never touches; the
/// system tells which pages are to be zeroed (`PAGEMAP_SCAN`, Linux 6.7).
const KEPT: usize = 2 * 1024 * 1024;
/// The bytes of the function table that a slot keeps; it has 8 bytes for each entry.
const KEPT_TABLE: usize = 16 * 1024;
/// The maximum number of entries in a module's function table; the policy has some hundreds.
const TABLE: usize = 100_000;

/// Limits on one evaluation, and on the number of concurrent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Wall-clock time, look-ups included.
    pub time: Duration,
    /// Memory of the guest in bytes, rounded up to its pages of 64 KiB.
    pub memory: usize,
    /// Maximum number of concurrent evaluations. One more fails at once, so the caller must keep count.
    pub instances: u32,
    /// The number of instances that are kept, after their evaluation, for reuse of what belongs to them. They count as
    /// concurrent evaluations.
    pub idle: usize,
}

/// Whether to keep compiled code between processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CodeCache {
    /// Keep it in a folder of the user's cache directory. If that folder is not usable, modules are compiled every
    /// time.
    #[default]
    Use,
    /// Keep it in this folder. If the folder is not usable, modules are compiled every time.
    In(PathBuf),
    /// Do not keep it.
    Off,
}

impl CodeCache {
    /// Returns the folder in which compiled code is kept, or `None` if there is none that can be used.
    pub fn folder() -> Option<PathBuf> {
        Self::Use.open().map(|cache| cache.directory().clone())
    }

    /// Returns wasmtime's cache; `None` if there is no folder for it.
    fn open(&self) -> Option<Cache> {
        match self {
            Self::Use => Cache::from_file(None).ok(),
            Self::In(folder) => {
                let mut config = CacheConfig::new();
                config.with_directory(folder);
                // After some hundred uses, a file would be compressed once more, with 200 MB of memory.
                config.with_optimized_compression_usage_counter_threshold(u64::MAX);
                Cache::new(config).ok()
            }
            Self::Off => None,
        }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self { time: Duration::from_secs(1), memory: 64 * 1024 * 1024, instances: 64, idle: 0 }
    }
}

impl Bounds {
    /// Returns an engine with a clock that runs as long as the engine lives.
    pub(crate) fn engine(self, cache: &CodeCache) -> Result<Engine, Error> {
        let mut pool = PoolingAllocationConfig::default();
        pool.total_core_instances(self.instances)
            .total_memories(self.instances)
            .total_tables(self.instances)
            .max_memory_size(self.memory_in_pages())
            .table_elements(TABLE)
            .max_unused_warm_slots(self.instances)
            .linear_memory_keep_resident(KEPT)
            .table_keep_resident(KEPT_TABLE)
            .pagemap_scan(Enabled::Auto);
        let mut config = Config::new();
        config.epoch_interruption(true).allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        // Without a cache, the code is compiled each time.
        config.cache(cache.open());
        let engine = Engine::new(&config)?;
        start_clock(&engine)?;
        Ok(engine)
    }

    pub(crate) fn limits(self) -> ResourceLimits {
        ResourceLimits { max_memory_size: Some(self.memory_in_pages()), max_table_elements: Some(TABLE) }
    }

    fn memory_in_pages(self) -> usize {
        const PAGE: usize = 64 * 1024;
        self.memory.max(PAGE).next_multiple_of(PAGE)
    }
}

/// Returns a time limit in ticks of the clock.
pub(crate) fn ticks(time: Duration) -> u64 {
    // The current tick has already begun.
    u64::try_from(time.as_millis().div_ceil(TICK.as_millis())).unwrap_or(u64::MAX / 2).saturating_add(1)
}

fn start_clock(engine: &Engine) -> EngineResult<()> {
    let engine = engine.weak();
    let tick = move || {
        loop {
            thread::sleep(TICK);
            match engine.upgrade() {
                Some(engine) => engine.increment_epoch(),
                None => break,
            }
        }
    };
    thread::Builder::new().name("pillion-clock".to_owned()).spawn(tick)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_whole_number_of_ticks(Duration::from_secs(1), 101)]
    #[case::rounded_up(Duration::from_millis(11), 3)]
    #[case::none(Duration::ZERO, 1)]
    fn time_is_counted_in_ticks(#[case] time: Duration, #[case] ticks: u64) {
        assert_eq!(super::ticks(time), ticks);
    }

    #[rstest]
    #[case(0, 65_536)]
    #[case(65_537, 131_072)]
    #[case(64 * 1024 * 1024, 64 * 1024 * 1024)]
    fn memory_is_counted_in_pages(#[case] memory: usize, #[case] limit: usize) {
        assert_eq!(Bounds { memory, ..Bounds::default() }.limits().max_memory_size, Some(limit));
    }
}
