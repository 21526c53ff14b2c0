//! Ends the conversion of SidecarSets by a server that is going away.

use std::fmt;

use pillion_cluster::{Kind, WriteError, Writer};
use pillion_install::rendering::crd;
use pillion_kubernetes::json;
use serde_json::{Value, json};

use super::MANAGER;

const KIND: Kind<'static> = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition");
/// The number of attempts while others change the definition.
const ATTEMPTS: u8 = 10;

/// The Service that a conversion webhook calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub name: String,
    pub namespace: String,
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The result of [`end`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is no definition.
    Missing,
    /// The definition has no conversion webhook.
    NoWebhook,
    /// The conversion webhook is not that of the Service.
    Foreign {
        /// The address that it calls.
        called: String,
        /// The Service of this installation.
        own: Service,
    },
    /// The definition no longer calls the Service.
    Ended(Service),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomResourceDefinition {}: ", crd::NAME)?;
        match self {
            Self::Missing => write!(f, "not there"),
            Self::NoWebhook => write!(f, "left as it is: it has no conversion webhook"),
            Self::Foreign { called, own } => {
                write!(f, "left as it is: its conversion webhook calls {called}, not the Service {own}")
            }
            Self::Ended(service) => {
                write!(f, "no longer calls the Service {service} for conversion; SidecarSets stay as they are")
            }
        }
    }
}

