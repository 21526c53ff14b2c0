//! Runs the command line. Several tests share these helpers.

pub mod api_server;
pub mod files;
pub mod injection;
pub mod policy;
pub mod shell;

use std::path::Path;
use std::sync::Once;

use serde_json::Value;

/// The result of a run.
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    /// Returns the output without the lines of hashes.
    pub fn readable(&self) -> String {
        self.out.lines().filter(|line| !line.contains("sidecarset-hash")).collect::<Vec<_>>().join("\n")
    }

    /// Returns the output, parsed as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }
}

/// Compiles the policy module, once for all tests: a run that compiles it says so.
fn compile() {
    static COMPILED: Once = Once::new();
    COMPILED.call_once(|| {
        pillion_preview::module::load().unwrap();
    });
}

/// Runs `pillion` in a folder. A command need not read `stdin`.
pub fn pillion(folder: &Path, args: &[&str], stdin: &str) -> Run {
    if args.first().is_some_and(|command| ["inject", "explain"].contains(command)) {
        compile();
    }
    finish(assert_cmd::Command::new(env!("CARGO_BIN_EXE_pillion")).current_dir(folder).args(args), stdin)
}

/// Runs a command with this input to its end.
fn finish(command: &mut assert_cmd::Command, stdin: &str) -> Run {
    let output = command.write_stdin(stdin).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}
