//! Limits on SidecarSets together: the number of containers and volumes relative to their length, the length of
//! expressions, and the number of sidecars (E18).
//!
//! Defaults make a short container several times longer, and then it is hashed twice and validated. For `{}` this takes
//! as long as for half a kilobyte of JSON. Useful containers and volumes are longer than the limit requires.

use pillion_kubernetes::json;
use serde_json::Value;

use super::SidecarSet;

/// The required length per container, in bytes of JSON.
const CONTAINER: usize = 448;
/// The required length per volume, in bytes of JSON.
const VOLUME: usize = 80;
/// The length that is not required: that of a thousand containers.
const FREE: usize = 1_000 * CONTAINER;

/// The message for SidecarSets that have more containers and volumes than their length allows.
pub const TOO_DENSE: &str = "too many short containers and volumes: beyond a thousand containers, each needs 448 bytes of SidecarSets and each volume 80";

/// Whether SidecarSets have more containers and volumes than their length allows.
pub fn is_too_dense(sets: &[SidecarSet]) -> bool {
    let needed = sets.iter().map(required).sum::<usize>().saturating_sub(FREE);
    let mut left = needed;
    sets.iter().all(|set| {
        left = left.saturating_sub(json::length(set.as_value(), left));
        left > 0
    }) && left > 0
}

/// Returns the length that the containers and volumes of a SidecarSet require.
fn required(set: &SidecarSet) -> usize {
    let Some(spec) = json::at(set.as_value(), &["spec"]) else { return 0 };
    let count = |list| json::items(spec, &[list]).len();
    CONTAINER * (count("containers") + count("initContainers")) + VOLUME * count("volumes")
}

/// The limits of this module for SidecarSets that come one after the other, and are not kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Total {
    required: usize,
    length: usize,
    expressions: usize,
}

impl Total {
    /// Adds a SidecarSet.
    pub fn add(&mut self, set: &SidecarSet) {
        self.required += required(set);
        self.length += json::length(set.as_value(), usize::MAX);
        self.expressions += json::at(set.as_value(), &["spec"]).map_or(0, expressions);
    }

    /// What [`is_too_dense`] says of all of them.
    pub const fn is_too_dense(&self) -> bool {
        self.required.saturating_sub(FREE) > self.length
    }

    /// What [`has_too_long_expressions`] says of all of them.
    pub const fn has_too_long_expressions(&self) -> bool {
        self.expressions > EXPRESSIONS_MAX
    }
}

/// The most sidecars that one Pod gets, from all SidecarSets. Each is compared with the others and with the Pod, its
/// expressions are parsed and its pattern is compiled, and a hot-upgrade pair is built and recorded twice.
pub const SIDECARS_MAX: usize = 250;

/// Returns the number of containers and init containers of a SidecarSet.
pub fn sidecars(set: &SidecarSet) -> usize {
    set.init_containers().len() + set.containers().len()
}

/// The most bytes that the expressions of all SidecarSets may have together: a thousand sidecars with four typical
/// expressions each. A term of three bytes takes seven thousand instructions.
pub(crate) const EXPRESSIONS_MAX: usize = 128 * 1024;

/// The message for SidecarSets with longer expressions.
pub const EXPRESSIONS_TOO_LONG: &str =
    "too long expressions: all resourcesExpr of the SidecarSets together may have at most 131072 bytes";

/// Whether the expressions of SidecarSets are too long together.
pub fn has_too_long_expressions(sets: &[SidecarSet]) -> bool {
    let specs = sets.iter().filter_map(|set| json::at(set.as_value(), &["spec"]));
    specs.map(expressions).sum::<usize>() > EXPRESSIONS_MAX
}

/// Returns the length of all expressions of a SidecarSet, whose `spec` this is.
pub(crate) fn expressions(spec: &Value) -> usize {
    let sidecars = ["initContainers", "containers"].into_iter().flat_map(|list| json::items(spec, &[list]));
    let halves = sidecars.filter_map(|sidecar| json::object(sidecar, &["resourcesPolicy", "resourcesExpr"])).flatten();
    let expressions = halves.filter_map(|(_, half)| half.as_object()).flatten();
    expressions.filter_map(|(_, expression)| expression.as_str()).map(str::len).sum()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn sets(count: usize, list: &str, item: &Value, items: usize) -> Vec<SidecarSet> {
        let set = json!({"spec": {list: vec![item.clone(); items]}});
        vec![SidecarSet::from_decoded(set); count]
    }

    fn total(sets: &[SidecarSet]) -> Total {
        let mut total = Total::default();
        for set in sets {
            total.add(set);
        }
        total
    }

    #[rstest]
    #[case::none(0, "containers", json!({}), 0, false)]
    #[case::a_thousand_of_nothing(10, "containers", json!({}), 100, false)]
    #[case::more_of_nothing(10, "containers", json!({}), 110, true)]
    #[case::init_containers(10, "initContainers", json!({}), 110, true)]
    #[case::volumes(10, "volumes", json!({}), 600, true)]
    #[case::long_ones(20, "containers", json!({"image": "a".repeat(448)}), 1_000, false)]
    #[case::a_little_too_short(20, "containers", json!({"image": "a".repeat(300)}), 1_000, true)]
    fn e18_containers_pay_with_their_length(
        #[case] count: usize,
        #[case] list: &str,
        #[case] item: Value,
        #[case] items: usize,
        #[case] expected: bool,
    ) {
        let sets = sets(count, list, &item, items);
        assert_eq!((is_too_dense(&sets), total(&sets).is_too_dense()), (expected, expected));
    }

    #[rstest]
    #[case::as_long_as_allowed(EXPRESSIONS_MAX, false)]
    #[case::one_byte_more(EXPRESSIONS_MAX + 1, true)]
    fn e18_expressions_have_a_length_together(#[case] bytes: usize, #[case] expected: bool) {
        let expressions = |bytes: usize| json!({"cpu": "1".repeat(bytes / 2), "memory": "1".repeat(bytes.div_ceil(2))});
        let policy = |half: &str| json!({"resourcesPolicy": {"resourcesExpr": {half: expressions(bytes / 2)}}});
        let rest = json!({"resourcesPolicy": {"resourcesExpr": {"requests": {"cpu": "1".repeat(bytes % 2)}}}});
        let mut all = sets(1, "containers", &policy("limits"), 1);
        all.extend(sets(1, "initContainers", &policy("requests"), 1));
        all.extend(sets(1, "containers", &rest, 1));
        assert_eq!((has_too_long_expressions(&all), total(&all).has_too_long_expressions()), (expected, expected));
    }
}
