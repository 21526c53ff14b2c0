//! What can be told to the controllers, on the command line and in the environment.

use std::net::SocketAddr;
use std::path::PathBuf;

use pillion_controller::selection::Item;

use crate::daemon::logging::{Format, Level};
use crate::daemon::units::Span;

/// What can be told to the controllers.
#[allow(clippy::doc_markdown, reason = "these are texts for terminals")]
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The policy's settings: a file of them, or a Kubewarden policy that has them. Read again when it changes.
    #[arg(long, value_name = "FILE", env = "PILLION_SETTINGS", hide_env_values = true)]
    pub settings: Option<PathBuf>,
    /// Which controllers run: `*` for those that are on by default, `<name>` for one more, `-<name>` for one less.
    #[arg(long, value_name = "NAME,...", env = "PILLION_CONTROLLERS", hide_env_values = true)]
    #[arg(value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub controllers: Vec<Item>,
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
    /// sidecar-tokens: the namespaces whose Secrets may be read and written; absent: all, which needs a right to all.
    #[arg(
        long,
        value_name = "NAME,...",
        env = "PILLION_TOKEN_NAMESPACES",
        hide_env_values = true,
        value_delimiter = ','
    )]
    pub token_namespaces: Vec<String>,
    /// sidecar-tokens: how long a token lives, at least 10m; the API server may shorten it.
    #[arg(long, value_name = "DURATION", env = "PILLION_TOKEN_LIFETIME", hide_env_values = true, default_value = "1h")]
    pub token_lifetime: Span,
    /// merged-serviceaccounts: how long a merged account is not needed before it is collected.
    #[arg(long, value_name = "DURATION", env = "PILLION_COLLECT_AFTER", hide_env_values = true, default_value = "10m")]
    pub collect_after: Span,
    /// serviceaccount-token: the private key of the cluster's ServiceAccounts, PEM. With it, token Secrets hold tokens
    /// that never end, as those of kube-controller-manager.
    #[arg(long, value_name = "FILE", env = "PILLION_SERVICE_ACCOUNT_PRIVATE_KEY_FILE", hide_env_values = true)]
    pub service_account_private_key_file: Option<PathBuf>,
    /// serviceaccount-token: work although kube-controller-manager is at work, too.
    #[arg(long)]
    pub force_token_controller: bool,
    /// serviceaccount-token, root-ca-publisher: the authority of the API server, PEM [default: that of the kubeconfig, or
    /// of the Pod].
    #[arg(long, value_name = "FILE", env = "PILLION_ROOT_CA_FILE", hide_env_values = true)]
    pub root_ca_file: Option<PathBuf>,
    /// legacy-token-cleaner: how long a token has to be unused before it becomes invalid, and invalid before it goes.
    #[arg(long, value_name = "DURATION", env = "PILLION_LEGACY_TOKEN_PERIOD", hide_env_values = true)]
    #[arg(default_value = "8760h")]
    pub legacy_token_period: Span,
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
    pub log_format: Format,
}
