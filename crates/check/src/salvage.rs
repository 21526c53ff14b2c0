//! Decodes the valid fields of an object that cannot be decoded as a whole. The module stops after decoding errors;
//! `check` goes on.

use pillion_documents::locate::resolve;
use pillion_kubernetes::field::{Cause, FieldError};
use pillion_yaml::token;
use serde_json::Value;

/// The maximum number of attempts to decode an object. Each removes something, so most objects need fewer.
const ROUNDS: usize = 32;

/// An object decoded without some of its fields.
#[derive(Debug)]
pub struct Salvaged<T> {
    /// The decoded object.
    pub value: T,
    /// The paths of the removed fields.
    removed: Vec<String>,
}

impl<T> Salvaged<T> {
    /// Wraps an object that decodes as a whole.
    pub const fn whole(value: T) -> Self {
        Self { value, removed: Vec::new() }
    }

    /// Whether an error is independent of the removed fields. A missing value, or a reference to a missing one, may
    /// result from a removal.
    pub fn stands(&self, error: &FieldError) -> bool {
        self.removed.is_empty()
            || (error.cause != Cause::NotFound && !self.removed.iter().any(|path| are_related(path, &error.path)))
    }
}

/// Whether the paths are equal, or one is an ancestor of the other.
fn are_related(one: &str, other: &str) -> bool {
    let is_above = |one: &str, other: &str| {
        other.strip_prefix(one).is_some_and(|rest| one.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']))
    };
    is_above(one, other) || is_above(other, one)
}

/// Decodes an object without the fields that `decode` reports. Returns `None` if the error is in the object as a whole
/// or in a required field.
pub fn salvage<T>(raw: &Value, decode: impl Fn(Value) -> Result<T, Vec<FieldError>>) -> Option<Salvaged<T>> {
    let mut rest = raw.clone();
    let mut removed = Vec::new();
    for _ in 0..ROUNDS {
        let errors = match decode(rest.clone()) {
            Ok(value) => return Some(Salvaged { value, removed }),
            Err(errors) => errors,
        };
        for error in errors {
            let pointer = faulty(&rest, &error);
            take_out(&mut rest, &pointer)?;
            removed.push(error.path);
        }
    }
    None
}

/// Returns the JSON pointer of the part to remove for an error: the field, the map entry that the error shows, or the
/// parent of a missing field.
fn faulty(object: &Value, error: &FieldError) -> String {
    let target = resolve(object, &error.path);
    let entries = object.pointer(&target.pointer).and_then(Value::as_object).filter(|_| target.is_whole);
    match (entries, &error.value) {
        (Some(entries), Some(key)) if entries.contains_key(key) => format!("{}/{}", target.pointer, token(key)),
        _ => target.pointer,
    }
}

/// Removes the value at a JSON pointer. Removes the whole list instead of a single item, so that other paths stay
/// valid.
fn take_out(object: &mut Value, pointer: &str) -> Option<()> {
    let (parent, key) = pointer.rsplit_once('/')?;
    match object.pointer_mut(parent)? {
        Value::Object(entries) => {
            entries.remove(&key.replace("~1", "/").replace("~0", "~"));
            Some(())
        }
        _ => take_out(object, parent),
    }
}

#[cfg(test)]
mod tests {
    use pillion_admission::settings::Settings;
    use pillion_sidecarset::sidecar_set::decode::decode;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn set(spec: &Value) -> Value {
        json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "a"}, "spec": spec})
    }

    #[rstest]
    #[case::a_scalar(json!({"containers": [{"name": "a", "image": 5}]}), json!({"containers": [{"name": "a"}]}))]
    #[case::an_item_of_a_list(
        json!({"containers": [{"name": "a", "args": ["x", 5], "image": "i"}]}),
        json!({"containers": [{"name": "a", "image": "i"}]})
    )]
    #[case::several(json!({"containers": 5, "volumes": 5, "selector": {}}), json!({"selector": {}}))]
    fn the_rest_of_a_set_is_decoded(#[case] spec: Value, #[case] rest: Value) {
        let found = salvage(&set(&spec), |raw| decode(raw).map(|set| set.object().clone())).unwrap();
        let expected = decode(set(&rest)).unwrap();
        assert_eq!(&found.value, expected.object());
    }

    #[rstest]
    #[case::no_set(json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "Pod"}))]
    #[case::no_object(json!(5))]
    fn nothing_is_left_of_what_is_something_else(#[case] raw: Value) {
        assert!(salvage(&raw, decode).is_none());
    }

    #[test]
    fn settings_keep_what_is_sound() {
        let raw = json!({
            "featureGates": {"SidecarSetServiceAccountInjection": true, "Other": true},
            "serviceAccounts": {"allowPodMode": "yes", "onMissing": "Skip"}, "sistemNamespace": "a",
        });
        let found = salvage(&raw, Settings::decode).unwrap();
        assert!(found.value.gates.service_account_injection);
        let rules = Settings::decode(json!({"serviceAccounts": {"onMissing": "Skip"}})).unwrap().service_accounts;
        assert_eq!(found.value.service_accounts, rules);
    }

    #[rstest]
    #[case::the_same("spec.a", false)]
    #[case::below("spec.a[0].b", false)]
    #[case::above("spec", false)]
    #[case::beside("spec.ab", true)]
    fn errors_that_the_removal_brings_about_are_none(#[case] path: &str, #[case] stands: bool) {
        let salvaged = Salvaged { value: (), removed: vec!["spec.a".to_owned()] };
        assert_eq!(salvaged.stands(&FieldError::required(path, "")), stands);
        assert!(!salvaged.stands(&FieldError::not_found("spec.other", "x", "")));
    }
}
