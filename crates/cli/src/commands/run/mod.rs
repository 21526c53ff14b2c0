//! `pillion run`: runs a policy module on a request, as `kwctl run` does.

mod location;
mod policy;
mod request;
mod session;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use parking_lot::Mutex;
use pillion_host::admission::AdmissionResponse;
use pillion_host::{
    CapabilityPattern, Cluster, CodeCache, LogLevel, LogLine, Module, Operation, SettingsResponse, metadata,
};
use pillion_preview::module;
use pillion_terminal::{Status, Terminal};
use serde_json::Value;

use self::policy::Policy;
use self::request::Request;
use self::session::Session;

const EXAMPLES: &str = "\
Examples:
  pillion run -r review.json -s settings.yaml policy.wasm
  pillion run -r - --settings-json '{}' policy.wasm < review.json

Exit codes, as kwctl's: 0 when the policy has answered, also when it refuses; 1 when the settings are not valid or
something cannot be read; 2 when the arguments are wrong or the output cannot be written.";

/// Runs a policy module on an admission request, and prints the response as one line of JSON.
///
/// The flags, the output and the session files are those of `kwctl run`, so that a test suite runs with either. Modules
/// are files: nothing is pulled from a registry.
///
/// A file that ends in .yaml or .yml holds ClusterAdmissionPolicies and AdmissionPolicies. Of each the module, the
/// settings, `mode`, `mutating`, `message` and `contextAwareResources` count; rules and selectors do not. All of them
/// get the same request, one after the other, and share one session file.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent flags")]
pub struct Args {
    /// The module: a file or a file:// URL; or a YAML file with policies.
    #[arg(value_name = "MODULE|POLICIES.yaml")]
    module: String,
    /// The request: an AdmissionReview, or only its `request`; `-` reads it from stdin.
    #[arg(short, long, value_name = "FILE")]
    request_path: PathBuf,
    /// The settings, YAML or JSON; read as kubectl would read them in a policy.
    #[arg(short, long, value_name = "FILE")]
    settings_path: Option<PathBuf>,
    /// The settings as JSON, instead of a file.
    #[arg(long, value_name = "JSON")]
    settings_json: Option<String>,
    /// Let the policy read the kinds that its metadata lists in `contextAwareResources`, in the cluster of the
    /// kubeconfig's current context.
    #[arg(long)]
    allow_context_aware: bool,
    /// The host capabilities that the policy may use: names, `oci/*`, or `*` for all.
    #[arg(long, value_name = "PATTERN", num_args = 0.., default_values = ["*"])]
    allowed_host_capabilities: Vec<String>,
    /// Record the policy's calls to its host, and the answers, in this file.
    #[arg(long, value_name = "FILE", conflicts_with = "replay_host_capabilities_interactions")]
    record_host_capabilities_interactions: Option<PathBuf>,
    /// Answer the policy's calls to its host from such a file instead of the cluster.
    #[arg(long, value_name = "FILE")]
    replay_host_capabilities_interactions: Option<PathBuf>,
    /// Answer the policy that every ServiceAccount exists, and merged ones with their Roles and RoleBindings, instead of
    /// asking the cluster or the session. kwctl does not have this.
    #[arg(long)]
    assume_service_accounts: bool,
    /// Give the policy the request unchanged; it may be any JSON.
    #[arg(long)]
    raw: bool,
    /// The kind of the module; only waPC modules run here.
    #[arg(short, long, value_enum, value_name = "MODE")]
    execution_mode: Option<Mode>,
    /// Compile the module every time.
    #[arg(long)]
    disable_wasmtime_cache: bool,
    // Boxed: the struct is large and rarely read.
    #[command(flatten)]
    pulled: Box<Pulled>,
}

