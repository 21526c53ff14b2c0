//! The choice of controllers and their options, shared by `pillion controller` and `pillion plan`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{CommandFactory as _, Parser as _};
use kube::Config;
use pillion_controllers::registry::{self, Item, Name, Options};
use pillion_controllers::rollout::{self, LeaseName};
use pillion_controllers::{account_permissions, bundle, merged, sidecar_tokens};
use pillion_plan::merged::Times;
use pillion_service_accounts::authority::Authority;
use pillion_service_accounts::token_controller::SigningKey;
use pillion_service_accounts::{legacy_token_cleaner, root_ca, token_controller};
use pillion_terminal::units::Span;

/// The controllers to run, and the settings.
#[derive(Clone, Debug, clap::Args)]
pub struct Choice {
    /// The policy's settings: a file of them, or a Kubewarden policy that has them. Read again when it changes.
    #[arg(long, value_name = "FILE", env = "PILLION_SETTINGS", hide_env_values = true)]
    pub settings: Option<PathBuf>,
    /// Which controllers run: `*` for those that are on by default, `<name>` for one more, `-<name>` for one less
    /// [default: *].
    #[arg(long, value_name = "NAME,...", env = "PILLION_CONTROLLERS", hide_env_values = true)]
    #[arg(value_delimiter = ',', allow_hyphen_values = true)]
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
    /// sidecar-tokens: how long a token lives, at least 10m; the API server may shorten it [default: 1h].
    #[arg(long, value_name = "DURATION", env = "PILLION_TOKEN_LIFETIME", hide_env_values = true)]
    pub token_lifetime: Option<Span>,
    /// merged-serviceaccounts: how long a merged account is not needed before it is collected [default: 10m].
    #[arg(long, value_name = "DURATION", env = "PILLION_COLLECT_AFTER", hide_env_values = true)]
    pub collect_after: Option<Span>,
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
    /// legacy-token-cleaner: how long a token has to be unused before it becomes invalid, and invalid before it goes
    /// [default: 8760h].
    #[arg(long, value_name = "DURATION", env = "PILLION_LEGACY_TOKEN_PERIOD", hide_env_values = true)]
    pub legacy_token_period: Option<Span>,
    /// sidecarset-rollout: the Lease of OpenKruise's manager; nothing is rolled out while it is renewed [default:
    /// kruise-system/kruise-manager].
    #[arg(long, value_name = "NAMESPACE/NAME", env = "PILLION_OPENKRUISE_LEASE", hide_env_values = true)]
    pub openkruise_lease: Option<LeaseName>,
}

/// How long a token lives.
const TOKEN_LIFETIME: Span = Span(Duration::from_hours(1));
/// How long a merged account is not needed before it is collected.
const COLLECT_AFTER: Span = Span(Duration::from_mins(10));
/// How long a token has to be unused: a year.
const LEGACY_TOKEN_PERIOD: Span = Span(Duration::from_hours(8760));

/// The controllers of a process and their options.
#[derive(Clone, Debug, clap::Parser)]
pub struct Running {
    /// The controllers.
    #[command(flatten)]
    pub choice: Choice,
    /// Their options.
    #[command(flatten)]
    pub tuning: Tuning,
}

