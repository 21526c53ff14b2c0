//! Which SidecarSets may select a Pod that another one selects.
//!
//! Thousands of SidecarSets have millions of pairs. Most select their Pods by a label with a value of their own, so that
//! nearly all pairs need no comparison.

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::json;
use pillion_sidecarset::sidecar_set::SidecarSet;

/// The names of SidecarSets by a label that their Pods must have.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    by_label: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    /// Those whose Pods need no label.
    without_label: BTreeSet<String>,
}

/// Returns the labels that the Pods of a SidecarSet must have: `spec.selector.matchLabels`.
fn labels(set: &SidecarSet) -> impl Iterator<Item = (&str, &str)> {
    json::string_map(set.as_value(), &["spec", "selector", "matchLabels"])
}

impl Neighbours {
    /// Adds a SidecarSet. The places of its earlier versions stay.
    pub(super) fn put(&mut self, set: &SidecarSet) {
        let names = match labels(set).next() {
            Some((key, value)) => self.by_label.entry(key.to_owned()).or_default().entry(value.to_owned()).or_default(),
            None => &mut self.without_label,
        };
        names.insert(set.name().to_owned());
    }

    /// Returns the names of all SidecarSets that may select a Pod that this one selects, and of some that do not.
    pub(super) fn of(&self, set: &SidecarSet) -> BTreeSet<&str> {
        let labels: BTreeMap<&str, &str> = labels(set).collect();
        let with_label = self.by_label.iter().flat_map(|(key, by_value)| {
            let needed = labels.get(key.as_str());
            let (one, all) = match needed {
                Some(value) => (by_value.get(*value), None),
                None => (None, Some(by_value.values().flatten())),
            };
            one.into_iter().flatten().chain(all.into_iter().flatten())
        });
        with_label.chain(&self.without_label).map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use pillion_sidecarset::validation::conflicts::Reach;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use proptest::sample::select;
    use serde_json::{Value, json};

    use super::*;

    fn set(name: &str, selector: &Value) -> SidecarSet {
        SidecarSet::from_decoded(json!({"metadata": {"name": name}, "spec": {"selector": selector}}))
    }

    fn of(all: &[SidecarSet], set: &SidecarSet) -> Vec<String> {
        let mut neighbours = Neighbours::default();
        for set in all {
            neighbours.put(set);
        }
        neighbours.of(set).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn sets_of_other_values_of_a_label_are_no_neighbours() {
        let app = |app: &str| json!({"matchLabels": {"app": app}});
        let all = [
            set("web", &app("web")),
            set("shop", &app("shop")),
            set("team", &json!({"matchLabels": {"team": "a"}})),
            set("every", &json!({})),
        ];
        assert_eq!(of(&all, &set("new", &app("web"))), ["every", "team", "web"]);
        assert_eq!(of(&all, &set("new", &json!({}))), ["every", "shop", "team", "web"]);
    }

    fn selectors() -> impl Strategy<Value = Value> {
        let labels = btree_map(select(vec!["a", "b", "c"]), select(vec!["1", "2"]), 0..3);
        let expression = (select(vec!["a", "b"]), select(vec!["In", "NotIn"]), select(vec!["1", "2"]))
            .prop_map(|(key, operator, value)| json!({"key": key, "operator": operator, "values": [value]}));
        (labels, vec(expression, 0..2))
            .prop_map(|(labels, expressions)| json!({"matchLabels": labels, "matchExpressions": expressions}))
    }

    proptest! {
        #[test]
        fn no_set_that_may_meet_another_is_passed_over(selectors in vec(selectors(), 1..8), new in selectors()) {
            let all: Vec<SidecarSet> =
                selectors.iter().enumerate().map(|(number, selector)| set(&format!("set-{number}"), selector)).collect();
            let new = set("new", &new);
            let near = of(&all, &new);
            let reach = Reach::from_sidecar_set(new.as_value());
            for other in &all {
                let meets = reach.may_meet(&Reach::from_sidecar_set(other.as_value()));
                prop_assert!(!meets || near.contains(&other.name().to_owned()), "{other:?} and {new:?}");
            }
        }
    }
}
