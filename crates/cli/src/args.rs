//! The command line and its parser.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum as _};
use pillion_terminal::Color;

use crate::commands;

/// The program's name.
const NAME: &str = "pillion";
/// The executable that `kubectl` runs for `kubectl pillion`.
const PLUGIN: &str = "kubectl-pillion";
/// The command that users of the plugin type.
const AS_PLUGIN: &str = "kubectl pillion";

/// The widest line of a help text.
const COLUMNS: usize = 100;

/// The end of the help text: the commands that this build lacks.
#[cfg(feature = "server")]
const LACKS: &str = "";
#[cfg(not(feature = "server"))]
const LACKS: &str = "

Not in this build:
  serve, controller  servers for clusters; they are in the builds for Linux and macOS, and in the image";

const MORE: &str = "\
Examples:
  pillion inject deployment.yaml sidecarset.yaml --diff
  pillion explain review.json --settings settings.yaml
  pillion check settings.yaml
  pillion help explain

Exit codes:
  0  done
  1  done, and the answer is no: a Pod is refused, a manifest has errors
  2  not done: wrong arguments, unreadable files
  `run` and `annotate` exit as kwctl does.

Environment:
  NO_COLOR, CLICOLOR=0  no colours; CLICOLOR_FORCE=1: colours into pipes, too";

/// Gives sidecars their own identity: previews, explains and checks injection by SidecarSets, and runs it in clusters.
#[derive(Debug, Parser)]
#[command(name = NAME, version, propagate_version = true, arg_required_else_help = true)]
#[command(max_term_width = COLUMNS, after_help = format!("{MORE}{LACKS}"))]
pub struct Cli {
    /// When to use colours; auto: on a terminal, unless NO_COLOR is set.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "auto|always|never")]
    #[arg(hide_possible_values = true)]
    pub color: Color,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a policy module on a request, as `kwctl run` does.
    Run(commands::run::Args),
    /// Add metadata to a policy module, as `kwctl annotate` does.
    Annotate(commands::annotate::Args),
    /// Show manifests as they are after injection.
    Inject(commands::inject::Args),
    /// Say for each SidecarSet why a Pod gets it or not.
    Explain(commands::explain::Args),
    /// Find all problems in settings and SidecarSets.
    #[command(long_about = commands::check::ABOUT)]
    Check(commands::check::Args),
    /// Compile SidecarSets into one text for settings.bundle.
    Bundle(commands::bundle::Args),
    /// Render the manifests that a cluster needs.
    Manifest(commands::manifest::Args),
    /// Serve the policy to API servers, without Kubewarden.
    #[cfg(feature = "server")]
    Serve(Box<commands::serve::Args>),
    /// Keep in the cluster what the policy needs there.
    #[cfg(feature = "server")]
    Controller(Box<commands::controller::Args>),
    /// Show what the controllers would do.
    Plan(Box<commands::plan::Args>),
    /// Show the SidecarSets of a cluster, and how far their rollouts are.
    Status(Box<pillion_verbs::status::Args>),
    /// Manage the rollout of a SidecarSet.
    Rollout(Box<pillion_verbs::rollout::Args>),
    /// Set a field of the updateStrategy of a SidecarSet.
    Set(Box<pillion_verbs::set::Args>),
    /// Prove in a cluster that a Pod gets its sidecar.
    Probe(Box<commands::probe::Args>),
    /// Remove what would be in the way once Pillion's processes are gone.
    Uninstall(Box<commands::uninstall::Args>),
    /// Print the JSON Schema of settings, policies or SidecarSets.
    Schema(commands::schema::Args),
    /// Print a completion script for a shell.
    Completions(commands::completions::Args),
    /// Write the man pages into a folder.
    Man(commands::man::Args),
}

