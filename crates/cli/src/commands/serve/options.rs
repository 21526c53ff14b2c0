//! The options. The command line wins over the environment, and the environment over the file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::ValueEnum;
use pillion_documents::manifest;
use pillion_terminal::units::{Size, Span};
use serde::Deserialize;

use crate::daemon::logging::{Level, LogFormat};

/// Where the certificate comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Made here, kept in a Secret, written into the caBundle of every named configuration.
    #[default]
    SelfSigned,
    /// Files, also those that cert-manager writes.
    Files,
    /// Made here, kept nowhere: to try the server. --ca-file receives the certificate to trust.
    Temporary,
}

/// The source of look-ups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Cluster {
    /// The cluster that this runs in, or that of the kubeconfig.
    #[default]
    Live,
    /// Nothing: requests that need a look-up are refused with 503.
    None,
}

/// The options; `None` for each that is not set.
#[allow(clippy::doc_markdown, reason = "these are texts for terminals")]
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Options {
    /// The policy's settings: a file of them, or a Kubewarden policy that has them. Read again when it changes.
    #[arg(long, value_name = "FILE", env = "PILLION_SETTINGS", hide_env_values = true)]
    pub settings: Option<PathBuf>,
    /// A module of the policy to serve in place of the built-in one, such as that of another version.
    #[arg(long, value_name = "FILE", env = "PILLION_MODULE_FILE", hide_env_values = true)]
    pub module: Option<PathBuf>,
    /// Where to serve HTTPS [default: 0.0.0.0:8443].
    #[arg(long, value_name = "ADDRESS", env = "PILLION_LISTEN", hide_env_values = true)]
    pub listen: Option<SocketAddr>,
    /// Where to serve /healthz, /readyz and /metrics without TLS; absent: only over HTTPS.
    #[arg(long, value_name = "ADDRESS", env = "PILLION_HEALTH_LISTEN", hide_env_values = true)]
    pub health_listen: Option<SocketAddr>,
    /// Where the certificate comes from [default: self-signed].
    #[arg(long, value_enum, value_name = "SOURCE", env = "PILLION_CERTIFICATES", hide_env_values = true)]
    pub certificates: Option<Source>,
    /// files: the certificate, PEM. Read again when it changes.
    #[arg(long, value_name = "FILE", env = "PILLION_TLS_CERT_FILE", hide_env_values = true)]
    pub tls_cert_file: Option<PathBuf>,
    /// files: its key, PEM.
    #[arg(long, value_name = "FILE", env = "PILLION_TLS_KEY_FILE", hide_env_values = true)]
    pub tls_key_file: Option<PathBuf>,
    /// temporary: write the certificate that clients have to trust into this file.
    #[arg(long, value_name = "FILE", env = "PILLION_CA_FILE", hide_env_values = true)]
    pub ca_file: Option<PathBuf>,
    /// The namespace of this server, its Service and its Secret [default: the Pod's own, else pillion-system].
    #[arg(long, value_name = "NAME", env = "PILLION_NAMESPACE", hide_env_values = true)]
    pub namespace: Option<String>,
    /// The Service that the API server calls [default: pillion].
    #[arg(long, value_name = "NAME", env = "PILLION_SERVICE_NAME", hide_env_values = true)]
    pub service_name: Option<String>,
    /// Another name that the server is called by, a DNS name or an IP address; may be given several times.
    #[arg(long, value_name = "NAME", env = "PILLION_TLS_NAME", hide_env_values = true, value_delimiter = ',')]
    pub tls_name: Vec<String>,
    /// self-signed: the Secret that keeps the authority and the certificate [default: pillion-serve-tls].
    #[arg(long, value_name = "NAME", env = "PILLION_TLS_SECRET", hide_env_values = true)]
    pub tls_secret: Option<String>,
    /// self-signed: a MutatingWebhookConfiguration to write caBundle into; may be given several times.
    #[arg(long, value_name = "NAME", env = "PILLION_MUTATING_WEBHOOK_CONFIGURATION", hide_env_values = true)]
    #[arg(value_delimiter = ',')]
    pub mutating_webhook_configuration: Vec<String>,
    /// The same for ValidatingWebhookConfigurations.
    #[arg(long, value_name = "NAME", env = "PILLION_VALIDATING_WEBHOOK_CONFIGURATION", hide_env_values = true)]
    #[arg(value_delimiter = ',')]
    pub validating_webhook_configuration: Vec<String>,
    /// The same for CustomResourceDefinitions with a conversion webhook.
    #[arg(long, value_name = "NAME", env = "PILLION_CUSTOM_RESOURCE_DEFINITION", hide_env_values = true)]
    #[arg(value_delimiter = ',')]
    pub custom_resource_definition: Vec<String>,
    /// What answers look-ups of Namespaces, ServiceAccounts and so on [default: live].
    #[arg(long, value_enum, value_name = "WHAT", env = "PILLION_CLUSTER", hide_env_values = true)]
    pub cluster: Option<Cluster>,
    /// How old an answer from a watch may be; 0: every look-up is a live read [default: 30s].
    #[arg(long, value_name = "DURATION", env = "PILLION_CACHE_MAX_STALENESS", hide_env_values = true)]
    pub cache_max_staleness: Option<Span>,
    /// A kind to watch, as in apps/v1/ControllerRevision@kruise-system; may be given several times [default: v1/Namespace,
    /// v1/ServiceAccount, and the ConfigMaps in the namespace of bundleRef].
    #[arg(long, value_name = "KIND", env = "PILLION_CACHE_WATCH", hide_env_values = true, value_delimiter = ',')]
    pub cache_watch: Vec<String>,
    /// How long an evaluation may take, look-ups included [default: 5s].
    #[arg(long, value_name = "DURATION", env = "PILLION_EVALUATION_TIMEOUT", hide_env_values = true)]
    pub evaluation_timeout: Option<Span>,
    /// The memory of an evaluation [default: 64Mi].
    #[arg(long, value_name = "BYTES", env = "PILLION_EVALUATION_MEMORY", hide_env_values = true)]
    pub evaluation_memory: Option<Size>,
    /// Evaluations that compute at a time [default: one per core].
    #[arg(long, value_name = "NUMBER", env = "PILLION_CORES", hide_env_values = true)]
    pub cores: Option<u16>,
    /// Evaluations at a time, those that wait for the API server included [default: 32 more than cores].
    #[arg(long, value_name = "NUMBER", env = "PILLION_EVALUATIONS", hide_env_values = true)]
    pub evaluations: Option<u16>,
    /// Requests that wait for an evaluation; more are answered with 503 at once [default: 128].
    #[arg(long, value_name = "NUMBER", env = "PILLION_QUEUE", hide_env_values = true)]
    pub queue: Option<u16>,
    /// The longest AdmissionReview [default: 3Mi].
    #[arg(long, value_name = "BYTES", env = "PILLION_MAX_BODY", hide_env_values = true)]
    pub max_body: Option<Size>,
    /// The longest ConversionReview, which may hold a whole list [default: 32Mi].
    #[arg(long, value_name = "BYTES", env = "PILLION_MAX_CONVERSION_BODY", hide_env_values = true)]
    pub max_conversion_body: Option<Size>,
    /// Connections at a time [default: 1024].
    #[arg(long, value_name = "NUMBER", env = "PILLION_MAX_CONNECTIONS", hide_env_values = true)]
    pub max_connections: Option<u16>,
    /// How long to serve on after SIGTERM, not ready any more, while endpoints are updated [default: 5s].
    #[arg(long, value_name = "DURATION", env = "PILLION_DRAIN_DELAY", hide_env_values = true)]
    pub drain_delay: Option<Span>,
    /// How much to log [default: info].
    #[arg(long, value_enum, value_name = "LEVEL", env = "PILLION_LOG_LEVEL", hide_env_values = true)]
    pub log_level: Option<Level>,
    /// How to log [default: auto].
    #[arg(long, value_enum, value_name = "FORMAT", env = "PILLION_LOG_FORMAT", hide_env_values = true)]
    pub log_format: Option<LogFormat>,
}

