//! Embeds the policy module in the binary: the file that `PILLION_MODULE` names, otherwise a module built here.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// The target of the policy module. The module is a package of this workspace with a build profile of its own.
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

/// The crates that the module is compiled from, besides `src/`.
const RULES: [&str; 9] =
    ["admission", "bundle", "gardener", "identity", "inject", "json", "kubernetes", "pattern", "sidecarset"];

/// Builds the root package. The build has its own target folder because cargo holds the lock of the outer one
/// meanwhile.
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

/// Returns the build command, without the variables that cargo has set for the native build.
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
