//! The arguments of `pillion-stress load`.

use std::path::PathBuf;

use clap::ValueEnum;

use super::answers::Answers;
use super::send::Check;
use super::subject::SettingsForm;

const ABOUT: &str = "\
Send a server as many reviews as it takes: check its answers, and measure what they cost.

The reviews are a fixed mix: Pods of several sizes that none, one or three SidecarSets match, some of them to be refused; \
the asserting twin; SidecarSets; workloads, ServiceAccounts and ephemeral containers. With --sidecar-sets, they are all \
the creation of one Pod of 10 KB, which one of that many SidecarSets matches. They go over connections that stay open, as \
an API server's do: HTTP/2 over TLS, or HTTP/1.1 with a connection for each review at a time if the server speaks only \
that. Answers are compared with what the module answers in this process.

Without --url, `pillion serve` is started on this machine, and ends with this program. The module is that of --module, \
which must be the one that the server contains.

Any mutating webhook for Pods can be measured in the same way: if --url has a path, only Pods are sent, and only to this \
path. Give that server the SidecarSets of --print, name its process with --pid, and compare the tables.

The CPU time and the memory are those that Linux reports for the process of the server; without --pid, the CPU time of a \
server that runs already is not known.

Exit codes: 0 done; 1 if an answer was lost or wrong; 2 if there was no server to ask.";

const EXAMPLES: &str = "\
Examples:
  pillion-stress load --reviews 200 --concurrency 4
  pillion-stress load --reviews 200 --concurrency 4 -o json

A server that runs already, with the settings that it has:
  pillion-stress load --url https://localhost:8443 --ca ca.crt --settings settings.yaml

A comparison of servers with 100 SidecarSets each, with one review. `pillion serve`, which this program starts:
  pillion-stress load --sidecar-sets 100 --settings-form manifests,bundle --check around --concurrency 8
OpenKruise's manager, whose SidecarSets are in a cluster:
  pillion-stress load --sidecar-sets 100 --print sidecar-sets | kubectl create -f -
  pillion-stress load --sidecar-sets 100 --check around --concurrency 8 --pid 4711 --ca ca.crt \\
    --url https://localhost:9876/mutate-pod --tls-name kruise-webhook-service.kruise-system.svc
Kubewarden's policy server, in which the policy has the name `sidecars` and these settings:
  pillion-stress load --sidecar-sets 100 --settings-form bundle --print settings
  pillion-stress load --sidecar-sets 100 --check around --concurrency 8 --pid 4712 \\
    --url http://localhost:3000/validate/sidecars";

/// The arguments of `pillion-stress load`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// How many reviews to send.
    #[arg(long, help_heading = "Reviews", value_name = "NUMBER", default_value_t = 5_000)]
    pub(super) reviews: u64,
    /// How many of them at a time.
    #[arg(
        long, help_heading = "Reviews", value_name = "NUMBER", default_value_t = 32,
        value_parser = clap::value_parser!(u16).range(1..=1000)
    )]
    pub(super) concurrency: u16,
    /// Over how many connections; with HTTP/1.1, each review at a time has its own.
    #[arg(
        long, help_heading = "Reviews", value_name = "NUMBER", default_value_t = 4,
        value_parser = clap::value_parser!(u16).range(1..=100)
    )]
    pub(super) connections: u16,
    /// The seed of the mix: each number gives another order of the reviews, and other names in them.
    #[arg(long, help_heading = "Reviews", value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,
    /// Instead of the mix, create one Pod beside this many SidecarSets, of which one matches. Several numbers give a
    /// table.
    #[arg(
        long, help_heading = "Reviews", value_name = "NUMBER", value_delimiter = ',', conflicts_with = "settings",
        value_parser = clap::value_parser!(u16).range(1..=10_000)
    )]
    pub(super) sidecar_sets: Vec<u16>,
    /// When to compare answers with those of the module.
    #[arg(long, help_heading = "Answers", value_enum, value_name = "WHEN", default_value_t)]
    pub(super) check: Check,
    /// How to compare them [default: exact; alike if --url has a path].
    #[arg(long, help_heading = "Answers", value_enum, value_name = "HOW")]
    pub(super) answers: Option<Answers>,
    /// The program to start as a server [default: `pillion` in the folder of this program].
    #[arg(long, help_heading = "Server", value_name = "PATH", conflicts_with = "url")]
    pub(super) pillion: Option<PathBuf>,
    /// A server that runs: https://host:port for `pillion serve`, with a path for another webhook. http:// for a server
    /// without TLS.
    #[arg(long, help_heading = "Server", value_name = "URL")]
    pub(super) url: Option<String>,
    /// The authority of its certificate, PEM.
    #[arg(long, help_heading = "Server", value_name = "FILE", requires = "url")]
    pub(super) ca: Option<PathBuf>,
    /// The name in its certificate [default: the host of the URL].
    #[arg(long, help_heading = "Server", value_name = "NAME", requires = "ca")]
    pub(super) tls_name: Option<String>,
    /// The id of its process on this machine, to measure CPU time and memory.
    #[arg(long, help_heading = "Server", value_name = "PID", requires = "url")]
    pub(super) pid: Option<u32>,
    /// Its settings, YAML or JSON, which must look nothing up in a cluster [default: 20 SidecarSets].
    #[arg(long, help_heading = "Server", value_name = "FILE")]
    pub(super) settings: Option<PathBuf>,
    /// How the settings of the started server contain these SidecarSets. Several forms give a table.
    #[arg(
        long, help_heading = "Server", value_enum, value_name = "FORM", value_delimiter = ',',
        default_values_t = [SettingsForm::Manifests], requires = "sidecar_sets", conflicts_with = "url"
    )]
    pub(super) settings_form: Vec<SettingsForm>,
    /// Print this as JSON, and send nothing.
    #[arg(
        long, help_heading = "Output", value_enum, value_name = "WHAT", conflicts_with_all = ["url", "docs", "output"]
    )]
    pub(super) print: Option<Print>,
    /// How to print the measurements.
    #[arg(short, long, help_heading = "Output", value_enum, default_value_t, value_name = "FORMAT")]
    pub(super) output: Format,
    /// Also write the table into this document, between its marks.
    #[arg(long, help_heading = "Output", value_name = "PATH", requires = "sidecar_sets")]
    pub(super) docs: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A table.
    #[default]
    Text,
    /// An object; with --sidecar-sets, a list of objects.
    Json,
}

/// What another server needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Print {
    /// The SidecarSets, as one list for kubectl.
    SidecarSets,
    /// The settings of the policy that contain them.
    Settings,
}