/// Flags of kwctl that have no meaning for a file.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Only for modules that are pulled")]
struct Pulled {
    /// Ignored: nothing is pulled.
    #[arg(long, value_name = "FILE")]
    sources_path: Option<PathBuf>,
    /// Ignored: nothing is pulled.
    #[arg(long, value_name = "FOLDER")]
    docker_config_json_path: Option<PathBuf>,
    /// Ignored: nothing is verified.
    #[arg(long, value_name = "FILE")]
    sigstore_trust_config: Option<PathBuf>,
    /// Refused, since files carry no signatures; so are the following ones.
    #[arg(short = 'k', long, value_name = "FILE")]
    verification_key: Vec<PathBuf>,
    /// Refused.
    #[arg(short = 'a', long, value_name = "KEY=VALUE")]
    verification_annotation: Vec<String>,
    /// Refused.
    #[arg(long, value_name = "FILE")]
    verification_config_path: Option<PathBuf>,
    /// Refused.
    #[arg(long, value_name = "EMAIL")]
    cert_email: Option<String>,
    /// Refused.
    #[arg(long, value_name = "URL")]
    cert_oidc_issuer: Option<String>,
    /// Refused.
    #[arg(long, value_name = "OWNER")]
    github_owner: Option<String>,
    /// Refused.
    #[arg(long, value_name = "REPO")]
    github_repo: Option<String>,
}

/// Kinds of modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// A waPC guest.
    #[value(alias = "kubewarden-wapc")]
    Kubewarden,
    /// Rego for Open Policy Agent.
    Opa,
    /// Rego for Gatekeeper.
    Gatekeeper,
    /// A program that is started for every request.
    Wasi,
}

/// Runs `pillion run`.
///
/// # Errors
/// If the output cannot be written. Reports every other error itself and exits with 1, as kwctl does.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    super::as_kwctl(execute(args, terminal), terminal)
}

fn execute(args: &Args, terminal: &mut Terminal) -> anyhow::Result<()> {
    refuse_what_cannot_be_done(args)?;
    let patterns = args.allowed_host_capabilities.iter().map(|text| text.parse());
    let patterns: Vec<CapabilityPattern> = patterns.collect::<Result<_, _>>()?;
    let policies = policy::read(args, terminal)?;
    let request = request::read(&args.request_path)?;

    let mut prepared = Vec::new();
    for policy in &policies {
        prepared.push((policy, policy.prepare(args, &patterns, terminal)?));
    }
    if prepared.len() > 1 {
        terminal.warn(format_args!("{} policies, one after the other, on the same request", prepared.len()));
    }
    let reads_cluster = prepared.iter().any(|(_, prepared)| prepared.reads_cluster);
    let session = Session::open(
        args.record_host_capabilities_interactions.as_deref(),
        args.replay_host_capabilities_interactions.as_deref(),
        reads_cluster,
        args.assume_service_accounts,
    )?;
    let answered = prepared.iter().try_for_each(|(policy, prepared)| {
        let request = Request::new(&request, prepared.raw)?;
        session.prepare(&request.payload, &policy.settings);
        let response = evaluate(policy, &prepared.module, &request, &session.cluster(), terminal)?;
        for note in session.notes() {
            terminal.warn(note);
        }
        serde_json::to_writer(terminal.out(), &response).map_err(std::io::Error::from)?;
        Ok(writeln!(terminal.out())?)
    });
    // Close the session even after a policy failed: its look-ups may explain the failure.
    answered.and(session.close(terminal))
}

/// Refuses options that kwctl supports and this command does not, before it reads any file: ignoring them would
/// mislead.
fn refuse_what_cannot_be_done(args: &Args) -> anyhow::Result<()> {
    let pulled = &args.pulled;
    let verification = [
        ("--verification-key", !pulled.verification_key.is_empty()),
        ("--verification-annotation", !pulled.verification_annotation.is_empty()),
        ("--verification-config-path", pulled.verification_config_path.is_some()),
        ("--cert-email", pulled.cert_email.is_some()),
        ("--cert-oidc-issuer", pulled.cert_oidc_issuer.is_some()),
        ("--github-owner", pulled.github_owner.is_some()),
        ("--github-repo", pulled.github_repo.is_some()),
    ];
    if let Some((flag, _)) = verification.into_iter().find(|(_, given)| *given) {
        bail!("{flag}: signatures are not verified here; `kwctl verify` and `kwctl pull` do that");
    }
    match args.execution_mode.filter(|mode| *mode != Mode::Kubewarden).and_then(|mode| mode.to_possible_value()) {
        None => Ok(()),
        Some(mode) => {
            bail!("--execution-mode {}: only waPC modules run here; `kwctl run` knows the others", mode.get_name())
        }
    }
}

