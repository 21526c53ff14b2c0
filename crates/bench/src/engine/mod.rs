//! Runs a module on wasmtime and counts its fuel: the instructions and the memory of an evaluation.
//!
//! Fuel counts each WebAssembly instruction as one: the same module and payload yield the same number on every machine
//! and in every build of this harness. The host's work is not included, and bulk operations (`memory.copy`) count as
//! one.

mod imports;

use wasmtime::error::{Context as _, bail, format_err};
use wasmtime::{Config, Engine, InstancePre, Linker, Module, OptLevel, Store, StoreLimitsBuilder};

use crate::errors::into_anyhow;
use crate::objects::Objects;
use imports::Guest;

/// More than any evaluation takes: over a second's worth of instructions.
const FUEL: u64 = 1 << 40;
/// The longest linear memory of a module with 32-bit addresses, in bytes.
const MEMORY: usize = 1 << 32;
/// The size of a page of linear memory, in bytes.
pub const PAGE: u64 = 65_536;

/// A compiled module whose instructions are counted.
pub struct Counter {
    engine: Engine,
    instance: InstancePre<Guest>,
    bounds: Bounds,
}

/// The limits at which an evaluation is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Instructions, including those of the instance's start.
    pub instructions: u64,
    /// Bytes of linear memory.
    pub memory: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { instructions: FUEL, memory: MEMORY }
    }
}

/// The cost of an evaluation in a fresh instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Instructions of the instance's start, until it is ready for calls.
    pub start: u64,
    /// Instructions of the call.
    pub call: u64,
    /// Pages of linear memory before the call. Memory never shrinks.
    pub pages_before: u64,
    /// Pages after the call.
    pub pages: u64,
    /// Number of calls to the host.
    pub host_calls: usize,
    /// The policy's answer.
    pub answer: Vec<u8>,
}

impl Counter {
    /// Compiles a module without optimization, which is fastest: fuel does not depend on it.
    ///
    /// # Errors
    /// If the bytes are not a module of the waPC protocol.
    pub fn compile(bytes: &[u8]) -> anyhow::Result<Self> {
        Self::compiled(bytes, OptLevel::None, Bounds::default()).map_err(into_anyhow)
    }

    /// Compiles a module for many evaluations, each of which traps if it takes more than `bounds`.
    ///
    /// # Errors
    /// If the bytes are not a module of the waPC protocol.
    pub fn bounded(bytes: &[u8], bounds: Bounds) -> anyhow::Result<Self> {
        Self::compiled(bytes, OptLevel::Speed, bounds).map_err(into_anyhow)
    }

    fn compiled(bytes: &[u8], level: OptLevel, bounds: Bounds) -> wasmtime::Result<Self> {
        let mut config = Config::new();
        config.consume_fuel(true).cranelift_opt_level(level);
        let engine = Engine::new(&config)?;
        let module = Module::new(&engine, bytes).context("cannot compile the module")?;
        let mut linker = Linker::new(&engine);
        imports::add(&mut linker)?;
        let instance = linker.instantiate_pre(&module).context("not a module of the waPC protocol")?;
        Ok(Self { engine, instance, bounds })
    }

    /// Evaluates in a fresh instance.
    ///
    /// # Errors
    /// If the guest traps or reports an error.
    pub fn count(&self, operation: &str, payload: &[u8], objects: &Objects) -> anyhow::Result<Counts> {
        self.counted(operation, payload, objects).map_err(into_anyhow)
    }

    fn counted(&self, operation: &str, payload: &[u8], objects: &Objects) -> wasmtime::Result<Counts> {
        let mut guest = Guest::new(operation, payload, objects.clone());
        guest.limits = StoreLimitsBuilder::new().memory_size(self.bounds.memory).trap_on_grow_failure(true).build();
        let mut store = Store::new(&self.engine, guest);
        store.limiter(|guest| &mut guest.limits);
        store.set_fuel(self.bounds.instructions)?;
        let instance = self.instance.instantiate(&mut store)?;
        for start in wapc::wapc_functions::REQUIRED_STARTS {
            if let Ok(function) = instance.get_typed_func::<(), ()>(&mut store, start) {
                function.call(&mut store, ())?;
            }
        }
        let memory =
            instance.get_memory(&mut store, "memory").ok_or_else(|| format_err!("the module has no memory"))?;
        let (ready, pages_before) = (store.get_fuel()?, memory.size(&store));
        let call = instance.get_typed_func::<(u32, u32), u32>(&mut store, wapc::wapc_functions::GUEST_CALL)?;
        let lengths = (u32::try_from(operation.len())?, u32::try_from(payload.len())?);
        let answered = call.call(&mut store, lengths)?;
        let (done, pages) = (store.get_fuel()?, memory.size(&store));
        let guest = store.into_data();
        if answered != 1 {
            bail!("the policy gave an error: {}", String::from_utf8_lossy(&guest.error));
        }
        Ok(Counts {
            start: self.bounds.instructions - ready,
            call: ready - done,
            pages_before,
            pages,
            host_calls: guest.host_calls,
            answer: guest.answer,
        })
    }
}
