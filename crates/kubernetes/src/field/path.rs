//! Field paths.

use std::fmt;

use super::text::shortened;

/// The path of a field, as Kubernetes writes it: `spec.containers[0].env[1].name`, `metadata.labels[app]`.
///
/// A path is a chain of steps on the stack, each of which borrows its parent. `to_string` builds the text. Only errors
/// need the text, and most objects have none. Store a path as its text.
#[derive(Clone, Copy, Debug)]
pub struct FieldPath<'a> {
    above: Option<&'a FieldPath<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    /// A path as text.
    Root(&'a str),
    Field(&'a str),
    Key(&'a str),
    Index(usize),
    Item(&'a str, usize),
}

impl Default for FieldPath<'_> {
    fn default() -> Self {
        Self::new("")
    }
}

impl<'a> FieldPath<'a> {
    /// Creates the path of a top-level field, or any path from its text. `""` is the object itself.
    pub const fn new(root: &'a str) -> Self {
        Self { above: None, step: Step::Root(root) }
    }

    const fn then(&'a self, step: Step<'a>) -> Self {
        Self { above: Some(self), step }
    }

    /// Returns the path of the field `name` below this path.
    #[must_use]
    pub const fn child(&'a self, name: &'a str) -> Self {
        self.then(Step::Field(name))
    }

    /// Returns the path of the item `index` of the list at this path.
    #[must_use]
    pub const fn index(&'a self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    /// Returns the path of the entry `key` of the map at this path.
    #[must_use]
    pub const fn key(&'a self, key: &'a str) -> Self {
        self.then(Step::Key(key))
    }

    /// Returns the path of the item `index` of the list `name` below this path.
    #[must_use]
    pub const fn item(&'a self, name: &'a str, index: usize) -> Self {
        self.then(Step::Item(name, index))
    }

    /// Whether this is the path of the object itself.
    fn is_empty(&self) -> bool {
        self.above.is_none_or(Self::is_empty) && matches!(self.step, Step::Root("") | Step::Field(""))
    }
}

/// Recurses once per step.
impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            above.fmt(f)?;
            if matches!(self.step, Step::Field(_) | Step::Item(..)) && !above.is_empty() {
                f.write_str(".")?;
            }
        }
        match self.step {
            Step::Root(path) => f.write_str(path),
            Step::Field(name) => write_name(f, name),
            Step::Key(key) => {
                f.write_str("[")?;
                write_name(f, key)?;
                f.write_str("]")
            }
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Item(name, index) => {
                write_name(f, name)?;
                write!(f, "[{index}]")
            }
        }
    }
}

impl From<&FieldPath<'_>> for String {
    fn from(path: &FieldPath<'_>) -> Self {
        path.to_string()
    }
}

impl From<FieldPath<'_>> for String {
    fn from(path: FieldPath<'_>) -> Self {
        Self::from(&path)
    }
}

/// The maximum length of one step that is shown whole, in bytes: more than any key that Kubernetes accepts. Every error
/// prints its path (E18).
const STEP: usize = 400;

fn write_name(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    if name.len() <= STEP { f.write_str(name) } else { f.write_str(&shortened(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_as_kubernetes_writes_them() {
        let root = FieldPath::new("");
        let spec = root.child("spec");
        let container = spec.item("containers", 0);
        assert_eq!(container.child("env").key("a/b").to_string(), "spec.containers[0].env[a/b]");
        assert_eq!(spec.child("containers").index(0).child("env").to_string(), "spec.containers[0].env");
        assert_eq!(root.index(3).to_string(), "[3]");
        assert_eq!(root.index(3).child("name").to_string(), "[3].name");
        assert_eq!(root.to_string(), "");
        assert_eq!(FieldPath::new("spec.template").child("spec").to_string(), "spec.template.spec");
    }

    #[test]
    fn e18_long_keys_are_cut_in_paths() {
        let long = "k".repeat(100_000);
        let root = FieldPath::new("map");
        assert_eq!(root.key(&long).child("name").to_string(), format!("map[{}...].name", "k".repeat(80)));
        assert_eq!(root.key(&"k".repeat(STEP)).to_string().len(), STEP + 5);
    }
}
