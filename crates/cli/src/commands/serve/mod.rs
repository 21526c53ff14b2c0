//! `pillion serve`: the policy as a standalone admission server.

mod certificates;
mod cluster;
mod compile;
mod options;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use pillion_host::{CodeCache, LogLevel, LogLine, Module};
use pillion_install::settings;
use pillion_preview::module;
use pillion_server::{Limits, Metrics, POLL, Readiness, Server, SettingsFile};
use pillion_terminal::units::{Size, Span};
use pillion_terminal::{Status, Terminal};
use tokio::net::TcpListener;
use tokio::sync::watch;

use self::options::Options;
use crate::daemon::logging;
use crate::daemon::signals::Signals;

const ABOUT: &str = "\
Serve the policy to API servers, without Kubewarden.

An HTTPS server with the paths /mutate, /validate, /assert and /convert for webhook configurations, and /healthz, /readyz \
and /metrics. The settings are those of the policy; they and the certificate are read again when they change, and no \
request is lost over it. `pillion manifest standalone` writes what a cluster needs to run it; docs/serve.md has the rest.

Every option can also be set in the environment, and in a file as a YAML key in camelCase (--evaluation-timeout is \
evaluationTimeout). The command line wins over the environment, and that over the file.";

const EXAMPLES: &str = "\
Examples:
  # settings and options, checked without serving
  pillion serve --settings settings.yaml --check
  pillion serve --config serve.yaml --check
  # five seconds, on this machine and without a cluster
  timeout --preserve-status 5 pillion serve --config serve.yaml --log-format text

Exit codes: 0 after SIGTERM or Ctrl-C, with every request answered; 1 if --check finds invalid settings, or a request was
left unanswered, as after a second signal; 2 if it cannot serve.";

/// The arguments of `pillion serve`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// A YAML file with options.
    #[arg(long, value_name = "FILE", env = "PILLION_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
    /// Check options and settings, and end.
    #[arg(long)]
    check: bool,
    /// Compile the module into this folder, and end: what the server itself asks for (`compile`).
    #[arg(long, value_name = "FOLDER", hide = true)]
    compile_into: Option<PathBuf>,
}

/// The default address for HTTPS.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 8443);
/// The default drain delay: a little more than endpoints take to be updated.
const DRAIN: Duration = Duration::from_secs(5);
/// The limit for checking settings: the check compares thousands of SidecarSets with each other.
const CHECK: Duration = Duration::from_secs(30);

/// Runs `pillion serve`.
///
/// # Errors
/// If it cannot serve: an invalid option, a port in use, no certificate, no cluster.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let options = args.options.clone().with_file(args.config.as_deref())?;
    let limits = limits(&options)?;
    if let Some(folder) = &args.compile_into {
        load(options.module.as_deref(), &limits, &CodeCache::In(folder.clone()))?;
        return Ok(Status::Done);
    }
    let Some(path) = options.settings.clone() else {
        bail!("no settings: give a file with --settings, PILLION_SETTINGS or the key settings of --config");
    };
    let files = certificates::Wanted::from_options(&options)?;
    logging::start(options.log_level.unwrap_or_default(), options.log_format.unwrap_or_default());
    let folder = if args.check { None } else { compile::elsewhere() };
    let cache = folder.as_ref().map_or(CodeCache::Use, compile::Folder::cache);
    let module = load(options.module.as_deref(), &limits, &cache)?;
    drop(folder);
    let mut settings = settings_file(path.clone(), module.clone().within(CHECK));
    let checked = settings.load();
    if args.check {
        return Ok(match checked {
            Ok(_) => {
                writeln!(terminal.err(), "{}: valid", path.display())?;
                Status::Done
            }
            Err(error) => {
                terminal.error(&error.into());
                Status::Refused
            }
        });
    }
    let first = checked?;
    // `look_ups` must outlive this event loop: it has its own, which cannot be dropped inside another.
    let look_ups = cluster::Wanted::from_options(&options, first.bundle())?;
    let serving = Serving { options, limits, module: module.logging_to(log), settings, first };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // While evaluations compute on all cores, one more thread serves connections.
        .worker_threads(limits.cores + 1)
        .enable_all()
        .build()
        .context("the event loop")?;
    let status = runtime.block_on(serving.serve(files, &look_ups));
    // Do not wait for evaluations whose requests have ended.
    runtime.shutdown_background();
    status
}

