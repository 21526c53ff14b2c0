//! `pillion controller`: writes the objects that the policy needs; a policy cannot write to the cluster.

mod options;

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Subcommand;
use pillion_admission::settings::Settings;
use pillion_cluster::Kubeconfig;
use pillion_controllers::registry::{self, Name};
use pillion_runtime::client::{self, RequestLimit};
use pillion_runtime::effects::Events;
use pillion_runtime::leader::{Candidate, Timings};
use pillion_runtime::metrics::Metrics;
use pillion_runtime::readiness::Readiness;
use pillion_runtime::{Context, health};
use pillion_service_accounts::token_controller::SigningKey;
use pillion_terminal::{Status, Terminal};
use tokio::net::TcpListener;
use tokio::sync::watch;

use self::options::Options;
use crate::commands::uninstall;
use crate::daemon::settings::SettingsFile;
use crate::daemon::signals::Signals;
use crate::daemon::{logging, own_namespace};

const ABOUT: &str = "\
Keep in the cluster what the policy needs there and cannot write.

merged-serviceaccounts  ServiceAccount, Role and RoleBinding for sidecars that share an identity
sidecar-tokens          Secrets with the tokens of isolated sidecars
bundle                  the cluster's SidecarSets, compiled, in the ConfigMap of settings.bundleRef
off unless named:
account-permissions     whether the ServiceAccounts of SidecarSets hold what no sidecar may have
and, for clusters whose kube-controller-manager does not do it:
serviceaccount          the ServiceAccount \"default\" of each namespace
serviceaccount-token    token Secrets
root-ca-publisher       the ConfigMap kube-root-ca.crt of each namespace
legacy-token-cleaner    unused token Secrets

Of several replicas only the one that holds the Lease works. `pillion manifest controller` writes what a cluster needs to run \
it, docs/controller.md has the rest.";

const EXAMPLES: &str = "\
Examples:
  pillion controller --settings examples/identity-isolate/settings.yaml --check
  pillion controller --settings examples/identity-merge/settings.yaml --controllers bundle --check

Exit codes: 0 after SIGTERM or Ctrl-C; 2 if it cannot work, or has lost the Lease and must be restarted.";

const UNINSTALL_EXAMPLES: &str = "\
Examples:
  pillion controller uninstall

Exit codes: 0 done, and doing it again does the rest of what was in use; 2 not done.";

/// The arguments of `pillion controller`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    options: Options,
    /// Check options and settings, say what would run, and end.
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Release or delete merged objects, which is one part of the command uninstall.
    #[command(after_help = UNINSTALL_EXAMPLES)]
    Uninstall,
}

/// Runs `pillion controller`.
///
/// # Errors
/// If it cannot work: an invalid option, no cluster, no settings, or a lost Lease.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let options = &args.options;
    logging::start(options.log_level, options.log_format);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("the event loop")?;
    if let Some(What::Uninstall) = args.what {
        return runtime.block_on(release(terminal));
    }
    let path = options.choice.settings()?;
    let chosen = options.choice.chosen()?;
    let key = options.service_account_private_key_file.as_deref().map(read_key).transpose()?;
    let (file, settings) = SettingsFile::read(path)?;
    if args.check {
        let names: Vec<&str> = chosen.iter().map(|name| name.as_str()).collect();
        writeln!(terminal.out(), "{}: valid; would run {}", path.display(), names.join(", "))?;
        return Ok(Status::Done);
    }
    let work = Work { options, chosen, key, file, settings };
    let status = runtime.block_on(work.until_stopped());
    runtime.shutdown_background();
    status
}

fn read_key(path: &std::path::Path) -> anyhow::Result<SigningKey> {
    let pem = std::fs::read(path).with_context(|| path.display().to_string())?;
    SigningKey::from_pem(&pem).with_context(|| path.display().to_string())
}

async fn release(terminal: &mut Terminal) -> anyhow::Result<Status> {
    let config = Kubeconfig::default().config().await?;
    writeln!(terminal.out(), "{}", uninstall::release(config).await?)?;
    Ok(Status::Done)
}

struct Work<'a> {
    options: &'a Options,
    chosen: BTreeSet<Name>,
    key: Option<SigningKey>,
    file: SettingsFile,
    settings: Settings,
}

impl Work<'_> {
    /// Waits for the Lease, then runs the controllers until a signal arrives or the Lease is lost.
    async fn until_stopped(self) -> anyhow::Result<Status> {
        let Self { options, chosen, key, file, settings } = self;
        let mut signals = Signals::new()?;
        let config = Kubeconfig::default().config().await?;
        let controller_options = options.tuning.options(&chosen, key, Some(&config))?;
        let metrics = Arc::new(Metrics::new());
        metrics.leads(&options.lease, false);
        let client = client::client(config, Arc::clone(&metrics), RequestLimit::a_second(options.kube_api_qps))
            .context("the cluster cannot be asked")?;
        let readiness = Readiness::default();
        let listener = TcpListener::bind(options.health_listen)
            .await
            .with_context(|| format!("--health-listen {}", options.health_listen))?;
        let reporting = readiness.clone();
        tokio::spawn(health::serve(listener, Arc::clone(&metrics), Arc::new(move || reporting.report())));
        let (send, settings) = watch::channel(Arc::new(settings));
        let settings_metrics = Arc::clone(&metrics);
        tokio::spawn(file.watch(send, move |is_current| settings_metrics.settings_current(is_current)));

        let identity = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME")).ok();
        // In a container, the process has number 1 each time that the kubelet starts it: it is the same replica, and need not
        // wait until its own Lease has expired. A second program in the container is another one.
        let holder = format!("{}_{}", identity.as_deref().unwrap_or("pillion"), std::process::id());
        let namespace = own_namespace(options.namespace.as_deref());
        let mut candidate = Candidate::new(client.clone(), &namespace, &options.lease, holder, Timings::default());
        if !options.no_leader_election {
            tokio::select! {
                () = candidate.win() => {}
                () = signals.next() => return Ok(Status::Done),
            }
        }
        metrics.leads(&options.lease, true);
        let events = Events::new(client.clone(), identity);
        let context = Context { events, metrics, ..Context::new(client, settings) };
        readiness.works(Arc::clone(&context.store));
        let lost = async {
            if options.no_leader_election {
                std::future::pending::<()>().await;
            }
            candidate.hold().await;
        };
        tokio::select! {
            name = registry::run(context, &chosen, controller_options) => bail!("{name} ended, which it should not"),
            () = lost => bail!("the Lease is lost, and another replica may be at work"),
            () = signals.next() => {}
        }
        candidate.release().await;
        Ok(Status::Done)
    }
}
