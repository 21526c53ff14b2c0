//! `pillion manifest`: renders the objects that a cluster needs from one file of settings.

mod output;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::Subcommand;
use pillion_install::rendering::crd::{self, Conversion};
use pillion_install::rendering::document::PILLION;
use pillion_install::rendering::options::{Controller, Kubewarden, Standalone, module_reference};
use pillion_install::rendering::{Rendered, controller, kubewarden, standalone};
use pillion_install::settings;
use pillion_kubernetes::json;
use pillion_terminal::{Status, Terminal};
use serde_json::{Value, json};

use self::output::{Destination, Installation};

const ABOUT: &str = "\
Render the manifests that a cluster needs, from one file of settings.

For Kubewarden, policies and what the policy server may read; without it, Pillion's own server with its webhooks. What \
the settings do not need is left out. The same settings give the same manifests, which can be applied again and again. \
docs/deploying.md explains each object. Other commands read the folder that this one writes: `pillion check DIR`, \
`pillion inject --settings DIR`, and --settings DIR here.

Policies for Kubewarden get the SidecarSets of the settings compiled (--sidecar-sets), since a policy server copies the \
settings for each request. Pillion's own server compiles settings when it loads them, so its ConfigMap has the \
SidecarSets as they are written.

Exit codes: 0 done; 1 if the settings are invalid; 2 for other errors.";

const EXAMPLES: &str = "\
Examples:
  pillion manifest kubewarden --settings settings.yaml
  pillion manifest standalone --settings examples/identity-isolate/settings.yaml --output-dir out
  pillion manifest crd -o json";

const KUBEWARDEN_EXAMPLES: &str = "\
Examples:
  pillion manifest kubewarden --settings examples/kubewarden/settings.yaml
  pillion manifest kubewarden --settings examples/identity-isolate/settings.yaml --output-dir out
  pillion manifest kubewarden --settings settings.yaml --mode monitor";

const STANDALONE_EXAMPLES: &str = "\
Examples:
  pillion manifest standalone --settings settings.yaml --image localhost/pillion
  pillion manifest standalone --settings settings.yaml --no-crd -o json
  pillion manifest standalone --settings settings.yaml --replicas 3
  pillion manifest standalone --settings examples/identity-isolate/settings.yaml --output-dir out";

const CONTROLLER_EXAMPLES: &str = "\
Examples:
  pillion manifest controller --settings examples/identity-merge/settings.yaml
  pillion manifest controller --settings examples/identity-merge/settings.yaml --replicas 1
  pillion manifest controller --settings examples/identity-merge/settings.yaml -o json";

const CRD_EXAMPLES: &str = "\
Examples:
  pillion manifest crd
  pillion manifest crd -o json";

/// The arguments of `pillion manifest`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Policies for Kubewarden, and what its policy server may read.
    Kubewarden(Box<ForKubewarden>),
    /// Pillion's own server, its webhooks, and what it may do.
    Standalone(Box<ForServer>),
    /// The controllers, and what they may do.
    Controller(Box<ForController>),
    /// The SidecarSet definition alone, without a webhook that converts.
    Crd(ForDefinition),
}

#[derive(Debug, clap::Args)]
#[command(after_help = KUBEWARDEN_EXAMPLES)]
struct ForKubewarden {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    options: Kubewarden,
    #[command(flatten)]
    destination: Destination,
}

#[derive(Debug, clap::Args)]
#[command(after_help = STANDALONE_EXAMPLES)]
struct ForServer {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    options: Standalone,
    /// With --certificates files: the CA that signed the certificate, PEM.
    #[arg(long, value_name = "PATH")]
    ca_bundle: Option<PathBuf>,
    #[command(flatten)]
    destination: Destination,
}

#[derive(Debug, clap::Args)]
#[command(after_help = CONTROLLER_EXAMPLES)]
struct ForController {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    options: Controller,
    #[command(flatten)]
    destination: Destination,
}

#[derive(Debug, clap::Args)]
#[command(after_help = CRD_EXAMPLES)]
struct ForDefinition {
    #[command(flatten)]
    destination: Destination,
}

