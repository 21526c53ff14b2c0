//! The value of a document: aliases and merge keys followed, keys as texts.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::depth::Depth;
use crate::node::{Id, Kind, Node, Nodes};
use crate::problem::Problem;

/// How many bytes of text aliases may repeat in a document.
const MAX_REPEATED: usize = 64 << 20;

/// The values that aliases may stand for, as a share of all values: Go's YAML reader has these numbers. They tell
/// documents that expand without bound from those that share a few blocks.
const FEW: f64 = 400_000.0;
const MANY: f64 = 4_000_000.0;

/// Decodes a document.
pub(super) struct Decoder<'a> {
    nodes: &'a Nodes,
    /// The number of values so far.
    values: u32,
    /// Those of them that an alias stands for.
    repeated: u32,
    /// The bytes of text that aliases stand for.
    repeated_bytes: usize,
    /// The aliases that are being followed.
    open: BTreeSet<Id>,
    depth: Depth,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(nodes: &'a Nodes) -> Self {
        Self { nodes, values: 1, repeated: 0, repeated_bytes: 0, open: BTreeSet::new(), depth: Depth::default() }
    }

    /// Returns the value of a node.
    ///
    /// # Errors
    /// If a key is repeated or has no text, a number has no JSON, a merge key has no map, or aliases expand too far.
    pub(super) fn value(&mut self, id: Id) -> Result<Value, Problem> {
        let Some(node) = self.nodes.get(id) else { return Ok(Value::Null) };
        self.count(node)?;
        match &node.kind {
            Kind::Scalar { value, .. } => {
                let value = value.json().map_err(|message| Problem::new(message, node.range.clone()))?;
                if let Value::String(text) = &value {
                    self.weigh(text.len(), node)?;
                }
                Ok(value)
            }
            Kind::Alias(target) => self.aliased(id, node, |decoder| decoder.value(*target)),
            Kind::List { items, .. } => self
                .deeper(node, |decoder| items.iter().map(|item| decoder.value(*item)).collect::<Result<Vec<_>, _>>())
                .map(Value::Array),
            Kind::Map { entries, .. } => {
                let mut map = Map::new();
                self.deeper(node, |decoder| decoder.entries(entries, &mut map))?;
                Ok(Value::Object(map))
            }
        }
    }

    /// Adds the entries of a map. A merge key adds its entries where it stands, as kubectl does: they replace entries
    /// before it.
    fn entries(&mut self, entries: &[(Id, Id)], into: &mut Map<String, Value>) -> Result<(), Problem> {
        let mut known = BTreeSet::new();
        for (key, value) in entries {
            let Some(node) = self.nodes.get(*key) else { continue };
            if matches!(node.kind, Kind::Scalar { merges: true, .. }) {
                self.merge(*value, into)?;
                continue;
            }
            let name = self.key(*key)?;
            if !known.insert(name.clone()) {
                return Err(repeated(&name, node));
            }
            let value = self.value(*value)?;
            into.insert(name, value);
        }
        Ok(())
    }

    fn merge(&mut self, id: Id, into: &mut Map<String, Value>) -> Result<(), Problem> {
        let Some(node) = self.nodes.get(id) else { return Ok(()) };
        match &node.kind {
            Kind::List { items, .. } => {
                // Earlier maps win over later ones.
                items.iter().rev().try_for_each(|item| self.merge_map(*item, into))
            }
            _ => self.merge_map(id, into),
        }
    }

    fn merge_map(&mut self, id: Id, into: &mut Map<String, Value>) -> Result<(), Problem> {
        let Some(node) = self.nodes.get(id) else { return Ok(()) };
        match &node.kind {
            Kind::Map { entries, .. } => {
                self.count(node)?;
                self.deeper(node, |decoder| decoder.entries(entries, into))
            }
            Kind::Alias(target) if matches!(self.nodes.get(*target), Some(Node { kind: Kind::Map { .. }, .. })) => {
                self.count(node)?;
                self.aliased(id, node, |decoder| decoder.merge_map(*target, into))
            }
            _ => Err(Problem::new("the merge key << takes a map or a list of maps", node.range.clone())),
        }
    }

    fn key(&mut self, id: Id) -> Result<String, Problem> {
        let Some(node) = self.nodes.get(id) else { return Ok(String::new()) };
        self.count(node)?;
        match &node.kind {
            Kind::Scalar { value, .. } => value.key().map_err(|message| Problem::new(message, node.range.clone())),
            Kind::Alias(target) => self.aliased(id, node, |decoder| decoder.key(*target)),
            _ => Err(Problem::new("a key is a text, not a map or a list", node.range.clone())),
        }
    }

    /// Follows an alias.
    fn aliased<T>(
        &mut self,
        id: Id,
        node: &Node,
        follow: impl FnOnce(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        if !self.open.insert(id) {
            return Err(Problem::new("an alias is part of what it stands for", node.range.clone()));
        }
        let followed = follow(self);
        self.open.remove(&id);
        followed
    }

    fn deeper<T>(&mut self, node: &Node, decode: impl FnOnce(&mut Self) -> Result<T, Problem>) -> Result<T, Problem> {
        self.depth.enter(&node.range)?;
        let decoded = decode(self);
        self.depth.leave();
        decoded
    }

    fn count(&mut self, node: &Node) -> Result<(), Problem> {
        self.values = self.values.saturating_add(1);
        self.repeated = self.repeated.saturating_add(u32::from(!self.open.is_empty()));
        let (repeated, values) = (f64::from(self.repeated), f64::from(self.values));
        let allowed = 0.99 - 0.89 * ((values - FEW) / (MANY - FEW)).clamp(0.0, 1.0);
        if self.repeated > 100 && self.values > 1000 && repeated / values > allowed {
            return Err(Problem::new("the aliases of this document stand for too many values", node.range.clone())
                .help("write the values out, or split the document; kubectl refuses it, too"));
        }
        Ok(())
    }

    fn weigh(&mut self, bytes: usize, node: &Node) -> Result<(), Problem> {
        if self.open.is_empty() {
            return Ok(());
        }
        self.repeated_bytes = self.repeated_bytes.saturating_add(bytes);
        if self.repeated_bytes > MAX_REPEATED {
            let message = format!("the aliases of this document repeat more than {} MiB of text", MAX_REPEATED >> 20);
            return Err(Problem::new(message, node.range.clone()).help("write the values out, or split the document"));
        }
        Ok(())
    }
}

/// The remedy for a repeated `apiVersion` or `kind`: files concatenated without a separator form one document.
const SEPARATOR: &str = "documents in one file are separated by ---";

/// The error of a key that a map has twice.
fn repeated(key: &str, node: &Node) -> Problem {
    let problem = Problem::new(
        format!("duplicate key {key:?}: kubectl would take the last and drop the others"),
        node.range.clone(),
    );
    if matches!(key, "apiVersion" | "kind") { problem.help(SEPARATOR) } else { problem }
}