/// Returns the response of one policy to the request.
fn evaluate(
    policy: &Policy,
    module: &Module,
    request: &Request,
    cluster: &Arc<dyn Cluster>,
    terminal: &mut Terminal,
) -> anyhow::Result<AdmissionResponse> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lines);
    let module = module.clone().logging_to(move |line| seen.lock().push(line));
    let verdict = validate_settings(&module, &policy.settings, cluster);
    let response = verdict.map(|()| {
        let decision = module.validate(&request.payload, &policy.settings, Arc::clone(cluster));
        let response = match decision {
            Ok(decision) => AdmissionResponse::new(&request.uid, request.object.as_ref(), decision),
            Err(error) => AdmissionResponse::failed(&request.uid, &error),
        };
        response.handled(&policy.handling)
    });
    show(&lines.lock(), terminal);
    response
}

fn validate_settings(module: &Module, settings: &Value, cluster: &Arc<dyn Cluster>) -> anyhow::Result<()> {
    let payload = serde_json::to_vec(settings).context("the settings")?;
    let verdict = module
        .evaluate(Operation::ValidateSettings, &payload, Arc::clone(cluster))
        .context("Provided settings are not valid: the policy could not check them")?;
    let SettingsResponse { valid, message } = serde_json::from_slice(&verdict)
        .context("Provided settings are not valid: the policy's answer on them is no answer")?;
    if valid { Ok(()) } else { bail!("Provided settings are not valid: {}", message.unwrap_or_default()) }
}

/// Shows the log lines of a policy at level `info` and above.
fn show(lines: &[LogLine], terminal: &mut Terminal) {
    for LogLine { level, message, data } in lines.iter().filter(|line| line.level >= LogLevel::Info) {
        let data = if data.is_empty() { String::new() } else { format!(" {}", Value::Object(data.clone())) };
        // Ignore write errors: there is no other stream to report them.
        let _ = writeln!(terminal.err(), "policy {level}: {message}{data}");
    }
}

/// Reads a module file and its metadata, and compiles the module.
fn load(path: &std::path::Path, cache: &CodeCache) -> anyhow::Result<(Module, Option<metadata::Metadata>)> {
    let shown = || path.display().to_string();
    let bytes = std::fs::read(path).with_context(shown)?;
    let metadata = metadata::Metadata::of_module(&bytes).with_context(shown)?;
    if let Some(metadata) = &metadata {
        metadata.runs_here().with_context(shown)?;
    }
    let load = || Module::load_with(&bytes, cache);
    // Programs that were written for kwctl read both streams as one.
    let loaded = if std::io::stderr().is_terminal() && *cache == CodeCache::Use {
        module::with_notice(&mut std::io::stderr(), load)?
    } else {
        load()
    };
    Ok((loaded.with_context(shown)?, metadata))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::*;

    fn parse(words: &[&str]) -> Result<Args, clap::Error> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let matches = Line::command().try_get_matches_from([&["run", "-r", "-"], words].concat())?;
        Ok(Line::from_arg_matches(&matches)?.args)
    }

    #[test]
    fn capabilities_are_listed_as_for_kwctl() {
        let patterns = |words: &[&str]| parse(words).unwrap().allowed_host_capabilities;
        assert_eq!(patterns(&["m"]), ["*"]);
        let several = ["m", "--allowed-host-capabilities", "oci/*", "net/*", "--allowed-host-capabilities", "crypto/*"];
        assert_eq!(patterns(&several), ["oci/*", "net/*", "crypto/*"]);
        assert_eq!(patterns(&["m", "--allowed-host-capabilities"]), [""; 0], "nothing allows nothing");
    }

    #[test]
    fn a_session_is_recorded_or_replayed() {
        let both =
            ["--record-host-capabilities-interactions", "a", "--replay-host-capabilities-interactions", "b", "m"];
        assert_eq!(parse(&both).unwrap_err().kind(), clap::error::ErrorKind::ArgumentConflict);
    }
}
