//! The policies to run: a module with settings, from the command line or from a Kubewarden policy.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use pillion_documents::manifest::{self, Manifest, Source};
use pillion_host::admission::{Handling, Mode};
use pillion_host::metadata::{Metadata, PolicyType};
use pillion_host::{CapabilityPattern, CodeCache, ContextAwareResource, Grants, Module};
use pillion_preview;
use pillion_terminal::Terminal;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::{Args, location};

/// A policy, not yet loaded.
#[derive(Debug)]
pub(super) struct Policy {
    /// The module's file.
    module: PathBuf,
    /// The settings, always an object.
    pub(super) settings: Value,
    /// How to post-process the policy's responses.
    pub(super) handling: Handling,
    /// The kinds that it may read in the cluster.
    reads: Reads,
}

/// The kinds that a policy may read in the cluster.
#[derive(Debug)]
enum Reads {
    Nothing,
    WhatMetadataLists,
    These(BTreeSet<ContextAwareResource>),
}

/// A policy ready for evaluation.
pub(super) struct Prepared {
    pub(super) module: Module,
    /// Whether the policy takes any JSON as its request.
    pub(super) raw: bool,
    /// Whether the policy may read anything in the cluster.
    pub(super) reads_cluster: bool,
}

/// Returns the policies that the command line names.
///
/// # Errors
/// If settings or policies cannot be read.
pub(super) fn read(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Vec<Policy>> {
    let is_yaml = [".yaml", ".yml"].iter().any(|ending| args.module.ends_with(ending));
    if !is_yaml {
        return Ok(vec![Policy::from_args(args, terminal)?]);
    }
    if args.raw {
        bail!("--raw: the policies of a YAML file decide on admission requests");
    }
    if args.settings_path.is_some() || args.settings_json.is_some() {
        terminal.warn("--settings-path and --settings-json are ignored: the policies of a YAML file have their own");
    }
    if args.allow_context_aware {
        terminal.warn("--allow-context-aware is ignored: the policies of a YAML file say what they may read");
    }
    let source = Arc::new(Source::read(&location::path(&args.module)?)?);
    let manifests = manifest::parse(&source)?;
    if manifests.is_empty() {
        bail!("{}: no policy in it", source.name);
    }
    manifests.iter().map(Policy::from_manifest).collect()
}

impl Policy {
    fn from_args(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Self> {
        let module = location::path(&args.module)?;
        let settings = match (&args.settings_path, &args.settings_json) {
            (Some(path), other) => {
                if other.is_some() {
                    terminal.warn("--settings-json is ignored: there is a --settings-path");
                }
                settings_file(path)?
            }
            (None, Some(json)) => serde_json::from_str(json).context("--settings-json: not JSON")?,
            (None, None) => Value::Null,
        };
        let handling =
            Handling { policy: "policy-from-cli".to_owned(), mode: Mode::Protect, mutating: true, message: None };
        let reads = if args.allow_context_aware { Reads::WhatMetadataLists } else { Reads::Nothing };
        Ok(Self { module, settings: object(settings)?, handling, reads })
    }

    fn from_manifest(manifest: &Manifest) -> anyhow::Result<Self> {
        let place = || format!("{}:{}", manifest.source.name, manifest.line());
        Self::from_resource(&manifest.value).with_context(place)
    }

    /// Reads a custom resource of Kubewarden.
    fn from_resource(resource: &Value) -> anyhow::Result<Self> {
        let Resource { api_version, kind, metadata, spec } = Resource::deserialize(resource)?;
        if api_version != "policies.kubewarden.io/v1" {
            bail!("invalid apiVersion {api_version:?}: a policy has \"policies.kubewarden.io/v1\"");
        }
        let reads_allowed = match kind.as_str() {
            "ClusterAdmissionPolicy" => true,
            "AdmissionPolicy" => false,
            "ClusterAdmissionPolicyGroup" | "AdmissionPolicyGroup" => {
                bail!("{kind}: groups of policies do not run here; `kwctl run` knows them")
            }
            _ => bail!("unknown kind {kind:?}: not a Kubewarden policy"),
        };
        let spec = spec.ok_or_else(|| anyhow!("spec: Required value"))?;
        let spec = Spec::deserialize(&spec).context("spec")?;
        if !reads_allowed && spec.context_aware_resources.is_some() {
            bail!("spec.contextAwareResources: Forbidden: only a ClusterAdmissionPolicy can read the cluster");
        }
        Ok(Self {
            module: location::path(&spec.module).context("spec.module")?,
            settings: object(spec.settings).context("spec.settings")?,
            handling: Handling {
                policy: metadata.name.unwrap_or_else(|| "crd-without-name".to_owned()),
                mode: spec.mode.unwrap_or_default(),
                mutating: spec.mutating,
                message: spec.message,
            },
            reads: Reads::These(spec.context_aware_resources.unwrap_or_default()),
        })
    }

    /// Loads the module and grants it its host capabilities and kinds.
    ///
    /// # Errors
    /// If the module cannot be loaded.
    pub(super) fn prepare(
        &self,
        args: &Args,
        patterns: &[CapabilityPattern],
        terminal: &mut Terminal,
    ) -> anyhow::Result<Prepared> {
        let cache = if args.disable_wasmtime_cache { CodeCache::Off } else { CodeCache::Use };
        let (module, metadata) = super::load(&self.module, &cache)?;
        let assumed = if args.assume_service_accounts { self.assumed(metadata.as_ref()) } else { BTreeSet::new() };
        let mut resources = self.granted(metadata.as_ref(), &assumed, terminal);
        let reads_cluster = !resources.is_empty();
        resources.extend(assumed);
        Ok(Prepared {
            raw: args.raw || metadata.is_some_and(|metadata| metadata.policy_type == PolicyType::Raw),
            reads_cluster,
            module: module.restricted_to(Grants::new(patterns.to_vec(), resources)),
        })
    }

    /// Returns the kinds to grant for assumed ServiceAccounts if the policy may read nothing else. Grants only kinds
    /// that the metadata lists, as a cluster does.
    fn assumed(&self, metadata: Option<&Metadata>) -> BTreeSet<ContextAwareResource> {
        if !matches!(self.reads, Reads::Nothing) {
            return BTreeSet::new();
        }
        let of_ours = pillion_preview::ACCOUNT_KINDS.into_iter().map(|(api_version, kind)| ContextAwareResource {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        });
        let is_wanted = |resource: &ContextAwareResource| {
            metadata.is_none_or(|metadata| metadata.context_aware_resources.contains(resource))
        };
        of_ours.filter(is_wanted).collect()
    }

    fn granted(
        &self,
        metadata: Option<&Metadata>,
        assumed: &BTreeSet<ContextAwareResource>,
        terminal: &mut Terminal,
    ) -> BTreeSet<ContextAwareResource> {
        match (&self.reads, metadata) {
            (Reads::These(resources), _) => resources.clone(),
            (Reads::WhatMetadataLists, Some(metadata)) => metadata.context_aware_resources.clone(),
            (Reads::WhatMetadataLists, None) => {
                terminal.warn(
                    "the module has no metadata that says what it reads, so --allow-context-aware allows nothing; \
                     `pillion annotate` adds metadata",
                );
                BTreeSet::new()
            }
            (Reads::Nothing, metadata) => {
                let wanted: Vec<String> = metadata
                    .iter()
                    .flat_map(|metadata| &metadata.context_aware_resources)
                    .filter(|resource| !assumed.contains(resource))
                    .map(|resource| format!("{}/{}", resource.api_version, resource.kind))
                    .collect();
                if !wanted.is_empty() {
                    terminal.warn(format_args!(
                        "the policy may not read what it wants to read ({}); --allow-context-aware lets it",
                        wanted.join(", ")
                    ));
                }
                BTreeSet::new()
            }
        }
    }
}

/// Reads settings as kubectl would read them in a policy.
fn settings_file(path: &Path) -> anyhow::Result<Value> {
    let documents = match manifest::documents(&Arc::new(Source::read(path).context("settings")?)) {
        Ok(documents) => documents,
        Err(manifest::Error::NotAnObject { source_name, line, found }) => {
            bail!("{source_name}:{line}: settings are an object, this is {found}")
        }
        Err(error) => return Err(error).context("settings"),
    };
    let mut documents = documents.into_iter();
    let settings = documents.next().map(|document| document.value);
    match documents.next() {
        Some(second) => {
            bail!("{}:{}: settings are one document, this is a second one", second.source.name, second.line())
        }
        None => Ok(settings.unwrap_or_default()),
    }
}

/// Checks that settings are an object; absent settings become an empty object.
fn object(settings: Value) -> anyhow::Result<Value> {
    match settings {
        Value::Null => Ok(Value::Object(Map::new())),
        Value::Object(_) => Ok(settings),
        other => bail!("settings are an object, this is {}", pillion_kubernetes::json::type_name(&other)),
    }
}

/// A custom resource of Kubewarden.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ObjectMeta,
    spec: Option<Value>,
}

#[derive(Default, Deserialize)]
struct ObjectMeta {
    name: Option<String>,
}

/// The spec of a policy. Lists the ignored fields, too, so that misspelt fields are errors.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    module: String,
    #[serde(default)]
    settings: Value,
    mode: Option<Mode>,
    #[serde(default)]
    mutating: bool,
    message: Option<String>,
    context_aware_resources: Option<BTreeSet<ContextAwareResource>>,
    #[serde(default, rename = "allowInsideAdmissionControllerNamespace")]
    _allow_inside_admission_controller_namespace: IgnoredAny,
    #[serde(default, rename = "backgroundAudit")]
    _background_audit: IgnoredAny,
    #[serde(default, rename = "failurePolicy")]
    _failure_policy: IgnoredAny,
    #[serde(default, rename = "matchConditions")]
    _match_conditions: IgnoredAny,
    #[serde(default, rename = "matchPolicy")]
    _match_policy: IgnoredAny,
    #[serde(default, rename = "namespaceSelector")]
    _namespace_selector: IgnoredAny,
    #[serde(default, rename = "objectSelector")]
    _object_selector: IgnoredAny,
    #[serde(default, rename = "policyServer")]
    _policy_server: IgnoredAny,
    #[serde(default, rename = "rules")]
    _rules: IgnoredAny,
    #[serde(default, rename = "sideEffects")]
    _side_effects: IgnoredAny,
    #[serde(default, rename = "timeoutEvalSeconds")]
    _timeout_eval_seconds: IgnoredAny,
    #[serde(default, rename = "timeoutSeconds")]
    _timeout_seconds: IgnoredAny,
}
