//! The options of a rendering, besides the settings.

use clap::ValueEnum;
use pillion_controllers::registry::Item;
use pillion_kubernetes::name_validation;
use pillion_sidecarset::image;
use pillion_terminal::key_value;

use super::answers::Part;

/// The default module: its address in a release.
const MODULE: &str = concat!("registry://ghcr.io/pillion/policies/pillion:v", env!("CARGO_PKG_VERSION"));
/// The default image: its address in a release.
const IMAGE: &str = concat!("ghcr.io/pillion/pillion:v", env!("CARGO_PKG_VERSION"));

/// The handling of requests while no server answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum FailurePolicy {
    /// Refuse them.
    #[default]
    Fail,
    /// Accept them unchanged.
    Ignore,
}

impl FailurePolicy {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fail => "Fail",
            Self::Ignore => "Ignore",
        }
    }
}

/// The form of the settings' SidecarSets in policies. A policy server copies the settings of a policy for each request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SidecarSets {
    /// As one compiled text, which costs a Pod next to nothing.
    #[default]
    Bundle,
    /// Left out: the controllers keep them in the ConfigMap of bundleRef, with --bundle-settings.
    BundleRef,
    /// As they are written, for people who read policies. Ten of them nearly double the time of each Pod.
    Manifests,
}

/// Whether a policy refuses requests, or only logs which ones it would refuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Enforcement {
    /// Inject and refuse.
    #[default]
    Protect,
    /// Log what would be refused, and inject nothing.
    Monitor,
}

/// The source of the server's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Certificates {
    /// The server makes its own, keeps it in a Secret, and writes its CA into the webhook configurations.
    #[default]
    SelfSigned,
    /// From cert-manager, which also writes the CA into the webhook configurations.
    CertManager,
    /// From an existing Secret.
    Files,
}

/// Options of both ways to run Pillion.
#[derive(Clone, Debug, clap::Args)]
pub struct Common {
    /// Name of the objects, or prefix of their names; a second installation beside the first needs another one.
    #[arg(long, value_name = "NAME", default_value = "pillion", value_parser = service)]
    pub name: String,
    /// Also grant what SidecarSets outside the settings could need, so that SidecarSets can change without a new
    /// rendering.
    #[arg(long)]
    pub any_sidecar_sets: bool,
    /// Parts to leave out. Parts that the settings do not need are left out in any case.
    #[arg(long, value_name = "PART,...", value_delimiter = ',')]
    pub without: Vec<Part>,
    /// Namespaces without injection, besides the system namespaces and systemNamespace.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = label)]
    pub exclude_namespaces: Vec<String>,
    /// Inject nothing into Pods with this label. Every creator of Pods can set it: sidecars are no longer mandatory.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value::label)]
    pub opt_out_label: Option<(String, String)>,
    /// Refuse new Pods (Fail) or accept them unchanged (Ignore) while no server answers; absent: Fail, and Ignore for
    /// policies that only monitor.
    #[arg(long, value_enum, value_name = "Fail|Ignore", hide_possible_values = true)]
    pub failure_policy: Option<FailurePolicy>,
    /// The same for all other requests.
    #[arg(long, value_enum, value_name = "Fail|Ignore", hide_possible_values = true)]
    pub guard_failure_policy: Option<FailurePolicy>,
    /// How long the API server waits for an answer, in seconds: 1 to 30.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=30))]
    pub webhook_timeout: u8,
    /// Leave out the Role for the systemNamespace, if that namespace does not exist, as without OpenKruise.
    #[arg(long)]
    pub no_system_role: bool,
}

impl Common {
    /// Returns the failure policy for the requests of a part, if the options name one.
    pub fn failure_policy(&self, part: Part) -> Option<FailurePolicy> {
        if part.is_about_pods() { self.failure_policy } else { self.guard_failure_policy }
    }
}

