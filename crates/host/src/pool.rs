//! Engine providers that are used again.
//!
//! Making a provider costs more than starting an instance in it: it copies the tables of all functions that a module can
//! import. A provider whose request has been answered serves the next one. Its `init` starts a fresh instance in a fresh
//! store, so nothing of a request is left for the next one.

use std::error::Error;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use wapc::{ModuleState, WebAssemblyEngineProvider};
use wasmtime_provider::{EpochDeadlines, WasmtimeEngineProvider, WasmtimeEngineProviderPre};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A compiled module, and idle providers of it.
pub(crate) struct Pool {
    compiled: WasmtimeEngineProviderPre,
    /// The deadline of idle providers in ticks. It cannot be changed in a provider.
    ticks: Option<u64>,
    most: usize,
    idle: Mutex<Vec<WasmtimeEngineProvider>>,
}

impl Pool {
    /// Keeps at most `most` idle providers with this deadline. Each of them holds an instance.
    pub(crate) fn new(compiled: WasmtimeEngineProviderPre, ticks: Option<u64>, most: usize) -> Self {
        Self { compiled, ticks, most, idle: Mutex::default() }
    }

    /// Returns a provider whose instances are stopped after this many ticks.
    ///
    /// # Errors
    /// If there is no idle provider, and none can be made.
    pub(crate) fn provider(self: &Arc<Self>, ticks: Option<u64>) -> Result<Pooled> {
        let idle = if ticks == self.ticks { self.lock().pop() } else { None };
        let provider = if let Some(provider) = idle {
            provider
        } else {
            let deadlines = ticks.map(|ticks| EpochDeadlines { wapc_init: ticks, wapc_func: ticks });
            self.compiled.rehydrate(deadlines)?
        };
        Ok(Pooled { provider: Some(provider), ticks, pool: Arc::clone(self) })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<WasmtimeEngineProvider>> {
        self.idle.lock()
    }
}

/// A provider that returns to the pool when it is dropped.
pub(crate) struct Pooled {
    /// `None` only while it is dropped.
    provider: Option<WasmtimeEngineProvider>,
    ticks: Option<u64>,
    pool: Arc<Pool>,
}

impl Pooled {
    fn provider(&mut self) -> Result<&mut WasmtimeEngineProvider> {
        self.provider.as_mut().ok_or_else(|| "no engine".into())
    }
}

impl WebAssemblyEngineProvider for Pooled {
    fn init(&mut self, host: Arc<ModuleState>) -> Result<()> {
        self.provider()?.init(host)
    }

    fn call(&mut self, operation: i32, message: i32) -> Result<i32> {
        self.provider()?.call(operation, message)
    }

    fn replace(&mut self, module: &[u8]) -> Result<()> {
        self.provider()?.replace(module)
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let mut idle = self.pool.lock();
        if self.ticks == self.pool.ticks && idle.len() < self.pool.most {
            idle.extend(self.provider.take());
        }
    }
}
