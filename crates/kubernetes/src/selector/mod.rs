//! Label selectors: parsed once, matched often.
//!
//! A [`Selector`] borrows from the JSON that it was parsed from. Parsing is as lenient as the reference is when it
//! matches a Pod: the only invalid part is an unknown operator, because everything else was checked when the
//! `SidecarSet` was admitted ([`check`]).

mod overlap;
#[cfg(test)]
mod tests;
mod validate;

use std::fmt;

use serde_json::Value;

use crate::field::{FieldError, FieldPath};
use crate::json::{self, Object};

pub use overlap::{Possible, implies, overlap};
pub use validate::{check, check_labels, check_not_empty};

/// The operator of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// The label is present and has one of the values.
    In,
    /// The label is absent, or has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl Op {
    /// Every operator, in the order of the API's documentation.
    pub const ALL: [Self; 4] = [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist];

    /// Returns the operator's name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
        }
    }

    /// Returns the operator with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.as_str() == name)
    }
}

/// The values of a requirement: one for an entry of `matchLabels`, a list for an entry of `matchExpressions`.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// The value of an entry of `matchLabels`.
    One(&'a str),
    /// `matchExpressions[].values`. An item that is not a text reads as `""`.
    Many(&'a [Value]),
}

impl<'a> Values<'a> {
    /// Returns the values, as written.
    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        let (one, many) = match self {
            Self::One(value) => (Some(value), [].as_slice()),
            Self::Many(values) => (None, values),
        };
        one.into_iter().chain(many.iter().map(|value| value.as_str().unwrap_or_default()))
    }

    /// Whether `value` is one of the values.
    pub fn contains(self, value: &str) -> bool {
        self.iter().any(|own| own == value)
    }
}

/// One condition on one label.
#[derive(Clone, Copy, Debug)]
pub struct Requirement<'a> {
    /// The key of the label.
    pub key: &'a str,
    /// The operator.
    pub op: Op,
    /// The values that `In` and `NotIn` compare the label with.
    pub values: Values<'a>,
}

impl Requirement<'_> {
    /// Whether a label with this value, or its absence for `None`, satisfies the requirement.
    pub fn admits(&self, label: Option<&str>) -> bool {
        match (self.op, label) {
            (Op::In, Some(value)) => self.values.contains(value),
            (Op::NotIn, Some(value)) => !self.values.contains(value),
            (Op::Exists, Some(_)) | (Op::NotIn | Op::DoesNotExist, None) => true,
            (Op::DoesNotExist, Some(_)) | (Op::In | Op::Exists, None) => false,
        }
    }
}

impl fmt::Display for Requirement<'_> {
    /// Prints the requirement as `kubectl` does: `app=web`, `app in (a,b)`, `app notin (a)`, `app`, `!app`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match (self.op, self.values) {
            (Op::Exists, _) => return f.write_str(self.key),
            (Op::DoesNotExist, _) => return write!(f, "!{}", self.key),
            (Op::In, Values::One(value)) => return write!(f, "{}={value}", self.key),
            (Op::In, Values::Many(_)) => "in",
            (Op::NotIn, _) => "notin",
        };
        write!(f, "{} {word} (", self.key)?;
        for (index, value) in self.values.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            f.write_str(value)?;
        }
        f.write_str(")")
    }
}

/// A parsed `LabelSelector`. Labels match if they satisfy every requirement.
#[derive(Clone, Debug, Default)]
pub struct Selector<'a> {
    requirements: Vec<Requirement<'a>>,
}

impl<'a> Selector<'a> {
    /// Parses a `LabelSelector` (`matchLabels`, `matchExpressions`).
    ///
    /// # Errors
    /// An operator is unknown, or the value is not a `LabelSelector` at all. The paths in the errors are relative to
    /// the selector (`matchExpressions[0].operator`). An invalid `spec.selector` does not tell which Pods it selects,
    /// and the reference refuses the Pod. For a namespace selector use [`Selector::parse_or_nothing`].
    pub fn parse(value: &'a Value) -> Result<Self, Vec<FieldError>> {
        let Some(fields) = value.as_object() else {
            return Err(vec![FieldError::invalid(FieldPath::default(), value.to_string(), "must be a label selector")]);
        };
        let mut errors = Vec::new();
        let selector = Self::requirements_of(value, &mut errors);
        for (field, is_shaped) in
            [("matchLabels", Value::is_object as fn(&Value) -> bool), ("matchExpressions", Value::is_array)]
        {
            if fields.get(field).is_some_and(|value| !value.is_null() && !is_shaped(value)) {
                errors.push(FieldError::invalid(FieldPath::new(field), value.to_string(), "has the wrong type"));
            }
        }
        if errors.is_empty() { Ok(selector) } else { Err(errors) }
    }

