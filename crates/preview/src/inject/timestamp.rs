//! The time of injection. The current time would make every output different.

use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::names;
use serde_json::Value;

/// Replaces the time of every entry with `now`, unless `before` has the same time.
///
/// The policy takes the time from the host's clock, as it does in a cluster. Unchanged entries keep their time.
pub fn set(before: &Value, after: &mut Value, now: Timestamp) {
    for key in [names::HASH, names::HASH_WITHOUT_IMAGE] {
        let old = json::text(before, &["metadata", "annotations", key]).to_owned();
        let Some(Value::String(text)) = after.pointer_mut("/metadata/annotations").and_then(|all| all.get_mut(key))
        else {
            continue;
        };
        let Ok(entries) = json::parse(text.as_bytes()) else { continue };
        for entry in entries.as_object().into_iter().flat_map(|entries| entries.values()) {
            let stamp = format!("\"updateTimestamp\":\"{}\"", json::text(entry, &["updateTimestamp"]));
            if !old.contains(&stamp) {
                *text = text.replace(&stamp, &format!("\"updateTimestamp\":\"{now}\""));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_new_entries_get_the_time() {
        let pod = |text: &str| json!({"metadata": {"annotations": {names::HASH: text}}});
        let before = pod(r#"{"a":{"updateTimestamp":"2020-01-01T00:00:00Z","hash":"h"}}"#);
        let mut after = pod(
            r#"{"a":{"updateTimestamp":"2020-01-01T00:00:00Z","hash":"h"},"b":{"updateTimestamp":"2026-11-21T14:00:00Z"},"c":{"updateTimestamp":null}}"#,
        );
        set(&before, &mut after, Timestamp(0));
        assert_eq!(
            json::text(&after, &["metadata", "annotations", names::HASH]),
            r#"{"a":{"updateTimestamp":"2020-01-01T00:00:00Z","hash":"h"},"b":{"updateTimestamp":"1970-01-01T00:00:00Z"},"c":{"updateTimestamp":null}}"#
        );
    }

    #[test]
    fn other_pods_stay() {
        for annotations in [json!({names::HASH: "no json"}), json!({names::HASH: 3}), json!(null)] {
            let pod = json!({"metadata": {"annotations": annotations}});
            let mut after = pod.clone();
            set(&json!({}), &mut after, Timestamp(0));
            assert_eq!(after, pod);
        }
    }
}
