//! JSON values of which there are tens of thousands.

use internment::ArcIntern;
use serde_json::Value;

/// A JSON value that is kept as text, once for all objects that have the same. As a value, it would take a kilobyte for
/// each of its objects, however small that is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kept(ArcIntern<str>);

impl Kept {
    /// Returns the value.
    pub fn value(&self) -> Value {
        // The text is that of a value.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl From<&Value> for Kept {
    fn from(value: &Value) -> Self {
        Self(value.to_string().as_str().into())
    }
}

impl Default for Kept {
    fn default() -> Self {
        Self::from(&Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_kept_as_it_is() {
        for value in [json!({"metadata": {"labels": {"app": "shop"}}, "spec": null}), Value::Null] {
            assert_eq!(Kept::from(&value).value(), value);
        }
        assert_eq!(Kept::from(&json!({"a": 1})), Kept::from(&json!({"a": 1})));
        assert_ne!(Kept::from(&json!({"a": 1})), Kept::default());
    }
}
