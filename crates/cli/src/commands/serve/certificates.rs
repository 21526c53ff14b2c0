//! The serving certificate.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use kube::{Client, Config};
use pillion_certificates::{
    CaBundleTarget, Certificates, Files, SelfSigned, ServerNames, TemporaryAuthority, system_clock,
};
use pillion_server::Readiness;
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use super::options::{Cluster, Options, Source};
use crate::daemon::own_namespace;
use crate::files;

/// The name of the Service that `pillion manifest` makes.
const SERVICE: &str = "pillion";

/// The configured source of the certificate. Building it checks all related options.
pub(super) enum Wanted {
    SelfSigned(SelfSigned),
    Files(Files),
    Temporary { names: Vec<String>, ca_file: Option<PathBuf> },
}

/// A certificate, with the task that renews it if it has one.
pub(super) enum Provided {
    Kept(Certificates),
    // Holding the sender keeps the channel open.
    Fixed(watch::Sender<Arc<CertifiedKey>>),
}

impl Wanted {
    /// # Errors
    /// If an option is missing, or does not fit the others.
    pub(super) fn from_options(options: &Options) -> anyhow::Result<Self> {
        let source = options.certificates.unwrap_or_default();
        let of_files = [("tls-cert-file", &options.tls_cert_file), ("tls-key-file", &options.tls_key_file)];
        let unused = |what: &[(&str, bool)]| match what.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => bail!("--{name}: not used with --certificates {}", name_of(source)),
            None => Ok(()),
        };
        let given_files = of_files.map(|(name, path)| (name, path.is_some()));
        let given_targets = [
            ("mutating-webhook-configuration", !options.mutating_webhook_configuration.is_empty()),
            ("validating-webhook-configuration", !options.validating_webhook_configuration.is_empty()),
            ("custom-resource-definition", !options.custom_resource_definition.is_empty()),
            ("tls-secret", options.tls_secret.is_some()),
        ];
        let given_ca = [("ca-file", options.ca_file.is_some())];
        match source {
            Source::SelfSigned => {
                unused(&given_files)?;
                unused(&given_ca)?;
                if options.cluster == Some(Cluster::None) {
                    bail!(
                        "--cluster none: --certificates self-signed keeps its certificate in the cluster; use files or temporary"
                    );
                }
                Self::self_signed(options)
            }
            Source::Files => {
                unused(&given_targets)?;
                unused(&given_ca)?;
                let [certificate, key] = of_files;
                let needed = |(name, path): (&str, &Option<PathBuf>)| {
                    path.clone().with_context(|| format!("--{name}: needed with --certificates files"))
                };
                Ok(Self::Files(Files {
                    certificate: needed(certificate)?,
                    key: needed(key)?,
                    names: names(options)?,
                    interval: Files::INTERVAL,
                }))
            }
            Source::Temporary => {
                unused(&given_files)?;
                unused(&given_targets)?;
                let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
                let names = own.into_iter().chain(options.tls_name.iter().cloned()).collect();
                Ok(Self::Temporary { names, ca_file: options.ca_file.clone() })
            }
        }
    }

    fn self_signed(options: &Options) -> anyhow::Result<Self> {
        let all = |names: &[String], target: fn(String) -> CaBundleTarget| {
            names.iter().cloned().map(target).collect::<Vec<_>>()
        };
        let targets = [
            all(&options.mutating_webhook_configuration, CaBundleTarget::Mutating),
            all(&options.validating_webhook_configuration, CaBundleTarget::Validating),
            all(&options.custom_resource_definition, CaBundleTarget::Conversion),
        ];
        let service = options.service_name.as_deref().unwrap_or(SERVICE);
        let mut wanted =
            SelfSigned::for_service(service, &own_namespace(options.namespace.as_deref()), targets.concat())?;
        wanted.names = with_more(wanted.names, options)?;
        if let Some(secret) = &options.tls_secret {
            wanted.secret.clone_from(secret);
        }
        Ok(Self::SelfSigned(wanted))
    }

    /// Makes or reads the certificate, and keeps it up to date from now on.
    ///
    /// # Errors
    /// If there is no certificate at first, or no cluster to keep it in.
    pub(super) async fn provide(self) -> anyhow::Result<Provided> {
        Ok(match self {
            Self::Files(files) => Provided::Kept(pillion_certificates::from_files(files, system_clock())?),
            Self::SelfSigned(wanted) => {
                let config = Config::infer().await.context("--certificates self-signed: no cluster to keep them in")?;
                let client = Client::try_from(config).context("--certificates self-signed")?;
                Provided::Kept(pillion_certificates::self_signed(client, wanted, system_clock())?)
            }
            Self::Temporary { names, ca_file } => {
                let authority = TemporaryAuthority::new()?;
                if let Some(path) = ca_file {
                    files::write(&path, authority.pem().as_bytes()).context("--ca-file")?;
                }
                let (send, _) =
                    watch::channel(authority.certificate(&names.iter().map(String::as_str).collect::<Vec<_>>())?);
                Provided::Fixed(send)
            }
        })
    }
}

impl Provided {
    /// The certificate to serve.
    pub(super) fn newest(&self) -> watch::Receiver<Arc<CertifiedKey>> {
        match self {
            Self::Kept(certificates) => certificates.certificate(),
            Self::Fixed(send) => send.subscribe(),
        }
    }

    /// Adds a readiness check that fails until the API server can trust the certificate.
    pub(super) fn readiness(&self, readiness: Readiness) -> Readiness {
        let Self::Kept(certificates) = self else { return readiness };
        let status = certificates.status();
        readiness.when("trust", move || {
            let status = status.borrow();
            if status.ready { Ok(()) } else { Err(status.problems.join("; ")) }
        })
    }
}

/// Returns the names by which the API server may call; certificates in files must cover them.
fn names(options: &Options) -> anyhow::Result<ServerNames> {
    let of_service = match options.service_name.as_deref() {
        Some(service) => ServerNames::of_service(service, &own_namespace(options.namespace.as_deref()))?,
        // Without --service-name the name is unknown.
        None => ServerNames::default(),
    };
    with_more(of_service, options)
}

fn with_more(names: ServerNames, options: &Options) -> anyhow::Result<ServerNames> {
    options.tls_name.iter().try_fold(names, |names, name| names.and(name)).context("--tls-name")
}

fn name_of(source: Source) -> &'static str {
    match source {
        Source::SelfSigned => "self-signed",
        Source::Files => "files",
        Source::Temporary => "temporary",
    }
}
