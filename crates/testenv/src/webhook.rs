//! Webhook configurations for servers that a test runs itself.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhook,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::Error;

/// A webhook at a URL of this machine, such as `https://127.0.0.1:20001/validate`. It has the API's defaults, except
/// that failures are not ignored and the timeout is five seconds.
///
/// The API server applies a new configuration within a second or two, so a test must retry until the webhook takes
/// effect.
#[derive(Clone, Debug)]
pub struct Hook {
    name: String,
    client: WebhookClientConfig,
    rules: Vec<RuleWithOperations>,
    failure_policy: &'static str,
    timeout_seconds: i32,
}

/// The operations for which a webhook is called.
pub type Operations<'a> = &'a [&'a str];

impl Hook {
    /// Creates a webhook without rules. The name has at least three parts, as in `pods.pillion.dev`. `authority` is the
    /// certificate, in PEM, that signed the server's.
    pub fn new(name: &str, url: &str, authority: &str) -> Self {
        Self {
            name: name.to_owned(),
            client: WebhookClientConfig {
                ca_bundle: Some(ByteString(authority.as_bytes().to_vec())),
                url: Some(url.to_owned()),
                ..WebhookClientConfig::default()
            },
            rules: Vec::new(),
            failure_policy: "Fail",
            timeout_seconds: 5,
        }
    }

    /// Adds a rule for these operations on a resource, given by group (empty for the core group), version and plural
    /// name.
    #[must_use]
    pub fn on(mut self, group: &str, version: &str, resource: &str, operations: Operations<'_>) -> Self {
        self.rules.push(RuleWithOperations {
            api_groups: Some(vec![group.to_owned()]),
            api_versions: Some(vec![version.to_owned()]),
            resources: Some(vec![resource.to_owned()]),
            operations: Some(operations.iter().map(|operation| (*operation).to_owned()).collect()),
            scope: None,
        });
        self
    }

    /// Accepts objects if the webhook cannot be called.
    #[must_use]
    pub fn ignore_failures(mut self) -> Self {
        self.failure_policy = "Ignore";
        self
    }

    /// Sets the timeout in seconds, from 1 to 30.
    #[must_use]
    pub fn timeout(mut self, seconds: u8) -> Self {
        self.timeout_seconds = i32::from(seconds);
        self
    }

    /// Returns a configuration with only this webhook, which may change objects.
    pub fn mutating(&self) -> MutatingWebhookConfiguration {
        let webhook = MutatingWebhook {
            admission_review_versions: vec!["v1".to_owned()],
            client_config: self.client.clone(),
            failure_policy: Some(self.failure_policy.to_owned()),
            name: self.name.clone(),
            reinvocation_policy: Some("IfNeeded".to_owned()),
            rules: Some(self.rules.clone()),
            side_effects: "None".to_owned(),
            timeout_seconds: Some(self.timeout_seconds),
            ..MutatingWebhook::default()
        };
        MutatingWebhookConfiguration { metadata: self.metadata(), webhooks: Some(vec![webhook]) }
    }

    /// Returns a configuration with only this webhook, which gets objects in their final form.
    pub fn validating(&self) -> ValidatingWebhookConfiguration {
        let webhook = ValidatingWebhook {
            admission_review_versions: vec!["v1".to_owned()],
            client_config: self.client.clone(),
            failure_policy: Some(self.failure_policy.to_owned()),
            name: self.name.clone(),
            rules: Some(self.rules.clone()),
            side_effects: "None".to_owned(),
            timeout_seconds: Some(self.timeout_seconds),
            ..ValidatingWebhook::default()
        };
        ValidatingWebhookConfiguration { metadata: self.metadata(), webhooks: Some(vec![webhook]) }
    }

    /// Creates the configuration of a webhook that may change objects.
    ///
    /// # Errors
    ///
    /// If the API server refuses it.
    pub async fn create_mutating(&self, client: &Client) -> Result<(), Error> {
        let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let created = configurations.create(&PostParams::default(), &self.mutating()).await;
        created.map(drop).map_err(Error::api(format!("webhook \"{}\"", self.name)))
    }

    /// Creates the configuration of a webhook that gets objects in their final form.
    ///
    /// # Errors
    ///
    /// If the API server refuses it.
    pub async fn create_validating(&self, client: &Client) -> Result<(), Error> {
        let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        let created = configurations.create(&PostParams::default(), &self.validating()).await;
        created.map(drop).map_err(Error::api(format!("webhook \"{}\"", self.name)))
    }

    fn metadata(&self) -> ObjectMeta {
        ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() }
    }
}

/// Points every webhook of a manifest, including conversion webhooks, at a server of the test: the Service is replaced
/// by its path below `url`. `authority` is the certificate, in PEM, that signed the server's.
pub fn point_at(manifest: &mut Value, url: &str, authority: &str) {
    match manifest {
        Value::Array(items) => items.iter_mut().for_each(|item| point_at(item, url, authority)),
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.get("service") {
                    Some(service) if key == "clientConfig" => {
                        let path = service.get("path").and_then(Value::as_str).unwrap_or_default();
                        let authority = ByteString(authority.as_bytes().to_vec());
                        *value = json!({ "url": format!("{url}{path}"), "caBundle": authority });
                    }
                    _ => point_at(value, url, authority),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_of_services_are_asked_at_the_url_and_others_where_they_are() {
        let service = json!({ "name": "pillion", "namespace": "pillion", "path": "/mutate" });
        let mut manifest = json!({
            "webhooks": [
                { "clientConfig": { "service": service, "caBundle": "b2xk" } },
                { "clientConfig": { "url": "https://example.com/" } },
            ],
            "spec": { "conversion": { "webhook": { "clientConfig": { "service": { "path": "/convert" } } } } },
        });

        point_at(&mut manifest, "https://127.0.0.1:20001", "ca");

        assert_eq!(
            manifest,
            json!({
                "webhooks": [
                    { "clientConfig": { "url": "https://127.0.0.1:20001/mutate", "caBundle": "Y2E=" } },
                    { "clientConfig": { "url": "https://example.com/" } },
                ],
                "spec": {
                    "conversion": {
                        "webhook": { "clientConfig": { "url": "https://127.0.0.1:20001/convert", "caBundle": "Y2E=" } },
                    },
                },
            })
        );
    }
}
