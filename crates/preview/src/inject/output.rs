//! Output of `pillion inject` to `stdout`.

use pillion_documents::diff;
use pillion_terminal::Terminal;
use pillion_yaml::{self as yaml, Tree};

use std::io;

use super::documents::{Chunk, Document};
use super::object::{self, Outcome, Printed};

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// YAML documents. Unchanged documents are printed verbatim, unless they are JSON.
    Yaml,
    /// One JSON value: an object, or a List of several.
    Json,
    /// Only the changes.
    Diff,
}

/// Prints outcomes one by one.
#[derive(Debug)]
pub struct Printer {
    form: Form,
    /// Whether unchanged documents are printed verbatim.
    verbatim: bool,
    written: bool,
    /// Objects held back until the end: the number of objects decides the form of the JSON.
    held: Vec<Tree>,
}

/// A changed document.
struct InPlace {
    /// Its file and line.
    place: String,
    /// Its text; `None` if it has to be printed anew.
    text: Option<String>,
}

impl Printer {
    /// Returns a printer. `verbatim` allows it to print unchanged documents as they were written.
    pub fn new(form: Form, verbatim: bool) -> Self {
        Self { form, verbatim, written: false, held: Vec::new() }
    }

    /// Prints a chunk, given the outcomes of the objects of each of its documents.
    ///
    /// # Errors
    /// If `stdout` takes no more.
    pub fn chunk(
        &mut self,
        chunk: &Chunk,
        outcomes: Vec<(&Document, Vec<Outcome>)>,
        terminal: &mut Terminal,
    ) -> io::Result<()> {
        match self.form {
            Form::Diff => {
                for (document, outcomes) in outcomes {
                    for (object, outcome) in document.objects.iter().zip(outcomes) {
                        for Printed { label, before, after } in &outcome.printed {
                            let printed = || (yaml::print(before), yaml::print(after));
                            let (old, new) = if self.verbatim { object.texts(before, after) } else { printed() };
                            diff::write(terminal.out(), label, &format!("{label} (injected)"), &old, &new)?;
                        }
                    }
                }
            }
            Form::Json => {
                let printed =
                    outcomes.into_iter().flat_map(|(_, outcomes)| outcomes).flat_map(|outcome| outcome.printed);
                self.held.extend(printed.map(|printed| printed.after));
            }
            Form::Yaml
                if self.verbatim
                    && !chunk.is_json
                    && outcomes.iter().flat_map(|(_, outcomes)| outcomes).all(is_untouched) =>
            {
                let needs_marker = !chunk.documents.is_empty() && !chunk.has_marker();
                self.text(&chunk.text, needs_marker, terminal)?;
            }
            Form::Yaml => {
                match self.in_place(chunk, &outcomes) {
                    Some(InPlace { text: Some(text), .. }) => {
                        return self.text(&text, !chunk.has_marker(), terminal);
                    }
                    Some(InPlace { place, text: None }) => terminal.warn(format_args!(
                        "{place}: printed anew, without its comments and quotes: what changes is part of [...] or {{...}}, \
                         or has an anchor that aliases name"
                    )),
                    None => {}
                }
                // Comments describe the object, not its Pods.
                let mut head = if self.verbatim { chunk.head() } else { String::new() };
                for (document, outcomes) in outcomes {
                    for tree in self.documents(document, outcomes) {
                        let needs_marker = !head.starts_with("---");
                        self.text(&(std::mem::take(&mut head) + &yaml::print(&tree)), needs_marker, terminal)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns a changed document of YAML as it is in its own text.
    fn in_place(&self, chunk: &Chunk, outcomes: &[(&Document, Vec<Outcome>)]) -> Option<InPlace> {
        let [(document, outcomes)] = outcomes else { return None };
        if !self.verbatim || chunk.is_json || outcomes.iter().all(is_untouched) {
            return None;
        }
        let after = outcomes.iter().flat_map(|outcome| &outcome.printed).map(|printed| printed.after.clone());
        let after: Vec<Tree> = after.collect();
        let tree = if after.is_empty() { None } else { object::document(document, after) }?;
        let place = format!("{}:{}", document.whole.source.name, document.whole.line());
        Some(InPlace { place, text: chunk.changed(&tree) })
    }

    /// Returns the output documents of an input document.
    fn documents(&self, document: &Document, outcomes: Vec<Outcome>) -> Vec<Tree> {
        if self.verbatim && outcomes.iter().all(is_untouched) {
            return vec![document.whole.tree()];
        }
        let printed = outcomes.into_iter().flat_map(|outcome| outcome.printed).map(|printed| printed.after);
        let printed: Vec<Tree> = printed.collect();
        if !self.verbatim {
            return printed;
        }
        if printed.is_empty() { Vec::new() } else { object::document(document, printed).into_iter().collect() }
    }

    fn text(&mut self, text: &str, needs_marker: bool, terminal: &mut Terminal) -> io::Result<()> {
        // kubectl takes YAML that starts with a brace for JSON.
        let looks_like_json = !self.written && text.trim_start().starts_with('{');
        if needs_marker && (self.written || looks_like_json) {
            writeln!(terminal.out(), "---")?;
        }
        self.written = true;
        terminal.out().write_all(text.as_bytes())
    }

    /// Prints the objects held back.
    ///
    /// # Errors
    /// If `stdout` takes no more.
    pub fn finish(self, terminal: &mut Terminal) -> anyhow::Result<()> {
        if self.form != Form::Json {
            return Ok(());
        }
        let mut held = self.held;
        let tree = match (held.pop(), held.is_empty()) {
            (Some(only), true) => only,
            (last, _) => object::list(held.into_iter().chain(last).collect()),
        };
        write!(terminal.out(), "{}", pillion_terminal::output::json(&tree)?)?;
        Ok(())
    }
}

fn is_untouched(outcome: &Outcome) -> bool {
    !outcome.is_refused() && outcome.printed.iter().all(|printed| printed.before == printed.after)
}
