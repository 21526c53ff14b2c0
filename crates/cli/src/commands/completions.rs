//! `pillion completions`.

use clap_complete::Shell;

use crate::status::Status;
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  # for this session
  source <(pillion completions bash)
  # for good
  pillion completions bash > ~/.local/share/bash-completion/completions/pillion
  pillion completions zsh > ~/.zfunc/_pillion
  pillion completions fish > ~/.config/fish/completions/pillion.fish
  pillion completions powershell >> $PROFILE

Folders of zsh must be in $fpath before compinit runs: fpath+=~/.zfunc";

/// The arguments of `pillion completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs `pillion completions`: `command` is the whole command line, `name` the name by which the program was called.
///
/// # Errors
/// If the script cannot be written.
pub fn run(args: &Args, mut command: clap::Command, name: &str, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    terminal.out().write_all(&script)?;
    Ok(Status::Done)
}
