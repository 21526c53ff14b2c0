//! An object to apply, with comments.

use std::fmt::Write as _;

use anyhow::Context as _;
use pillion_terminal::wrap::wrapped;
use pillion_yaml::{self as yaml, Tree};
use serde_json::{Map, Value, json};

/// The maximum width of a comment line.
const COLUMNS: usize = 118;
/// The start of a comment line.
const COMMENT: &str = "# ";
/// The label that all objects of Pillion have.
pub const PART_OF: &str = "app.kubernetes.io/part-of";
/// The label with the name of the installation.
pub const INSTANCE: &str = "app.kubernetes.io/instance";
/// The value of [`PART_OF`].
pub const PILLION: &str = "pillion";

/// One object, with comments for readers of its YAML.
#[derive(Clone, Debug)]
pub struct Document {
    /// The name of its file, without the extension.
    pub file: &'static str,
    /// The comment at the top: its purpose in a few sentences.
    pub about: String,
    /// The object.
    pub object: Value,
    /// JSON pointers, each with the comment for that place.
    comments: Vec<(String, String)>,
}

impl Document {
    /// Returns an object with only the comment at the top.
    pub fn new(file: &'static str, about: impl Into<String>, object: Value) -> Self {
        Self { file, about: about.into(), object, comments: Vec::new() }
    }

    /// Adds a comment before the value at a JSON pointer. An empty comment is ignored.
    #[must_use]
    pub fn with_comment(mut self, pointer: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.comments.push((pointer.into(), text));
        }
        self
    }

    /// Returns kind, namespace and name, as kubectl shows them.
    pub fn title(&self) -> String {
        let text = |path: &[&str]| pillion_kubernetes::json::text(&self.object, path).to_owned();
        let (kind, name) = (text(&["kind"]), text(&["metadata", "name"]));
        match text(&["metadata", "namespace"]).as_str() {
            "" => format!("{kind} {name}"),
            namespace => format!("{kind} {namespace}/{name}"),
        }
    }

    /// Returns the object as YAML, with its comments.
    ///
    /// # Errors
    /// If the pointer of a comment points nowhere, which is a bug in this program.
    pub fn to_yaml(&self) -> anyhow::Result<String> {
        let tree = Tree::conventional(&self.object);
        let mut comments = vec![(0, self.about.as_str())];
        for (pointer, comment) in &self.comments {
            let tokens: Vec<&str> = pointer.split('/').skip(1).collect();
            let line = line(&tree, &tokens).with_context(|| format!("{}: nothing at {pointer}", self.title()))?;
            comments.push((line, comment));
        }
        comments.sort_by_key(|(line, _)| *line);
        Ok(interleave(&yaml::print(&tree), &comments))
    }
}

/// Returns the line, from 0, on which a part of a printed tree starts.
fn line(tree: &Tree, tokens: &[&str]) -> Option<usize> {
    let Some((token, rest)) = tokens.split_first() else { return Some(0) };
    let mut before = 0;
    match tree {
        Tree::Map(entries) => {
            for (key, value) in entries {
                if key == token {
                    // The value starts on the line after its key.
                    return Some(if rest.is_empty() { before } else { before + 1 + line(value, rest)? });
                }
                before += yaml::print(&Tree::Map(vec![(key.clone(), value.clone())])).lines().count();
            }
            None
        }
        Tree::List(items) => {
            let (earlier, from) = items.split_at_checked(token.parse().ok()?)?;
            before += yaml::print(&Tree::List(earlier.to_vec())).lines().count() * usize::from(!earlier.is_empty());
            line(from.first()?, rest).map(|line| before + line)
        }
        Tree::Scalar(_) => None,
    }
}

/// Inserts comments into a text, each before the line of its number. The numbers ascend.
fn interleave(text: &str, comments: &[(usize, &str)]) -> String {
    let mut out = String::new();
    let mut left = comments;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        while let [(at, comment), rest @ ..] = left
            && *at <= number
        {
            let indent = line.len() - line.trim_start_matches(' ').len();
            for line in wrapped(comment, COLUMNS.saturating_sub(indent + COMMENT.len())) {
                // Writing to a String cannot fail.
                let _ = writeln!(out, "{:indent$}{COMMENT}{line}", "");
            }
            left = rest;
        }
        out.push_str(line);
    }
    out
}

/// Returns `metadata` with the labels that Kubernetes recommends. `extra` are annotations, written if there are any.
pub fn metadata(name: &str, namespace: Option<&str>, instance: &str, component: &str, extra: &Value) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name.into());
    if let Some(namespace) = namespace {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    metadata.insert("labels".to_owned(), labels(instance, component));
    if extra.as_object().is_some_and(|annotations| !annotations.is_empty()) {
        metadata.insert("annotations".to_owned(), extra.clone());
    }
    metadata.into()
}

fn labels(instance: &str, component: &str) -> Value {
    let mut labels = selector(instance, component);
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("app.kubernetes.io/managed-by".to_owned(), "pillion".into());
        labels.insert(PART_OF.to_owned(), PILLION.into());
        labels.insert("app.kubernetes.io/version".to_owned(), env!("CARGO_PKG_VERSION").into());
    }
    labels
}

/// Returns the labels for selectors: the ones that stay the same in every version.
pub fn selector(instance: &str, component: &str) -> Value {
    json!({
        "app.kubernetes.io/name": "pillion",
        "app.kubernetes.io/instance": instance,
        "app.kubernetes.io/component": component,
    })
}

/// Returns the objects as one YAML text.
///
/// # Errors
/// See [`Document::to_yaml`].
pub fn to_yaml<'a>(documents: impl IntoIterator<Item = &'a Document>) -> anyhow::Result<String> {
    let texts: Vec<String> = documents.into_iter().map(Document::to_yaml).collect::<Result<_, _>>()?;
    Ok(texts.join("---\n"))
}

/// Returns the objects as one JSON text: a single object as it is, several objects as a List.
///
/// # Errors
/// If serialization fails, which no JSON value causes.
pub fn to_json<'a>(documents: impl IntoIterator<Item = &'a Document>) -> anyhow::Result<String> {
    let objects: Vec<Value> = documents.into_iter().map(|document| document.object.clone()).collect();
    let value = match <[Value; 1]>::try_from(objects) {
        Ok([object]) => object,
        Err(objects) => json!({"apiVersion": "v1", "kind": "List", "items": objects}),
    };
    let mut text = serde_json::to_string_pretty(&Tree::conventional(&value))?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_stand_before_what_they_are_about() {
        let object =
            json!({"kind": "Role", "metadata": {"name": "a"}, "rules": [{"verbs": ["get"]}, {"verbs": ["list"]}]});
        let document = Document::new("f", "What it is for.", object)
            .with_comment("/rules/1", "Second.")
            .with_comment("/rules", "All.")
            .with_comment("/rules/0", "First.")
            .with_comment("/rules/0/verbs", "");
        assert_eq!(
            document.to_yaml().unwrap(),
            "# What it is for.\nkind: Role\nmetadata:\n  name: a\n# All.\nrules:\n# First.\n- verbs:\n  - get\n# Second.\n- verbs:\n  - list\n"
        );
    }

    #[test]
    fn a_comment_without_a_place_is_an_error() {
        let document = Document::new("f", "", json!({"kind": "Role"})).with_comment("/rules/1", "lost");
        assert!(document.to_yaml().unwrap_err().to_string().contains("nothing at /rules/1"));
    }
}
