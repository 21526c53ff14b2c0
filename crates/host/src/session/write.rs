//! Writes the YAML of sessions exactly as kwctl does.
//!
//! This is done by hand for two reasons: kwctl requires a local tag on each request (`!KubernetesCanI`), and a new
//! recording must not differ from the old one in formatting.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Exchange, Question, Response};
use crate::cluster::{AccessReview, ResourceAttributes};

pub(super) fn session(exchanges: &[Exchange]) -> String {
    if exchanges.is_empty() {
        return "[]\n".to_owned();
    }
    let mut text = String::new();
    for Exchange { question, response } in exchanges {
        text.push_str("- type: Exchange\n  request: |\n");
        for line in request(question).lines() {
            let _ = writeln!(text, "    {line}");
        }
        let (kind, key, value) = match response {
            Response::Success { payload } => ("Success", "payload", payload),
            Response::Error { message } => ("Error", "message", message),
        };
        let _ = writeln!(text, "  response:\n    type: {kind}\n    {key}: {}", scalar(value, 6));
    }
    text
}

/// A block of `key: value` lines.
#[derive(Default)]
struct Block {
    text: String,
    indent: usize,
}

impl Block {
    fn key(&mut self, key: &str) {
        let _ = write!(self.text, "{:indent$}{key}:", "", indent = self.indent);
    }

    fn field(&mut self, key: &str, value: Option<&str>) {
        self.key(key);
        let value = value.map_or_else(|| "null".to_owned(), quoted_unless_plain);
        let _ = writeln!(self.text, " {value}");
    }

    fn flag(&mut self, key: &str, value: bool) {
        self.key(key);
        let _ = writeln!(self.text, " {value}");
    }

    fn list<'a>(&mut self, key: &str, items: Option<impl ExactSizeIterator<Item = &'a String>>) {
        self.key(key);
        match items {
            None => self.text.push_str(" null\n"),
            Some(items) if items.len() == 0 => self.text.push_str(" []\n"),
            Some(items) => {
                self.text.push('\n');
                for item in items {
                    let item = quoted_unless_plain(item);
                    let _ = writeln!(self.text, "{:indent$}- {item}", "", indent = self.indent);
                }
            }
        }
    }

    fn nested(&mut self, key: &str, fill: impl FnOnce(&mut Self)) {
        self.key(key);
        self.text.push('\n');
        self.indent += 2;
        fill(self);
        self.indent -= 2;
    }
}

/// Returns the request of an exchange.
fn request(question: &Question) -> String {
    let mut block = Block::default();
    match question {
        Question::KubernetesGetResource { api_version, kind, name, namespace, disable_cache, field_masks } => {
            block.text.push_str("!KubernetesGetResource\n");
            block.field("api_version", Some(api_version));
            block.field("kind", Some(kind));
            block.field("name", Some(name));
            block.field("namespace", namespace.as_deref());
            block.flag("disable_cache", *disable_cache);
            block.list("field_masks", field_masks.as_ref().map(BTreeSet::iter));
        }
        Question::KubernetesListResourceNamespace {
            api_version,
            kind,
            namespace,
            label_selector,
            field_selector,
            field_masks,
        } => {
            block.text.push_str("!KubernetesListResourceNamespace\n");
            block.field("api_version", Some(api_version));
            block.field("kind", Some(kind));
            block.field("namespace", Some(namespace));
            block.field("label_selector", label_selector.as_deref());
            block.field("field_selector", field_selector.as_deref());
            block.list("field_masks", field_masks.as_ref().map(BTreeSet::iter));
        }
        Question::KubernetesListResourceAll { api_version, kind, label_selector, field_selector, field_masks } => {
            block.text.push_str("!KubernetesListResourceAll\n");
            block.field("api_version", Some(api_version));
            block.field("kind", Some(kind));
            block.field("label_selector", label_selector.as_deref());
            block.field("field_selector", field_selector.as_deref());
            block.list("field_masks", field_masks.as_ref().map(BTreeSet::iter));
        }
        Question::KubernetesCanI { request: review, disable_cache } => {
            block.text.push_str("!KubernetesCanI\n");
            block.nested("request", |block| access_review(block, review));
            block.flag("disable_cache", *disable_cache);
        }
    }
    block.text
}

fn access_review(block: &mut Block, review: &AccessReview) {
    let AccessReview { groups, resource_attributes, user } = review;
    block.list("groups", groups.as_ref().map(|groups| groups.iter()));
    block.nested("resource_attributes", |block| {
        let ResourceAttributes { group, name, namespace, resource, subresource, verb, version } = resource_attributes;
        block.field("group", group.as_deref());
        block.field("name", name.as_deref());
        block.field("namespace", namespace.as_deref());
        block.field("resource", Some(resource));
        block.field("subresource", subresource.as_deref());
        block.field("verb", Some(verb));
        block.field("version", version.as_deref());
    });
    block.field("user", Some(user));
}

/// Formats a text as a value, as a block scalar if it has several lines.
fn scalar(text: &str, indent: usize) -> String {
    let in_block = |c: char| c == '\n' || !needs_escape(c);
    if !text.contains('\n') || !text.chars().all(in_block) || text.starts_with([' ', '\n']) {
        return quoted_unless_plain(text);
    }
    let body = text.trim_end_matches('\n');
    let chomping = match text.len() - body.len() {
        0 => "-",
        1 => "",
        _ => return quoted_unless_plain(text),
    };
    let mut block = format!("|{chomping}");
    for line in body.split('\n') {
        block.push('\n');
        if !line.is_empty() {
            let _ = write!(block, "{:indent$}{line}", "");
        }
    }
    block
}

/// Formats a text in one line: plain if every reader takes it for a string, in double quotes if a character needs an
/// escape, otherwise in single quotes.
fn quoted_unless_plain(text: &str) -> String {
    if text.chars().any(needs_escape) {
        let mut quoted = String::from('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => quoted.extend(['\\', c]),
                '\n' => quoted.push_str("\\n"),
                '\t' => quoted.push_str("\\t"),
                // All of these characters are at most U+FFFF.
                c if needs_escape(c) => {
                    let _ = write!(quoted, "\\u{:04x}", u32::from(c));
                }
                c => quoted.push(c),
            }
        }
        quoted.push('"');
        return quoted;
    }
    if is_plain(text) { text.to_owned() } else { format!("'{}'", text.replace('\'', "''")) }
}

/// Whether a character must be escaped: line breaks, which are more in YAML 1.1 than in YAML 1.2, and unprintable
/// characters.
fn needs_escape(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Whether YAML reads the text as a string without quotes: it is not a number, boolean or null and contains no
/// indicator.
fn is_plain(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !["null", "true", "false"].iter().any(|word| text.eq_ignore_ascii_case(word))
}