impl Options {
    /// Returns these options, with the file's value for each that is not set.
    ///
    /// # Errors
    /// If the file cannot be read, or has an unknown key.
    pub fn with_file(self, path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(self) };
        let source = manifest::Source::read(path)?;
        match pillion_yaml::from_str::<Option<Self>>(&source.text) {
            Ok(None) => Ok(self),
            Ok(Some(file)) => Ok(self.or(file)),
            Err(problem) => bail!("{}:{}: {problem}", source.name, source.line(problem.range.start)),
        }
    }

    /// Returns these options, with the value of `other` for each that is not set.
    fn or(self, other: Self) -> Self {
        // Destructure `other`, so that the compiler reports a forgotten field.
        let Self {
            settings,
            module,
            listen,
            health_listen,
            certificates,
            tls_cert_file,
            tls_key_file,
            ca_file,
            namespace,
            service_name,
            tls_name,
            tls_secret,
            mutating_webhook_configuration,
            validating_webhook_configuration,
            custom_resource_definition,
            cluster,
            cache_max_staleness,
            cache_watch,
            evaluation_timeout,
            evaluation_memory,
            cores,
            evaluations,
            queue,
            max_body,
            max_conversion_body,
            max_connections,
            drain_delay,
            log_level,
            log_format,
        } = other;
        let list = |mine: Vec<String>, other: Vec<String>| if mine.is_empty() { other } else { mine };
        Self {
            settings: self.settings.or(settings),
            module: self.module.or(module),
            listen: self.listen.or(listen),
            health_listen: self.health_listen.or(health_listen),
            certificates: self.certificates.or(certificates),
            tls_cert_file: self.tls_cert_file.or(tls_cert_file),
            tls_key_file: self.tls_key_file.or(tls_key_file),
            ca_file: self.ca_file.or(ca_file),
            namespace: self.namespace.or(namespace),
            service_name: self.service_name.or(service_name),
            tls_name: list(self.tls_name, tls_name),
            tls_secret: self.tls_secret.or(tls_secret),
            mutating_webhook_configuration: list(self.mutating_webhook_configuration, mutating_webhook_configuration),
            validating_webhook_configuration: list(
                self.validating_webhook_configuration,
                validating_webhook_configuration,
            ),
            custom_resource_definition: list(self.custom_resource_definition, custom_resource_definition),
            cluster: self.cluster.or(cluster),
            cache_max_staleness: self.cache_max_staleness.or(cache_max_staleness),
            cache_watch: list(self.cache_watch, cache_watch),
            evaluation_timeout: self.evaluation_timeout.or(evaluation_timeout),
            evaluation_memory: self.evaluation_memory.or(evaluation_memory),
            cores: self.cores.or(cores),
            evaluations: self.evaluations.or(evaluations),
            queue: self.queue.or(queue),
            max_body: self.max_body.or(max_body),
            max_conversion_body: self.max_conversion_body.or(max_conversion_body),
            max_connections: self.max_connections.or(max_connections),
            drain_delay: self.drain_delay.or(drain_delay),
            log_level: self.log_level.or(log_level),
            log_format: self.log_format.or(log_format),
        }
    }
}
