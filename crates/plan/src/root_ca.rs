//! The certificate of the API server's authority in every namespace. Pods mount it beside their token (RUN-6;
//! kube-controller-manager's `root-ca-certificate-publisher-controller`).

use pillion_kubernetes::json;
use pillion_kubernetes::lookup::ObjectRef;
use serde_json::{Map, Value, json};

use super::Step;
use super::default_account::ACTIVE;

/// The name of the ConfigMap.
pub const NAME: &str = pillion_identity::names::ROOT_CA;
/// Its only key.
pub const KEY: &str = "ca.crt";
/// The annotation that describes the purpose of an object.
const DESCRIPTION: &str = "kubernetes.io/description";
const TEXT: &str = "The certificates by which Pods know the API server when they reach it inside the cluster, as \
                    kubernetes.default.svc or by its Service's address. Do not use them for anything else.";

/// An observed ConfigMap.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedConfigMap {
    uid: String,
    resource_version: String,
    /// The merge patch that corrects the ConfigMap; `None` if it is correct.
    repair: Option<Value>,
}

impl ObservedConfigMap {
    /// Whether the ConfigMap differs from the wanted contents.
    pub fn needs_repair(&self) -> bool {
        self.repair.is_some()
    }

    /// Compares a ConfigMap with its wanted contents. `data` must contain `authority` (certificates in PEM) and nothing
    /// else. The ConfigMap must have a description, which may be any text.
    pub fn compare(config_map: &Value, authority: &str) -> Self {
        let text = |key| json::text(config_map, &["metadata", key]).to_owned();
        let mut data = Map::new();
        for (key, _) in json::object(config_map, &["data"]).into_iter().flatten().filter(|(key, _)| *key != KEY) {
            data.insert(key.clone(), Value::Null);
        }
        if json::text(config_map, &["data", KEY]) != authority {
            data.insert(KEY.to_owned(), authority.into());
        }
        let is_described = !json::text(config_map, &["metadata", "annotations", DESCRIPTION]).is_empty();
        let repair = (!data.is_empty() || !is_described).then(|| {
            let mut repair = Map::new();
            if !data.is_empty() {
                repair.insert("data".to_owned(), Value::Object(data));
            }
            if !is_described {
                repair.insert("metadata".to_owned(), json!({"annotations": {DESCRIPTION: TEXT}}));
            }
            Value::Object(repair)
        });
        Self { uid: text("uid"), resource_version: text("resourceVersion"), repair }
    }
}

/// Returns the step that creates or corrects the ConfigMap in a namespace of this phase (`status.phase`); `None` if
/// there is nothing to do.
pub fn plan(namespace: &str, phase: &str, authority: &str, seen: Option<&ObservedConfigMap>) -> Option<Step> {
    if phase != ACTIVE {
        return None;
    }
    let Some(ObservedConfigMap { uid, resource_version, repair }) = seen else {
        return Some(Step::Create(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": namespace, "annotations": {DESCRIPTION: TEXT}},
            "data": {KEY: authority}
        })));
    };
    repair.as_ref().map(|patch| Step::Patch {
        object: ObjectRef {
            api_version: "v1",
            kind: "ConfigMap",
            namespace: Some(namespace.to_owned()),
            name: NAME.to_owned(),
        },
        uid: uid.clone(),
        resource_version: Some(resource_version.clone()),
        patch: patch.clone(),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const CA: &str = "-----BEGIN CERTIFICATE-----\n";

    fn seen(data: &Value, annotations: &Value) -> ObservedConfigMap {
        let metadata = json!({"name": NAME, "uid": "1", "resourceVersion": "7", "annotations": annotations});
        ObservedConfigMap::compare(&json!({"metadata": metadata, "data": data}), CA)
    }

    fn patch(data: &Value, annotations: &Value) -> Option<Value> {
        match plan("shop", "Active", CA, Some(&seen(data, annotations)))? {
            Step::Patch { uid, resource_version, patch, .. } => {
                assert_eq!((uid.as_str(), resource_version.as_deref()), ("1", Some("7")));
                Some(patch)
            }
            step => panic!("{step:?}"),
        }
    }

    #[test]
    fn run6_it_is_made_where_it_is_missing() {
        let Some(Step::Create(made)) = plan("shop", "Active", CA, None) else { panic!("nothing is made") };
        assert_eq!(made["data"], json!({"ca.crt": CA}));
        assert_eq!(
            plan("shop", "Active", CA, Some(&ObservedConfigMap::compare(&made, CA))),
            None,
            "what is made is right"
        );
    }

    #[rstest]
    #[case::terminating("Terminating")]
    #[case::no_phase_yet("")]
    fn run6_only_active_namespaces_have_it(#[case] phase: &str) {
        assert_eq!(plan("shop", phase, CA, None), None);
        assert_eq!(plan("shop", phase, CA, Some(&seen(&json!({}), &json!({})))), None);
    }

    #[rstest]
    #[case::right(json!({"ca.crt": CA}), json!({"kubernetes.io/description": "mine"}), None)]
    #[case::another(json!({"ca.crt": "x"}), json!({"kubernetes.io/description": "mine"}), Some(json!({"data": {"ca.crt": CA}})))]
    #[case::empty(Value::Null, json!({"kubernetes.io/description": "mine"}), Some(json!({"data": {"ca.crt": CA}})))]
    #[case::more(
        json!({"ca.crt": CA, "more": "x"}), json!({"kubernetes.io/description": "mine"}), Some(json!({"data": {"more": null}}))
    )]
    #[case::not_described(
        json!({"ca.crt": CA}), Value::Null, Some(json!({"metadata": {"annotations": {DESCRIPTION: TEXT}}}))
    )]
    fn run6_it_is_written_only_when_it_differs(
        #[case] data: Value,
        #[case] annotations: Value,
        #[case] written: Option<Value>,
    ) {
        assert_eq!(patch(&data, &annotations), written);
    }
}
