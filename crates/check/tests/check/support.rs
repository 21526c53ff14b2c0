//! Checks files as the command does, and provides manifests.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use pillion_check::Options;
use pillion_check::report::{FindingFormat, OptionalRule};
use pillion_cluster::Connection;
pub use pillion_samples::folders::folder;
pub use pillion_samples::manifests::{agent, set};
pub use pillion_terminal::testing::Run;
use pillion_terminal::testing::run;
use serde_json::{Value, json};

/// The name of `stdin` in reports. Here it is a file: all tests share the process's own.
const STDIN: &str = "<stdin>";

/// The arguments of `pillion check` that these tests give.
#[derive(clap::Parser)]
struct Arguments {
    paths: Vec<PathBuf>,
    #[arg(short = 'f')]
    files: Vec<PathBuf>,
    #[arg(short = 'R')]
    recursive: bool,
    #[arg(long)]
    settings: Vec<PathBuf>,
    #[arg(long)]
    old: Vec<PathBuf>,
    #[arg(short, value_enum, default_value_t)]
    output: FindingFormat,
    #[arg(long)]
    warnings_as_errors: bool,
    #[arg(long, value_enum, value_delimiter = ',')]
    disable: Vec<OptionalRule>,
}

/// Checks files of a folder with these arguments of the command. The path `-` is the text `stdin`. Returns what the
/// command would say in this folder.
pub fn check(folder: &Path, args: &[&str], stdin: &str) -> Run {
    let args = Arguments::parse_from(std::iter::once("check").chain(args.iter().copied()));
    if args.paths.iter().any(|path| path.as_os_str() == "-") {
        fs::write(folder.join(STDIN), stdin).unwrap();
    }
    let file = |path: &PathBuf| folder.join(if path.as_os_str() == "-" { Path::new(STDIN) } else { path });
    let files = |paths: &[PathBuf]| paths.iter().map(file).collect::<Vec<_>>();
    let options = Options {
        paths: files(&[args.paths, args.files].concat()),
        recursive: args.recursive,
        settings: &files(&args.settings),
        old: &files(&args.old),
        connection: &Connection::default(),
        output: args.output,
        warnings_as_errors: args.warnings_as_errors,
        disable: &args.disable,
        allow_empty: false,
        verbose: false,
    };
    run(|terminal| pillion_check::run(&options, terminal)).within(folder)
}

/// Returns the findings for a text on stdin: severity, line, column, path and message, then the remedy.
pub fn found(text: &str) -> Vec<String> {
    let here = folder(&[]);
    lines(&check(here.path(), &["-", "-o", "json"], text).out)
}

pub fn lines(json: &str) -> Vec<String> {
    let findings: Vec<Value> = serde_json::from_str(json).unwrap();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    findings
        .iter()
        .map(|finding| {
            let remedy = text(finding, "remedy");
            format!(
                "{} {}:{} {}: {}{}",
                text(finding, "severity"),
                finding["line"],
                finding["column"],
                text(finding, "path"),
                text(finding, "message"),
                if remedy.is_empty() { String::new() } else { format!(" -> {remedy}") },
            )
        })
        .collect()
}

pub fn json_set(name: &str, spec: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"logs": "collect"}}, "containers": [{"name": name, "image": "agent:1"}],
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        let part = if key == "annotations" { "metadata" } else { "spec" };
        set[part][key] = value.clone();
    }
    set
}
