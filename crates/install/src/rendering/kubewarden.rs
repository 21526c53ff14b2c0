//! Renders Kubewarden policies, which all run the same module, and the roles of their policy server.

use anyhow::bail;
use pillion_identity::names::SIDECAR_SETS;
use pillion_kubernetes::json;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::{Value, json};

use super::access::{self, Reader};
use super::answers::Part;
use super::crd::{self, Conversion};
use super::document::{Document, metadata};
use super::needs::Read;
use super::options::{Enforcement, FailurePolicy, Kubewarden, SidecarSets};
use super::{Input, Rendered, namespaces, readers};
use crate::bundling::{Bundled, bundled};

/// The file of the role of people who read SidecarSets. It is none of the policy server's rights.
pub const READERS: &str = "sidecarsets-view";
/// The time limit of an evaluation in seconds, including look-ups. Kubewarden's default of 2 can expire after one
/// look-up.
const EVALUATION: u8 = 5;
/// The same for a policy that asks about authors.
const LONG_EVALUATION: u8 = 10;
/// The size limit for the settings of all policies of one policy server: they share one ConfigMap.
const CONFIG_MAP: usize = 1 << 20;
/// The size limit for the list of SidecarSets in an annotation. The API server allows 256 KiB for all annotations.
const NAMES: usize = 4096;

/// Settings in the form that policies get.
struct Given {
    settings: Value,
    /// The names of the SidecarSets in the bundle of the settings; empty without one.
    names: String,
    notes: Vec<String>,
}

/// Returns the objects for these settings.
///
/// # Errors
/// If the settings cannot be decoded, have the role Assert, or have SidecarSets that are too long for a bundle.
pub fn render(settings: &Value, options: &Kubewarden) -> anyhow::Result<Rendered> {
    let common = &options.common;
    let given = given(settings, options.sidecar_sets)?;
    let input = Input::read(&given.settings, None, common.any_sidecar_sets, &common.without)?;
    let reader = Reader {
        instance: &common.name,
        subject: (&options.namespace, &options.service_account),
        watches: false,
        has_system_namespace: !common.no_system_role,
    };
    let mut documents = access::for_settings("rbac", &input.needs, reader);
    documents.push(readers::document(READERS, &common.name));
    if options.crd {
        documents.push(crd::document(&common.name, &Conversion::None, &Value::Null));
    }
    documents.extend(input.needs.parts.keys().map(|part| policy(*part, &input, &given.names, options)));

    let mut notes = input.notes(common);
    notes.extend(namespaces::notes(&documents, &[], &input.needs));
    notes.extend(given.notes);
    notes.extend(options.note());
    if options.mode == Enforcement::Monitor {
        notes.push(
            "in monitor mode nothing is injected and nothing is guarded; render again with --mode protect".to_owned(),
        );
        let common = &options.common;
        if [common.failure_policy, common.guard_failure_policy].contains(&Some(FailurePolicy::Fail)) {
            notes.push(
                "these policies only monitor, and with Fail they refuse requests while the policy server does not \
                 answer; leave --failure-policy and --guard-failure-policy out for Ignore"
                    .to_owned(),
            );
        }
    }
    let length: usize = documents
        .iter()
        .filter_map(|it| json::at(&it.object, &["spec", "settings"]))
        .map(|it| it.to_string().len())
        .sum();
    if length > CONFIG_MAP / 2 {
        notes.push(format!(
            "the settings have {length} bytes in all policies together, and a policy server takes 1 MiB; {}",
            match options.sidecar_sets {
                SidecarSets::Manifests => "compile the SidecarSets with --sidecar-sets bundle",
                _ => "keep the SidecarSets in the cluster, and name their ConfigMap in settings.bundleRef",
            }
        ));
    }
    Ok(Rendered { documents, notes })
}

/// Returns the settings with their SidecarSets in this form.
fn given(settings: &Value, form: SidecarSets) -> anyhow::Result<Given> {
    let as_it_is = |notes| Ok(Given { settings: settings.clone(), names: String::new(), notes });
    if form == SidecarSets::Manifests {
        return as_it_is(Vec::new());
    }
    if form == SidecarSets::BundleRef {
        return without_sets(settings);
    }
    let Some(Bundled { settings: compiled, sets, mut notes, .. }) = bundled(settings.clone())? else {
        return as_it_is(Vec::new());
    };
    if json::at(settings, &["sidecarSets"]).is_some_and(|sets| !sets.is_null()) {
        notes.push(
            "the policies have the SidecarSets of the settings as one compiled text; with --sidecar-sets manifests, they \
             have them as they are written, and `pillion bundle --inspect` shows what is in a text"
                .to_owned(),
        );
    }
    Ok(Given { settings: compiled, names: names(&sets), notes })
}

