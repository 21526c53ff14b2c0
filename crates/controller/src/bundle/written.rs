//! Our own writes, kept until the watch shows them.

use std::collections::BTreeMap;
use std::sync::Arc;

use pillion_kubernetes::json;
use pillion_plan::Step;
use serde_json::Value;

/// The written ConfigMaps, by name.
#[derive(Default)]
pub(super) struct Written(BTreeMap<String, Own>);

struct Own {
    /// The resource version that the watch showed before the write; `None` if the object did not exist.
    before: Option<String>,
    /// The object after the write; `None` after a deletion.
    after: Option<Arc<Value>>,
}

impl Written {
    /// Returns the ConfigMaps in `shown`, overlaid with our own writes until the watch delivers a newer version.
    pub(super) fn over(&mut self, shown: Vec<Arc<Value>>) -> Vec<Arc<Value>> {
        let mut all: BTreeMap<String, Arc<Value>> =
            shown.into_iter().map(|object| (name(&object).to_owned(), object)).collect();
        self.0.retain(|name, own| all.get(name).map(|object| version(object)) == own.before.as_deref());
        for (name, own) in &self.0 {
            match &own.after {
                Some(object) => all.insert(name.clone(), Arc::clone(object)),
                None => all.remove(name),
            };
        }
        all.into_values().collect()
    }

    /// Records the result of a step and applies it to `all`.
    pub(super) fn note(&mut self, step: &Step, answer: Option<Value>, all: &mut Vec<Arc<Value>>) {
        let name = match step {
            Step::Create(object) | Step::Apply(object) => name(object),
            Step::Patch { object, .. } | Step::Delete { object, .. } => &object.name,
        }
        .to_owned();
        let seen = all.iter().position(|object| self::name(object) == name);
        let seen = seen.map(|index| all.remove(index));
        let after = answer.map(|mut object| {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
            Arc::new(object)
        });
        if let Some(object) = &after {
            all.push(Arc::clone(object));
            all.sort_by(|one, other| self::name(one).cmp(self::name(other)));
        }
        // After two writes, the version that the watch showed before the first one counts.
        let before = match self.0.remove(&name) {
            Some(own) => own.before,
            None => seen.map(|object| version(&object).to_owned()),
        };
        self.0.insert(name, Own { before, after });
    }
}

fn name(object: &Value) -> &str {
    json::text(object, &["metadata", "name"])
}

fn version(object: &Value) -> &str {
    json::text(object, &["metadata", "resourceVersion"])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn map(version: &str) -> Arc<Value> {
        Arc::new(json!({"metadata": {"name": "sets", "resourceVersion": version}}))
    }

    fn versions(all: &[Arc<Value>]) -> Vec<&str> {
        all.iter().map(|object| version(object)).collect()
    }

    #[rstest]
    #[case::not_shown_yet(&["1"], &["1"], &["2"])]
    #[case::shown(&["1"], &["2"], &["2"])]
    #[case::changed_by_somebody_else(&["1"], &["3"], &["3"])]
    #[case::made_and_not_shown_yet(&[], &[], &["2"])]
    #[case::made_and_shown(&[], &["2"], &["2"])]
    #[case::made_and_changed(&[], &["3"], &["3"])]
    #[case::deleted_by_somebody_else(&["1"], &[], &[])]
    fn what_was_written_counts_until_the_watch_shows_anything_else(
        #[case] before: &[&str],
        #[case] shown: &[&str],
        #[case] expected: &[&str],
    ) {
        let all = |versions: &[&str]| -> Vec<Arc<Value>> { versions.iter().map(|version| map(version)).collect() };
        let mut written = Written::default();
        let mut now = written.over(all(before));
        written.note(&Step::Apply(Value::clone(&map(""))), Some(Value::clone(&map("2"))), &mut now);
        assert_eq!(versions(&now), ["2"]);
        assert_eq!(versions(&written.over(all(shown))), expected);
    }

    #[test]
    fn what_was_written_twice_is_what_it_was_made_last() {
        let mut written = Written::default();
        let mut now = written.over(Vec::new());
        for version in ["1", "2"] {
            written.note(&Step::Create(Value::clone(&map(""))), Some(Value::clone(&map(version))), &mut now);
        }
        assert_eq!(versions(&written.over(Vec::new())), ["2"]);
        written.note(&Step::Create(Value::clone(&map(""))), None, &mut now);
        assert_eq!(versions(&written.over(Vec::new())), [""; 0]);
        assert_eq!(versions(&now), [""; 0]);
    }
}