#[derive(Debug, clap::Args)]
struct Settings {
    /// A file of settings, or of the Kubewarden policy that has them, or a folder that this command has written; - for
    /// stdin.
    #[arg(long = "settings", value_name = "PATH")]
    path: PathBuf,
}

/// Runs `pillion manifest`.
///
/// # Errors
/// If something cannot be read or written, or the settings cannot be rendered.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    match &args.what {
        What::Kubewarden(args) => {
            let Some((settings, policy)) = args.settings.with_policy(terminal)? else { return Ok(Status::Refused) };
            let module =
                args.options.module.clone().map_or_else(|| module_of(policy.as_ref()), |named| Ok(Some(named)));
            let options = Kubewarden { module: module?, ..args.options.clone() };
            let own = Installation { name: &options.common.name, has_file: is_for_kubewarden };
            args.destination.write(&kubewarden::render(&settings, &options)?, own, terminal)
        }
        What::Standalone(args) => {
            let Some(settings) = args.settings.read(terminal)? else { return Ok(Status::Refused) };
            let ca_bundle = args.ca_bundle.as_deref().map(read_ca).transpose()?;
            let options = Standalone { ca_bundle, ..args.options.clone() };
            let own = Installation { name: &options.common.name, has_file: is_of_process };
            args.destination.write(&standalone::render(&settings, &options)?, own, terminal)
        }
        What::Controller(args) => {
            let Some(settings) = args.settings.read(terminal)? else { return Ok(Status::Refused) };
            let own = Installation { name: &args.options.name, has_file: is_of_process };
            args.destination.write(&controller::render(&settings, &args.options)?, own, terminal)
        }
        What::Crd(args) => {
            let definition = crd::document(PILLION, &Conversion::None, &Value::Null);
            let own = Installation { name: PILLION, has_file: |_| false };
            args.destination.write(&Rendered { documents: vec![definition], notes: Vec::new() }, own, terminal)
        }
    }
}

impl Settings {
    /// Returns the settings, or `None` if they are invalid; the errors are printed before.
    fn read(&self, terminal: &mut Terminal) -> anyhow::Result<Option<Value>> {
        Ok(self.with_policy(terminal)?.map(|(settings, _)| settings))
    }

    /// Returns the result of [`Self::read`], with the policy that contains the settings, if any.
    fn with_policy(&self, terminal: &mut Terminal) -> anyhow::Result<Option<(Value, Option<Value>)>> {
        let settings::Given { value, policy, .. } = settings::with_policy(&self.path)?;
        let value = if value.is_null() { json!({}) } else { value };
        let assembled = settings::assemble(value, &[]);
        Ok(assembled.is_valid(terminal).then_some((assembled.value, policy)))
    }
}

/// Returns the module that a policy runs.
///
/// # Errors
/// If the policy's module is neither an image reference nor a URL.
fn module_of(policy: Option<&Value>) -> anyhow::Result<Option<String>> {
    let module = policy.map_or("", |policy| json::text(policy, &["spec", "module"]));
    if module.is_empty() {
        return Ok(None);
    }
    let read = module_reference(module);
    read.map(Some).map_err(|wrong| anyhow!("the policy's spec.module is {module:?}: {wrong}"))
}

/// Whether `pillion manifest kubewarden` writes files with this stem. Excludes the SidecarSet definition: deleting it
/// from a cluster deletes all SidecarSets.
fn is_for_kubewarden(stem: &str) -> bool {
    stem == "rbac" || stem == kubewarden::READERS || stem.starts_with("policy-")
}

/// Whether `pillion manifest standalone` or `controller` writes files with this stem.
fn is_of_process(stem: &str) -> bool {
    stem.split_once('-')
        .is_some_and(|(number, _)| number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Reads a CA and returns it encoded for `caBundle`.
fn read_ca(path: &Path) -> anyhow::Result<String> {
    let pem = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    if !pem.contains("-----BEGIN CERTIFICATE-----") {
        return Err(anyhow!("{}: no certificate in PEM; a caBundle is made of those", path.display()));
    }
    Ok(BASE64.encode(pem))
}
