//! The imports of a policy: waPC, and the part of WASI that Rust's standard library uses when nothing is printed. All
//! imports are deterministic, clocks and random numbers included.

use wasmtime::error::{bail, format_err};
use wasmtime::{Caller, Extern, Linker, Memory, Result, StoreLimits};

use crate::objects::Objects;

/// The host's state of an instance.
pub(super) struct Guest {
    operation: Vec<u8>,
    payload: Vec<u8>,
    objects: Objects,
    /// The last answer to a host call, or its error.
    reply: std::result::Result<Vec<u8>, Vec<u8>>,
    pub(super) answer: Vec<u8>,
    pub(super) error: Vec<u8>,
    pub(super) host_calls: usize,
    /// The limit of its memory.
    pub(super) limits: StoreLimits,
}

impl Guest {
    pub(super) fn new(operation: &str, payload: &[u8], objects: Objects) -> Self {
        Self {
            operation: operation.as_bytes().to_vec(),
            payload: payload.to_vec(),
            objects,
            reply: Ok(Vec::new()),
            answer: Vec::new(),
            error: Vec::new(),
            host_calls: 0,
            limits: StoreLimits::default(),
        }
    }
}

/// The time that every clock shows, in nanoseconds: a day in 2026.
const NOW: u64 = 1_767_323_045_000_000_000;
const WASI: &str = "wasi_snapshot_preview1";
/// The WASI codes for success and for a file that is not open.
const SUCCESS: i32 = 0;
const BAD_FILE: i32 = 8;

pub(super) fn add(linker: &mut Linker<Guest>) -> Result<()> {
    add_wapc(linker)?;
    add_wasi(linker)
}

fn add_wapc(linker: &mut Linker<Guest>) -> Result<()> {
    let wapc = wapc::HOST_NAMESPACE;
    linker.func_wrap(wapc, "__guest_request", |mut caller: Caller<'_, Guest>, operation: u32, payload: u32| {
        let memory = memory(&mut caller)?;
        let (data, guest) = memory.data_and_store_mut(&mut caller);
        write(data, operation, &guest.operation)?;
        write(data, payload, &guest.payload)
    })?;
    linker.func_wrap(wapc, "__guest_response", |mut caller: Caller<'_, Guest>, at: u32, length: u32| {
        let answer = read(&mut caller, at, length)?;
        caller.data_mut().answer = answer;
        Ok(())
    })?;
    linker.func_wrap(wapc, "__guest_error", |mut caller: Caller<'_, Guest>, at: u32, length: u32| {
        let error = read(&mut caller, at, length)?;
        caller.data_mut().error = error;
        Ok(())
    })?;
    linker.func_wrap(
        wapc,
        "__host_call",
        |mut caller: Caller<'_, Guest>,
         _binding: u32,
         _binding_length: u32,
         namespace: u32,
         namespace_length: u32,
         operation: u32,
         operation_length: u32,
         payload: u32,
         payload_length: u32| {
            let namespace = String::from_utf8(read(&mut caller, namespace, namespace_length)?)?;
            let operation = String::from_utf8(read(&mut caller, operation, operation_length)?)?;
            let payload = read(&mut caller, payload, payload_length)?;
            let guest = caller.data_mut();
            guest.host_calls += 1;
            guest.reply = guest.objects.answer(&namespace, &operation, &payload).map_err(String::into_bytes);
            Ok(u32::from(guest.reply.is_ok()))
        },
    )?;
    linker.func_wrap(wapc, "__host_response_len", |caller: Caller<'_, Guest>| {
        Ok(u32::try_from(caller.data().reply.as_ref().map_or(0, Vec::len))?)
    })?;
    linker.func_wrap(wapc, "__host_response", |mut caller: Caller<'_, Guest>, at: u32| {
        let memory = memory(&mut caller)?;
        let (data, guest) = memory.data_and_store_mut(&mut caller);
        guest.reply.as_ref().map_or(Ok(()), |reply| write(data, at, reply))
    })?;
    linker.func_wrap(wapc, "__host_error_len", |caller: Caller<'_, Guest>| {
        Ok(u32::try_from(caller.data().reply.as_ref().err().map_or(0, Vec::len))?)
    })?;
    linker.func_wrap(wapc, "__host_error", |mut caller: Caller<'_, Guest>, at: u32| {
        let memory = memory(&mut caller)?;
        let (data, guest) = memory.data_and_store_mut(&mut caller);
        guest.reply.as_ref().err().map_or(Ok(()), |error| write(data, at, error))
    })?;
    linker.func_wrap(wapc, "__console_log", |_: Caller<'_, Guest>, _at: u32, _length: u32| {})?;
    Ok(())
}

fn add_wasi(linker: &mut Linker<Guest>) -> Result<()> {
    linker.func_wrap(
        WASI,
        "clock_time_get",
        |mut caller: Caller<'_, Guest>, _clock: u32, _precision: u64, at: u32| {
            let memory = memory(&mut caller)?;
            write(memory.data_mut(&mut caller), at, &NOW.to_le_bytes())?;
            Ok(SUCCESS)
        },
    )?;
    linker.func_wrap(WASI, "random_get", |mut caller: Caller<'_, Guest>, at: u32, length: u32| {
        let memory = memory(&mut caller)?;
        write(memory.data_mut(&mut caller), at, &vec![7; usize::try_from(length)?])?;
        Ok(SUCCESS)
    })?;
    // There are no variables, so their count and length are 0.
    linker.func_wrap(WASI, "environ_sizes_get", |mut caller: Caller<'_, Guest>, count: u32, bytes: u32| {
        let memory = memory(&mut caller)?;
        let data = memory.data_mut(&mut caller);
        write(data, count, &[0; 4])?;
        write(data, bytes, &[0; 4])?;
        Ok(SUCCESS)
    })?;
    linker.func_wrap(WASI, "environ_get", |_: Caller<'_, Guest>, _variables: u32, _text: u32| SUCCESS)?;
    linker.func_wrap(
        WASI,
        "fd_write",
        |_: Caller<'_, Guest>, _file: u32, _parts: u32, _count: u32, _written: u32| BAD_FILE,
    )?;
    linker.func_wrap(WASI, "proc_exit", |_: Caller<'_, Guest>, code: u32| -> Result<()> {
        bail!("the module ended itself with code {code}")
    })?;
    linker.func_wrap(WASI, "sched_yield", |_: Caller<'_, Guest>| SUCCESS)?;
    Ok(())
}

fn memory(caller: &mut Caller<'_, Guest>) -> Result<Memory> {
    caller.get_export("memory").and_then(Extern::into_memory).ok_or_else(|| format_err!("the module has no memory"))
}

fn read(caller: &mut Caller<'_, Guest>, at: u32, length: u32) -> Result<Vec<u8>> {
    let memory = memory(caller)?;
    let (at, length) = (usize::try_from(at)?, usize::try_from(length)?);
    let bytes = memory.data(caller).get(at..at.saturating_add(length));
    bytes.map(<[u8]>::to_vec).ok_or_else(|| format_err!("the policy points beyond its memory"))
}

fn write(data: &mut [u8], at: u32, bytes: &[u8]) -> Result<()> {
    let at = usize::try_from(at)?;
    let place = data.get_mut(at..at.saturating_add(bytes.len()));
    place.ok_or_else(|| format_err!("the policy points beyond its memory"))?.copy_from_slice(bytes);
    Ok(())
}