/// Options for Kubewarden.
#[derive(Clone, Debug, clap::Args)]
pub struct Kubewarden {
    /// The options of both ways.
    #[command(flatten)]
    pub common: Common,
    /// The module in its registry; absent: the module of the policy that the settings come from, otherwise a
    /// placeholder that is not published yet.
    #[arg(long, value_name = "REFERENCE", value_parser = module_reference)]
    pub module: Option<String>,
    /// The policy server that runs the policies; absent: Kubewarden's default one.
    #[arg(long, value_name = "NAME", value_parser = subdomain)]
    pub policy_server: Option<String>,
    /// The ServiceAccount that the policy server runs under.
    #[arg(long, value_name = "NAME", default_value = "policy-server", value_parser = subdomain)]
    pub service_account: String,
    /// The namespace of the policy server: kubewarden with Kubewarden's own chart, cattle-kubewarden-system with
    /// Rancher's, suse-sec-adm-controller with SUSE's.
    #[arg(short, long, value_name = "NAME", default_value = "kubewarden", value_parser = label)]
    pub namespace: String,
    /// monitor: refuse nothing and inject nothing, for a first trial.
    #[arg(long, value_enum, default_value_t, value_name = "protect|monitor", hide_possible_values = true)]
    pub mode: Enforcement,
    /// The form of the settings' SidecarSets in the policies.
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    pub sidecar_sets: SidecarSets,
    /// Also render the SidecarSet definition, for a cluster without OpenKruise.
    #[arg(long)]
    pub crd: bool,
}

impl Kubewarden {
    /// Returns the module that the policies run.
    pub fn module(&self) -> &str {
        self.module.as_deref().unwrap_or(MODULE)
    }

    /// Returns the failure policy for the requests of a part. Without an option, a policy that only monitors accepts
    /// requests while the policy server does not answer, too.
    pub fn failure_policy(&self, part: Part) -> FailurePolicy {
        let absent = match self.mode {
            Enforcement::Protect => FailurePolicy::Fail,
            Enforcement::Monitor => FailurePolicy::Ignore,
        };
        self.common.failure_policy(part).unwrap_or(absent)
    }

    /// Returns a note if the options name no module.
    pub(super) fn note(&self) -> Option<String> {
        self.module.is_none().then(|| {
            format!(
                "the module {MODULE} is a placeholder and is not published yet; push the module to a registry of yours \
                 and name it with --module"
            )
        })
    }
}

/// Options of a process of Pillion in the cluster.
#[derive(Clone, Debug, clap::Args)]
pub struct Deployment {
    /// The namespace of the process.
    #[arg(short, long, value_name = "NAME", default_value = "pillion-system", value_parser = label)]
    pub namespace: String,
    /// The image of pillion in its registry; absent: a placeholder that is not published yet.
    #[arg(long, value_name = "IMAGE", value_parser = image_reference)]
    pub image: Option<String>,
    /// Number of replicas; with two or more, a PodDisruptionBudget keeps all but one. Of controllers, one replica works
    /// and the others wait.
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    pub replicas: u16,
    /// The PriorityClass of its Pods; absent: the cluster's default.
    #[arg(long, value_name = "NAME", value_parser = subdomain)]
    pub priority_class: Option<String>,
    /// Labels of the nodes for its Pods, besides kubernetes.io/os=linux.
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',', value_parser = key_value::label)]
    pub node_selector: Vec<(String, String)>,
    /// Ports of the API server, for the NetworkPolicy.
    #[arg(long, value_name = "PORT,...", value_delimiter = ',', default_values_t = [443, 6443])]
    pub api_server_ports: Vec<u16>,
    /// Leave out the Namespace, if it exists already.
    #[arg(long)]
    pub no_namespace: bool,
    /// Leave out the NetworkPolicy.
    #[arg(long)]
    pub no_network_policy: bool,
}

impl Deployment {
    /// Returns the image that the Pods run.
    pub fn image(&self) -> &str {
        self.image.as_deref().unwrap_or(IMAGE)
    }

    /// Returns a note if the options name no image.
    pub(super) fn note(&self) -> Option<String> {
        self.image.is_none().then(|| {
            format!(
                "the image {IMAGE} is a placeholder and is not published yet; push an image of pillion to a registry of \
                 yours and name it with --image"
            )
        })
    }
}

/// How the API server reaches the server's Pods.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Reach {
    /// Run the server in the network of its nodes, where the control plane cannot reach Pods, as on EKS with a network
    /// plugin of your own.
    #[arg(long)]
    pub host_network: bool,
    /// The port of the Pods that the API server calls, behind port 443 of the Service.
    #[arg(long, value_name = "PORT", default_value_t = 8443, value_parser = unprivileged_port())]
    pub port: u16,
    /// The port of the Pods for the kubelet and Prometheus, without TLS.
    #[arg(long, value_name = "PORT", default_value_t = 8080, value_parser = unprivileged_port())]
    pub health_port: u16,
}

