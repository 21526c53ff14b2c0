//! The files of the repository, the objects in them, and programs that tests write.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use pillion_documents::manifest::{Source, parse};
pub use pillion_samples::repository::{RULE, combinations, root, text};
use serde_json::Value;

/// Writes a program. Another process writes it: of this process, children that other tests start meanwhile would inherit
/// the open file, and Linux runs no program that is open for writing.
pub fn write_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let written =
        Command::new("sh").args(["-c", "cat > \"$0\" && chmod +x \"$0\""]).arg(path).stdin(Stdio::piped()).spawn();
    let mut written = written.unwrap();
    written.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(written.wait().unwrap().success(), "{}", path.display());
}

/// Returns the objects of a YAML text. Messages call it `name`.
pub fn objects(name: &str, text: &str) -> Vec<Value> {
    let source = Arc::new(Source::new(name, text));
    parse(&source).unwrap().into_iter().map(|manifest| manifest.value).collect()
}
