//! The program `pillion`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// Returns the given program; by default, `pillion` in the folder of this program.
///
/// # Errors
/// If it does not exist.
pub fn find(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let program = if let Some(path) = given {
        path.to_owned()
    } else {
        let name = format!("pillion{}", std::env::consts::EXE_SUFFIX);
        std::env::current_exe().context("the folder of this program")?.with_file_name(name)
    };
    if !program.exists() {
        bail!(
            "{} is missing: build it with `cargo build --package pillion`, or name it with --pillion",
            program.display()
        );
    }
    Ok(program)
}

/// Returns a command that starts the program without the variables of this process that may configure another server.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("PILLION_")) {
            command.env_remove(name);
        }
    }
    command
}
