//! The webhook configurations: the requests about which the API server calls the server.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::answers::Part;
use super::super::document::{Document, metadata};
use super::super::needs::Needs;
use super::super::options::Standalone;
use super::super::{excluded, explain, insert, namespace_selector, object_selector};
use super::server::client_config;

/// Returns the annotations of the configurations: those of the options, and `own`.
pub fn annotations(options: &Standalone, own: &Value) -> Value {
    let given = options.webhook_annotations.iter().map(|(key, value)| (key.clone(), value.as_str().into()));
    let own = own.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
    given.chain(own).collect()
}

/// Returns the configuration of the mutating webhooks, if there are any.
pub fn mutating(options: &Standalone, needs: &Needs, annotations: &Value) -> Option<Document> {
    let about = "Asks the server to inject sidecars, and to default and check SidecarSets. To remove Pillion, delete the \
                 webhook configurations first.";
    let form = Form { file: "10-mutating-webhooks", kind: "MutatingWebhookConfiguration", about, mutates: true };
    needs.has_mutating().then(|| configuration(&form, options, needs, annotations))
}

/// Returns the configuration of the validating webhooks, if there are any. The API server calls them after all mutating
/// webhooks.
pub fn validating(options: &Standalone, needs: &Needs, annotations: &Value) -> Option<Document> {
    let about = "Asks the server to refuse what would steal or undo an identity. To remove Pillion, delete the webhook \
                 configurations first.";
    let form = Form { file: "11-validating-webhooks", kind: "ValidatingWebhookConfiguration", about, mutates: false };
    needs.has_validating().then(|| configuration(&form, options, needs, annotations))
}

/// One of the two kinds of configurations.
struct Form {
    file: &'static str,
    kind: &'static str,
    about: &'static str,
    mutates: bool,
}

fn configuration(form: &Form, options: &Standalone, needs: &Needs, annotations: &Value) -> Document {
    let Form { file, kind, about, mutates } = *form;
    let name = &options.common.name;
    let parts: Vec<Part> = needs.parts.keys().copied().filter(|part| part.mutates() == mutates).collect();
    let webhooks: Vec<Value> = parts.iter().map(|part| webhook(*part, options, needs)).collect();
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": metadata(name, None, name, "webhook", annotations),
        "webhooks": webhooks,
    });
    parts.iter().enumerate().fold(Document::new(file, about, object), |document, (index, part)| {
        let document = document.with_comment(format!("/webhooks/{index}"), part.about());
        let conditions = part.conditions(&needs.listed);
        explain(document, &format!("/webhooks/{index}/matchConditions"), &conditions)
    })
}

fn webhook(part: Part, options: &Standalone, needs: &Needs) -> Value {
    let common = &options.common;
    let mut webhook = json!({
        "name": format!("{}.pillion.dev", part.name()),
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config(options, part.path()),
        "failurePolicy": common.failure_policy(part).unwrap_or_default().name(),
        "matchPolicy": "Equivalent",
        "rules": super::super::rules(part),
        "sideEffects": "None",
        "timeoutSeconds": common.webhook_timeout,
    });
    let mut set = |key: &str, value: Value| insert(&mut webhook, key, value);
    // The server's own namespace is exempt, so that its Pods can always start and can be debugged.
    let own = options.deployment.namespace.as_str();
    if part.has_excluded_namespaces() {
        let mut namespaces = excluded(common, needs);
        namespaces.insert(own);
        set("namespaceSelector", namespace_selector(&namespaces));
        if let Some(label) = common.opt_out_label.as_ref().filter(|_| part.is_about_pods()) {
            set("objectSelector", object_selector(label));
        }
    } else if part == Part::Guards {
        set("namespaceSelector", namespace_selector(&BTreeSet::from([own])));
    }
    if part == Part::Pods {
        set("reinvocationPolicy", "IfNeeded".into());
    }
    let conditions = part.conditions(&needs.listed);
    if !conditions.is_empty() {
        set("matchConditions", super::super::conditions(&conditions));
    }
    webhook
}
