//! Renders cert-manager's objects, if cert-manager issues the certificate.

use serde_json::{Value, json};

use super::super::document::{Document, metadata};
use super::super::options::{Certificates, Standalone};

const FILE: &str = "04-certificates";

/// Returns the annotations that tell cert-manager whose CA to write into webhook configurations and the definition.
pub fn annotations(options: &Standalone) -> Value {
    match options.certificates {
        Certificates::CertManager => {
            json!({"cert-manager.io/inject-ca-from": format!("{}/{}", options.deployment.namespace, options.common.name)})
        }
        Certificates::SelfSigned | Certificates::Files => Value::Null,
    }
}

/// Returns the certificate, and an issuer with its own CA if the options name no issuer.
pub fn documents(options: &Standalone) -> Vec<Document> {
    if options.certificates != Certificates::CertManager {
        return Vec::new();
    }
    let name = options.common.name.as_str();
    let object = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": "cert-manager.io/v1",
            "kind": kind,
            "metadata": metadata(name, Some(&options.deployment.namespace), &options.common.name, "certificates", &Value::Null),
            "spec": spec,
        })
    };
    let issued_by = |kind: &str, name: &str| json!({"group": "cert-manager.io", "kind": kind, "name": name});
    let (bootstrap, authority) = (format!("{name}-self-signed"), format!("{name}-ca"));
    let mut documents = Vec::new();
    if options.issuer.is_none() {
        documents.push(Document::new(
            FILE,
            "Signs the CA, and nothing else.",
            object("Issuer", &bootstrap, json!({"selfSigned": {}})),
        ));
        let spec = json!({
            "isCA": true,
            "commonName": authority,
            "secretName": authority,
            "duration": "43800h0m0s",
            "privateKey": {"algorithm": "ECDSA", "size": 256},
            "issuerRef": issued_by("Issuer", &bootstrap),
        });
        documents.push(Document::new(
            FILE,
            "The CA. It lives for five years.",
            object("Certificate", &authority, spec),
        ));
        documents.push(Document::new(
            FILE,
            "Signs the server's certificate.",
            object("Issuer", &authority, json!({"ca": {"secretName": authority}})),
        ));
    }
    let issuer = match &options.issuer {
        Some((kind, name)) => issued_by(kind, name),
        None => issued_by("Issuer", &authority),
    };
    let service = format!("{name}.{}", options.deployment.namespace);
    let spec = json!({
        "secretName": options.tls_secret,
        "dnsNames": [format!("{service}.svc"), service, format!("{service}.svc.cluster.local")],
        "usages": ["server auth"],
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        "issuerRef": issuer,
    });
    documents.push(Document::new(
        FILE,
        "The server's certificate. cert-manager renews it, and the server reads it again.",
        object("Certificate", name, spec),
    ));
    documents
}
