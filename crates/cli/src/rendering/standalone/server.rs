//! How `pillion serve` is called and reached: the one place that knows its flags and ports.

use serde_json::{Value, json};

use super::super::needs::Needs;
use super::super::options::{Certificates, Standalone};
use super::super::{access, crd};
use super::webhooks;

/// Of the labels.
pub const COMPONENT: &str = "server";
/// The port for the API server.
pub const PORT: u16 = 8443;
/// The port for the kubelet and Prometheus, without TLS.
pub const HEALTH_PORT: u16 = 8080;
/// The port of the Service.
pub const SERVICE_PORT: u16 = 443;
/// Where the settings are mounted. The whole folder, so that changes reach it.
pub const SETTINGS_FOLDER: &str = "/etc/pillion";
/// The file in it.
pub const SETTINGS_FILE: &str = "settings.yaml";
/// Where the certificate is mounted, where it comes from a Secret.
pub const TLS_FOLDER: &str = "/etc/pillion-tls";

/// The arguments of the server's container.
pub fn arguments(options: &Standalone, needs: &Needs) -> Vec<String> {
    let mut arguments = vec!["serve".to_owned()];
    let mut flag = |name: &str, value: &str| arguments.push(format!("--{name}={value}"));
    flag("settings", &format!("{SETTINGS_FOLDER}/{SETTINGS_FILE}"));
    flag("listen", &format!("0.0.0.0:{PORT}"));
    flag("health-listen", &format!("0.0.0.0:{HEALTH_PORT}"));
    flag("namespace", &options.namespace);
    flag("service-name", &options.common.name);
    let watched = access::WATCHED.into_iter().filter(|read| needs.reads(*read));
    let watched: Vec<String> = watched.map(|read| format!("{}/{}", read.kind().0, read.kind().1)).collect();
    if watched.is_empty() {
        // Nothing is read that would be worth it.
        flag("cache-max-staleness", "0s");
    } else {
        flag("cache-watch", &watched.join(","));
    }
    match options.certificates {
        Certificates::SelfSigned => {
            flag("certificates", "self-signed");
            flag("tls-secret", &options.tls_secret);
            if webhooks::has_mutating(needs) {
                flag("mutating-webhook-configuration", &options.common.name);
            }
            if webhooks::has_validating(needs) {
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

/// How the API server reaches a path of the server.
pub fn client_config(options: &Standalone, path: &str) -> Value {
    let service = json!({
        "name": options.common.name,
        "namespace": options.namespace,
        "path": path,
        "port": SERVICE_PORT,
    });
    match &options.ca_bundle {
        Some(bundle) if options.certificates == Certificates::Files => json!({"service": service, "caBundle": bundle}),
        _ => json!({ "service": service }),
    }
}
