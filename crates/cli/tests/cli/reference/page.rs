//! Pages in Markdown: their parts, and the comparison with the file.

use std::env;
use std::fmt::Write as _;
use std::fs;

use crate::support::files::root;

/// The variable that makes the tests write the pages.
const RENEW: &str = "PILLION_RENEW";
/// The command that writes the pages.
const HOW: &str = "PILLION_RENEW=1 cargo test --workspace --test cli reference::";

/// A page of `docs/reference`.
pub struct Page {
    name: &'static str,
    text: String,
}

impl Page {
    /// Begins the page `name` with a title and an introduction.
    pub fn new(name: &'static str, title: &str, introduction: &str) -> Self {
        let text = format!(
            "# {title}\n\n<!-- Written from the code by crates/cli/tests/cli/reference; CONTRIBUTING.md says how to renew it. -->\n\n{introduction}\n"
        );
        Self { name, text }
    }

    /// Adds a paragraph, a heading, or a block.
    pub fn add(&mut self, part: impl AsRef<str>) {
        write!(self.text, "\n{}\n", part.as_ref().trim_end()).unwrap();
    }

    /// Adds a table. It has no rows if there is nothing to list; then nothing is added.
    pub fn table(&mut self, head: &[&str], rows: &[Vec<String>]) {
        if rows.is_empty() {
            return;
        }
        let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
        let head_line = line(head.iter().map(|cell| (*cell).to_owned()).collect());
        let rule = line(vec!["---".to_owned(); head.len()]);
        let rows = rows.iter().map(|row| line(row.iter().map(|cell| in_cell(cell)).collect()));
        self.add([head_line, rule].into_iter().chain(rows).collect::<Vec<_>>().join("\n"));
    }

    /// Compares the page with its file. With `PILLION_RENEW=1`, writes the file.
    pub fn is_written(&self) {
        let path = root().join("docs/reference").join(self.name);
        if env::var_os(RENEW).is_some() {
            fs::write(&path, &self.text).unwrap();
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert!(written == self.text, "docs/reference/{} is stale; renew it with: {HOW}", self.name);
    }
}

/// Returns a text as a cell of a table.
fn in_cell(text: &str) -> String {
    text.trim().replace('|', "\\|").replace('\n', " ")
}

/// Returns a text as code in a line.
pub fn code(text: &str) -> String {
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// Returns a block of code.
pub fn block(language: &str, text: &str) -> String {
    format!("```{language}\n{}\n```", text.trim_end())
}
