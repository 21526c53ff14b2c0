//! `pillion-first-look FOLDER`: prints the difference that SidecarSets make to the manifests of a folder.
#![forbid(unsafe_code)]

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use pillion_first_look::{Look, look};
use pillion_kubernetes::time::Timestamp;

const USAGE: &str = "\
Usage: pillion-first-look FOLDER

Prints the difference that the SidecarSets of a folder make to its Pods and workloads. The file settings.yaml of the
folder, if it has one, holds the policy's settings. `pillion inject FOLDER --diff` can do more.

Example: pillion-first-look examples/identity-isolate

Exit codes: 0 done, 1 if a Pod is refused, 2 for errors.";

fn main() -> ExitCode {
    match run() {
        Ok(look) if look.refused.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            // There is no other stream to report a failure of this one.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Prints the differences on `stdout`, and what happened to each Pod on `stderr`.
fn run() -> anyhow::Result<Look> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(folder), None) = (arguments.next(), arguments.next()) else { bail!("give one folder\n\n{USAGE}") };
    if folder == "--help" || folder == "-h" {
        writeln!(io::stdout(), "{USAGE}").context("stdout")?;
        return Ok(Look::default());
    }
    let look = look(&PathBuf::from(folder), now())?;
    let mut out = anstream::AutoStream::auto(io::stdout().lock());
    out.write_all(&look.diff).and_then(|()| out.flush()).context("stdout")?;
    for line in look.pods.iter().chain(&look.refused) {
        writeln!(io::stderr(), "{line}").context("stderr")?;
    }
    Ok(look)
}

fn now() -> Timestamp {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Timestamp(i64::try_from(seconds).unwrap_or_default())
}
