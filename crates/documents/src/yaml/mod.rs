//! Writes YAML as kubectl prints it: block style, lists not indented, texts quoted if a parser could misread them.

mod scalar;
#[cfg(test)]
mod tests;
mod tree;

pub use self::tree::Tree;

/// Returns one document. It ends with a line feed and starts without a marker.
///
/// Reading the document with [`crate::manifest`] yields an equal value.
pub fn document(tree: &Tree) -> String {
    let mut out = String::new();
    match tree {
        Tree::Map(entries) if !entries.is_empty() => map(entries, 0, &mut out),
        Tree::List(items) if !items.is_empty() => list(items, 0, &mut out),
        leaf => {
            self::leaf(leaf, 0, &mut out);
            out.push('\n');
        }
    }
    out
}

/// Writes the entries of a map, each on lines of its own. The caller has already indented the first line.
fn map(entries: &[(String, Tree)], indent: usize, out: &mut String) {
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            spaces(indent, out);
        }
        scalar::key(key, out);
        out.push(':');
        match value {
            Tree::Map(entries) if !entries.is_empty() => {
                out.push('\n');
                spaces(indent + 2, out);
                map(entries, indent + 2, out);
            }
            Tree::List(items) if !items.is_empty() => {
                out.push('\n');
                spaces(indent, out);
                list(items, indent, out);
            }
            value => {
                out.push(' ');
                leaf(value, indent + 2, out);
                out.push('\n');
            }
        }
    }
}

fn list(items: &[Tree], indent: usize, out: &mut String) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            spaces(indent, out);
        }
        out.push_str("- ");
        match item {
            Tree::Map(entries) if !entries.is_empty() => map(entries, indent + 2, out),
            Tree::List(items) if !items.is_empty() => list(items, indent + 2, out),
            item => {
                leaf(item, indent + 2, out);
                out.push('\n');
            }
        }
    }
}

/// Writes a value that fits behind a key or a dash. `indent` applies to the further lines of a multi-line text.
fn leaf(tree: &Tree, indent: usize, out: &mut String) {
    match tree {
        Tree::Map(_) => out.push_str("{}"),
        Tree::List(_) => out.push_str("[]"),
        Tree::Scalar(value) => scalar::value(value, indent, out),
    }
}

fn spaces(count: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', count));
}
