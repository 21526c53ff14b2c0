//! The policy module built into the binary.

use anyhow::Context as _;
use pillion_host::Module;

/// The module that `build.rs` found or built.
pub const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/policy.wasm"));

/// Loads the built-in module. Keeps compiled code in the user's cache folder.
///
/// # Errors
/// If the module does not compile, which only a broken build causes.
pub fn load() -> anyhow::Result<Module> {
    Module::load(BYTES).context("the built-in module")
}
