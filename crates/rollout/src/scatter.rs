//! Scatter: spreads Pods with a label evenly between the others (ROLL-33).

use pillion_kubernetes::json;
use serde_json::Value;

use crate::pod::Pod;

/// A term of `scatterStrategy`: a label and its value. `*` stands for each value that occurs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The key of the label.
    pub key: String,
    /// The value of the label.
    pub value: String,
}

/// The value that stands for each value that occurs.
const EACH: &str = "*";

impl Term {
    /// Returns the terms of an `updateStrategy.scatterStrategy`.
    pub fn all(strategy: &Value) -> Vec<Self> {
        let text = |term: &Value, key: &str| json::text(term, &[key]).to_owned();
        let terms = strategy.as_array().into_iter().flatten();
        terms.map(|term| Self { key: text(term, "key"), value: text(term, "value") }).collect()
    }

    fn matches(&self, pod: &Pod) -> bool {
        pod.label(&self.key) == Some(self.value.as_str())
    }
}

/// Reorders `waiting`, positions in `pods`, by these terms. `pods` are all Pods of the SidecarSet.
pub fn scatter(terms: &[Term], pods: &[&Pod], waiting: Vec<usize>) -> Vec<usize> {
    let is_of = |term: &Term, pod: usize| pods.get(pod).is_some_and(|pod| term.matches(pod));
    let mut terms = expanded(terms, pods);
    if terms.len() > 1 {
        let mut counted: Vec<(usize, Term)> = terms
            .into_iter()
            .map(|term| (waiting.iter().filter(|pod| is_of(&term, **pod)).count(), term))
            .filter(|(count, _)| *count > 0)
            .collect();
        counted.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        terms = counted.into_iter().map(|(_, term)| term).collect();
    }
    terms.iter().fold(waiting, |waiting, term| {
        let matched = pods.iter().filter(|pod| term.matches(pod)).count();
        let totals = Group { matched, others: pods.len().saturating_sub(matched) };
        pass(waiting, totals, |pod| is_of(term, pod))
    })
}

/// Replaces each term with `*` by one for each value that occurs, in the order of the Pods.
fn expanded(terms: &[Term], pods: &[&Pod]) -> Vec<Term> {
    let mut all: Vec<Term> = Vec::new();
    for term in terms {
        if term.value != EACH {
            all.push(term.clone());
            continue;
        }
        for value in pods.iter().filter_map(|pod| pod.label(&term.key)) {
            let each = Term { key: term.key.clone(), value: value.to_owned() };
            if !all.contains(&each) {
                all.push(each);
            }
        }
    }
    all
}

/// Numbers of Pods: of those that match a term, and of the others.
#[derive(Clone, Copy)]
struct Group {
    matched: usize,
    others: usize,
}

impl Group {
    /// Returns the Pods that follow each other if these are spread evenly. Both numbers are at least 1.
    fn spread(self) -> Self {
        let groups = self.matched.min(self.others).max(1);
        Self { matched: rounded(self.matched, groups), others: rounded(self.others, groups) }
    }
}

/// Divides, and rounds halves up.
fn rounded(count: usize, by: usize) -> usize {
    (count.saturating_mul(2).saturating_add(by)) / by.saturating_mul(2).max(1)
}

