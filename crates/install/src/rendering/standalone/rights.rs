//! The roles for what the server changes: its own certificate, and the objects that carry its CA.

use super::super::access::{self, Access, Grant};
use super::super::crd;
use super::super::document::Document;
use super::super::needs::Needs;
use super::super::options::{Certificates, Standalone};
use super::super::process;

const PATCH: &[&str] = &["get", "patch"];

/// Returns the roles, or nothing if the certificate has another source.
pub fn documents(options: &Standalone, needs: &Needs) -> Vec<Document> {
    if options.certificates != Certificates::SelfSigned {
        return Vec::new();
    }
    let instance = options.common.name.as_str();
    let name = format!("{instance}-certificates");
    let subject = (options.deployment.namespace.as_str(), instance);
    let of = |namespace, about| Access { name: &name, namespace, instance, subject, about };

    let about = "Where the server writes its CA, so that the API server trusts it.";
    let mut documents = access::documents(process::RBAC, of(None, about), &bundles(options, needs));
    let about = "The server's certificate and CA.";
    let secrets = [
        Grant::new(
            "",
            &["secrets"],
            &["create"],
            "The first time. RBAC cannot say by which name something is created.",
        ),
        Grant::new(
            "",
            &["secrets"],
            &["get", "update"],
            "Its own Secret, when the certificate is renewed; no other one.",
        )
        .named(&[&options.tls_secret]),
    ];
    documents.extend(access::documents(process::RBAC, of(Some(&options.deployment.namespace), about), &secrets));
    documents
}

fn bundles(options: &Standalone, needs: &Needs) -> Vec<Grant> {
    let instance = options.common.name.as_str();
    let why = "caBundle of its own webhook configurations, and of no others.";
    let mut grants = Vec::new();
    let mut own = |resources: &'static [&'static str]| {
        grants.push(Grant::new("admissionregistration.k8s.io", resources, PATCH, why).named(&[instance]));
    };
    match (needs.has_mutating(), needs.has_validating()) {
        (true, true) => own(&["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]),
        (true, false) => own(&["mutatingwebhookconfigurations"]),
        (false, true) => own(&["validatingwebhookconfigurations"]),
        (false, false) => {}
    }
    if !options.no_crd {
        let why = "caBundle of the SidecarSet definition's conversion webhook.";
        let definitions = Grant::new("apiextensions.k8s.io", &["customresourcedefinitions"], PATCH, why);
        grants.push(definitions.named(&[crd::NAME]));
    }
    grants
}
