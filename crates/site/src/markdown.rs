//! Markdown as mdBook reads it.

use mdbook_markdown::pulldown_cmark::Parser;
use mdbook_markdown::{MarkdownOptions, new_cmark_parser};

/// Returns a parser with the options of the site.
pub(crate) fn parser(text: &str) -> Parser<'_> {
    let mut options = MarkdownOptions::default();
    options.smart_punctuation = false;
    new_cmark_parser(text, &options)
}

/// Returns the number of the line with this byte, beginning with 1.
pub(crate) fn line(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}
