//! Overlap and implication of selectors.

use std::collections::{BTreeMap, BTreeSet};

use super::{Op, Requirement, Selector};

/// Whether some set of labels satisfies both selectors (DIFF-5).
///
/// The answer is exact. Labels are independent of each other, so the selectors overlap if for every key some state
/// (absent, or some value) satisfies all requirements on that key. No requirement can exclude all values, so `NotIn`
/// never makes the presence of a label impossible.
///
/// # Examples
/// ```
/// use pillion_kubernetes::selector::{Selector, overlap};
/// use serde_json::json;
///
/// let web = json!({"matchLabels": {"app": "web"}});
/// for (other, overlaps) in [
///     (json!({"matchLabels": {"app": "api"}}), false),
///     (json!({"matchLabels": {"env": "test"}}), true), // some Pod may have both labels
///     (json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}), true),
///     (json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}), false),
///     (json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}), false),
/// ] {
///     let (one, other) = (Selector::parse(&web).unwrap(), Selector::parse(&other).unwrap());
///     assert_eq!(overlap(&one, &other), overlaps);
/// }
/// ```
pub fn overlap(one: &Selector<'_>, other: &Selector<'_>) -> bool {
    Possible::from_selector(one).overlaps(&Possible::from_selector(other))
}

/// Whether all labels that satisfy `one` also satisfy `other`.
pub fn implies(one: &Selector<'_>, other: &Selector<'_>) -> bool {
    Possible::from_selector(one).implies(other)
}

/// The labels that satisfy a selector, key by key. Build it once for a selector that is compared with many: the time of
/// a comparison is proportional to the smaller of the two (E18).
#[derive(Clone, Debug)]
pub struct Possible<'a> {
    keys: BTreeMap<&'a str, LabelState<'a>>,
    /// Whether no labels satisfy the selector.
    is_empty: bool,
}

/// The possible states of one label.
#[derive(Clone, Debug)]
struct LabelState<'a> {
    may_be_absent: bool,
    present: Present<'a>,
}

/// The possible values of a label, if it is present.
#[derive(Clone, Debug)]
enum Present<'a> {
    Never,
    With(BTreeSet<&'a str>),
    Without(BTreeSet<&'a str>),
}

impl<'a> Possible<'a> {
    /// Returns the labels that satisfy a selector.
    pub fn from_selector(selector: &Selector<'a>) -> Self {
        let mut keys: BTreeMap<&'a str, LabelState<'a>> = BTreeMap::new();
        for requirement in selector.requirements() {
            keys.entry(requirement.key).or_insert_with(LabelState::any).narrow(requirement);
        }
        let is_empty = !keys.values().all(LabelState::is_possible);
        Self { keys, is_empty }
    }

    /// See [`overlap`].
    pub fn overlaps(&self, other: &Possible<'_>) -> bool {
        if self.is_empty || other.is_empty {
            return false;
        }
        if other.keys.len() < self.keys.len() { other.meets(self) } else { self.meets(other) }
    }

    fn meets(&self, other: &Possible<'_>) -> bool {
        self.keys.iter().all(|(key, state)| other.keys.get(key).is_none_or(|other| state.meets(other)))
    }

    /// See [`implies`].
    pub fn implies(&self, other: &Selector<'_>) -> bool {
        let any = LabelState::any();
        self.is_empty
            || !other
                .requirements()
                .iter()
                .any(|requirement| self.keys.get(requirement.key).unwrap_or(&any).may_break(requirement))
    }

    /// Returns the values of which every matching object has one for the label `key`. Returns `None` if objects with
    /// other values, or without the label, match too.
    pub fn required(&self, key: &str) -> Option<&BTreeSet<&'a str>> {
        self.keys.get(key).and_then(LabelState::required)
    }

    /// Returns the first label, by key, that every matching object must have with one of a fixed set of values. Returns
    /// `None` if that set has 16 values or more.
    pub fn anchor(&self) -> Option<(&'a str, &BTreeSet<&'a str>)> {
        self.keys
            .iter()
            .find_map(|(key, state)| Some((*key, state.required()?)))
            .filter(|(_, values)| values.len() < 16)
    }
}

impl<'a> LabelState<'a> {
    const fn any() -> Self {
        Self { may_be_absent: true, present: Present::Without(BTreeSet::new()) }
    }

    fn narrow(&mut self, requirement: &Requirement<'a>) {
        match requirement.op {
            Op::In => {
                self.may_be_absent = false;
                let mut left: BTreeSet<&str> = requirement.values.iter().collect();
                match &mut self.present {
                    Present::Never => return,
                    Present::With(values) => left.retain(|value| values.contains(value)),
                    Present::Without(values) => left.retain(|value| !values.contains(value)),
                }
                self.present = Present::With(left);
            }
            Op::NotIn => match &mut self.present {
                Present::Never => {}
                Present::With(values) => requirement.values.iter().for_each(|value| {
                    values.remove(value);
                }),
                // Creating a set from all values sorts them; adding them one by one compares each with many.
                Present::Without(values) if values.is_empty() => *values = requirement.values.iter().collect(),
                Present::Without(values) => values.extend(requirement.values.iter()),
            },
            Op::Exists => self.may_be_absent = false,
            Op::DoesNotExist => self.present = Present::Never,
        }
    }

    fn required(&self) -> Option<&BTreeSet<&'a str>> {
        match &self.present {
            Present::With(values) if !self.may_be_absent => Some(values),
            _ => None,
        }
    }

    fn is_possible(&self) -> bool {
        self.may_be_absent || self.may_be_present()
    }

    fn may_be_present(&self) -> bool {
        match &self.present {
            Present::Never => false,
            Present::With(values) => !values.is_empty(),
            Present::Without(_) => true,
        }
    }

    /// Whether one label can be in both states at once.
    fn meets(&self, other: &LabelState<'_>) -> bool {
        if self.may_be_absent && other.may_be_absent {
            return true;
        }
        match (&self.present, &other.present) {
            (Present::Never, _) | (_, Present::Never) => false,
            (Present::Without(_), Present::Without(_)) => true,
            (Present::With(values), Present::With(others)) => in_both(values, others).next().is_some(),
            (Present::With(values), Present::Without(others)) | (Present::Without(others), Present::With(values)) => {
                in_both(values, others).count() < values.len()
            }
        }
    }

    /// Whether a label in this state can violate a requirement.
    fn may_break(&self, requirement: &Requirement<'_>) -> bool {
        match (requirement.op, &self.present) {
            (Op::Exists, _) | (Op::In, Present::Never) => self.may_be_absent,
            (Op::DoesNotExist, _) => self.may_be_present(),
            (Op::In, Present::Without(_)) => true,
            (Op::In, Present::With(values)) => {
                let allowed: BTreeSet<&str> = requirement.values.iter().collect();
                self.may_be_absent || in_both(values, &allowed).count() < values.len()
            }
            (Op::NotIn, Present::Never) => false,
            (Op::NotIn, Present::With(values)) => requirement.values.iter().any(|value| values.contains(value)),
            (Op::NotIn, Present::Without(values)) => requirement.values.iter().any(|value| !values.contains(value)),
        }
    }
}

/// Returns the texts in both sets. Looks the texts of the smaller set up in the larger one.
fn in_both<'s>(one: &'s BTreeSet<&str>, other: &'s BTreeSet<&str>) -> impl Iterator<Item = &'s str> {
    let (few, many) = if one.len() < other.len() { (one, other) } else { (other, one) };
    few.iter().copied().filter(|text| many.contains(text))
}
