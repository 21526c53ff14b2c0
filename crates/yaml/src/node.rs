//! The nodes of a document and their places.

use std::ops::Range;

use crate::scalar::Scalar;

/// The index of a node in its document.
pub(crate) type Id = usize;

/// A node of a document and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// The bytes of the node in the part of the text that was read, with its anchor and its tag.
    pub(crate) range: Range<usize>,
}

/// What a node is.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Scalar {
        value: Scalar,
        /// Whether this is the merge key, `<<`.
        merges: bool,
        /// The bytes of a block of text without its first line, which has the `|` or `>`.
        lines: Option<Range<usize>>,
    },
    List {
        items: Vec<Id>,
        /// Whether it is written as `[...]`.
        is_flow: bool,
    },
    Map {
        entries: Vec<(Id, Id)>,
        /// Whether it is written as `{...}`.
        is_flow: bool,
    },
    Alias(Id),
}

/// The nodes of a document; the last is the root.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes(Vec<Node>);

impl Nodes {
    pub(crate) fn get(&self, id: Id) -> Option<&Node> {
        self.0.get(id)
    }

    pub(crate) fn add(&mut self, kind: Kind, range: Range<usize>) -> Id {
        self.0.push(Node { kind, range });
        self.0.len() - 1
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.0.iter()
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut Node> {
        self.0.get_mut(id)
    }

    /// Follows an alias.
    pub(crate) fn resolved(&self, id: Id) -> Option<&Node> {
        match self.get(id)? {
            Node { kind: Kind::Alias(target), .. } => self.get(*target),
            node => Some(node),
        }
    }
}
