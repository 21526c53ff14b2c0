//! `pillion`, also installed as `kubectl-pillion`.

use std::process::ExitCode;

// The server parses and builds documents all the time; the allocators of the C libraries take a fifth of an admission.
#[cfg(feature = "server")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    pillion::main(std::env::args_os())
}
