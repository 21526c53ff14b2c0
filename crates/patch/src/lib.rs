//! JSON patches (RFC 6902) between two JSON texts.
//!
//! [`diff`] returns the operations that [json-patch](https://docs.rs/json-patch)'s function of that name returns, in the
//! same order. The difference is the tree: a [`Node`] borrows its strings from the text, so that reading a Pod copies
//! nearly nothing. An admission server reads two Pods for each patch, and a fifth of the time of an admission was
//! spent on copying them (docs/benchmarks.md). The values of `managedFields` stay texts, and are replaced whole if they
//! differ: they are often a third of a Pod, and no policy changes them.
//!
//! It never applies a patch. Start with [`diff`].
//!
//! ```
//! use pillion_patch::{Node, diff};
//!
//! let (before, after) = (Node::parse(r#"{"a": 1, "b": [2]}"#)?, Node::parse(r#"{"a": 1, "b": [2, 3]}"#)?);
//! assert_eq!(serde_json::to_string(&diff(&before, &after))?, r#"[{"op":"add","path":"/b/1","value":3}]"#);
//! # Ok::<(), serde_json::Error>(())
//! ```
#![forbid(unsafe_code)]

mod node;

use std::fmt::Write as _;

use serde::Serialize;

pub use node::Node;

/// A JSON patch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Patch<'a>(pub Vec<PatchOperation<'a>>);

/// An operation of a patch; `path` is a JSON pointer (RFC 6901).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are those of RFC 6902")]
pub enum PatchOperation<'a> {
    Add { path: String, value: &'a Node<'a> },
    Remove { path: String },
    Replace { path: String, value: &'a Node<'a> },
}

/// Returns the patch that makes `right` of `left`. Elements of arrays are compared by their positions.
pub fn diff<'a>(left: &Node<'_>, right: &'a Node<'a>) -> Patch<'a> {
    let mut differ = Differ { path: String::new(), patch: Patch::default() };
    differ.diff(left, right);
    differ.patch
}

struct Differ<'a> {
    /// The pointer to the values that are compared.
    path: String,
    patch: Patch<'a>,
}

impl<'a> Differ<'a> {
    fn diff(&mut self, left: &Node<'_>, right: &'a Node<'a>) {
        match (left, right) {
            (Node::Object(left), Node::Object(right)) => self.diff_objects(left, right),
            (Node::Array(left), Node::Array(right)) => self.diff_arrays(left, right),
            _ if left == right => {}
            _ => {
                let path = self.path.clone();
                self.patch.0.push(PatchOperation::Replace { path, value: right });
            }
        }
    }

    fn diff_objects(&mut self, left: &node::Object<'_>, right: &'a node::Object<'a>) {
        // Both have their members sorted, so one walk through both finds the common keys.
        let mut before = left.iter().peekable();
        let mut removed = Vec::new();
        for (key, value) in right.iter() {
            while let Some((gone, _)) = before.next_if(|(own, _)| *own < key) {
                removed.push(gone);
            }
            let before = before.next_if(|(own, _)| *own == key);
            self.at_key(key, |differ| match before {
                Some((_, before)) => differ.diff(before, value),
                None => differ.add(value),
            });
        }
        for key in removed.into_iter().chain(before.map(|(key, _)| key)) {
            self.at_key(key, Self::remove);
        }
    }

