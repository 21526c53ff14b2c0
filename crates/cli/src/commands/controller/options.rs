//! The options of the controllers, on the command line and in the environment.

use std::net::SocketAddr;
use std::path::PathBuf;

use pillion_install::tuning::{Choice, Tuning};

use crate::daemon::logging::{Level, LogFormat};

/// The options of the controllers.
#[allow(clippy::doc_markdown, reason = "these are texts for terminals")]
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    pub choice: Choice,
    /// The namespace of this process and its Lease [default: the Pod's own, else pillion-system].
    #[arg(long, value_name = "NAME", env = "PILLION_NAMESPACE", hide_env_values = true)]
    pub namespace: Option<String>,
    /// The Lease that the replicas share.
    #[arg(
        long,
        value_name = "NAME",
        env = "PILLION_LEASE",
        hide_env_values = true,
        default_value = "pillion-controller"
    )]
    pub lease: String,
    /// Work without a Lease: for a process that is certainly alone.
    #[arg(long)]
    pub no_leader_election: bool,
    /// Where to serve /healthz, /readyz and /metrics, without TLS.
    #[arg(long, value_name = "ADDRESS", env = "PILLION_HEALTH_LISTEN", hide_env_values = true)]
    #[arg(default_value = "0.0.0.0:8081")]
    pub health_listen: SocketAddr,
    /// The most requests to the API server that start within a second; 0: no limit, since API Priority and Fairness
    /// shares an API server among its clients.
    #[arg(long, value_name = "N", env = "PILLION_KUBE_API_QPS", hide_env_values = true, default_value_t = 0)]
    pub kube_api_qps: u32,
    #[command(flatten)]
    pub tuning: Tuning,
    /// serviceaccount-token: the private key of the cluster's ServiceAccounts, PEM. With it, token Secrets hold tokens
    /// that never end, as those of kube-controller-manager.
    #[arg(long, value_name = "FILE", env = "PILLION_SERVICE_ACCOUNT_PRIVATE_KEY_FILE", hide_env_values = true)]
    pub service_account_private_key_file: Option<PathBuf>,
    /// How much to log.
    #[arg(
        long,
        value_enum,
        value_name = "LEVEL",
        env = "PILLION_LOG_LEVEL",
        hide_env_values = true,
        default_value = "info"
    )]
    pub log_level: Level,
    /// How to log.
    #[arg(long, value_enum, value_name = "FORMAT", env = "PILLION_LOG_FORMAT", hide_env_values = true)]
    #[arg(default_value = "auto")]
    pub log_format: LogFormat,
}
