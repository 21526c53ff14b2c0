//! `pillion`, also installed as `kubectl-pillion`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pillion::main(std::env::args_os())
}
