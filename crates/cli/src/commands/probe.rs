//! `pillion probe`: proves in a cluster that a Pod gets its sidecar.

mod enforcer;
mod failed_call;
mod reason;

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pillion_cluster::{Kind, Kubeconfig, WriteError, Writer};
use pillion_install::installation::port_of_server;
use pillion_terminal::key_value;
use pillion_terminal::units::Span;
use pillion_terminal::{Status, Terminal};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use self::failed_call::FailedCall;
use self::reason::{Facts, Lack, containers, has};

/// The field manager of the request, which stores nothing.
const MANAGER: &str = "pillion-probe";
/// The time between two attempts.
const PAUSE: Duration = Duration::from_secs(2);
/// The time without output before a progress message.
const PATIENCE: Duration = Duration::from_secs(1);

const ABOUT: &str = "\
Ask the cluster for a Pod as a dry run, and check that it gets a sidecar.

The API server admits the Pod like any other, with all webhooks and policies, and stores nothing. So this proves the whole \
way: the SidecarSet is in the bundle or the settings, the webhook configurations are in place, the API server trusts the \
server, and the server answers. The Pod has one container and satisfies the restricted Pod Security Standard. The user of \
the kubeconfig needs the right to create Pods in the namespace. `helm test` runs this command.

While the Pod does not get the sidecar, the command tries again, and says on stderr what the last answer was. In the end \
it tells why, as far as the user may read SidecarSets, the Namespace, and the webhooks and settings of Pillion. If the API \
server cannot call a webhook, it tells by the error whether the cause is the network, the certificate or the server, and \
what to do; docs/guides/managed-control-planes.md has a part for each cause.

Exit codes: 0 the Pod gets the sidecar; 1 it does not within the time limit; 2 for other errors.";

const EXAMPLES: &str = "\
Examples:
  pillion probe log-agent --namespace shop --label app=web
  pillion probe log-agent -n shop -l app=web -l tier=front --timeout 30s";

/// The arguments of `pillion probe`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// The name of the container that the Pod should get.
    #[arg(value_name = "CONTAINER")]
    container: String,
    /// The namespace of the Pod.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// A label of the Pod; may be given several times.
    #[arg(short = 'l', long = "label", value_name = "KEY=VALUE", value_parser = key_value::label)]
    labels: Vec<(String, String)>,
    /// How long to try: a new SidecarSet takes effect after a moment.
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    timeout: Span,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
}

/// Runs `pillion probe`.
///
/// # Errors
/// If there is no cluster, it does not answer, or does not allow the request.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let (runtime, writer) = Writer::new(&args.kubeconfig, MANAGER)?;
    let begin = Instant::now();
    let pod = pod(args);
    let mut progress = Progress::default();
    loop {
        let answer = writer.dry_run(Kind("v1", "Pod"), &args.namespace, &pod);
        let answer = runtime.block_on(progress.wait(answer, terminal));
        let (why, refusal) = match answer {
            Ok(admitted) if has(&admitted, &args.container) => {
                writeln!(
                    terminal.out(),
                    "a Pod in namespace {} gets the container {}",
                    args.namespace,
                    args.container
                )?;
                return Ok(Status::Done);
            }
            Ok(admitted) => {
                let names = containers(&admitted).collect::<Vec<_>>().join(", ");
                let Args { namespace, container, .. } = args;
                (format!("a Pod in namespace {namespace} does not get the container {container}; it has {names}"), None)
            }
            // A new namespace gets its ServiceAccount a moment later, and a server may not be ready yet.
            Err(WriteError::Ruled { message, .. }) => {
                (format!("the cluster refuses the Pod: {message}"), Some(message))
            }
            Err(error) => return Err(error).context("the Pod could not be tried"),
        };
        if begin.elapsed() + PAUSE > args.timeout.0 {
            terminal.error(&anyhow::anyhow!("{why}"));
            match refusal {
                None => tell_reasons(args, &pod, terminal)?,
                Some(message) => tell_failed_call(args, &message, terminal)?,
            }
            return Ok(Status::Refused);
        }
        std::thread::sleep(PATIENCE);
        progress.tell(&why, terminal);
        std::thread::sleep(PAUSE.saturating_sub(PATIENCE));
    }
}

/// What was said while the Pod does not get the sidecar.
#[derive(Default)]
struct Progress {
    has_waited: bool,
    reported: Option<String>,
}

impl Progress {
    /// Waits for an answer. Says once that it takes long.
    async fn wait<T>(&mut self, answer: impl Future<Output = T>, terminal: &mut Terminal) -> T {
        tokio::pin!(answer);
        if let Ok(answer) = timeout(PATIENCE, &mut answer).await {
            return answer;
        }
        if !std::mem::replace(&mut self.has_waited, true) {
            // Progress that cannot be shown is no reason to stop.
            let _ = writeln!(terminal.err(), "waiting for the cluster's answer");
        }
        answer.await
    }

    /// Says what the last answer was, unless that was said already.
    fn tell(&mut self, why: &str, terminal: &mut Terminal) {
        if self.reported.as_deref() != Some(why) {
            let _ = writeln!(terminal.err(), "trying again: {why}");
            self.reported = Some(why.to_owned());
        }
    }
}

/// Prints why the API server could not call a webhook, if that is why it refuses the Pod.
fn tell_failed_call(args: &Args, message: &str, terminal: &mut Terminal) -> anyhow::Result<()> {
    let Some(call) = FailedCall::of_refusal(message) else { return Ok(()) };
    let reader = args.kubeconfig.reader()?;
    reader.be_quiet();
    writeln!(terminal.err(), "reason: {}", call.reason(port_of_server(&reader)))?;
    Ok(())
}

/// Prints why the Pod does not get the sidecar.
fn tell_reasons(args: &Args, pod: &Value, terminal: &mut Terminal) -> anyhow::Result<()> {
    let reader = args.kubeconfig.reader()?;
    reader.be_quiet();
    let lack = Lack { container: &args.container, namespace: &args.namespace, pod };
    for reason in Facts::read(&reader, &args.namespace).reasons(lack) {
        writeln!(terminal.err(), "reason: {reason}")?;
    }
    Ok(())
}

fn pod(args: &Args) -> Value {
    let labels: Map<String, Value> =
        args.labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "pillion-probe-", "namespace": args.namespace, "labels": labels},
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "probe", "image": "registry.example.com/probe",
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        },
    })
}
