//! Renders the controllers and their roles.

pub(super) mod guard;
pub(super) mod rights;

use std::collections::BTreeSet;

use pillion_admission::settings::Settings;
use pillion_controllers::registry::{self, Name};
use pillion_identity::declared::{Declared, OnConflict};
use pillion_kubernetes::json;
use pillion_kubernetes::rbac::{self, PolicyRule};
use serde_json::{Value, json};

use super::document::Document;
use super::needs::declared;
use super::options::Controller;
use super::process::{Container, Process, mounted_settings};
use super::{Input, Rendered, SetsOfCluster, namespaces};

/// The component, for the labels.
const COMPONENT: &str = "controller";
/// The port for the kubelet and Prometheus, without TLS.
const HEALTH_PORT: u16 = 8081;
/// The seconds to release the Lease after SIGTERM.
const GRACE: u32 = 15;

/// Returns the name of the rollout controller's objects, beside controllers with objects of this name.
pub fn rollout_name(name: &str) -> String {
    format!("{name}-rollout")
}

/// Returns the objects for these settings.
///
/// # Errors
/// If the settings cannot be decoded, have the role Assert, or are too large for a ConfigMap.
pub fn render(settings: &Value, options: &Controller) -> anyhow::Result<Rendered> {
    let home = options.deployment.namespace.as_str();
    let input = Input::read(settings, Some(home), true, &[])?;
    let text = input.text()?;
    let (running, mut notes) = running(&input, options);
    let mut documents = Vec::new();
    if !options.deployment.no_namespace {
        documents.push(Process::new(&options.name, COMPONENT, &options.deployment).namespace());
    }
    // Rollouts may patch Pods, so they run under an account of their own.
    let (rollout, others): (BTreeSet<Name>, BTreeSet<Name>) =
        running.iter().partition(|name| **name == Name::SidecarSetRollout);
    let granted = granted(settings);
    let of = |options: &Controller, running: &BTreeSet<Name>| {
        let mut documents = vec![Process::new(&options.name, COMPONENT, &options.deployment).service_account()];
        documents.extend(rights::documents(options, &input.needs, running, &granted));
        documents.extend(process(options, running, &text));
        documents
    };
    if !others.is_empty() || rollout.is_empty() {
        documents.extend(of(options, &others));
    }
    if !rollout.is_empty() {
        let own = Controller { name: rollout_name(&options.name), ..options.clone() };
        documents.extend(of(&own, &rollout));
        documents.extend(guard::documents(guard::Limited {
            name: &own.name,
            account: (&own.deployment.namespace, &own.name),
            annotations: &allowed_annotations(settings),
            protected: &protected_namespaces(settings),
        }));
        notes.push(
            "sidecarset-rollout changes running Pods: look at `pillion plan --cluster --controllers=sidecarset-rollout` first"
                .to_owned(),
        );
    }
    if running.contains(&Name::MergedServiceAccounts) {
        notes.push(format!(
            "the controller grants no permission that it does not hold itself: label ClusterRoles with {}=true for what \
             merged accounts may get",
            rights::CEILING
        ));
    }
    notes.extend(note_about_bundle(&input));
    notes.extend(namespaces::notes(&documents, &[home], &input.needs));
    notes.extend(options.deployment.note());
    Ok(Rendered { documents, notes })
}

/// Returns the note about SidecarSets that are applied to the cluster: whether they are injected, and what else has to
/// name their ConfigMap.
fn note_about_bundle(input: &Input) -> Option<String> {
    let default = input.needs.bundle.as_ref().filter(|_| input.sets_of_cluster == SetsOfCluster::InDefaultBundle);
    let note = default.map(|bundle| {
        format!(
            "the settings have no bundleRef, so it is {}/{}: the server or the policies have to read this ConfigMap, too",
            bundle.namespace, bundle.name
        )
    });
    note.or_else(|| input.note_about_sets())
}

