//! `pillion-bench load`: puts load on an admission server and checks every answer.

mod answers;
mod child;
mod mix;
mod report;
mod send;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use pillion_host::Module;
use pillion_host::server::client::Target;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

use self::answers::Cases;
use self::child::Child;

const ABOUT: &str = "\
Send a server as many reviews as it takes, and check every answer.

The reviews are a fixed mix: Pods of several sizes that none, one or three SidecarSets match, some of them to be refused; \
the asserting twin; SidecarSets; workloads, ServiceAccounts and ephemeral containers. They go over HTTP/2 connections \
that stay open, as an API server's do, and each answer is compared with what the module answers in this process. Without \
--url, `pillion serve` is started for it on this machine, and ends with it. The module is that of --module, which must be \
the one that the server contains.

Exit codes: 0 done; 1 if an answer was lost or wrong; 2 if there was no server to ask.";

const EXAMPLES: &str = "\
Examples:
  pillion-bench load --reviews 200 --concurrency 4
  pillion-bench load --reviews 200 --concurrency 4 -o json

A server that runs already, with the settings that it has:
  pillion-bench load --url https://localhost:8443 --ca ca.crt --settings settings.yaml";

/// The arguments of `pillion-bench load`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// How many reviews to send.
    #[arg(long, value_name = "NUMBER", default_value_t = 5_000)]
    reviews: u64,
    /// How many of them at a time.
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: u16,
    /// Over how many connections.
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=100))]
    connections: u16,
    /// The seed of the mix: each number gives another order of the reviews, and other names in them.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// The program to start as a server [default: `pillion` in the folder of this program].
    #[arg(long, value_name = "PATH", conflicts_with = "url")]
    pillion: Option<PathBuf>,
    /// A server that runs: https://host:port.
    #[arg(long, value_name = "URL", requires = "ca")]
    url: Option<String>,
    /// The authority of its certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,
    /// Its settings, YAML or JSON, which must look nothing up in a cluster [default: 20 SidecarSets].
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// How to print the measurements.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table.
    #[default]
    Text,
    /// An object.
    Json,
}

/// Runs `pillion-bench load`, and returns whether every answer was there and right. Writes the report to `out`, and the
/// first wrong answers to `err`.
///
/// # Errors
/// If there is no server to ask, or the expected answers cannot be computed.
pub fn run(args: &Args, module: &[u8], out: &mut dyn Write, err: &mut dyn Write) -> anyhow::Result<bool> {
    let settings = match &args.settings {
        Some(path) => read(path)?,
        None => mix::settings(args.seed),
    };
    let cases = Arc::new(Cases::new(&Module::load(module)?, &settings, args.seed)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("the event loop")?;
    let child = if args.url.is_none() { Some(Child::start(&program(args)?, &settings)?) } else { None };
    let target = match (&args.url, &args.ca, &child) {
        (Some(url), Some(ca), _) => target(url, ca)?,
        (_, _, Some(child)) => target(child.url(), child.ca())?,
        _ => bail!("--url needs --ca"),
    };
    let plan = send::Plan {
        target,
        cases,
        reviews: args.reviews,
        concurrency: args.concurrency,
        connections: args.connections,
        seed: args.seed,
    };
    let measured = runtime.block_on(send::run(plan))?;
    drop(child);
    for problem in &measured.problems {
        writeln!(err, "warning: {problem}")?;
    }
    let report = report::Report::of(args, &measured);
    match args.output {
        Format::Text => write!(out, "{}", report.text())?,
        Format::Json => writeln!(out, "{:#}", report.json())?,
    }
    Ok(measured.is_right())
}

/// Returns the program to start as a server.
fn program(args: &Args) -> anyhow::Result<PathBuf> {
    let program = if let Some(path) = &args.pillion {
        path.clone()
    } else {
        let name = format!("pillion{}", std::env::consts::EXE_SUFFIX);
        std::env::current_exe().context("the folder of this program")?.with_file_name(name)
    };
    if !program.exists() {
        bail!(
            "{} is missing: build it with `cargo build --package pillion`, or name it with --pillion",
            program.display()
        );
    }
    Ok(program)
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(name)?;
    serde_saphyr::from_str(&text).with_context(name)
}

/// Returns the address in a URL, and the certificates to verify the server with.
fn target(url: &str, ca: &Path) -> anyhow::Result<Target> {
    let authority = url.strip_prefix("https://").map(|rest| rest.trim_end_matches('/'));
    let authority = authority.filter(|rest| !rest.is_empty() && !rest.contains('/'));
    let authority = authority.with_context(|| format!("--url {url:?}: must be https://host:port"))?;
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => (host, port),
        _ => (authority, "443"),
    };
    let mut roots = RootCertStore::empty();
    let name = || ca.display().to_string();
    for certificate in CertificateDer::pem_file_iter(ca).with_context(name)? {
        roots.add(certificate.with_context(name)?).with_context(name)?;
    }
    if roots.is_empty() {
        bail!("{}: no certificate in it", name());
    }
    Ok(Target {
        address: format!("{host}:{port}"),
        name: host.trim_matches(['[', ']']).to_owned(),
        roots: Arc::new(roots),
    })
}

/// Returns settings as the text of a settings file.
fn json(settings: &Value) -> String {
    format!("{settings:#}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn some_ca() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        std::fs::write(&path, pillion_certificates::TemporaryAuthority::new().unwrap().pem()).unwrap();
        (folder, path)
    }

    #[rstest]
    #[case("https://localhost:8443", "localhost:8443", "localhost")]
    #[case("https://localhost/", "localhost:443", "localhost")]
    #[case("https://[::1]:8443", "[::1]:8443", "::1")]
    fn urls_name_host_and_port(#[case] url: &str, #[case] address: &str, #[case] name: &str) {
        let (_folder, ca) = some_ca();
        let target = target(url, &ca).unwrap();
        assert_eq!((target.address.as_str(), target.name.as_str(), target.roots.len()), (address, name, 1));
    }

    #[rstest]
    #[case("http://localhost:8443")]
    #[case("https://")]
    #[case("https://localhost/mutate")]
    fn other_urls_are_refused(#[case] url: &str) {
        let (_folder, ca) = some_ca();
        assert!(target(url, &ca).unwrap_err().to_string().ends_with("must be https://host:port"));
    }

    #[test]
    fn an_authority_without_a_certificate_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        assert!(target("https://localhost", &path).is_err());
        std::fs::write(&path, "nothing").unwrap();
        assert!(target("https://localhost", &path).unwrap_err().to_string().ends_with("no certificate in it"));
    }
}
