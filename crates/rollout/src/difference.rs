//! What differs between two versions of a SidecarSet, field by field, and what it takes to bring each difference to a
//! Pod that runs (ROLL-64).

use std::collections::BTreeSet;

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json::{self, Object};
use pillion_sidecarset::pod::name;
use pillion_sidecarset::sidecar::is_native;
use serde_json::Value;

/// Objects and lists below this depth are compared as a whole.
const DEPTH: usize = 64;
/// The fields of a version that no hash contains.
const NOT_HASHED: [&str; 3] = ["volumes", "imagePullSecrets", "patchPodMetadata"];

/// A field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The path below `spec`. An item of a list has its name, if the items have names:
    /// `containers[agent].env[LEVEL].value`.
    pub path: String,
    /// The value before; `None` if the field was absent.
    pub before: Option<Value>,
    /// The value after; `None` if the field is absent.
    pub after: Option<Value>,
    /// What it takes to bring the difference to a Pod.
    pub reach: Reach,
}

/// What it takes to bring a difference to a Pod that runs. The order is that of the effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Only new Pods get it. The hash does not contain the field, so other Pods count as updated.
    NewPods,
    /// The image of a container changes in place.
    Image,
    /// The image of a native sidecar changes in place.
    NativeImage,
    /// Cpu or memory of a container or a native sidecar changes in place.
    Resources,
    /// Only a Pod that is created anew gets it, and other Pods do not count as updated.
    Recreation,
}

/// A field in both versions. A version that lacks it has `None`.
#[derive(Clone, Copy)]
struct Both<'a> {
    before: Option<&'a Value>,
    after: Option<&'a Value>,
}

/// Returns the differences between the data of two revisions (REV-2).
pub fn differences(before: &Value, after: &Value) -> Vec<Difference> {
    let both = |key: &str| Both { before: json::at(before, &["spec", key]), after: json::at(after, &["spec", key]) };
    let init = both("initContainers");
    let has_native = init.items().into_iter().flatten().any(is_native);
    let mut found = containers("initContainers", init, has_native);
    found.extend(containers("containers", both("containers"), true));
    for key in NOT_HASHED {
        both(key).compare(&FieldPath::new(key), &mut Vec::new(), &mut |path, _, both| {
            found.push(both.difference(path, Reach::NewPods));
        });
    }
    found
}

/// Compares two lists of containers by name.
fn containers(key: &str, both: Both<'_>, is_hashed: bool) -> Vec<Difference> {
    let whole = if is_hashed { Reach::Recreation } else { Reach::NewPods };
    let (path, mut found) = (FieldPath::new(key), Vec::new());
    if let Some((before, after)) = both.orders() {
        // The order is a part of the hash.
        let both = Both { before: Some(&before), after: Some(&after) };
        found.push(both.difference(&path, whole));
    }
    for (name, container) in both.named_items() {
        let (path, is_init) = (path.key(name), key == "initContainers");
        let is_native = [container.before, container.after].into_iter().all(|one| one.is_some_and(is_native));
        let image = if is_init { Reach::NativeImage } else { Reach::Image };
        container.compare(&path, &mut Vec::new(), &mut |path, keys, both| {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let reach = match keys.as_slice() {
                _ if !is_hashed || (is_init && !is_native) || both.after.is_none() => whole,
                ["image"] => image,
                ["resources", "limits" | "requests", "cpu" | "memory"] | ["resourcesPolicy", ..] => Reach::Resources,
                _ => whole,
            };
            found.push(both.difference(path, reach));
        });
    }
    found
}

impl<'a> Both<'a> {
    fn difference(self, path: &FieldPath<'_>, reach: Reach) -> Difference {
        Difference { path: path.to_string(), before: self.before.cloned(), after: self.after.cloned(), reach }
    }

    fn items(self) -> [&'a [Value]; 2] {
        [self.before, self.after].map(|list| list.map(|list| json::items(list, &[])).unwrap_or_default())
    }

    /// Returns the items of two lists by their name: those after in their order, then those that are gone.
    fn named_items(self) -> Vec<(&'a str, Both<'a>)> {
        let [before, after] = self.items();
        let find = |list: &'a [Value], wanted: &str| list.iter().find(|one| name(one) == wanted);
        let kept = after.iter().map(|one| (name(one), Both { before: find(before, name(one)), after: Some(one) }));
        let gone = before.iter().filter(|one| find(after, name(one)).is_none());
        kept.chain(gone.map(|one| (name(one), Both { before: Some(one), after: None }))).collect()
    }

