//! `pillion completions`.

use clap_complete::Shell;
use pillion_terminal::{Status, Terminal};

use crate::completion;

const ABOUT: &str = "\
Print a script that makes a shell complete commands, options and names.

Names of SidecarSets, revisions, namespaces and contexts come from the cluster of the kubeconfig. A cluster that does not \
answer within a second or two has none.

`kubectl` asks an executable `kubectl_complete-pillion` in the PATH. A link of this name to the program is enough, beside \
the completions of kubectl itself.";

const EXAMPLES: &str = "\
Examples:
  # for this session
  source <(pillion completions bash)
  # for good
  pillion completions bash > ~/.local/share/bash-completion/completions/pillion
  pillion completions zsh > ~/.zfunc/_pillion
  pillion completions fish > ~/.config/fish/completions/pillion.fish
  pillion completions powershell >> $PROFILE
  # for kubectl, in a folder of the PATH
  ln -s \"$(command -v pillion)\" ~/.local/bin/kubectl_complete-pillion

Folders of zsh must be in $fpath before compinit runs: fpath+=~/.zfunc";

/// The arguments of `pillion completions`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs `pillion completions`: `name` is the name by which the program was called.
///
/// # Errors
/// If the script cannot be written.
pub fn run(args: &Args, name: &str, terminal: &mut Terminal) -> anyhow::Result<Status> {
    completion::script(&args.shell.to_string(), name, terminal.out())?;
    Ok(Status::Done)
}
