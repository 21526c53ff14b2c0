//! `pillion uninstall`: removes from the cluster what would be in the way once Pillion's processes are gone.

mod conversion;
mod own;

use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use kube::Config;
use pillion_cluster::{Kubeconfig, Writer};
use pillion_controllers::merged::{self, Uninstalled};
use pillion_runtime::metrics::Metrics;
use pillion_runtime::{Context, client};
use pillion_terminal::{Status, Terminal};
use tokio::sync::watch;

use self::conversion::Service;

/// The field manager of the writes.
const MANAGER: &str = "pillion-uninstall";

const ABOUT: &str = "\
Remove from the cluster what would be in the way once Pillion's processes are gone.

conversion      the definition of SidecarSets no longer calls the server to convert between versions. Otherwise no \
SidecarSet could be read or deleted without the server. SidecarSets stay as they are, and each version of the definition \
gets the fields that only the other one has, so that no field is lost. A definition that calls another Service, such as \
OpenKruise's, is not changed.
merged-objects  merged ServiceAccounts, Roles and RoleBindings lose the finalizers that would keep their namespaces from \
being deleted. Those that no Pod uses are deleted.
own-objects     what the processes have made for themselves in their namespace is deleted: the server's Secret with its \
certificate, the controllers' Leases, and the ConfigMaps with compiled SidecarSets.

Delete the webhook configurations, the server and the controllers first; docs/deploying.md has the steps. The chart runs \
this command when it is uninstalled.";

const EXAMPLES: &str = "\
Examples:
  pillion uninstall
  # an installation with another name
  pillion uninstall --service-name sidecars --namespace sidecars-system
  # with Kubewarden, which converts nothing
  pillion uninstall --without conversion

Exit codes: 0 done, and doing it again does the rest of what was in use; 2 not done.";

/// The arguments of `pillion uninstall`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// The Service of Pillion's server.
    #[arg(long, value_name = "NAME", default_value = "pillion")]
    service_name: String,
    /// The namespace of the installation.
    #[arg(short, long, value_name = "NAME", default_value = "pillion-system")]
    namespace: String,
    /// The Secret with the server's certificate; "" if the server has not made it.
    #[arg(long, value_name = "NAME", default_value = "pillion-serve-tls")]
    tls_secret: String,
    /// The Leases of the controllers.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    #[arg(default_value = "pillion-controller,pillion-controller-rollout")]
    lease: Vec<String>,
    /// Parts to leave out.
    #[arg(long, value_enum, value_name = "PART,...", value_delimiter = ',')]
    without: Vec<Part>,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
}

/// A part of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The conversion webhook of the definition of SidecarSets.
    Conversion,
    /// Merged ServiceAccounts, Roles and RoleBindings.
    MergedObjects,
    /// Objects in the installation's namespace that its processes have created for their own use.
    OwnObjects,
}

/// Runs `pillion uninstall`.
///
/// # Errors
/// If there is no cluster, or a part is not done; the other parts are done all the same.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let (runtime, writer) = Writer::new(&args.kubeconfig, MANAGER)?;
    let mut errors = Vec::new();
    if !args.without.contains(&Part::Conversion) {
        let service = Service { name: args.service_name.clone(), namespace: args.namespace.clone() };
        match runtime.block_on(conversion::end(&writer, &service)) {
            Ok(outcome) => writeln!(terminal.out(), "{outcome}")?,
            Err(error) => errors.push(error.to_string()),
        }
    }
    if !args.without.contains(&Part::MergedObjects) {
        let config = runtime.block_on(args.kubeconfig.config())?;
        match runtime.block_on(release(config)) {
            Ok(text) => writeln!(terminal.out(), "merged objects: {text}")?,
            Err(error) => errors.push(format!("merged objects: {error:#}")),
        }
    }
    if !args.without.contains(&Part::OwnObjects) {
        let own = own::Own { namespace: &args.namespace, tls_secret: &args.tls_secret, leases: &args.lease };
        match runtime.block_on(own::delete(&writer, own)) {
            Ok(lines) => lines.iter().try_for_each(|line| writeln!(terminal.out(), "{line}"))?,
            Err(error) => errors.push(error.to_string()),
        }
    }
    if !errors.is_empty() {
        bail!("{}", errors.join("; "));
    }
    Ok(Status::Done)
}

/// Releases or deletes merged objects, and returns the sentence about it.
///
/// # Errors
/// The first request that fails.
pub async fn release(config: Config) -> anyhow::Result<String> {
    let client = client::client(config, Arc::new(Metrics::new()), None).context("the cluster cannot be asked")?;
    // These settings are not read.
    let context = Context::new(client, watch::channel(Arc::default()).1);
    let Uninstalled { released, deleted, in_use } = merged::uninstall(&context).await?;
    Ok(format!("{released} objects released, {deleted} deleted, {in_use} still used by Pods"))
}