/// Returns the Deployment of these controllers and its related objects.
fn process(options: &Controller, running: &BTreeSet<Name>, text: &str) -> Vec<Document> {
    let process = Process::new(&options.name, COMPONENT, &options.deployment);
    let mut documents = vec![process.settings(text), process.deployment(&container(options, running))];
    if options.deployment.replicas > 1 {
        documents.push(process.disruption_budget());
    }
    if !options.deployment.no_network_policy {
        let about = "The controller is called by the kubelet and Prometheus, and calls the API server.";
        documents.push(process.network_policy(&[HEALTH_PORT], about.to_owned(), "From the node, and from Prometheus."));
    }
    documents
}

/// Returns the regular expressions of the annotations that `patchPodMetadata` may write, if the settings have them.
fn allowed_annotations(settings: &Value) -> Vec<String> {
    let rules = json::items(settings, &["patchPodMetadataWhitelist", "rules"]).iter();
    let keys = rules.flat_map(|rule| json::texts(rule, &["allowedAnnotationKeyExprs"]));
    keys.map(str::to_owned).collect()
}

/// Returns the namespaces whose Pods are never evicted.
fn protected_namespaces(settings: &Value) -> Vec<String> {
    let settings = Settings::decode(settings.clone()).unwrap_or_default();
    settings.service_accounts.protected_namespaces
}

/// Returns the chosen controllers that have work to do with these settings, and a note for each one left out.
fn running(input: &Input, options: &Controller) -> (BTreeSet<Name>, Vec<String>) {
    let mut running = registry::chosen(&options.controllers);
    let mut notes = Vec::new();
    let mut leave_out = |name: Name, is_idle: bool, why: &str| {
        if is_idle && running.remove(&name) {
            notes.push(format!("{name} is left out: {why}"));
        }
    };
    let has_none = !input.needs.has_identities;
    let why = "the settings have featureGates.SidecarSetServiceAccountInjection off";
    leave_out(Name::MergedServiceAccounts, has_none, why);
    leave_out(Name::SidecarTokens, has_none, why);
    let why = "name the namespaces in which sidecars have tokens with --token-namespaces";
    leave_out(Name::SidecarTokens, options.token_namespaces.is_empty(), why);
    leave_out(Name::Bundle, input.needs.bundle.is_none(), "the settings have no bundleRef");
    (running, notes)
}

/// Returns the permissions that the SidecarSets in the settings give to merged accounts.
fn granted(settings: &Value) -> Vec<PolicyRule> {
    let Ok(settings) = Settings::decode(settings.clone()) else { return Vec::new() };
    let Ok(sets) = settings.all_sidecar_sets() else { return Vec::new() };
    let declared: Vec<Declared> = sets.iter().map(declared).collect();
    let merging = declared.iter().filter(|declared| declared.on_conflict == OnConflict::Merge);
    rbac::normalised(merging.flat_map(|declared| &declared.permissions))
}

fn container(options: &Controller, running: &BTreeSet<Name>) -> Container {
    let names: Vec<&str> = running.iter().map(|name| name.as_str()).collect();
    let mut arguments = vec!["controller".to_owned()];
    let mut flag = |name: &str, value: &str| arguments.push(format!("--{name}={value}"));
    flag("controllers", &names.join(","));
    flag("settings", &mounted_settings());
    flag("health-listen", &format!("0.0.0.0:{HEALTH_PORT}"));
    flag("namespace", &options.deployment.namespace);
    flag("lease", &options.name);
    if running.contains(&Name::SidecarTokens) {
        flag("token-namespaces", &options.token_namespaces.join(","));
    }
    if running.contains(&Name::Bundle) && options.bundle_settings {
        arguments.push("--bundle-settings".to_owned());
    }
    Container {
        arguments,
        ports: vec![("health", HEALTH_PORT)],
        resources: json!({"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}),
        volumes: Vec::new(),
        grace: GRACE,
    }
}
