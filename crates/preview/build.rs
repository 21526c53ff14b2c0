//! Embeds the policy module in the binary: the file that `PILLION_MODULE` names, otherwise a module built here.

use std::collections::BTreeSet;
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

/// Builds the root package. The build has its own target folder because cargo holds the lock of the outer one
/// meanwhile.
fn build() -> io::Result<PathBuf> {
    let root = directory("CARGO_MANIFEST_DIR")?.join("../..").canonicalize()?;
    let target = directory("OUT_DIR")?.join("module");
    let status = cargo(&root, &target)?.status()?;
    if !status.success() {
        return Err(io::Error::other(format!(
            "the module cannot be built ({status}); `rustup target add {TARGET}` installs its target"
        )));
    }
    let module = target.join(TARGET).join("release").join("pillion_policy.wasm");
    let watched = [".cargo", "Cargo.toml", "Cargo.lock"].map(|path| root.join(path));
    for path in watched.into_iter().chain(packages(&module.with_extension("d"), &root)?) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    Ok(module)
}

/// Returns the folders of the packages that the module was compiled from, as cargo lists their files in its dep-info
/// (`MODULE: FILE FILE`, where a backslash stands before a space of a path). The root package is its `src` alone: the
/// other folders beside it are not the module's.
fn packages(dep_info: &Path, root: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let text = fs::read_to_string(dep_info)?;
    let files = text.split_once(": ").map_or("", |(_, files)| files);
    let files = files.replace("\\ ", "\0");
    let files = files.split_whitespace().map(|file| PathBuf::from(file.replace('\0', " ")));
    let sources = files.filter_map(|file| Some(file.ancestors().find(|folder| folder.ends_with("src"))?.to_owned()));
    let packages = sources.map(|src| match src.parent() {
        Some(package) if package != root => package.to_owned(),
        _ => src,
    });
    Ok(packages.collect())
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