    /// Returns the requirements with a known operator. Adds an error for each other requirement.
    fn requirements_of(value: &'a Value, errors: &mut Vec<FieldError>) -> Self {
        let labels = json::object(value, &["matchLabels"]);
        let expressions = json::items(value, &["matchExpressions"]);
        let mut requirements = Vec::with_capacity(labels.map_or(0, Object::len) + expressions.len());
        for (key, value) in labels.into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            requirements.push(Requirement { key, op: Op::In, values: Values::One(value) });
        }
        for (index, expression) in expressions.iter().enumerate() {
            let operator = json::text(expression, &["operator"]);
            if let Some(op) = Op::parse(operator) {
                let key = json::text(expression, &["key"]);
                let values = Values::Many(json::items(expression, &["values"]));
                requirements.push(Requirement { key, op, values });
            } else {
                let root = FieldPath::default();
                let path = root.item("matchExpressions", index);
                errors.push(FieldError::not_supported(path.child("operator"), operator, &Op::ALL.map(Op::as_str)));
            }
        }
        Self { requirements }
    }

    /// Parses a namespace selector. A selector that cannot be parsed selects no namespace and causes no error, as in
    /// the reference (MATCH-6).
    pub fn parse_or_nothing(value: &'a Value) -> Option<Self> {
        Self::parse(value).ok()
    }

    /// Parses a selector and drops the requirements with an unknown operator. The result matches at least the objects
    /// that the selector could match. Conflict detection uses it to err on the safe side.
    pub fn parse_known(value: &'a Value) -> Self {
        Self::requirements_of(value, &mut Vec::new())
    }

    /// Creates the selector with one requirement.
    pub fn only(requirement: Requirement<'a>) -> Self {
        Self { requirements: vec![requirement] }
    }

    /// Returns the requirements: `matchLabels` by key, then `matchExpressions` as written.
    pub fn requirements(&self) -> &[Requirement<'a>] {
        &self.requirements
    }

    /// Whether there is no requirement. An empty Pod selector matches nothing ([`Selector::selects`]); an empty
    /// namespace selector matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether labels satisfy every requirement. `label` returns the value of one key.
    pub fn matches<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.admits(label(requirement.key)))
    }

    /// Whether the `labels` of an object satisfy every requirement. A value that is not a text reads as `""`.
    pub fn matches_labels(&self, labels: Option<&Object>) -> bool {
        self.matches(|key| label_of(labels, key))
    }

    /// Whether this selector, as the `spec.selector` of a `SidecarSet`, selects a Pod with these labels. An empty
    /// selector selects no Pod (MATCH-6).
    ///
    /// # Examples
    /// ```
    /// use pillion_kubernetes::selector::Selector;
    /// use serde_json::json;
    ///
    /// let labels = json!({"app": "web", "tier": ""});
    /// for (selector, selected) in [
    ///     (json!({"matchLabels": {"app": "web"}}), true),
    ///     (json!({"matchLabels": {"app": "web", "env": "test"}}), false),
    ///     (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]}), true),
    ///     (json!({"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["test"]}]}), true),
    ///     (json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}), false),
    ///     (json!({}), false), // an empty selector
    /// ] {
    ///     assert_eq!(Selector::parse(&selector).unwrap().selects(labels.as_object()), selected);
    /// }
    /// ```
    pub fn selects(&self, labels: Option<&Object>) -> bool {
        !self.is_empty() && self.matches_labels(labels)
    }

    /// Returns the requirements that the labels do not satisfy.
    pub fn unsatisfied<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> impl Iterator<Item = &Requirement<'a>> {
        self.requirements.iter().filter(move |requirement| !requirement.admits(label(requirement.key)))
    }
}

impl fmt::Display for Selector<'_> {
    /// Prints the requirements joined by commas, as `kubectl -l` takes them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

/// Returns the label `key` of `labels`. A value that is not a text reads as `""`.
pub fn label_of<'l>(labels: Option<&'l Object>, key: &str) -> Option<&'l str> {
    labels?.get(key).map(|value| value.as_str().unwrap_or_default())
}