    /// Returns the names of the items in both orders, if the items that both lists have are in another order.
    fn orders(self) -> Option<(Value, Value)> {
        let [before, after] = self.items().map(|list| list.iter().map(name).collect::<Vec<_>>());
        let common = |list: &[&'a str], other: &[&'a str]| -> Vec<&'a str> {
            list.iter().copied().filter(|name| other.contains(name)).collect()
        };
        let is_other = common(&before, &after) != common(&after, &before);
        is_other.then(|| (before.into(), after.into()))
    }

    /// Whether both are lists whose items have names, each name once.
    fn are_named(self) -> bool {
        let are_named = |list: &Value| {
            let items = json::items(list, &[]);
            let names: BTreeSet<&str> = items.iter().map(name).filter(|name| !name.is_empty()).collect();
            list.is_array() && names.len() == items.len()
        };
        [self.before, self.after].into_iter().all(|list| list.is_some_and(are_named))
    }

    /// Calls `see` for each value that differs, with its path, and with the keys below the first path.
    fn compare(
        self,
        path: &FieldPath<'_>,
        keys: &mut Vec<String>,
        see: &mut dyn FnMut(&FieldPath<'_>, &[String], Both<'_>),
    ) {
        let is_there = |value: &&Value| !value.is_null();
        let both = Both { before: self.before.filter(is_there), after: self.after.filter(is_there) };
        if both.before == both.after {
            return;
        }
        for (key, step, item) in both.parts(keys.len()) {
            let path = match step {
                Step::Field => path.child(key),
                Step::Item => path.key(key),
            };
            keys.push(key.to_owned());
            item.compare(&path, keys, see);
            keys.pop();
        }
        if both.parts(keys.len()).is_empty() {
            see(path, keys, both);
        } else if let Some((before, after)) = both.orders().filter(|_| both.are_named()) {
            see(path, keys, Both { before: Some(&before), after: Some(&after) });
        }
    }

    /// Returns the parts of both values, if they can be compared part by part: the fields of objects, and the items of
    /// lists that have names. An object that only one of them has counts as compared with an empty one, except for a
    /// whole container.
    fn parts(self, depth: usize) -> Vec<(&'a str, Step, Both<'a>)> {
        let fields = |value: Option<&'a Value>| value.and_then(Value::as_object);
        let (before, after) = (fields(self.before), fields(self.after));
        let are_objects = match (self.before, self.after) {
            (Some(_), Some(_)) => before.is_some() && after.is_some(),
            _ => depth > 0 && (before.is_some() || after.is_some()),
        };
        if depth >= DEPTH {
            Vec::new()
        } else if are_objects {
            let keys = |fields: Option<&'a Object>| fields.into_iter().flat_map(|fields| fields.keys());
            let names: BTreeSet<&'a String> = keys(before).chain(keys(after)).collect();
            let of = |fields: Option<&'a Object>, name: &str| fields.and_then(|fields| fields.get(name));
            let part = |name: &'a String| {
                (name.as_str(), Step::Field, Both { before: of(before, name), after: of(after, name) })
            };
            names.into_iter().map(part).collect()
        } else if self.are_named() {
            self.named_items().into_iter().map(|(name, item)| (name, Step::Item, item)).collect()
        } else {
            Vec::new()
        }
    }
}

/// A step from a value to its part.
#[derive(Clone, Copy)]
enum Step {
    Field,
    Item,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// Returns the data of a revision with one container, with these further fields.
    fn data(container: &Value) -> Value {
        let mut agent = json!({"name": "agent", "image": "a:1", "resources": {}});
        json_patch::merge(&mut agent, container);
        json!({"spec": {"containers": [agent], "initContainers": null, "volumes": null}})
    }

    fn shown(before: &Value, after: &Value) -> Vec<(String, Reach)> {
        differences(before, after).into_iter().map(|found| (found.path, found.reach)).collect()
    }