/// Spreads the waiting Pods that match between the others. `totals` are the numbers of all Pods, waiting
/// or not. The last Pod that matches goes to the very end.
fn pass(waiting: Vec<usize>, totals: Group, is_of_term: impl Fn(usize) -> bool) -> Vec<usize> {
    let (mut matched, others): (Vec<usize>, Vec<usize>) = waiting.iter().partition(|pod| is_of_term(**pod));
    if matched.len() <= 1 || others.len() <= 1 {
        return waiting;
    }
    let last = matched.pop();
    let all = Group { matched: totals.matched.saturating_sub(1), ..totals };
    let count = Group { matched: matched.len(), others: others.len() };
    let (mut matched, mut others) = (matched.into_iter(), others.into_iter());
    let mut order = Vec::with_capacity(waiting.len());
    // Among all Pods there are at least as many others for each that matches as among those that wait.
    let (group, groups) = if all.others.saturating_mul(count.matched) >= count.others.saturating_mul(all.matched) {
        (count.spread(), count.matched.min(count.others))
    } else {
        let group = all.spread();
        let groups = (count.matched / group.matched.max(1)).min(count.others / group.others.max(1));
        let surplus = count.others.saturating_sub(groups.saturating_mul(group.others));
        order.extend(others.by_ref().take(surplus));
        (group, groups)
    };
    for _ in 0..groups {
        order.extend(matched.by_ref().take(group.matched));
        order.extend(others.by_ref().take(group.others));
    }
    order.extend(matched.chain(others).chain(last));
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn labels(values: &[&str]) -> Vec<Pod> {
        let pod = |value: &&str| Pod::decode(&json!({"metadata": {"labels": {"zone": value}}})).unwrap();
        values.iter().map(pod).collect()
    }

    fn scattered(terms: &[(&str, &str)], pods: &[Pod], waiting: Vec<usize>) -> Vec<usize> {
        let terms: Vec<Term> =
            terms.iter().map(|(key, value)| Term { key: (*key).to_owned(), value: (*value).to_owned() }).collect();
        let pods: Vec<&Pod> = pods.iter().collect();
        scatter(&terms, &pods, waiting)
    }

    #[rstest]
    #[case(1, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])]
    #[case(2, [8, 0, 1, 2, 3, 4, 5, 6, 7, 9])]
    #[case(3, [7, 0, 1, 2, 3, 8, 4, 5, 6, 9])]
    #[case(4, [6, 0, 1, 7, 2, 3, 8, 4, 5, 9])]
    #[case(5, [5, 0, 6, 1, 7, 2, 8, 3, 4, 9])]
    #[case(7, [3, 4, 0, 5, 6, 1, 7, 8, 2, 9])]
    #[case(9, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])]
    fn roll33_vectors_of_ten_pods_of_which_the_last_match(#[case] matching: usize, #[case] expected: [usize; 10]) {
        let pods: Vec<&str> = (0..10).map(|pod| if pod < 10 - matching { "a" } else { "b" }).collect();
        assert_eq!(scattered(&[("zone", "b")], &labels(&pods), (0..10).collect()), expected);
    }

    #[test]
    fn roll33_pods_that_are_done_count_for_the_distance() {
        // Of ten Pods, half match; two that match and four others still wait: first what is too much of the others.
        let pods = labels(&["b", "b", "b", "a", "b", "b", "a", "a", "a", "a"]);
        assert_eq!(scattered(&[("zone", "b")], &pods, vec![4, 5, 6, 7, 8, 9]), [6, 7, 8, 4, 9, 5]);
    }

    #[test]
    fn roll33_a_star_stands_for_each_value() {
        let pods = labels(&["a", "a", "b", "b", "b", "b"]);
        let each = scattered(&[("zone", "*")], &pods, (0..6).collect());
        assert_eq!(each, scattered(&[("zone", "a"), ("zone", "b")], &pods, (0..6).collect()));
        // The term that matches most comes first.
        assert_eq!(each, scattered(&[("zone", "b"), ("zone", "a")], &pods, (0..6).collect()));
        assert_eq!(scattered(&[("rack", "*")], &pods, (0..6).collect()), [0, 1, 2, 3, 4, 5]);
    }

    proptest! {
        #[test]
        fn roll33_the_result_is_a_permutation(
            zones in prop::collection::vec(0..4_u8, 0..40),
            terms in prop::collection::vec(prop_oneof![Just("*".to_owned()), (0..4_u8).prop_map(|zone| zone.to_string())], 0..4),
            keep in any::<u64>(),
        ) {
            let names: Vec<String> = zones.iter().map(u8::to_string).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let pods = labels(&names);
            let waiting: Vec<usize> = (0..pods.len()).filter(|pod| keep >> (pod % 64) & 1 == 1).collect();
            let terms: Vec<(&str, &str)> = terms.iter().map(|value| ("zone", value.as_str())).collect();
            let mut result = scattered(&terms, &pods, waiting.clone());
            result.sort_unstable();
            prop_assert_eq!(result, waiting);
        }
    }
}
