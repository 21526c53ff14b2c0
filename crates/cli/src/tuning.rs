//! The choice of controllers and their options, shared by `pillion controller` and `pillion plan`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use kube::Config;
use pillion_controller::authority::Authority;
use pillion_controller::registry::{self, Item, Name, Options};
use pillion_controller::rollout::{self, LeaseName};
use pillion_controller::token_controller::SigningKey;
use pillion_controller::{bundle, legacy_token_cleaner, merged, root_ca, sidecar_tokens, token_controller};
use pillion_plan::merged::Times;

use crate::units::Span;

/// The controllers to run, and the settings.
#[derive(Clone, Debug, clap::Args)]
pub struct Choice {
    /// The policy's settings: a file of them, or a Kubewarden policy that has them. Read again when it changes.
    #[arg(long, value_name = "FILE", env = "PILLION_SETTINGS", hide_env_values = true)]
    pub settings: Option<PathBuf>,
    /// Which controllers run: `*` for those that are on by default, `<name>` for one more, `-<name>` for one less.
    #[arg(long, value_name = "NAME,...", env = "PILLION_CONTROLLERS", hide_env_values = true)]
    #[arg(value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub controllers: Vec<Item>,
}

/// The options of single controllers.
#[allow(clippy::doc_markdown, reason = "these are texts for terminals")]
#[derive(Clone, Debug, clap::Args)]
pub struct Tuning {
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
    /// bundle: also keep the SidecarSets of the settings in the ConfigMap of bundleRef, for policies whose own settings
    /// lack them.
    #[arg(long, env = "PILLION_BUNDLE_SETTINGS", hide_env_values = true)]
    pub bundle_settings: bool,
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
    /// sidecarset-rollout: the Lease of OpenKruise's manager; nothing is rolled out while it is renewed.
    #[arg(long, value_name = "NAMESPACE/NAME", env = "PILLION_OPENKRUISE_LEASE", hide_env_values = true)]
    #[arg(default_value_t)]
    pub openkruise_lease: LeaseName,
}

impl Choice {
    /// Returns the path of the settings.
    ///
    /// # Errors
    /// If no path is given.
    pub fn settings(&self) -> anyhow::Result<&Path> {
        match &self.settings {
            Some(path) => Ok(path),
            None => bail!("no settings: give a file with --settings or PILLION_SETTINGS"),
        }
    }

    /// Returns the controllers to run.
    ///
    /// # Errors
    /// If no controller is left.
    pub fn chosen(&self) -> anyhow::Result<BTreeSet<Name>> {
        let chosen = registry::chosen(&self.controllers);
        if chosen.is_empty() {
            bail!("--controllers: none of them is left");
        }
        Ok(chosen)
    }
}

impl Tuning {
    /// Returns the options of all controllers. `config` is the connection to the API server, if any.
    ///
    /// # Errors
    /// If a file cannot be read, or root-ca-publisher runs without an authority.
    pub fn options(
        &self,
        chosen: &BTreeSet<Name>,
        key: Option<SigningKey>,
        config: Option<&Config>,
    ) -> anyhow::Result<Options> {
        let authority = self.authority(chosen, config)?;
        let namespaces = &self.token_namespaces;
        Ok(Options {
            merged: merged::Options { times: Times { idle: seconds(self.collect_after), ..Times::default() } },
            sidecar_tokens: sidecar_tokens::Options {
                lifetime: u32::try_from(self.token_lifetime.0.as_secs()).unwrap_or(u32::MAX),
                namespaces: (!namespaces.is_empty()).then(|| namespaces.iter().cloned().collect()),
            },
            bundle: bundle::Options { with_settings: self.bundle_settings, ..bundle::Options::default() },
            default_account: (),
            root_ca: root_ca::Options { authority: authority.clone() },
            token_controller: token_controller::Options {
                authority,
                key,
                life: self.token_lifetime.0,
                force: self.force_token_controller,
            },
            legacy_token_cleaner: legacy_token_cleaner::Options {
                period: self.legacy_token_period.0,
                ..legacy_token_cleaner::Options::default()
            },
            rollout: rollout::Options { openkruise_lease: self.openkruise_lease.clone() },
        })
    }

    fn authority(&self, chosen: &BTreeSet<Name>, config: Option<&Config>) -> anyhow::Result<Option<Authority>> {
        const REMEDY: &str = "root-ca-publisher has nothing to publish; name a file with --root-ca-file";
        if let Some(path) = &self.root_ca_file {
            let pem = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            return Ok(Some(Authority::from_pem(pem).with_context(|| path.display().to_string())?));
        }
        let is_needed = chosen.contains(&Name::RootCaPublisher);
        match config.map(Authority::of) {
            Some(Ok(authority)) => Ok(Some(authority)),
            Some(Err(error)) if is_needed => Err(error).context(REMEDY),
            None if is_needed => bail!(REMEDY),
            Some(Err(_)) | None => Ok(None),
        }
    }
}

/// Returns a duration in whole seconds.
fn seconds(span: Span) -> i64 {
    i64::try_from(span.0.as_secs()).unwrap_or(i64::MAX)
}
