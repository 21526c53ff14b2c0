//! Labels and annotations.

use std::collections::BTreeMap;

use internment::ArcIntern;
use serde::{Deserialize, Deserializer};

/// Texts by key, ascending. Most Pods of a workload have the same ones, so that each text is kept once for all Pods: a
/// cluster has a hundred thousand of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts(Box<[(ArcIntern<str>, ArcIntern<str>)]>);

impl Texts {
    /// Returns the text of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let position = self.0.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        self.0.get(position).map(|(_, text)| &**text)
    }

    /// Whether there is a text of this key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns keys and texts, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, text)| (&**key, &**text))
    }
}

impl From<BTreeMap<String, String>> for Texts {
    fn from(texts: BTreeMap<String, String>) -> Self {
        Self(texts.iter().map(|(key, text)| (key.as_str().into(), text.as_str().into())).collect())
    }
}

impl FromIterator<(String, String)> for Texts {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(texts: I) -> Self {
        texts.into_iter().collect::<BTreeMap<_, _>>().into()
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<BTreeMap<String, String>>::deserialize(deserializer)?.unwrap_or_default().into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_found_by_their_keys() {
        let texts = Texts::deserialize(json!({"b": "2", "a": "1", "c": ""})).expect("texts");
        assert_eq!(["a", "b", "c", "d"].map(|key| texts.get(key)), [Some("1"), Some("2"), Some(""), None]);
        assert!(texts.contains_key("c") && !texts.contains_key("d"));
        assert_eq!(texts.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2"), ("c", "")]);
        assert_eq!(Texts::deserialize(json!(null)).expect("no texts"), Texts::default());
    }
}
