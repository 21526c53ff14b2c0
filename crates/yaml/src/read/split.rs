//! Where the documents of a text begin and end.

use std::ops::Range;

use super::json;
use crate::part::Part;

/// Editors on Windows start files with this mark, also those that are then joined.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Cuts a text at its documents, as kubectl does: a text that is a stream of JSON values is JSON, any other is YAML, whose
/// documents begin at lines `---`.
pub fn parts(text: &str) -> Vec<Part> {
    if let Some(values) = json::values(text) {
        let part = |value: Range<usize>| Part { whole: value.clone(), content: value, is_json: true };
        return values.into_iter().map(part).collect();
    }
    let mut parts: Vec<Part> = Vec::new();
    for whole in yaml_documents(text) {
        let content = content(text, &whole);
        // Directives belong to the document that follows.
        match parts.last_mut() {
            Some(last) if is_directives(text.get(last.content.clone()).unwrap_or_default()) => {
                last.content.end = whole.end;
                last.whole = whole;
            }
            _ => parts.push(Part { whole, content, is_json: false }),
        }
    }
    parts
}

/// Cuts at lines that start with `---` and after `...` lines. YAML allows such lines only as document markers.
fn yaml_documents(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if is_marker(line, "---") && offset > start {
            ranges.push(start..offset);
            start = offset;
        }
        offset += line.len();
        if is_marker(line, "...") {
            ranges.push(start..offset);
            start = offset;
        }
    }
    if offset > start {
        ranges.push(start..offset);
    }
    ranges
}

/// Whether a line is a document marker, perhaps with something behind it.
pub fn is_marker(line: &str, marker: &str) -> bool {
    let rest = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).strip_prefix(marker);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Returns the bytes of a part without a marker that only a comment follows, and without byte order marks.
fn content(text: &str, whole: &Range<usize>) -> Range<usize> {
    let mut start = whole.start;
    let mut skip = |text: &str| start += text.len();
    let mut rest = text.get(whole.clone()).unwrap_or_default();
    let line = rest.split_inclusive('\n').next().unwrap_or_default();
    let behind = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).strip_prefix("---").map(str::trim_start);
    // A carriage return alone ends a line, too.
    let is_line = !line.trim_end().contains('\r');
    if is_line && is_marker(line, "---") && behind.is_some_and(|behind| behind.is_empty() || behind.starts_with('#')) {
        skip(line);
        rest = rest.strip_prefix(line).unwrap_or_default();
    }
    if rest.starts_with(BYTE_ORDER_MARK) {
        skip(BYTE_ORDER_MARK.encode_utf8(&mut [0; 4]));
    }
    start..whole.end
}

/// Whether a text has YAML directives and no document.
fn is_directives(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).peekable();
    lines.peek().is_some() && lines.all(|line| line.starts_with('%'))
}