    fn diff_arrays(&mut self, left: &[Node<'_>], right: &'a [Node<'a>]) {
        for (index, (before, after)) in left.iter().zip(right).enumerate() {
            self.at_index(index, |differ| differ.diff(before, after));
        }
        // Each removal moves the next element to this index.
        for _ in right.len()..left.len() {
            self.at_index(right.len(), Self::remove);
        }
        for (index, value) in right.iter().enumerate().skip(left.len()) {
            self.at_index(index, |differ| differ.add(value));
        }
    }

    fn add(&mut self, value: &'a Node<'a>) {
        let path = self.path.clone();
        self.patch.0.push(PatchOperation::Add { path, value });
    }

    fn remove(&mut self) {
        let path = self.path.clone();
        self.patch.0.push(PatchOperation::Remove { path });
    }

    fn at_key(&mut self, key: &str, act: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push('/');
        for letter in key.chars() {
            match letter {
                '~' => self.path.push_str("~0"),
                '/' => self.path.push_str("~1"),
                letter => self.path.push(letter),
            }
        }
        act(self);
        self.path.truncate(length);
    }

    fn at_index(&mut self, index: usize, act: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        // Writing to a String cannot fail.
        let _ = write!(self.path, "/{index}");
        act(self);
        self.path.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use pillion_samples::strategies;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn patch_of(left: &str, right: &str) -> String {
        serde_json::to_string(&diff(&Node::parse(left).unwrap(), &Node::parse(right).unwrap())).unwrap()
    }

    /// What the library says.
    fn expected(left: &str, right: &str) -> String {
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        serde_json::to_string(&json_patch::diff(&value(left), &value(right))).unwrap()
    }

    #[rstest]
    #[case::equal(r#"{"a": [1, {"b": null}]}"#, r#"{"a":[1,{"b":null}]}"#)]
    #[case::another_order_of_keys(r#"{"b": 1, "a": 2}"#, r#"{"a": 2, "b": 1}"#)]
    #[case::a_key_twice(r#"{"a": 1, "b": 0, "a": 2}"#, r#"{"a": 2, "b": 0}"#)]
    #[case::a_key_twice_of_which_the_last_counts(r#"{"a": 2}"#, r#"{"a": 2, "a": 1}"#)]
    #[case::an_escape_in_one_text("{\"\\u0061\": \"\\u0062\\n\"}", "{\"a\": \"b\\u000a\"}")]
    #[case::literals_of_numbers(
        "[1, 1.0, 1e2, 12345678901234567890123.50]",
        "[1, 1.00, 1e2, 12345678901234567890123.50]"
    )]
    #[case::replaced_by_another_kind(r#"{"a": [1], "b": {"c": 1}, "d": "1"}"#, r#"{"a": {"0": 1}, "b": [1], "d": 1}"#)]
    #[case::removed_from_the_end("[1, 2, 3, 4]", "[1, 5]")]
    #[case::added_at_the_end("[1]", "[2, 3, [4]]")]
    #[case::removed_and_added(r#"{"x": 1, "z": 1}"#, r#"{"y": {"z": []}}"#)]
    #[case::keys_with_slashes_and_tildes(r#"{"a/b~c": 1, "": 1}"#, r#"{"a/b~c": 2, "": {"~1": 1}}"#)]
    #[case::the_whole_document("1", r#"{"a": true}"#)]
    #[case::a_key_that_serde_json_uses(r#"{"$serde_json::private::Number": "1"}"#, "2")]
    fn the_operations_are_those_of_the_library(#[case] left: &str, #[case] right: &str) {
        assert_eq!(patch_of(left, right), expected(left, right));
        assert_eq!(patch_of(right, left), expected(right, left));
    }

    #[rstest]
    #[case::the_same_text(r#"{"managedFields": [{"b":1,"a":2}]}"#, r#"{"managedFields":[{"b":1,"a":2}]}"#, "[]")]
    #[case::the_same_value(r#"{"managedFields":[{"b":1,"a":2}]}"#, r#"{"managedFields":[{"a": 2, "b": 1}]}"#, "[]")]
    #[case::another_value(
        r#"{"managedFields":[{"a":1},2]}"#,
        r#"{"managedFields":[{"a":2},2]}"#,
        r#"[{"op":"replace","path":"/managedFields","value":[{"a":2},2]}]"#
    )]
    #[case::added("{}", r#"{"managedFields":[]}"#, r#"[{"op":"add","path":"/managedFields","value":[]}]"#)]
    #[case::removed(r#"{"managedFields":null}"#, "{}", r#"[{"op":"remove","path":"/managedFields"}]"#)]
    fn managed_fields_are_replaced_as_a_whole(#[case] left: &str, #[case] right: &str, #[case] patch: &str) {
        assert_eq!(patch_of(left, right), patch);
    }

    #[test]
    fn managed_fields_are_a_value_and_a_text() {
        let text = r#"{"managedFields":[{"b":1,"a":2}]}"#;
        let node = Node::parse(text).unwrap();
        assert_eq!(node.to_value(), serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(serde_json::to_string(&node).unwrap(), text);
    }

    #[test]
    fn what_the_library_does_not_read_is_not_read() {
        for text in ["", "{", "[1,]", "\"", "01", "{} {}", &"[".repeat(200)] {
            assert_eq!(Node::parse(text).is_ok(), serde_json::from_str::<Value>(text).is_ok(), "{text}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[ab/~é\"]{0,2}", inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_two_documents_have_the_operations_of_the_library(left in value(), right in value()) {
            let (left, right) = (left.to_string(), right.to_string());
            prop_assert_eq!(patch_of(&left, &right), expected(&left, &right));
        }

        #[test]
        fn two_pods_have_the_operations_of_the_library(left in strategies::pod(), right in strategies::pod()) {
            let (left, right) = (left.to_string(), json!({"spec": right["spec"], "more": left}).to_string());
            prop_assert_eq!(patch_of(&left, &right), expected(&left, &right));
        }

        #[test]
        fn a_document_is_written_as_it_was_read(document in value()) {
            let text = document.to_string();
            prop_assert_eq!(serde_json::to_string(&Node::parse(&text).unwrap()).unwrap(), text);
        }
    }
}
