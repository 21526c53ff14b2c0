//! The cluster that a policy queries through its host: a few objects in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// Objects, found by API version, kind, namespace and name. Every user has every permission.
#[derive(Clone, Debug, Default)]
pub struct Objects(Arc<BTreeMap<Key, Value>>);

type Key = (String, String, Option<String>, String);

impl Objects {
    /// Stores complete objects, each with `apiVersion`, `kind` and `metadata.name`.
    pub fn new(objects: impl IntoIterator<Item = Value>) -> Self {
        let text = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let keyed = objects.into_iter().map(|object| {
            let part = |pointer| text(&object, pointer).unwrap_or_default();
            let key =
                (part("/apiVersion"), part("/kind"), text(&object, "/metadata/namespace"), part("/metadata/name"));
            (key, object)
        });
        Self(Arc::new(keyed.collect()))
    }

    /// Answers a call of the host's `kubernetes` capability as a policy server does. The object is serialized for each
    /// call.
    ///
    /// # Errors
    /// The policy server's text, if there is no such object or operation.
    pub fn answer(&self, namespace: &str, operation: &str, payload: &[u8]) -> Result<Vec<u8>, String> {
        match (namespace, operation) {
            ("kubernetes", "get_resource") => self.get(payload),
            ("kubernetes", "can_i") => Ok(br#"{"allowed":true}"#.to_vec()),
            _ => Err(format!("unknown operation: {namespace}/{operation}")),
        }
    }

    fn get(&self, payload: &[u8]) -> Result<Vec<u8>, String> {
        let query: Value = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
        let text = |key: &str| query.get(key).and_then(Value::as_str).map(str::to_owned);
        let part = |key: &str| text(key).unwrap_or_default();
        let key = (part("api_version"), part("kind"), text("namespace"), part("name"));
        let found = self.0.get(&key).ok_or_else(|| {
            let (version, kind, namespace, name) = &key;
            format!("Cannot find {version}/{kind} named '{name}' inside of namespace '{namespace:?}'")
        })?;
        serde_json::to_vec(found).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_found_by_all_parts_of_their_name() {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        let objects = Objects::new([namespace.clone()]);
        let ask = |query: Value| objects.answer("kubernetes", "get_resource", query.to_string().as_bytes());
        let found = ask(json!({"api_version": "v1", "kind": "Namespace", "name": "shop", "namespace": null}));
        assert_eq!(serde_json::from_slice::<Value>(&found.unwrap()).unwrap(), namespace);
        let absent = ask(json!({"api_version": "v1", "kind": "Namespace", "name": "other", "namespace": null}));
        assert!(absent.unwrap_err().starts_with("Cannot find v1/Namespace named 'other'"));
        assert!(objects.answer("net", "v1/dns_lookup_host", b"{}").is_err());
    }
}
