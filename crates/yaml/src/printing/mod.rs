//! Writes YAML as kubectl prints it: block style, lists not indented, texts quoted if a parser could misread them.

mod scalar;
#[cfg(test)]
mod tests;
mod tree;

pub use self::tree::Tree;

/// Returns a value as one document. It ends with a line feed and starts without a marker.
///
/// Reading the document with [`crate::documents`] yields an equal value.
pub fn print(tree: &Tree) -> String {
    let mut printer = Printer::new(Style::default());
    match tree {
        Tree::Map(entries) if !entries.is_empty() => printer.map(entries, 0),
        Tree::List(items) if !items.is_empty() => printer.list(items, 0),
        leaf => {
            printer.leaf(leaf, 0);
            printer.out.push('\n');
        }
    }
    printer.out
}

/// How blocks are indented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// The number of spaces by which a map stands to the right of its key.
    pub(crate) maps: usize,
    /// The number of spaces by which a list stands to the right of its key.
    pub(crate) lists: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self { maps: 2, lists: 0 }
    }
}

/// Writes blocks of YAML.
pub(crate) struct Printer {
    pub(crate) out: String,
    style: Style,
}

impl Printer {
    pub(crate) fn new(style: Style) -> Self {
        Self { out: String::new(), style }
    }

    /// Writes the entries of a map, each on lines of its own. The caller has already indented the first line.
    pub(crate) fn map(&mut self, entries: &[(String, Tree)], indent: usize) {
        for (index, (key, value)) in entries.iter().enumerate() {
            if index > 0 {
                self.spaces(indent);
            }
            scalar::key(key, &mut self.out);
            self.out.push(':');
            self.behind_colon(value, indent);
        }
    }

    /// Writes the value of a key, up to the end of the line. `indent` is that of the key.
    pub(crate) fn behind_colon(&mut self, value: &Tree, indent: usize) {
        match value {
            Tree::Map(entries) if !entries.is_empty() => {
                let indent = indent + self.style.maps;
                self.out.push('\n');
                self.spaces(indent);
                self.map(entries, indent);
            }
            Tree::List(items) if !items.is_empty() => {
                let indent = indent + self.style.lists;
                self.out.push('\n');
                self.spaces(indent);
                self.list(items, indent);
            }
            value => {
                self.out.push(' ');
                self.leaf(value, indent + self.style.maps);
                self.out.push('\n');
            }
        }
    }

    /// Writes the items of a list, each on lines of its own. The caller has already indented the first line.
    pub(crate) fn list(&mut self, items: &[Tree], indent: usize) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.spaces(indent);
            }
            self.out.push_str("- ");
            self.item(item, indent + 2);
        }
    }

    /// Writes what is behind a dash, up to the end of the line. `indent` is where it stands.
    pub(crate) fn item(&mut self, item: &Tree, indent: usize) {
        match item {
            Tree::Map(entries) if !entries.is_empty() => self.map(entries, indent),
            Tree::List(items) if !items.is_empty() => self.list(items, indent),
            item => {
                self.leaf(item, indent);
                self.out.push('\n');
            }
        }
    }

    /// Writes a value that fits behind a key or a dash. `indent` applies to the further lines of a multi-line text.
    pub(crate) fn leaf(&mut self, tree: &Tree, indent: usize) {
        match tree {
            Tree::Map(_) => self.out.push_str("{}"),
            Tree::List(_) => self.out.push_str("[]"),
            Tree::Scalar(value) => scalar::value(value, indent, &mut self.out),
        }
    }

    pub(crate) fn spaces(&mut self, count: usize) {
        spaces(count, &mut self.out);
    }
}

fn spaces(count: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', count));
}
