//! What a Pod gets, and what controllers would do, without a write.
//!
//! A [`Preview`] runs the built-in module ([`mod@module`]) with settings and a cluster assembled from manifests, with a
//! real cluster behind them if the user asks for it. [`inject`] shows manifests with their sidecars, [`explain`] the
//! reasons, and [`plan`] the writes of the controllers.
//!
//! It never writes to a cluster, and decides nothing that the module or the controllers decide.
//!
//! Start with [`Preview`] and [`prepared`], which reads what [`inject`] and [`explain`] are about.
#![forbid(unsafe_code)]

mod accounts;
mod args;
mod cluster;
pub mod explain;
pub mod inject;
mod kept;
mod lookup;
pub mod module;
mod of_cluster;
pub mod plan;
mod policy;
pub mod prepared;
mod webhooks;

use std::path::PathBuf;
use std::sync::Arc;

use pillion_admission::settings::Settings;
use pillion_cluster::Reader;
use pillion_documents::kinds;
use pillion_documents::locate;
use pillion_documents::manifest::{self, Manifest};
use pillion_host::{Module, ValidationResponse};
use pillion_install::settings::Assembled;
use pillion_kubernetes::json;
use pillion_terminal::Terminal;
use pillion_workload::{Template, admission, pod, request, shape};
use serde_json::Value;

pub use self::accounts::{Accounts, Assume, KINDS as ACCOUNT_KINDS, Note};
pub use self::args::{Inputs, Situation, key_value, read};
pub use self::cluster::Manifests;
pub use self::kept::with_kept;
pub use self::lookup::{Answers, context, pod_request};
pub use self::of_cluster::with_cluster;
pub use self::policy::{Heed, doubts};
pub use self::webhooks::{NotAsked, Webhooks};

/// A policy and a cluster that judge Pods.
pub struct Preview {
    module: Module,
    settings: Value,
    /// The decoded settings; `None` if they cannot be decoded, in which case the module refuses them.
    decoded: Option<Settings>,
    cluster: Arc<Manifests>,
    accounts: Arc<Accounts>,
    namespace: String,
    /// The manifest of the Kubewarden policy that contains the settings.
    policy: Option<Value>,
    /// The webhooks of the cluster that ask the policy about Pods.
    webhooks: Webhooks,
}

/// A Pod and the policy's answer to it.
#[derive(Debug)]
pub struct Admission {
    /// The Pod as its controller or its author sends it.
    pub sent: Value,
    /// The Pod as the webhook sees it.
    pub before: Value,
    /// The Pod after the policy; equal to `before` if refused.
    pub after: Value,
    /// The policy's answer; it accepts the Pod as it is if the API server does not ask.
    pub answer: ValidationResponse,
    /// Why the API server does not ask the policy, or does not heed its answer.
    pub not_asked: Option<NotAsked>,
}

impl Preview {
    /// Returns a preview with this module and the policy's settings.
    pub fn new(module: Module, settings: Value, cluster: Arc<Manifests>, situation: &Situation) -> Self {
        let decoded = Settings::decode(settings.clone()).ok().and_then(|settings| settings.unbundled().ok());
        let assume = if situation.assume_service_accounts { Assume::Missing } else { Assume::Nothing };
        let accounts = Arc::new(Accounts::new(Arc::clone(&cluster) as _, assume).missing_in(cluster.missing_in()));
        let namespace = situation.namespace.clone();
        let webhooks = Webhooks::default();
        Self { module, settings, decoded, cluster, accounts, namespace, policy: None, webhooks }
    }

    /// Sets the manifest of the Kubewarden policy that contains the settings.
    #[must_use]
    pub fn under(self, policy: Option<Value>) -> Self {
        Self { policy, ..self }
    }

    /// Sets the webhooks of the cluster that ask the policy about Pods.
    #[must_use]
    pub fn asked_by(self, webhooks: Webhooks) -> Self {
        Self { webhooks, ..self }
    }

    /// Returns why the API server does not ask the policy about a Pod of `namespace`, according to the webhooks of the
    /// cluster; `None` if it asks.
    ///
    /// # Errors
    /// If something that counts could not be read in the cluster.
    pub fn not_asked(&self, pod: &Value, namespace: &str) -> anyhow::Result<Option<NotAsked>> {
        let not_asked = self.webhooks.leave_out(pod, namespace, &self.cluster);
        self.cluster.check()?;
        Ok(not_asked)
    }

    /// Returns what Kubewarden does with the answer to a Pod of `namespace`; `is_changed`: whether the module changes
    /// the Pod.
    pub fn heed(&self, pod: &Value, namespace: &str, is_changed: bool) -> Heed {
        let policy = self.policy.as_ref();
        policy.map(|policy| policy::heed(policy, pod, namespace, &self.cluster, is_changed)).unwrap_or_default()
    }

    /// Whether a policy server would start with the settings. If not, prints every problem with its place, or the
    /// module's message if no place is known. `settings` are those of the preview.
    ///
    /// # Errors
    /// If the module gives no answer.
    pub fn is_valid(&self, settings: &Assembled, terminal: &mut Terminal) -> anyhow::Result<bool> {
        let verdict = self.module.validate_settings(&self.settings)?;
        if verdict.valid {
            return Ok(true);
        }
        if settings.is_valid(terminal) {
            terminal.error(&anyhow::anyhow!(verdict.message.unwrap_or_default()));
        }
        Ok(false)
    }