/// Loads the module of a file, or the built-in one.
fn load(file: Option<&Path>, limits: &Limits, cache: &CodeCache) -> anyhow::Result<Module> {
    let Some(path) = file else {
        return Module::load_bounded(module::BYTES, cache, limits.bounds()).context("the built-in module");
    };
    let name = || format!("--module {}", path.display());
    let bytes = std::fs::read(path).with_context(name)?;
    Module::load_bounded(&bytes, cache, limits.bounds()).with_context(name)
}

/// Returns the settings file; `module` validates its content.
fn settings_file(path: PathBuf, module: Module) -> SettingsFile {
    let name = path.display().to_string();
    let parse = move |bytes: &[u8]| settings::of_bytes(&name, bytes).map_err(|error| format!("{error:#}"));
    SettingsFile::new(path, parse, module)
}

fn limits(options: &Options) -> anyhow::Result<Limits> {
    let usual = Limits::default();
    let number = |name: &str, value: Option<u16>, usual: usize| match value {
        Some(0) => bail!("--{name}: must be at least 1"),
        Some(number) => Ok(usize::from(number)),
        None => Ok(usual),
    };
    let cores = number("cores", options.cores, usual.cores)?;
    let bytes = |size: Option<Size>, usual: usize| size.map_or(usual, |size| size.0);
    let time = options.evaluation_timeout.map_or(usual.time, |span| span.0);
    if time.is_zero() {
        bail!("--evaluation-timeout: must be more than 0");
    }
    Ok(Limits {
        cores,
        evaluations: number("evaluations", options.evaluations, cores + 32)?,
        queue: options.queue.map_or(usual.queue, usize::from),
        time,
        memory: bytes(options.evaluation_memory, usual.memory),
        body: bytes(options.max_body, usual.body),
        conversion_body: bytes(options.max_conversion_body, usual.conversion_body),
        connections: number("max-connections", options.max_connections, usual.connections)?,
    })
}

/// Logs a line of the policy, without its data: that may hold values of objects.
fn log(line: LogLine) {
    let LogLine { level, message, data: _ } = line;
    match level {
        LogLevel::Error => tracing::error!(message, "policy"),
        LogLevel::Warning => tracing::warn!(message, "policy"),
        LogLevel::Info => tracing::info!(message, "policy"),
        LogLevel::Debug | LogLevel::Trace => tracing::debug!(message, "policy"),
    }
}

struct Serving {
    options: Options,
    limits: Limits,
    module: Module,
    settings: SettingsFile,
    first: pillion_server::ServedSettings,
}

impl Serving {
    async fn serve(self, files: certificates::Wanted, look_ups: &cluster::Wanted) -> anyhow::Result<Status> {
        let Self { options, limits, module, settings, first } = self;
        let mut signals = Signals::new()?;
        let listener = bind("listen", options.listen.unwrap_or(LISTEN)).await?;
        let health = match options.health_listen {
            Some(address) => Some(bind("health-listen", address).await?),
            None => None,
        };
        let certificates = files.provide().await?;
        let metrics = Arc::new(Metrics::new());
        let cluster = look_ups.provide(&metrics).await?;
        let (send, in_use) = watch::channel(Arc::new(first));
        let watching = settings.watch(POLL, send, Arc::clone(&metrics));
        let server = Server {
            module,
            settings: in_use,
            certificates: certificates.newest(),
            cluster: cluster.answers(),
            metrics,
            readiness: cluster.readiness(certificates.readiness(Readiness::default())),
            limits,
        };
        let running = server.start(listener, health)?;
        tracing::info!(
            address = %running.address(),
            health_address = running.health_address().map(tracing::field::display),
            version = env!("CARGO_PKG_VERSION"),
            "serving"
        );
        signals.next().await;
        let delay = options.drain_delay.unwrap_or(Span(DRAIN)).0;
        let is_done = tokio::select! {
            is_done = running.drain(delay) => is_done,
            () = signals.another() => {
                tracing::warn!("a second signal: stopped at once");
                false
            }
        };
        watching.abort();
        Ok(if is_done { Status::Done } else { Status::Refused })
    }
}

async fn bind(option: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("--{option} {address}"))
}