/// Options for Pillion's own server.
#[derive(Clone, Debug, clap::Args)]
pub struct Standalone {
    /// The options of both ways.
    #[command(flatten)]
    pub common: Common,
    /// The options of the server's Deployment.
    #[command(flatten)]
    pub deployment: Deployment,
    /// The way to the server's Pods.
    #[command(flatten)]
    pub reach: Reach,
    /// Further annotations of the webhook configurations, such as admissions.enforcer/disabled=true on AKS.
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',', value_parser = key_value::annotation)]
    pub webhook_annotations: Vec<(String, String)>,
    /// The source of the certificate.
    #[arg(long, value_enum, default_value_t, value_name = "WAY")]
    pub certificates: Certificates,
    /// The Secret with tls.crt and tls.key; with `files` it has to exist.
    #[arg(long, value_name = "NAME", default_value = "pillion-serve-tls", value_parser = subdomain)]
    pub tls_secret: String,
    /// An issuer of cert-manager, such as ClusterIssuer/internal; absent: one with a CA of its own is rendered.
    #[arg(long, value_name = "KIND/NAME", value_parser = issuer)]
    pub issuer: Option<(String, String)>,
    /// Leave out the SidecarSet definition, if OpenKruise or another installation provides one.
    #[arg(long)]
    pub no_crd: bool,
    /// The CA that signed the certificate, in the form of `caBundle`.
    #[arg(skip)]
    pub ca_bundle: Option<String>,
}

/// Options for the controllers.
#[derive(Clone, Debug, clap::Args)]
pub struct Controller {
    /// Name of the objects, or prefix of their names. serviceAccounts.controllerUser has to contain it, too.
    #[arg(long, value_name = "NAME", default_value = "pillion-controller", value_parser = label)]
    pub name: String,
    /// Which controllers run: `*` for those that are on by default, `<name>` for one more, `-<name>` for one less.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub controllers: Vec<Item>,
    /// Namespaces in which sidecars have tokens of their own; without any, sidecar-tokens and its access to Secrets are
    /// left out.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = label)]
    pub token_namespaces: Vec<String>,
    /// Let the controllers keep the settings' SidecarSets in the bundle, too: for policies that are rendered with
    /// --sidecar-sets bundle-ref.
    #[arg(long)]
    pub bundle_settings: bool,
    /// The options of the controllers' Deployment.
    #[command(flatten)]
    pub deployment: Deployment,
}

fn label(text: &str) -> Result<String, String> {
    name_validation::dns_label(text).map_or_else(|| Ok(text.to_owned()), |wrong| Err(wrong.to_owned()))
}

/// A Service gets the same name, which RFC 1035 restricts.
fn service(text: &str) -> Result<String, String> {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return Err("a name begins with a letter, since a Service has it".to_owned());
    }
    label(text)
}

fn subdomain(text: &str) -> Result<String, String> {
    name_validation::dns_subdomain(text).map_or_else(|| Ok(text.to_owned()), |wrong| Err(wrong.to_owned()))
}

fn image_reference(text: &str) -> Result<String, String> {
    match image::tag(text) {
        Some(_) => Ok(text.to_owned()),
        None => {
            Err("an image is written [REGISTRY/]NAME[:TAG][@DIGEST], such as registry.example.com/pillion:v1"
                .to_owned())
        }
    }
}

/// Checks a reference to a module as Kubewarden accepts it: an image reference, with or without `registry://`, or a
/// URL.
///
/// # Errors
/// If the text is something else. The error says what it should be.
pub fn module_reference(text: &str) -> Result<String, String> {
    let is_module = match text.split_once("://") {
        None | Some(("registry", _)) => image::tag(text.strip_prefix("registry://").unwrap_or(text)).is_some(),
        Some(("http" | "https" | "file", rest)) => !rest.is_empty() && !rest.contains(char::is_whitespace),
        Some(_) => false,
    };
    if is_module {
        return Ok(text.to_owned());
    }
    Err("a module is written registry://REGISTRY/NAME:TAG, or as a URL with https, http or file".to_owned())
}

/// Ports that a process without privileges can listen on.
fn unprivileged_port() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1024..)
}

fn issuer(text: &str) -> Result<(String, String), String> {
    let (kind, name) = text.split_once('/').ok_or("an issuer is written KIND/NAME, such as ClusterIssuer/internal")?;
    if !matches!(kind, "Issuer" | "ClusterIssuer") {
        return Err("the kind is Issuer or ClusterIssuer".to_owned());
    }
    Ok((kind.to_owned(), subdomain(name)?))
}
