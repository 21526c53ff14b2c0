//! Renders Kubewarden policies, which all run the same module, and the roles of their policy server.

use pillion_kubernetes::json;
use serde_json::{Value, json};

use super::access::{self, Reader};
use super::answers::Part;
use super::crd::{self, Conversion};
use super::document::{Document, metadata};
use super::needs::Read;
use super::options::{Enforcement, Kubewarden};
use super::{Input, Rendered};

/// The time that the API server waits for an answer, in seconds.
const TIMEOUT: u32 = 10;
/// The time limit of an evaluation in seconds, including look-ups. Kubewarden's default of 2 can expire after one
/// look-up.
const EVALUATION: u32 = 5;
/// The size limit for the settings of all policies of one policy server: they share one ConfigMap.
const CONFIG_MAP: usize = 1 << 20;

/// Returns the objects for these settings.
///
/// # Errors
/// If the settings cannot be decoded or have the role Assert.
pub fn render(settings: &Value, options: &Kubewarden) -> anyhow::Result<Rendered> {
    let common = &options.common;
    let input = Input::of(settings, common.any_sidecar_sets, &common.without)?;
    let reader = Reader {
        instance: &common.name,
        subject: (&options.namespace, &options.service_account),
        watches: false,
        has_system_namespace: !common.no_system_role,
    };
    let mut documents = access::for_settings("rbac", &input.needs, reader);
    if options.crd {
        documents.push(crd::document(&common.name, &Conversion::None, &Value::Null));
    }
    documents.extend(input.needs.parts.keys().map(|part| policy(*part, &input, options)));

    let mut notes = input.notes(common);
    notes.extend(options.note());
    if options.mode == Enforcement::Monitor {
        notes.push(
            "in monitor mode nothing is injected and nothing is guarded; render again with --mode protect".to_owned(),
        );
    }
    let length: usize = documents
        .iter()
        .filter_map(|it| json::at(&it.object, &["spec", "settings"]))
        .map(|it| it.to_string().len())
        .sum();
    if length > CONFIG_MAP / 2 {
        notes.push(format!(
            "the settings have {length} bytes in all policies together, and a policy server takes 1 MiB; compile the \
             SidecarSets with pillion bundle --settings -o yaml"
        ));
    }
    Ok(Rendered { documents, notes })
}

fn policy(part: Part, input: &Input, options: &Kubewarden) -> Document {
    let (common, needs) = (&options.common, &input.needs);
    let asks = part == Part::Sidecarsets && needs.asks_authors;
    let mode = if options.mode == Enforcement::Monitor { "monitor" } else { "protect" };
    let mut spec = json!({
        "module": options.module(),
        "mode": mode,
        "mutating": part.mutates(),
        "backgroundAudit": false,
        "failurePolicy": common.failure_policy(part).name(),
        "timeoutSeconds": TIMEOUT,
        "timeoutEvalSeconds": if asks { TIMEOUT } else { EVALUATION },
        "rules": super::rules(part),
    });
    let mut set = |key: &str, value: Value| super::insert(&mut spec, key, value);
    if let Some(server) = &options.policy_server {
        set("policyServer", server.as_str().into());
    }
    if part.is_about_pods() {
        set("namespaceSelector", super::namespace_selector(&super::excluded(common, needs)));
        if let Some(label) = &common.opt_out_label {
            set("objectSelector", super::object_selector(label));
        }
    }
    let conditions = part.conditions();
    if !conditions.is_empty() {
        set("matchConditions", super::conditions(&conditions));
    }
    let reads: Vec<Read> = needs.parts.get(&part).into_iter().flatten().copied().collect();
    if !reads.is_empty() {
        let read = |read: &Read| json!({"apiVersion": read.kind().0, "kind": read.kind().1});
        set("contextAwareResources", reads.iter().map(read).collect());
    }
    let settings = input.settings_for(part);
    if settings.as_object().is_some_and(|settings| !settings.is_empty()) {
        set("settings", settings);
    }
    let name = format!("{}-{}", common.name, part.name());
    let object = json!({
        "apiVersion": "policies.kubewarden.io/v1",
        "kind": "ClusterAdmissionPolicy",
        "metadata": metadata(&name, None, &common.name, "policy", &Value::Null),
        "spec": spec,
    });
    let mut document =
        super::explain(Document::new(file(part), part.about(), object), "/spec/matchConditions", &conditions);
    if part.is_about_pods() {
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
        Part::TokenSecrets => "policy-token-secrets",
        Part::Shoots => "policy-shoots",
    }
}
