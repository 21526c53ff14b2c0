//! The policy's module, built and compiled once per test process.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use pillion_host::Module;
pub use pillion_samples::repository::root as workspace;

/// The target of modules for policy servers.
const TARGET: &str = "wasm32-wasip1";

/// Returns the module under test: the file that `PILLION_MODULE` names, otherwise a fresh build of the sources.
pub fn module() -> &'static Module {
    static MODULE: OnceLock<Module> = OnceLock::new();
    MODULE.get_or_init(|| {
        let path = path();
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Module::load(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    })
}

/// Returns the file of [`module`], and builds it if `PILLION_MODULE` names none.
pub fn path() -> PathBuf {
    std::env::var_os("PILLION_MODULE").map_or_else(build, PathBuf::from)
}

/// Builds the module in its own target folder, since a running `cargo test` may hold the lock of the other one.
fn build() -> PathBuf {
    let target = workspace().join("target/module");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--locked", "--target", TARGET])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(workspace())
        // Variables that cargo sets for its own tests would cause a complete rebuild.
        .env_remove("CARGO_MANIFEST_DIR")
        .env_remove("RUSTFLAGS")
        .status()
        .unwrap_or_else(|error| panic!("cargo cannot be started: {error}"));
    assert!(status.success(), "the module does not build");
    target.join(TARGET).join("release/pillion_policy.wasm")
}