/// Returns the settings for policies that read the SidecarSets from the ConfigMap of `bundleRef`.
fn without_sets(settings: &Value) -> anyhow::Result<Given> {
    if json::text(settings, &["bundleRef", "name"]).is_empty() {
        bail!("--sidecar-sets bundle-ref: the settings have no bundleRef; add it, or use --sidecar-sets bundle");
    }
    let mut settings = settings.clone();
    if let Some(settings) = settings.as_object_mut() {
        settings.remove("sidecarSets");
    }
    let note = "the policies have none of the settings' SidecarSets: render the controllers from the same settings with \
                pillion manifest controller --bundle-settings";
    Ok(Given { settings, names: String::new(), notes: vec![note.to_owned()] })
}

/// Returns the names of SidecarSets, as many as an annotation should have.
fn names(sets: &[SidecarSet]) -> String {
    let mut text = String::new();
    for (index, set) in sets.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        if text.len() + set.name().len() > NAMES {
            return format!("{text} and {} more", sets.len() - index);
        }
        text = text + comma + set.name();
    }
    text
}

fn policy(part: Part, input: &Input, sets: &str, options: &Kubewarden) -> Document {
    let (common, needs) = (&options.common, &input.needs);
    let asks = part == Part::Sidecarsets && needs.asks_authors;
    let mode = if options.mode == Enforcement::Monitor { "monitor" } else { "protect" };
    let mut spec = json!({
        "module": options.module(),
        "mode": mode,
        "mutating": part.mutates(),
        "backgroundAudit": false,
        "failurePolicy": options.failure_policy(part).name(),
        "timeoutSeconds": common.webhook_timeout,
        // An evaluation cannot last longer than the API server waits.
        "timeoutEvalSeconds": common.webhook_timeout.min(if asks { LONG_EVALUATION } else { EVALUATION }),
        "rules": super::rules(part),
    });
    let mut set = |key: &str, value: Value| super::insert(&mut spec, key, value);
    if let Some(server) = &options.policy_server {
        set("policyServer", server.as_str().into());
    }
    if part.has_excluded_namespaces() {
        set("namespaceSelector", super::namespace_selector(&super::excluded(common, needs)));
    }
    if let Some(label) = common.opt_out_label.as_ref().filter(|_| part.is_about_pods()) {
        set("objectSelector", super::object_selector(label));
    }
    let conditions = part.conditions(&needs.listed);
    if !conditions.is_empty() {
        set("matchConditions", super::conditions(&conditions));
    }
    let reads: Vec<Read> = needs.parts.get(&part).into_iter().flatten().copied().collect();
    if !reads.is_empty() {
        let read = |read: &Read| json!({"apiVersion": read.kind().0, "kind": read.kind().1});
        set("contextAwareResources", reads.iter().map(read).collect());
    }
    let settings = input.settings_for(part);
    let has_bundle = settings.get("bundle").is_some() && !sets.is_empty();
    if settings.as_object().is_some_and(|settings| !settings.is_empty()) {
        set("settings", settings);
    }
    let name = format!("{}-{}", common.name, part.name());
    let annotations = if has_bundle { json!({SIDECAR_SETS: sets}) } else { Value::Null };
    let object = json!({
        "apiVersion": "policies.kubewarden.io/v1",
        "kind": "ClusterAdmissionPolicy",
        "metadata": metadata(&name, None, &common.name, "policy", &annotations),
        "spec": spec,
    });
    let mut document =
        super::explain(Document::new(file(part), part.about(), object), "/spec/matchConditions", &conditions);
    if has_bundle {
        let why = "The SidecarSets that the annotation names, compiled: the policy server copies the settings for each \
                   request, and one text is cheap. `pillion bundle --inspect` shows what this file has.";
        document = document.with_comment("/spec/settings/bundle", why);
    }
    if part.has_excluded_namespaces() {
        let why = "Not matchLabels, which Kubewarden's controller drops silently.";
        document = document.with_comment("/spec/namespaceSelector/matchExpressions", why);
    }
    if asks {
        let why = "Asking about an author can take some 250 questions to the API server, for which the policy takes 0.6 \
                   seconds and then refuses; the evaluation must not be ended before.";
        document = document.with_comment("/spec/timeoutEvalSeconds", why);
    }
    document
}

fn file(part: Part) -> &'static str {
    match part {
        Part::Pods => "policy-pods",
        Part::Assert => "policy-assert",
        Part::Sidecarsets => "policy-sidecarsets",
        Part::Guards => "policy-guards",
        Part::Exec => "policy-exec",
        Part::Images => "policy-images",
        Part::TokenRequests => "policy-token-requests",
        Part::TokenSecrets => "policy-token-secrets",
        Part::Shoots => "policy-shoots",
    }
}
