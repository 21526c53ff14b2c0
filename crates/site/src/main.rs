//! Builds the documentation site: `make site`. The only argument is the root of the repository, the current one without
//! it.

use std::env;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> io::Result<ExitCode> {
    let root = env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let problems = pillion_site::build(&root, None).unwrap_or_else(|error| vec![format!("{error:#}")]);
    let mut out = io::stderr().lock();
    for problem in &problems {
        writeln!(out, "error: {problem}")?;
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
