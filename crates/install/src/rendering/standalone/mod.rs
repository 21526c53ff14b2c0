//! Renders Pillion's own server, its webhooks and its roles.

mod certificates;
mod rights;
pub mod server;
mod webhooks;

use anyhow::bail;
use pillion_kubernetes::paths;
use serde_json::Value;

use super::access::{self, Reader};
use super::crd::{self, Conversion};
use super::options::{Certificates, Standalone};
use super::{Input, Rendered, namespaces};
use super::{process, readers};

/// Returns the objects for these settings.
///
/// # Errors
/// If the settings cannot be decoded, have the role Assert, or are too large for a ConfigMap, or if both ports of the
/// server are the same.
pub fn render(settings: &Value, options: &Standalone) -> anyhow::Result<Rendered> {
    let common = &options.common;
    let reach = options.reach;
    if reach.port == reach.health_port {
        bail!("--port and --health-port are both {}: give them different ports", reach.port);
    }
    let home = options.deployment.namespace.as_str();
    let input = Input::read(settings, Some(home), common.any_sidecar_sets, &common.without)?;
    let text = input.text()?;
    let process = server::process(options);
    let annotations = certificates::annotations(options);
    let mut documents = Vec::new();
    if !options.deployment.no_namespace {
        documents.push(process.namespace());
    }
    documents.push(process.service_account());
    let reader = Reader {
        instance: &common.name,
        subject: (&options.deployment.namespace, &common.name),
        watches: true,
        has_system_namespace: !common.no_system_role,
    };
    documents.extend(access::for_settings(process::RBAC, &input.needs, reader));
    documents.extend(rights::documents(options, &input.needs));
    documents.push(readers::document(process::RBAC, &common.name));
    documents.push(process.settings(&text));
    documents.extend(certificates::documents(options));
    documents.push(server::service(process));
    documents.push(process.deployment(&server::container(options, &input.needs)));
    if options.deployment.replicas > 1 {
        documents.push(process.disruption_budget());
    }
    // A NetworkPolicy does not apply to Pods in the network of their nodes.
    if !options.deployment.no_network_policy && !reach.host_network {
        documents.push(server::network_policy(process, reach));
    }
    if !options.no_crd {
        let client = server::client_config(options, paths::CONVERT);
        let mut definition = crd::document(&common.name, &Conversion::Webhook(client), &annotations);
        definition.file = "09-sidecarset-crd";
        documents.push(definition);
    }
    let of_webhooks = webhooks::annotations(options, &annotations);
    documents.extend(webhooks::mutating(options, &input.needs, &of_webhooks));
    documents.extend(webhooks::validating(options, &input.needs, &of_webhooks));

    let mut notes = input.notes(common);
    notes.extend(namespaces::notes(&documents, &[home], &input.needs));
    notes.extend(options.deployment.note());
    if options.certificates == Certificates::Files && options.ca_bundle.is_none() {
        notes.push("without --ca-bundle the API server trusts only what its own system trusts".to_owned());
    }
    if options.certificates == Certificates::CertManager {
        notes.push(
            "name cert-manager's namespace in --exclude-namespaces: its Pods have to start while no certificate is valid"
                .to_owned(),
        );
    }
    if reach.host_network {
        notes.push(format!(
            "with --host-network, the namespace {home} allows every Pod, metrics are open on port {} of the nodes, and a \
             node has room for one server; render controllers for this namespace with --no-namespace",
            reach.health_port
        ));
    }
    if !options.no_crd {
        notes.push("where OpenKruise is installed, use --no-crd: it has a SidecarSet definition of its own".to_owned());
    }
    Ok(Rendered { documents, notes })
}