/// Removes the conversion webhook from the definition of SidecarSets if it calls this Service.
///
/// Afterwards, no field of the definition is owned by this command: otherwise, a later server-side apply of the
/// definition, which brings the webhook back, would be a conflict.
///
/// # Errors
/// The definition cannot be read or written, or others change it all the time.
pub async fn end(writer: &Writer, service: &Service) -> Result<Outcome, WriteError> {
    let mut outcome = Outcome::Missing;
    for _ in 0..ATTEMPTS {
        let Some(definition) = writer.get(KIND, None, crd::NAME).await? else { return Ok(outcome) };
        let patch = match step(&definition, service) {
            Step::Nothing(found) => {
                let is_done = matches!(outcome, Outcome::Ended(_));
                return Ok(if is_done { outcome } else { found });
            }
            Step::Patch(patch) => patch,
        };
        match writer.patch(KIND, crd::NAME, &patch, false).await {
            Ok(_) => outcome = Outcome::Ended(service.clone()),
            Err(WriteError::Changed(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(WriteError::Changed(format!("CustomResourceDefinition {}", crd::NAME)))
}

/// The next write.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// None: the definition is as it should be, or not ours.
    Nothing(Outcome),
    /// A JSON Patch, which applies only to the version that was read.
    Patch(Vec<Value>),
}

fn step(definition: &Value, service: &Service) -> Step {
    let mut operations = Vec::new();
    let found = called(definition, service);
    match found {
        None => {
            operations.push(json!({"op": "replace", "path": "/spec/conversion", "value": {"strategy": "None"}}));
            operations.extend(missing_fields(definition));
        }
        // A second write, since the API server notes the owner of fields in the first.
        Some(Outcome::NoWebhook) => operations.extend(disowned(definition)),
        Some(_) => {}
    }
    if operations.is_empty() {
        return Step::Nothing(found.unwrap_or(Outcome::NoWebhook));
    }
    let version = json::text(definition, &["metadata", "resourceVersion"]);
    operations.insert(0, json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}));
    Step::Patch(operations)
}

/// Returns why the conversion is left as it is, or `None` if it calls this Service.
fn called(definition: &Value, own: &Service) -> Option<Outcome> {
    if json::text(definition, &["spec", "conversion", "strategy"]) != "Webhook" {
        return Some(Outcome::NoWebhook);
    }
    let text = |key| json::text(definition, &["spec", "conversion", "webhook", "clientConfig", "service", key]);
    let service = Service { name: text("name").to_owned(), namespace: text("namespace").to_owned() };
    if service == *own {
        return None;
    }
    let url = json::text(definition, &["spec", "conversion", "webhook", "clientConfig", "url"]);
    let called = if url.is_empty() { format!("the Service {service}") } else { url.to_owned() };
    Some(Outcome::Foreign { called, own: own.clone() })
}

/// Returns the operations that give each version the fields that only the other one has. Without a webhook, the API
/// server converts by changing `apiVersion` alone, and drops the fields that a version lacks.
fn missing_fields(definition: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    for (index, version) in json::items(definition, &["spec", "versions"]).iter().enumerate() {
        let path = ["schema", "openAPIV3Schema", "properties", "spec", "properties"];
        let Some(known) = json::at(version, &path).and_then(Value::as_object) else { continue };
        for (name, schema) in crd::fields_of_one_version(json::text(version, &["name"])) {
            if !known.contains_key(&name) {
                let path = format!("/spec/versions/{index}/{}/{name}", path.join("/"));
                operations.push(json!({"op": "add", "path": path, "value": schema}));
            }
        }
    }
    operations
}

/// Returns the operation that makes this command own no field, if it owns any.
fn disowned(definition: &Value) -> Option<Value> {
    let entries = json::items(definition, &["metadata", "managedFields"]);
    let index = entries.iter().position(|entry| json::text(entry, &["manager"]) == MANAGER)?;
    Some(json!({"op": "remove", "path": format!("/metadata/managedFields/{index}")}))
}

#[cfg(test)]
mod tests {
    use pillion_install::rendering::crd::Conversion;
    use rstest::rstest;

    use super::*;

    fn own() -> Service {
        Service { name: "pillion".to_owned(), namespace: "pillion-system".to_owned() }
    }

    fn definition(client: &Value) -> Value {
        let mut object = crd::document("pillion", &Conversion::Webhook(client.clone()), &Value::Null).object;
        object["metadata"]["resourceVersion"] = "7".into();
        object
    }

    fn ours() -> Value {
        definition(&json!({"service": {"name": "pillion", "namespace": "pillion-system", "path": "/convert"}}))
    }

    fn patched(definition: &Value, step: Step) -> Value {
        let Step::Patch(operations) = step else { panic!("nothing to do: {step:?}") };
        let mut after = definition.clone();
        let patch: json_patch::Patch = serde_json::from_value(operations.into()).expect("a patch");
        json_patch::patch(&mut after, &patch).expect("it applies");
        after
    }

    #[test]
    fn the_definition_becomes_the_one_that_is_rendered_without_a_webhook() {
        let before = ours();
        let mut expected = crd::document("pillion", &Conversion::None, &Value::Null).object;
        expected["metadata"]["resourceVersion"] = "7".into();
        assert_eq!(patched(&before, step(&before, &own())), expected);
    }

    #[rstest]
    #[case::openkruise(json!({"service": {"name": "kruise-webhook-service", "namespace": "kruise-system"}}), "the Service kruise-system/kruise-webhook-service")]
    #[case::another_namespace(json!({"service": {"name": "pillion", "namespace": "other"}}), "the Service other/pillion")]
    #[case::another_name(json!({"service": {"name": "other", "namespace": "pillion-system"}}), "the Service pillion-system/other")]
    #[case::url(json!({"url": "https://pillion.example.com/convert"}), "https://pillion.example.com/convert")]
    fn another_webhook_stays(#[case] client: Value, #[case] called: &str) {
        let outcome = Outcome::Foreign { called: called.to_owned(), own: own() };
        assert_eq!(step(&definition(&client), &own()), Step::Nothing(outcome.clone()));
        assert!(outcome.to_string().contains(called), "{outcome}");
    }

    #[test]
    fn a_definition_without_a_webhook_is_only_disowned() {
        let mut definition = crd::document("pillion", &Conversion::None, &Value::Null).object;
        assert_eq!(step(&definition, &own()), Step::Nothing(Outcome::NoWebhook));
        definition["metadata"]["managedFields"] = json!([{"manager": "helm"}, {"manager": MANAGER}]);
        definition["metadata"]["resourceVersion"] = "7".into();
        let after = patched(&definition, step(&definition, &own()));
        assert_eq!(after["metadata"]["managedFields"], json!([{"manager": "helm"}]));
    }

    #[test]
    fn a_version_that_has_the_fields_keeps_its_own() {
        let mut definition = ours();
        let spec = "/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties";
        let other = json!({"type": "string", "maxLength": 5});
        definition.pointer_mut(spec).expect("a schema")["namespace"] = other.clone();
        let after = patched(&definition, step(&definition, &own()));
        assert_eq!(after.pointer(spec).expect("a schema")["namespace"], other);
        let old = after.pointer(&spec.replace("/1/", "/0/")).expect("a schema");
        assert_eq!(old["customVersion"]["type"], "string");
    }
}