    #[rstest]
    #[case::nothing(json!({}), json!({}), &[])]
    #[case::image(json!({}), json!({"image": "a:2"}), &[("containers[agent].image", Reach::Image)])]
    #[case::variable(
        json!({"env": [{"name": "LEVEL", "value": "1"}, {"name": "A"}]}),
        json!({"env": [{"name": "LEVEL", "value": "2"}, {"name": "A"}]}),
        &[("containers[agent].env[LEVEL].value", Reach::Recreation)]
    )]
    #[case::order_of_variables(
        json!({"env": [{"name": "A"}, {"name": "B"}]}), json!({"env": [{"name": "B"}, {"name": "A"}]}),
        &[("containers[agent].env", Reach::Recreation)]
    )]
    #[case::command(
        json!({"command": ["a"]}), json!({"command": ["a", "b"]}), &[("containers[agent].command", Reach::Recreation)]
    )]
    #[case::cpu(
        json!({"resources": {"limits": {"cpu": "1"}}}), json!({"resources": {"limits": {"cpu": "2"}}}),
        &[("containers[agent].resources.limits.cpu", Reach::Resources)]
    )]
    #[case::memory_for_the_first_time(
        json!({}), json!({"resources": {"requests": {"memory": "1Gi"}}}),
        &[("containers[agent].resources.requests.memory", Reach::Resources)]
    )]
    #[case::limits_cannot_be_removed(
        json!({"resources": {"limits": {"cpu": "1"}}}), json!({}),
        &[("containers[agent].resources.limits.cpu", Reach::Recreation)]
    )]
    #[case::other_resources(
        json!({}), json!({"resources": {"limits": {"gpu": "1"}}}),
        &[("containers[agent].resources.limits.gpu", Reach::Recreation)]
    )]
    #[case::computed_resources(
        json!({"resourcesPolicy": {"resourcesExpr": {"limits": {"cpu": "cpu*1"}}}}),
        json!({"resourcesPolicy": {"resourcesExpr": {"limits": {"cpu": "cpu*2"}}}}),
        &[("containers[agent].resourcesPolicy.resourcesExpr.limits.cpu", Reach::Resources)]
    )]
    #[case::a_probe(
        json!({}), json!({"livenessProbe": {"exec": {}}}), &[("containers[agent].livenessProbe.exec", Reach::Recreation)]
    )]
    #[case::several(
        json!({}), json!({"image": "a:2", "tty": true}),
        &[("containers[agent].image", Reach::Image), ("containers[agent].tty", Reach::Recreation)]
    )]
    fn roll64_fields_of_a_container(#[case] before: Value, #[case] after: Value, #[case] expected: &[(&str, Reach)]) {
        let expected: Vec<(String, Reach)> =
            expected.iter().map(|(path, reach)| ((*path).to_owned(), *reach)).collect();
        assert_eq!(shown(&data(&before), &data(&after)), expected);
    }

    #[rstest]
    #[case::native(json!({"restartPolicy": "Always"}), "initContainers[init].image", Reach::NativeImage)]
    #[case::no_hash_has_others(json!({}), "initContainers[init].image", Reach::NewPods)]
    fn roll64_images_of_init_containers(#[case] fields: Value, #[case] path: &str, #[case] reach: Reach) {
        let version = |image: &str| {
            let mut init = json!({"name": "init", "image": image});
            json_patch::merge(&mut init, &fields);
            json!({"spec": {"initContainers": [init]}})
        };
        assert_eq!(shown(&version("a:1"), &version("a:2")), [(path.to_owned(), reach)]);
    }

    #[test]
    fn roll64_containers_that_come_go_and_move() {
        let version = |names: &[&str]| {
            let containers: Vec<Value> = names.iter().map(|name| json!({"name": name, "image": "a"})).collect();
            json!({"spec": {"containers": containers}})
        };
        let paths = |before: &[&str], after: &[&str]| -> Vec<String> {
            shown(&version(before), &version(after))
                .into_iter()
                .map(|(path, reach)| {
                    assert_eq!(reach, Reach::Recreation);
                    path
                })
                .collect()
        };
        assert_eq!(paths(&["a"], &["a", "b"]), ["containers[b]"]);
        assert_eq!(paths(&["a", "b"], &["b"]), ["containers[a]"]);
        assert_eq!(paths(&["a", "b"], &["b", "a"]), ["containers"]);
    }

    #[test]
    fn roll64_what_no_hash_contains_reaches_new_pods_alone() {
        let with = |volumes: Value| json!({"spec": {"containers": [], "volumes": volumes}});
        let volume = json!([{"name": "v", "emptyDir": {}}]);
        let found = differences(&with(json!(null)), &with(volume.clone()));
        let expected =
            Difference { path: "volumes".to_owned(), before: None, after: Some(volume), reach: Reach::NewPods };
        assert_eq!(found, [expected]);
    }
}