    /// Returns the namespace of an object, or the default one.
    pub fn namespace<'a>(&'a self, object: &'a Value) -> &'a str {
        match json::text(object, &["metadata", "namespace"]) {
            "" => &self.namespace,
            namespace => namespace,
        }
    }

    /// Asks the policy about the Pod of a template. Returns `None` if the object has nothing at the template's place.
    ///
    /// # Errors
    /// If the module gives no answer.
    pub fn admit(&self, object: &Value, template: &Template) -> anyhow::Result<Option<Admission>> {
        let Some((sent, before)) = self.pod(object, template) else { return Ok(None) };
        let not_asked = self.not_asked(&before, self.namespace(object))?;
        let mut answer = match not_asked {
            Some(_) => unasked(),
            None => self.ask(&request::create(&before, self.namespace(object), template))?,
        };
        let after = answer.mutated_object.take().unwrap_or_else(|| before.clone());
        Ok(Some(Admission { sent, before, after, answer, not_asked }))
    }

    /// Returns the request for the Pod of a template, or `None` if the object has nothing at the template's place.
    pub fn request(&self, object: &Value, template: &Template) -> Option<Value> {
        let (_, pod) = self.pod(object, template)?;
        Some(request::create(&pod, self.namespace(object), template))
    }

    /// Returns the Pod of a template, as its controller sends it and as the webhook sees it.
    fn pod(&self, object: &Value, template: &Template) -> Option<(Value, Value)> {
        let namespace = self.namespace(object);
        let sent = pod::from_template(object, template, namespace)?;
        let mut before = sent.clone();
        admission::apply(&mut before, |name| self.cluster.object("v1", "ServiceAccount", Some(namespace), name));
        Some((sent, before))
    }

    /// Asks the policy about a request.
    ///
    /// # Errors
    /// If the module gives no answer, or something that counts could not be read in the cluster.
    pub fn ask(&self, request: &Value) -> anyhow::Result<ValidationResponse> {
        if let Some(settings) = &self.decoded {
            self.accounts.prepare(request, settings, self.cluster.as_ref());
        }
        let answer = self.module.validate(request, &self.settings, Arc::clone(&self.accounts) as _)?;
        self.cluster.check()?;
        Ok(answer)
    }

    /// Returns a source of look-ups for the rules that answers as the module's does.
    pub fn answers(&self) -> Answers<'_> {
        Answers(self.accounts.as_ref())
    }

    /// Returns notes about missing ServiceAccounts that the policy looked up since the last call. Those that are assumed
    /// to exist need no note: the user asked for that.
    pub fn notes(&self) -> Vec<Note> {
        self.accounts.notes().into_iter().filter(|note| !note.is_assumed()).collect()
    }

    /// Returns the Namespaces that the policy looked up since the last call and that do not exist.
    pub fn assumed(&self) -> Vec<String> {
        self.cluster.assumed()
    }

    /// Returns the sources that lack an object, for messages: `Namespace "a" is in no manifest`.
    pub fn missing_in(&self) -> &'static str {
        self.cluster.missing_in()
    }
}

/// The answer about a Pod for which the policy is not asked.
pub fn unasked() -> ValidationResponse {
    ValidationResponse {
        accepted: true,
        message: None,
        code: None,
        mutated_object: None,
        audit_annotations: None,
        warnings: None,
    }
}

/// Returns the built-in module. If that takes a while, since no earlier run has kept the compiled code, says so.
///
/// # Errors
/// If it cannot be loaded.
pub fn module(terminal: &mut Terminal) -> anyhow::Result<Module> {
    module::with_notice(terminal.err(), module::load)?
}

/// Whether the manifests that describe the situation are valid: all those beside the input, and each intended
/// `SidecarSet`. Prints the errors.
pub fn is_understood<'a>(
    beside: &'a [Manifest],
    input: impl IntoIterator<Item = &'a Manifest>,
    terminal: &mut Terminal,
) -> bool {
    let is_set = |manifest: &&Manifest| {
        let text = |key: &str| json::text(&manifest.value, &[key]);
        kinds::is_sidecar_set(text("apiVersion"), text("kind"))
    };
    let mut is_understood = true;
    for manifest in beside.iter().chain(input.into_iter().filter(is_set)) {
        // The settings report the errors of a SidecarSet that becomes part of them.
        let is_known = is_set(&manifest) && kinds::misspelt(&manifest.value).is_none();
        let problems = if is_known { Vec::new() } else { shape::problems(&manifest.value) };
        for problem in locate::messages(manifest, &problems) {
            is_understood = false;
            terminal.error(&anyhow::anyhow!("{problem}"));
        }
    }
    is_understood
}

/// Reads manifests. Returns `None` if some cannot be parsed or understood; the errors are printed before.
///
/// # Errors
/// If a file cannot be read.
pub fn manifests(paths: &[PathBuf], recursive: bool, terminal: &mut Terminal) -> anyhow::Result<Option<Vec<Manifest>>> {
    let manifests = read(paths, recursive, terminal, manifest::parse)?;
    Ok(manifests.filter(|manifests| is_understood(&[], manifests, terminal)))
}

/// Returns the cluster that manifests describe, with the cluster `behind` them for objects that are in no manifest.
pub fn cluster_of<'a>(
    manifests: impl IntoIterator<Item = &'a Manifest>,
    situation: &Situation,
    behind: Option<Arc<Reader>>,
) -> Arc<Manifests> {
    let objects = manifests.into_iter().map(|manifest| manifest.value.clone());
    Arc::new(Manifests::new(objects, &situation.namespace, situation.namespace_labels()).before(behind))
}
