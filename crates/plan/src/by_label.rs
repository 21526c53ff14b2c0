//! SidecarSets by a label that their Pods must have.
//!
//! A cluster has thousands of SidecarSets. Most select their Pods by a label with a value of their own, so that one Pod, or
//! one other SidecarSet, concerns few of them.

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::json;
use pillion_sidecarset::sidecar_set::SidecarSet;

/// Items that each stand for a SidecarSet, such as its name, by a label that the Pods of the set must have.
#[derive(Clone, Debug)]
pub(crate) struct ByLabel<T> {
    by_label: BTreeMap<String, BTreeMap<String, BTreeSet<T>>>,
    /// The items of the sets whose Pods need no label.
    without_label: BTreeSet<T>,
}

impl<T> Default for ByLabel<T> {
    fn default() -> Self {
        Self { by_label: BTreeMap::new(), without_label: BTreeSet::new() }
    }
}

/// Returns the labels that the Pods of a SidecarSet must have: `spec.selector.matchLabels`.
pub(crate) fn labels(set: &SidecarSet) -> impl Iterator<Item = (&str, &str)> {
    json::string_map(set.as_value(), &["spec", "selector", "matchLabels"])
}

impl<T: Ord> ByLabel<T> {
    /// Adds the item of a SidecarSet whose Pods must have this label, if any.
    pub(crate) fn put(&mut self, label: Option<(&str, &str)>, item: T) {
        let items = match label {
            Some((key, value)) => self.by_label.entry(key.to_owned()).or_default().entry(value.to_owned()).or_default(),
            None => &mut self.without_label,
        };
        items.insert(item);
    }

    /// Returns those that may select a Pod with these labels, ascending, and some that do not.
    pub(crate) fn of_pod<'a>(&'a self, labels: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeSet<&'a T> {
        let with_label = labels.filter_map(|(key, value)| self.by_label.get(key)?.get(value)).flatten();
        with_label.chain(&self.without_label).collect()
    }

    /// Returns those that may select a Pod that this SidecarSet selects, ascending, and some that do not.
    pub(crate) fn beside<'a>(&'a self, set: &'a SidecarSet) -> BTreeSet<&'a T> {
        let labels: BTreeMap<&str, &str> = labels(set).collect();
        let with_label = self.by_label.iter().flat_map(|(key, by_value)| match labels.get(key.as_str()) {
            Some(value) => by_value.get(*value).into_iter().flatten().collect::<Vec<_>>(),
            None => by_value.values().flatten().collect(),
        });
        with_label.chain(&self.without_label).collect()
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
        let mut neighbours = ByLabel::default();
        for set in all {
            neighbours.put(labels(set).next(), set.name().to_owned());
        }
        neighbours.beside(set).into_iter().cloned().collect()
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