impl Running {
    /// Reads the command line of a process, whose first word is the command. Passes over its other options.
    ///
    /// # Errors
    /// A value is not valid.
    pub fn of_process(words: &[String]) -> Result<Self, clap::Error> {
        let command = Self::command();
        let is_known = |word: &str| {
            let name = word.strip_prefix("--").map(|word| word.split_once('=').map_or(word, |(name, _)| name));
            name.is_some_and(|name| command.get_arguments().any(|argument| argument.get_long() == Some(name)))
        };
        let (mut known, mut is_value) = (Vec::new(), false);
        for word in words.iter().skip(1) {
            let is_option = word.starts_with("--");
            if is_option && is_known(word) || !is_option && is_value {
                known.push(word.as_str());
            }
            is_value = is_option && is_known(word) && !word.contains('=');
        }
        Self::try_parse_from(std::iter::once("pillion").chain(known))
    }
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
    /// Returns these options, and for those that are not given the options of `other`. Files are not taken over: those of
    /// another process are not here.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            token_namespaces: if self.token_namespaces.is_empty() {
                other.token_namespaces
            } else {
                self.token_namespaces
            },
            token_lifetime: self.token_lifetime.or(other.token_lifetime),
            collect_after: self.collect_after.or(other.collect_after),
            bundle_settings: self.bundle_settings || other.bundle_settings,
            force_token_controller: self.force_token_controller || other.force_token_controller,
            root_ca_file: self.root_ca_file,
            legacy_token_period: self.legacy_token_period.or(other.legacy_token_period),
            openkruise_lease: self.openkruise_lease.or(other.openkruise_lease),
        }
    }

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
        let lifetime = self.token_lifetime.unwrap_or(TOKEN_LIFETIME).0;
        Ok(Options {
            merged: merged::Options {
                times: Times { idle: seconds(self.collect_after.unwrap_or(COLLECT_AFTER)), ..Times::default() },
            },
            sidecar_tokens: sidecar_tokens::Options {
                lifetime: u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX),
                namespaces: (!namespaces.is_empty()).then(|| namespaces.iter().cloned().collect()),
            },
            bundle: bundle::Options { with_settings: self.bundle_settings, ..bundle::Options::default() },
            default_account: (),
            root_ca: root_ca::Options { authority: authority.clone() },
            token_controller: token_controller::Options {
                authority,
                key,
                life: lifetime,
                force: self.force_token_controller,
            },
            legacy_token_cleaner: legacy_token_cleaner::Options {
                period: self.legacy_token_period.unwrap_or(LEGACY_TOKEN_PERIOD).0,
                ..legacy_token_cleaner::Options::default()
            },
            account_permissions: account_permissions::Options::default(),
            rollout: rollout::Options { openkruise_lease: self.openkruise_lease.clone().unwrap_or_default() },
        })
    }

    fn authority(&self, chosen: &BTreeSet<Name>, config: Option<&Config>) -> anyhow::Result<Option<Authority>> {
        const REMEDY: &str = "root-ca-publisher has nothing to publish; name a file with --root-ca-file";
        if let Some(path) = &self.root_ca_file {
            let pem = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            return Ok(Some(Authority::from_pem(pem).with_context(|| path.display().to_string())?));
        }
        let is_needed = chosen.contains(&Name::RootCaPublisher);
        match config.map(Authority::from_config) {
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn running(words: &[&str]) -> Running {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        Running::of_process(&words).unwrap()
    }

    #[rstest]
    #[case::as_rendered(&["controller", "--controllers=bundle,sidecar-tokens", "--lease=a", "--token-namespaces=shop,news"])]
    #[case::in_two_words(&[
        "controller", "--lease", "a", "--controllers", "bundle,sidecar-tokens", "--token-namespaces", "shop,news",
    ])]
    fn the_command_line_of_a_process_is_read_without_its_other_options(#[case] words: &[&str]) {
        let Running { choice, tuning } = running(words);
        assert_eq!(choice.controllers, [Item::On(Name::Bundle), Item::On(Name::SidecarTokens)]);
        assert_eq!(tuning.token_namespaces, ["shop", "news"]);
        assert!(!tuning.bundle_settings);
    }

    #[test]
    fn given_options_win_over_those_of_the_process() {
        let given = running(&["", "--token-lifetime=2h", "--openkruise-lease=a/b"]).tuning;
        let installed =
            ["", "--token-lifetime=3h", "--openkruise-lease=c/d", "--collect-after=1m", "--bundle-settings"];
        let both = given.or(running(&installed).tuning);
        let hours = |hours| Some(Span(Duration::from_hours(hours)));
        assert_eq!((both.token_lifetime, both.collect_after), (hours(2), Some(Span(Duration::from_mins(1)))));
        assert_eq!(both.openkruise_lease.unwrap().to_string(), "a/b");
        assert!(both.bundle_settings);
    }

    #[test]
    fn without_items_the_default_controllers_run() {
        let chosen = running(&[""]).choice.chosen().unwrap();
        assert_eq!(chosen, registry::chosen(&[Item::Default]));
    }
}
