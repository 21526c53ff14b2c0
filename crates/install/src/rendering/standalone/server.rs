//! The command line and the addresses of `pillion serve`. No other module knows its flags and ports.

use serde_json::{Value, json};

use super::super::document::{Document, selector};
use super::super::needs::Needs;
use super::super::options::{Certificates, Reach, Standalone};
use super::super::process::{self, Container, Process};
use super::super::{access, crd};

/// The component, for the labels.
pub const COMPONENT: &str = "server";
/// The port of the Service for Prometheus.
const METRICS_PORT: u16 = 8080;
/// The port of the Service.
pub const SERVICE_PORT: u16 = 443;
/// The folder of the certificate, if it comes from a Secret.
pub const TLS_FOLDER: &str = "/etc/pillion-tls";

/// The seconds to leave the Service and to answer pending requests after SIGTERM.
const GRACE: u32 = 40;

/// Returns the server's process.
pub fn process(options: &Standalone) -> Process<'_> {
    Process::new(&options.common.name, COMPONENT, &options.deployment).with_host_network(options.reach.host_network)
}

/// Returns the Service that the API server calls.
pub fn service(process: Process<'_>) -> Document {
    let port = |name: &str, port: u16, target: &str| json!({"name": name, "port": port, "targetPort": target, "protocol": "TCP"});
    let spec = json!({
        "selector": selector(process.name, COMPONENT),
        "ports": [port("https", SERVICE_PORT, "https"), port("metrics", METRICS_PORT, "health")],
    });
    let service = process.object("v1", "Service", process.name, json!({"spec": spec}));
    let about = "What the API server calls. Prometheus finds /metrics on the port of this name.";
    Document::new("05-service", about, service)
}

/// Returns the NetworkPolicy of the server.
pub fn network_policy(process: Process<'_>, reach: Reach) -> Document {
    let about = "The server is called by the API server, the kubelet and Prometheus, and calls the API server.";
    let from = "From anywhere: no selector knows where the API server runs.";
    process.network_policy(&[reach.port, reach.health_port], about.to_owned(), from)
}

/// Returns the server's container.
pub fn container(options: &Standalone, needs: &Needs) -> Container {
    let mut volumes = Vec::new();
    if options.certificates != Certificates::SelfSigned {
        volumes.push(("tls", TLS_FOLDER, json!({"secret": {"secretName": options.tls_secret}})));
    }
    Container {
        arguments: arguments(options, needs),
        ports: vec![("https", options.reach.port), ("health", options.reach.health_port)],
        resources: json!({"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}),
        volumes,
        grace: GRACE,
    }
}

/// Returns the arguments of the server's container.
fn arguments(options: &Standalone, needs: &Needs) -> Vec<String> {
    let mut arguments = vec!["serve".to_owned()];
    let mut flag = |name: &str, value: &str| arguments.push(format!("--{name}={value}"));
    flag("settings", &process::mounted_settings());
    flag("listen", &format!("0.0.0.0:{}", options.reach.port));
    flag("health-listen", &format!("0.0.0.0:{}", options.reach.health_port));
    flag("namespace", &options.deployment.namespace);
    flag("service-name", &options.common.name);
    let watched = access::WATCHED.into_iter().filter(|read| needs.reads(*read));
    let watched: Vec<String> = watched.map(|read| format!("{}/{}", read.kind().0, read.kind().1)).collect();
    if watched.is_empty() {
        // The server reads no kind that is worth caching.
        flag("cache-max-staleness", "0s");
    } else {
        flag("cache-watch", &watched.join(","));
    }
    match options.certificates {
        Certificates::SelfSigned => {
            flag("certificates", "self-signed");
            flag("tls-secret", &options.tls_secret);
            if needs.has_mutating() {
                flag("mutating-webhook-configuration", &options.common.name);
            }
            if needs.has_validating() {
                flag("validating-webhook-configuration", &options.common.name);
            }
            if !options.no_crd {
                flag("custom-resource-definition", crd::NAME);
            }
        }
        Certificates::CertManager | Certificates::Files => {
            flag("certificates", "files");
            flag("tls-cert-file", &format!("{TLS_FOLDER}/tls.crt"));
            flag("tls-key-file", &format!("{TLS_FOLDER}/tls.key"));
        }
    }
    arguments
}

/// Returns the `clientConfig` with which the API server reaches a path of the server.
pub fn client_config(options: &Standalone, path: &str) -> Value {
    let service = json!({
        "name": options.common.name,
        "namespace": options.deployment.namespace,
        "path": path,
        "port": SERVICE_PORT,
    });
    match &options.ca_bundle {
        Some(bundle) if options.certificates == Certificates::Files => json!({"service": service, "caBundle": bundle}),
        _ => json!({ "service": service }),
    }
}
