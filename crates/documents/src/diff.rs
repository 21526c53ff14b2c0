//! Differences between two texts, in the format of `diff -u`.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use similar::{ChangeTag, TextDiff};

const HEADER: Style = Style::new().bold();
const HUNK: Style = AnsiColor::Cyan.on_default();
const ADDED: Style = AnsiColor::Green.on_default();
const REMOVED: Style = AnsiColor::Red.on_default();
/// Unchanged lines shown before and after a change.
const CONTEXT: usize = 3;

/// Writes the difference under a header that names the two texts, or nothing if they are equal. Readable without
/// colours: lines start with `+`, `-` or a space.
///
/// # Errors
/// If `out` takes no more.
pub fn write(out: &mut dyn Write, old_name: &str, new_name: &str, old: &str, new: &str) -> io::Result<()> {
    let diff = TextDiff::from_lines(old, new);
    let mut unified = diff.unified_diff();
    let mut is_first = true;
    for hunk in unified.context_radius(CONTEXT).iter_hunks() {
        if is_first {
            writeln!(out, "{HEADER}--- {old_name}{HEADER:#}")?;
            writeln!(out, "{HEADER}+++ {new_name}{HEADER:#}")?;
            is_first = false;
        }
        writeln!(out, "{HUNK}{}{HUNK:#}", hunk.header())?;
        for change in hunk.iter_changes() {
            let (sign, style) = match change.tag() {
                ChangeTag::Insert => ('+', ADDED),
                ChangeTag::Delete => ('-', REMOVED),
                ChangeTag::Equal => (' ', Style::new()),
            };
            let line: &str = change.value();
            writeln!(out, "{style}{sign}{}{style:#}", line.trim_end_matches('\n'))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: &str, new: &str) -> String {
        let mut out = anstream::StripStream::new(Vec::new());
        write(&mut out, "a", "b", old, new).unwrap();
        String::from_utf8(out.into_inner()).unwrap()
    }

    #[test]
    fn changes_stand_among_their_neighbours() {
        assert_eq!(
            shown("1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\nx\n5\n6\n"),
            "--- a\n+++ b\n@@ -2,5 +2,6 @@\n 2\n 3\n 4\n+x\n 5\n 6\n"
        );
    }

    #[test]
    fn equal_texts_have_none() {
        assert_eq!(shown("1\n", "1\n"), "");
    }
}
