//! `pillion-stress load`: puts load on an admission server, checks its answers, and measures what they cost.

mod answers;
mod args;
mod destination;
mod measured;
mod mix;
mod report;
mod send;
mod subject;
mod table;

use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, bail};
use pillion_bench::report::markdown;
use pillion_host::Module;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use self::answers::{Answers, Cases};
pub use self::args::Args;
use self::args::{Format, Print};
use self::destination::Destination;
use self::report::Report;
use self::send::Check;
use self::subject::{SettingsForm, Subject};
use self::table::Row;
use crate::server::{Authority, Server, Start, program};
use crate::usage;

/// Runs `pillion-stress load`, and returns whether every answer was there and right. Writes the report to `out`, and the
/// first wrong answers to `err`.
///
/// # Errors
/// If there is no server to ask, or the expected answers cannot be computed.
pub fn run(args: &Args, module: &[u8], out: &mut dyn Write, err: &mut dyn Write) -> anyhow::Result<bool> {
    if let Some(what) = args.print {
        writeln!(out, "{:#}", printed(args, what)?)?;
        return Ok(true);
    }
    if args.url.is_some() && args.sidecar_sets.len() > 1 {
        bail!("--sidecar-sets: a server that runs has one number of SidecarSets: name that of --url");
    }
    if let Some(pid) = args.pid
        && usage::is_reported()
        && usage::Usage::read(pid).is_none()
    {
        bail!("--pid {pid}: there is no such process on this machine");
    }
    let bench = Bench { args, module: Module::load(module)?, runtime: runtime(args.check).context("the event loop")? };
    let (text, json, is_right) = if args.sidecar_sets.is_empty() {
        let settings = args.settings.as_deref().map(read).transpose()?;
        let (_, report, is_right) = bench.measure(Subject::mix(settings.as_ref(), args.seed), err)?;
        (report.text(), report.json(), is_right)
    } else {
        let (rows, is_right) = bench.rows(err)?;
        (table::text(&rows), table::json(&rows), is_right)
    };
    match args.output {
        Format::Text => write!(out, "{text}")?,
        Format::Json => writeln!(out, "{json:#}")?,
    }
    if let Some(path) = &args.docs {
        markdown::write_into(path, table::MARKS, &text)?;
    }
    Ok(is_right)
}

/// Returns what another server needs for the same reviews.
fn printed(args: &Args, what: Print) -> anyhow::Result<Value> {
    let subject = match (args.sidecar_sets.as_slice(), args.settings_form.as_slice()) {
        ([], _) => {
            let settings = args.settings.as_deref().map(read).transpose()?;
            Subject::mix(settings.as_ref(), args.seed)
        }
        ([count], [form]) => Subject::beside(usize::from(*count), *form),
        _ => bail!("--print: needs one number of SidecarSets, in one form"),
    };
    match what {
        Print::Settings => Ok(subject.settings),
        Print::SidecarSets => {
            subject.list().context("--print sidecar-sets: the settings contain no manifests; use --print settings")
        }
    }
}

/// What every run needs.
struct Bench<'a> {
    args: &'a Args,
    module: Module,
    runtime: Runtime,
}

impl Bench<'_> {
    /// Measures a server beside each number of SidecarSets, and returns whether every answer was there and right.
    fn rows(&self, err: &mut dyn Write) -> anyhow::Result<(Vec<Row>, bool)> {
        // The module's answers are the same for each form. A bundle is read in less time.
        let forms = if self.args.url.is_some() { &[SettingsForm::Bundle] } else { self.args.settings_form.as_slice() };
        let (mut rows, mut all_right) = (Vec::new(), true);
        let count = self.args.sidecar_sets.len() * forms.len();
        for &sidecar_sets in &self.args.sidecar_sets {
            for &form in forms {
                let form_of_ours = if self.args.url.is_none() { format!(", {}", form.name()) } else { String::new() };
                writeln!(err, "{} of {count}: {sidecar_sets} SidecarSets{form_of_ours}", rows.len() + 1)?;
                let sidecar_sets = usize::from(sidecar_sets);
                let (server, report, is_right) = self.measure(Subject::beside(sidecar_sets, form), err)?;
                let server = server + &form_of_ours;
                all_right &= is_right;
                rows.push(Row { sidecar_sets, server, report });
            }
        }
        Ok((rows, all_right))
    }

    /// Starts `pillion serve` with these settings.
    fn start(&self, settings: &Value) -> anyhow::Result<Server> {
        let program = program::find(self.args.pillion.as_deref())?;
        let authority = Authority::new()?;
        self.runtime.block_on(Server::start(Start::new(&program, &authority, settings.clone())))
    }

    /// Measures a server, and returns its name, the measurements, and whether every answer was there and right.
    fn measure(&self, mut subject: Subject, err: &mut dyn Write) -> anyhow::Result<(String, Report, bool)> {
        let args = self.args;
        let (server, destination) = if let Some(url) = &args.url {
            (None, Destination::new(url, args.ca.as_deref(), args.tls_name.as_deref())?)
        } else {
            let server = self.start(&subject.settings)?;
            let destination = Destination::from(server.target().clone());
            (Some(server), destination)
        };
        if destination.is_one_path() {
            subject.retain_pods();
        }
        let default = if destination.is_one_path() { Answers::Alike } else { Answers::Exact };
        let name = destination.name().to_owned();
        let plan = send::Plan {
            cases: Cases::new(&self.module, subject, &destination)?,
            destination,
            process: args.pid.or(server.as_ref().map(Server::process)),
            answers: args.answers.unwrap_or(default),
            check: args.check,
            reviews: args.reviews,
            concurrency: args.concurrency,
            connections: args.connections,
            seed: args.seed,
        };
        let measured = self.runtime.block_on(send::run(plan))?;
        drop(server);
        for problem in &measured.part.tally.problems {
            writeln!(err, "warning: {problem}")?;
        }
        Ok((name, Report::new(args, &measured), measured.is_right()))
    }
}

/// Returns an event loop. Comparing every answer needs all cores. If nothing is compared, one thread is enough, and
/// needs less CPU time, because no request has to be passed from one thread to another.
fn runtime(check: Check) -> std::io::Result<Runtime> {
    let mut builder = match check {
        Check::Every => Builder::new_multi_thread(),
        Check::Around => Builder::new_current_thread(),
    };
    builder.enable_all().build()
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(name)?;
    pillion_yaml::from_str(&text).with_context(name)
}
