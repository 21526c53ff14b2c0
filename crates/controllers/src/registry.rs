//! All controllers, and the choice among them: `--controllers`, in the syntax of kube-controller-manager.

#[cfg(test)]
mod metrics;

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::str::FromStr;

use pillion_runtime::context::Context;
use pillion_runtime::controller::Controller;
use pillion_runtime::queue;
use pillion_runtime::rights::{Right, Situation};
use pillion_service_accounts::default_account::DefaultAccounts;
use pillion_service_accounts::legacy_token_cleaner::LegacyTokenCleaner;
use pillion_service_accounts::root_ca::RootCaPublisher;
use pillion_service_accounts::token_controller::TokenController;
use tokio::task::JoinSet;

use crate::account_permissions::AccountPermissions;
use crate::bundle::BundleKeeper;
use crate::merged::MergedAccounts;
use crate::pods;
use crate::rollout::SidecarSetRollout;
use crate::sidecar_tokens::SidecarTokens;

/// Declares the controllers: for each its name in code, the name of its options, and the implementation.
macro_rules! controllers {
    ($($(#[$doc:meta])* $name:ident, $options:ident: $controller:ty;)*) => {
        /// A controller.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Name {
            $($(#[$doc])* $name,)*
        }

        /// All controllers.
        pub const ALL: &[Name] = &[$(Name::$name),*];

        /// The options of the controllers.
        #[derive(Clone, Default)]
        pub struct Options {
            $($(#[$doc])* pub $options: <$controller as Controller>::Options,)*
        }

        impl Name {
            /// Returns the name as in `--controllers`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => <$controller>::NAME,)*
                }
            }

            /// Whether `*` includes this controller. In nearly every cluster, kube-controller-manager does the work of
            /// the others.
            pub const fn is_on_by_default(self) -> bool {
                match self {
                    $(Self::$name => <$controller>::IS_ON_BY_DEFAULT,)*
                }
            }

            /// Returns the rights that this controller needs.
            pub fn rights(self, situation: &Situation) -> Vec<Right> {
                match self {
                    $(Self::$name => <$controller>::rights(situation),)*
                }
            }

            /// Whether a preview reconciles this controller before the others.
            pub(crate) const fn comes_first(self) -> bool {
                match self {
                    $(Self::$name => <$controller>::COMES_FIRST,)*
                }
            }
        }

        /// Runs the controllers for as long as it is polled. They never end by themselves; if one does, returns its
        /// name.
        pub async fn run(context: Context, names: &BTreeSet<Name>, options: Options) -> Name {
            let mut tasks = JoinSet::new();
            prepare(&context, names);
            for name in names {
                let context = context.clone();
                match name {
                    $(Name::$name => {
                        start(&mut tasks, *name, queue::run::<$controller>(context, options.$options.clone()));
                    })*
                }
            }
            ended(&mut tasks, names).await
        }

        /// Calls `visit` for each of these controllers, with its implementation and options.
        pub(crate) async fn visit<V: Visitor>(
            visitor: &mut V,
            names: impl IntoIterator<Item = Name>,
            options: &Options,
        ) -> Result<(), V::Error> {
            for name in names {
                match name {
                    $(Name::$name => visitor.visit::<$controller>(name, options.$options.clone()).await?,)*
                }
            }
            Ok(())
        }
    };
}

controllers! {
    /// Merged ServiceAccounts (MRG-1).
    MergedServiceAccounts, merged: MergedAccounts;
    /// Tokens for isolated sidecars (TOK-5).
    SidecarTokens, sidecar_tokens: SidecarTokens;
    /// The cluster's SidecarSets for the policy (SET-1).
    Bundle, bundle: BundleKeeper;
    /// ServiceAccounts called `default` (ACC-1).
    ServiceAccount, default_account: DefaultAccounts;
    /// Token Secrets (TKN-1).
    ServiceAccountToken, token_controller: TokenController;
    /// ConfigMaps called `kube-root-ca.crt` (RUN-6).
    RootCaPublisher, root_ca: RootCaPublisher;
    /// Unused token Secrets (CLN-2).
    LegacyTokenCleaner, legacy_token_cleaner: LegacyTokenCleaner;
    /// The sidecars of running Pods (ROLL-12).
    SidecarSetRollout, rollout: SidecarSetRollout;
    /// What the accounts of SidecarSets may do (ESC-9).
    AccountPermissions, account_permissions: AccountPermissions;
}

/// Prepares what controllers share before any of them starts.
pub(crate) fn prepare(context: &Context, names: &BTreeSet<Name>) {
    if names.contains(&Name::Bundle) {
        context.bundled.await_it();
    }
    if names.contains(&Name::SidecarSetRollout) {
        pods::of_rollouts(context);
    }
}

/// Does something with each controller.
pub(crate) trait Visitor {
    /// Why it stopped.
    type Error;

    /// Does it with one controller.
    fn visit<C: Controller>(
        &mut self,
        name: Name,
        options: C::Options,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

fn start(tasks: &mut JoinSet<Name>, name: Name, controller: impl Future<Output = ()> + Send + 'static) {
    tracing::info!(controller = %name, "started");
    tasks.spawn(async move {
        controller.await;
        name
    });
}

async fn ended(tasks: &mut JoinSet<Name>, names: &BTreeSet<Name>) -> Name {
    match tasks.join_next().await {
        Some(Ok(name)) => name,
        // A controller that panics ends the process, which is then restarted.
        Some(Err(error)) => {
            tracing::error!(%error, "a controller ended");
            names.first().copied().unwrap_or(Name::Bundle)
        }
        None => std::future::pending().await,
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One item of `--controllers`: `*`, `<name>` or `-<name>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// The controllers that are on by default.
    Default,
    /// Run this controller.
    On(Name),
    /// Do not run this controller.
    Off(Name),
}

impl FromStr for Item {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Default);
        }
        let (is_on, name) = text.strip_prefix('-').map_or((true, text), |name| (false, name));
        let Some(name) = ALL.iter().copied().find(|known| known.as_str() == name) else {
            let known: Vec<&str> = ALL.iter().map(|name| name.as_str()).collect();
            return Err(format!("no controller has this name; there are {}", known.join(", ")));
        };
        Ok(if is_on { Self::On(name) } else { Self::Off(name) })
    }
}

/// Returns the controllers to run. A controller that is turned off stays off. Without items, those that are on by
/// default run.
pub fn chosen(items: &[Item]) -> BTreeSet<Name> {
    let is = |item: Item| items.contains(&item);
    let by_default = items.is_empty() || is(Item::Default);
    ALL.iter()
        .copied()
        .filter(|name| (is(Item::On(*name)) || (by_default && name.is_on_by_default())) && !is(Item::Off(*name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing_is_said("", "merged-serviceaccounts,sidecar-tokens,bundle")]
    #[case::star("*", "merged-serviceaccounts,sidecar-tokens,bundle")]
    #[case::one("bundle", "bundle")]
    #[case::one_more("*,serviceaccount", "merged-serviceaccounts,sidecar-tokens,bundle,serviceaccount")]
    #[case::one_less("*,-bundle", "merged-serviceaccounts,sidecar-tokens")]
    #[case::off_wins("bundle,-bundle", "")]
    fn controllers_are_chosen(#[case] items: &str, #[case] running: &str) {
        let items: Result<Vec<Item>, String> =
            items.split(',').filter(|item| !item.is_empty()).map(str::parse).collect();
        let names: Vec<_> = chosen(&items.expect("items")).into_iter().map(Name::as_str).collect();
        assert_eq!(names.join(","), running);
    }

    #[test]
    fn an_unknown_controller_is_refused_with_those_that_there_are() {
        let error = "-tokens".parse::<Item>().expect_err("no controller");
        assert!(error.contains("sidecar-tokens"), "{error}");
    }
}
