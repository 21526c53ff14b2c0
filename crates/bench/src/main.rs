//! `make bench`: measures a built module.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Parser;
use pillion_bench::measure::{Counters, Mode, Modules, Rivals};
use pillion_bench::report::goals::{self, Goal};
use pillion_bench::report::{Report, markdown};
use pillion_bench::scenario::{self, Scenario};

#[derive(Debug, Parser)]
#[command(about = "Measures what an admission costs")]
struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    modules: ModulePaths,
    /// Only scenarios whose name contains this text, or one of several.
    #[arg(long, global = true, value_name = "TEXT")]
    filter: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct ModulePaths {
    /// The module.
    #[arg(long, global = true, default_value = "policy.wasm", value_name = "PATH")]
    module: PathBuf,
    /// The policy that accepts everything, for comparison.
    #[arg(long, global = true, default_value = BASELINE, value_name = "PATH")]
    baseline: PathBuf,
}

const BASELINE: &str = "target/baseline/wasm32-wasip1/baseline/pillion_accept_everything.wasm";

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Instructions and memory of one evaluation; the numbers are reproducible.
    Counts,
    /// Times, next to the policy that accepts everything.
    Times {
        /// What to time.
        #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Mode::Warm, Mode::Kwctl, Mode::Fresh])]
        mode: Vec<Mode>,
        /// How long each policy of each row is timed, in milliseconds.
        #[arg(long, default_value_t = 500, value_name = "MILLISECONDS")]
        budget: u64,
    },
    /// Everything: sizes, instructions, memory and times, and which promises are kept.
    Report {
        /// How long each policy of each row is timed, in milliseconds.
        #[arg(long, default_value_t = 500, value_name = "MILLISECONDS")]
        budget: u64,
        /// The output format.
        #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
        output: Format,
        /// Fail if a promise is not kept.
        #[arg(long)]
        check: bool,
        /// Also write the tables into this document, between its marks.
        #[arg(long, value_name = "PATH")]
        docs: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Tables.
    #[default]
    Text,
    /// All numbers.
    Json,
}

fn main() -> ExitCode {
    let Args { command, modules, filter } = Args::parse();
    match run(command, &modules, &filter) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is closed, the error cannot be shown.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn read(module: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(module).with_context(|| module.display().to_string())
}

/// Measures the module beside the baseline, in the scenarios whose name contains one of the texts; without texts, in all.
fn run(command: Command, paths: &ModulePaths, filter: &[String]) -> anyhow::Result<()> {
    let mut scenarios = scenario::all();
    scenarios.retain(|scenario| filter.is_empty() || filter.iter().any(|text| scenario.name().contains(text)));
    let (policy, baseline) = (read(&paths.module)?, read(&paths.baseline)?);
    let modules = Modules { policy: &policy, baseline: &baseline };
    let mut out = io::stdout().lock();
    match command {
        Command::Counts => counts(&scenarios, modules, &mut out),
        Command::Times { mode, budget } => times(&scenarios, modules, &mode, Duration::from_millis(budget), &mut out),
        Command::Report { budget, output, check, docs } => {
            let modes = [Mode::Warm, Mode::Kwctl, Mode::Fresh];
            let budget = Duration::from_millis(budget);
            let report = Report::measure(&scenarios, modules, &modes, budget, &mut io::stderr())?;
            let text = markdown::render(&report);
            match output {
                Format::Text => write!(out, "{text}")?,
                Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
            }
            if let Some(path) = docs {
                markdown::write_into(&path, markdown::MARKS, &text)?;
            }
            let broken: Vec<Goal> = goals::goals(&report).into_iter().filter(|goal| !goal.holds()).collect();
            if check && !broken.is_empty() {
                bail!("not kept:\n{}", markdown::promises(&broken));
            }
            Ok(())
        }
    }
}

fn counts(scenarios: &[Scenario], modules: Modules<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    let counters = Counters::compile(modules)?;
    writeln!(
        out,
        "{:<28} {:>10} {:>12} {:>12} {:>9} {:>9}",
        "scenario", "payload", "policy", "accept all", "KiB", "KiB"
    )?;
    for scenario in scenarios {
        let (ours, theirs) = counters.count(scenario, &scenario.input())?;
        let (call, memory) = theirs.map_or((0, 0), |work| (work.call, work.memory));
        writeln!(
            out,
            "{:<28} {:>10} {:>12} {:>12} {:>9} {:>9}",
            scenario.name(),
            ours.payload,
            ours.call,
            call,
            ours.memory / 1024,
            memory / 1024
        )?;
    }
    Ok(())
}

fn times(
    scenarios: &[Scenario],
    modules: Modules<'_>,
    modes: &[Mode],
    budget: Duration,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let rivals = modes.iter().map(|&mode| Ok((mode, Rivals::compile(modules, mode)?)));
    let rivals: Vec<(Mode, Rivals)> = rivals.collect::<anyhow::Result<_>>()?;
    writeln!(
        out,
        "{:<28} {:<6} {:>24} {:>10} {:>7} {:>10} {:>7}",
        "scenario", "mode", "policy: µs (p10, p90)", "empty: µs", "ratio", "same: µs", "ratio"
    )?;
    for scenario in scenarios {
        let input = scenario.input();
        for (mode, rivals) in &rivals {
            let compared =
                rivals.time(&input, *mode, budget).with_context(|| format!("{}, {mode:?}", scenario.name()))?;
            let (ours, empty, same) = (compared.policy, compared.empty, compared.same);
            let micro = |nanoseconds: f64| nanoseconds / 1_000.0;
            let range = format!("{:.1} ({:.1}, {:.1})", micro(ours.median), micro(ours.p10), micro(ours.p90));
            writeln!(
                out,
                "{:<28} {:<6} {range:>24} {:>10.1} {:>7.2} {:>10.1} {:>7.2}",
                scenario.name(),
                format!("{mode:?}").to_lowercase(),
                micro(empty.median),
                ours.median / empty.median,
                micro(same.median),
                ours.median / same.median,
            )?;
            out.flush()?;
        }
    }
    Ok(())
}
