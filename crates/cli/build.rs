//! Puts the policy module into the binary: the one that `PILLION_MODULE` names, else one that is built here.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// The module is a package of this workspace, for another target and with a profile of its own.
const TARGET: &str = "wasm32-wasip1";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-env-changed=PILLION_MODULE");
    let module = match env::var_os("PILLION_MODULE") {
        Some(path) => {
            let path = PathBuf::from(path);
            println!("cargo::rerun-if-changed={}", path.display());
            path
        }
        None => build()?,
    };
    let out = directory("OUT_DIR")?.join("policy.wasm");
    fs::copy(&module, &out)
        .map_err(|error| io::Error::new(error.kind(), format!("the module {}: {error}", module.display())))?;
    Ok(())
}

/// The crates that the module is made of, src/ apart.
const RULES: [&str; 9] =
    ["admission", "bundle", "gardener", "identity", "inject", "json", "kubernetes", "pattern", "sidecarset"];

/// Builds the root package. Its own target folder, since cargo holds the lock of the other one while this runs.
fn build() -> io::Result<PathBuf> {
    let root = directory("CARGO_MANIFEST_DIR")?.join("../..");
    let watched = [".cargo", "Cargo.toml", "Cargo.lock", "src"].map(|path| root.join(path));
    let crates = RULES.map(|name| root.join("crates").join(name));
    for path in watched.iter().chain(&crates) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    let target = directory("OUT_DIR")?.join("module");
    let status = cargo(&root, &target)?.status()?;
    if !status.success() {
        return Err(io::Error::other(format!(
            "the module cannot be built ({status}); `rustup target add {TARGET}` installs its target"
        )));
    }
    Ok(target.join(TARGET).join("release").join("pillion_policy.wasm"))
}

/// The build, without what cargo has set for the native one.
fn cargo(root: &Path, target: &Path) -> io::Result<Command> {
    let mut command = Command::new(env::var_os("CARGO").ok_or_else(|| io::Error::other("CARGO is not set"))?);
    command.args(["build", "--release", "--locked", "--target", TARGET, "--target-dir"]).arg(target).current_dir(root);
    for name in ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET"] {
        command.env_remove(name);
    }
    Ok(command)
}

fn directory(variable: &str) -> io::Result<PathBuf> {
    env::var_os(variable).map(PathBuf::from).ok_or_else(|| io::Error::other(format!("{variable} is not set")))
}