impl Cli {
    /// Reads the command line; the first argument is the program's name.
    ///
    /// # Errors
    /// Returns mistakes in the arguments, and also the output of `--help` and `--version`.
    pub fn read(args: &[OsString]) -> Result<Self, clap::Error> {
        let mut command = command(args.first().map(OsString::as_os_str));
        let matches = command.try_get_matches_from_mut(args)?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

/// Returns the whole command line. Called as a plugin of `kubectl`, it names itself `kubectl pillion` in its help
/// texts.
pub fn command(program: Option<&OsStr>) -> clap::Command {
    let command = described(Cli::command());
    if is_plugin(program) { renamed(command).bin_name(AS_PLUGIN) } else { command }
}

/// Returns the name of the executable for which shells complete arguments.
pub fn completed(program: Option<&OsStr>) -> &'static str {
    if is_plugin(program) { PLUGIN } else { NAME }
}

fn is_plugin(program: Option<&OsStr>) -> bool {
    program.and_then(|program| Path::new(program).file_stem()).is_some_and(|name| name == PLUGIN)
}

/// Sets the long description of each command from the doc comment of its arguments. [`Command`] has one line for each,
/// and clap would use that line as the long description.
fn described(command: clap::Command) -> clap::Command {
    fn long<A: clap::Args>(command: clap::Command) -> clap::Command {
        match A::augment_args(clap::Command::new("")).get_long_about().cloned() {
            Some(about) => command.long_about(about),
            None => command,
        }
    }
    // A changed command moves to the end of the list, so all of them are changed, in their order.
    let command = command
        .mut_subcommand("run", long::<commands::run::Args>)
        .mut_subcommand("annotate", long::<commands::annotate::Args>)
        .mut_subcommand("inject", long::<commands::inject::Args>)
        .mut_subcommand("explain", long::<commands::explain::Args>)
        .mut_subcommand("check", long::<commands::check::Args>)
        .mut_subcommand("bundle", long::<commands::bundle::Args>)
        .mut_subcommand("manifest", long::<commands::manifest::Args>);
    #[cfg(feature = "server")]
    let command = command
        .mut_subcommand("serve", long::<commands::serve::Args>)
        .mut_subcommand("controller", long::<commands::controller::Args>);
    command
        .mut_subcommand("plan", long::<commands::plan::Args>)
        .mut_subcommand("status", long::<pillion_verbs::status::Args>)
        .mut_subcommand("rollout", long::<pillion_verbs::rollout::Args>)
        .mut_subcommand("set", long::<pillion_verbs::set::Args>)
        .mut_subcommand("probe", long::<commands::probe::Args>)
        .mut_subcommand("uninstall", long::<commands::uninstall::Args>)
        .mut_subcommand("schema", long::<commands::schema::Args>)
        .mut_subcommand("completions", long::<commands::completions::Args>)
        .mut_subcommand("man", long::<commands::man::Args>)
}

/// Replaces `pillion` with `kubectl pillion` in every example and description.
fn renamed(mut command: clap::Command) -> clap::Command {
    if let Some(examples) = command.get_after_help().map(ToString::to_string) {
        let lines: Vec<String> = examples.lines().map(example).collect();
        command = command.after_help(lines.join("\n"));
    }
    if let Some(about) = command.get_long_about().map(ToString::to_string) {
        command = command.long_about(about.replace("`pillion ", &format!("`{AS_PLUGIN} ")));
    }
    command.mut_subcommands(renamed)
}

/// Renames the command in a line below `Examples:`. A line that becomes longer than [`COLUMNS`] continues on the next
/// line.
fn example(line: &str) -> String {
    let mut line = line.to_owned();
    for before in ["  ", "| ", "&& ", "("] {
        line = line.replace(&format!("{before}{NAME} "), &format!("{before}{AS_PLUGIN} "));
    }
    // Shells find a completion script by the name of the executable.
    for (before, after) in [
        ("/completions/pillion", "/completions/kubectl-pillion"),
        ("/_pillion", "/_kubectl-pillion"),
        ("(command -v pillion)", "(command -v kubectl-pillion)"),
    ] {
        line = line.replace(before, after);
    }
    if line.len() <= COLUMNS || !line.starts_with("  ") {
        return line;
    }
    let room = line.get(..COLUMNS - 2).unwrap_or(&line);
    let breaks = [" -", " <", " |", " >", " "].into_iter().filter_map(|end| room.rfind(end));
    match breaks.filter(|at| *at > NAME.len()).find_map(|at| line.split_at_checked(at)) {
        Some((start, rest)) => format!("{start} \\\n      {}", rest.trim_start()),
        None => line,
    }
}

/// Returns the value of `--color` in arguments that clap did not parse: wrong ones, or requests for help.
pub fn color(args: &[OsString]) -> Color {
    let mut color = Color::default();
    let mut texts = args.iter().map_while(|arg| arg.to_str()).take_while(|arg| *arg != "--");
    while let Some(arg) = texts.next() {
        let value = if arg == "--color" { texts.next() } else { arg.strip_prefix("--color=") };
        color = value.and_then(|value| Color::from_str(value, false).ok()).unwrap_or(color);
    }
    color
}
