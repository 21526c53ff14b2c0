//! The policy module that is built into the binary.

use anyhow::Context as _;
use pillion_host::Module;

/// The module, as `build.rs` found or built it.
pub const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/policy.wasm"));

/// Loads the built-in module; compiled code is kept in the user's cache folder.
///
/// # Errors
/// Where the module cannot be compiled, which the build would have to have broken.
pub fn load() -> anyhow::Result<Module> {
    Module::load(BYTES).context("the built-in module")
}
