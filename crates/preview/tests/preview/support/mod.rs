//! Runs the commands as the command line does, and provides what several tests need.

pub mod injection;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;

use clap::Parser as _;
use pillion_cluster::Connection;
use pillion_install::tuning::{Choice, Tuning};
use pillion_kubernetes::time::Timestamp;
use pillion_preview::explain::{self, Group};
use pillion_preview::{Inputs, Situation, inject, key_value, plan};
use pillion_terminal::output::{DataFormat, Output};
pub use pillion_terminal::testing::Run;
use pillion_terminal::{Status, Terminal};

/// The name of `stdin` in messages. Here it is a file: all tests share the process's own.
const STDIN: &str = "<stdin>";

/// The commands, with the arguments that these tests give.
#[derive(clap::Parser)]
enum Command {
    Inject(Inject),
    Explain(Explain),
    Plan(Plan),
}

#[derive(clap::Args)]
struct Inject {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    situation: Situation,
    #[arg(long)]
    diff: bool,
    #[arg(short, value_enum, default_value_t)]
    output: DataFormat,
    #[arg(long)]
    as_pods: bool,
    #[arg(long, value_parser = time)]
    now: Option<Timestamp>,
    #[arg(short)]
    quiet: bool,
}

#[derive(clap::Args)]
struct Explain {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    situation: Situation,
    #[arg(long = "sidecar-set")]
    names: Vec<String>,
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Group>,
    #[command(flatten)]
    output: Output,
}

#[derive(clap::Args)]
struct Plan {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    connection: Connection,
    #[arg(long, default_value = "default")]
    namespace: String,
    #[arg(long, value_delimiter = ',', value_parser = key_value)]
    namespace_labels: Vec<(String, String)>,
    #[arg(long)]
    assume_service_accounts: bool,
    #[arg(long)]
    sidecar_set: Option<String>,
    #[arg(long, default_value_t = 0)]
    waves: u32,
    #[arg(long)]
    diff: bool,
    #[command(flatten)]
    tuning: Tuning,
    #[command(flatten)]
    output: Output,
}

fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).ok_or_else(|| text.to_owned())
}

/// A folder in which commands run, with the text of `stdin` in a file.
struct WorkingFolder<'a>(&'a Path);

impl WorkingFolder<'_> {
    fn file(&self, path: &Path) -> PathBuf {
        self.0.join(if path.as_os_str() == "-" { Path::new(STDIN) } else { path })
    }

    fn inputs(&self, given: &Inputs) -> Inputs {
        let mut paths: Vec<PathBuf> = given.paths.iter().map(|path| self.file(path)).collect();
        let filenames: Vec<PathBuf> = given.filenames.iter().map(|path| self.file(path)).collect();
        if paths.is_empty() && filenames.is_empty() {
            paths.push(self.0.join(STDIN));
        }
        Inputs { paths, filenames, recursive: given.recursive }
    }

    fn situation(&self, given: Situation) -> Situation {
        let sidecar_sets = given.sidecar_sets.iter().map(|path| self.file(path)).collect();
        Situation { sidecar_sets, settings: given.settings.map(|path| self.file(&path)), ..given }
    }
}

/// Runs a command with these arguments in a folder, and with this text as `stdin`. Returns what it would say in this
/// folder.
pub fn pillion(folder: &Path, args: &[&str], stdin: &str) -> Run {
    // A run that compiles the module says so.
    static COMPILED: Once = Once::new();
    COMPILED.call_once(|| {
        pillion_preview::module::load().unwrap();
    });
    fs::write(folder.join(STDIN), stdin).unwrap();
    let command = Command::parse_from(std::iter::once("pillion").chain(args.iter().copied()));
    let run = pillion_terminal::testing::run(|terminal| run(command, &WorkingFolder(folder), terminal));
    fs::remove_file(folder.join(STDIN)).unwrap();
    run.within(folder)
}

fn run(command: Command, at: &WorkingFolder<'_>, terminal: &mut Terminal) -> anyhow::Result<Status> {
    match command {
        Command::Inject(given) => {
            let (inputs, situation) = (&at.inputs(&given.inputs), &at.situation(given.situation));
            let Inject { diff, output, as_pods, now, quiet, .. } = given;
            inject::run(&inject::Options { inputs, situation, diff, output, as_pods, now, quiet }, terminal)
        }
        Command::Explain(given) => {
            let (inputs, situation) = (&at.inputs(&given.inputs), &at.situation(given.situation));
            let (names, only) = (&given.names, &given.only);
            explain::run(&explain::Options { inputs, situation, names, only, output: given.output }, terminal)
        }
        Command::Plan(given) => {
            let settings = given.choice.settings.as_deref().map(|path| at.file(path));
            let options = plan::Options {
                inputs: &at.inputs(&given.inputs),
                choice: &Choice { settings, ..given.choice },
                connection: &given.connection,
                namespace: &given.namespace,
                namespace_labels: &given.namespace_labels,
                assume_service_accounts: given.assume_service_accounts,
                sidecar_set: given.sidecar_set.as_deref(),
                waves: given.waves,
                diff: given.diff,
                tuning: &given.tuning,
                output: given.output,
            };
            plan::run(&options, terminal)
        }
    }
}

/// Returns the output of a run without the lines of hashes.
pub fn readable(run: &Run) -> String {
    run.out.lines().filter(|line| !line.contains("sidecarset-hash")).collect::<Vec<_>>().join("\n")
}
