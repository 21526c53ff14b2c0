//! Code blocks: each says its language, and blocks of data are valid in it.

use std::path::Path;

use anyhow::Result;
use mdbook_markdown::pulldown_cmark::{CodeBlockKind, Event, Tag, TagEnd};
use serde_json::Value;

use crate::files::{documents, name, read};
use crate::markdown::{line, parser};

/// The languages of the documents. The site colours each of them but `text`. `sh` are commands, `console` commands with
/// their output.
pub const LANGUAGES: [&str; 9] = ["console", "diff", "json", "lua", "rust", "sh", "text", "toml", "yaml"];

/// A code block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The line in which it begins.
    pub line: usize,
    /// Its language; empty if it does not say it.
    pub language: String,
    /// Its text.
    pub text: String,
}

/// Returns the code blocks of a Markdown text.
pub fn blocks(markdown: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (event, range) in parser(markdown).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match &kind {
                    CodeBlockKind::Fenced(info) => info.split([' ', ',']).next().unwrap_or_default(),
                    CodeBlockKind::Indented => "",
                };
                let language = language.to_owned();
                open = Some(Block { line: line(markdown, range.start), language, text: String::new() });
            }
            Event::Text(text) => {
                if let Some(block) = &mut open {
                    block.text.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
            _ => {}
        }
    }
    blocks
}

/// Returns what is wrong with the code blocks of the repository's documents.
pub fn problems(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for document in documents(root)? {
        let text = read(&document)?;
        let located = |block: Block| Some(format!("{}:{}: {}", name(root, &document), block.line, problem(&block)?));
        problems.extend(blocks(&text).into_iter().filter_map(located));
    }
    Ok(problems)
}

/// Returns what is wrong with a code block.
fn problem(block: &Block) -> Option<String> {
    let error = match block.language.as_str() {
        "" => {
            return Some("the code block has no language; write one behind the first ```, text if it has none".into());
        }
        "json" => json(&block.text).err(),
        "toml" => block.text.parse::<toml::Table>().err().map(|error| error.message().to_owned()),
        "yaml" => yaml(&block.text).err(),
        language if LANGUAGES.contains(&language) => None,
        language => return Some(format!("unknown language {language:?}; the documents use {}", LANGUAGES.join(", "))),
    };
    let error = error?;
    Some(format!("the block is not {}: {error}; correct it, or name another language", block.language))
}

/// Reads all documents.
fn yaml(text: &str) -> Result<(), String> {
    let line = |at| text.get(..at).unwrap_or_default().lines().count().max(1);
    let located = |problem: pillion_yaml::Problem| format!("line {}: {problem}", line(problem.range.start));
    pillion_yaml::documents(text).into_iter().try_for_each(|read| read.map(drop).map_err(located))
}

/// Reads one value, or one in each line.
fn json(text: &str) -> Result<(), String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    values.try_for_each(|value| value.map(drop).map_err(|error| error.to_string()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn blocks_have_a_line_a_language_and_a_text() {
        let markdown = "# A\n\n```yaml\na: b\n```\n\n* c\n\n  ```sh\n  d\n  e\n  ```\n\n~~~text f\n```\n~~~\n";
        let block = |line, language: &str, text: &str| Block { line, language: language.into(), text: text.into() };
        let wanted = [block(3, "yaml", "a: b\n"), block(9, "sh", "d\ne\n"), block(14, "text", "```\n")];
        assert_eq!(blocks(markdown), wanted);
    }

    #[rstest]
    #[case::documents("yaml", "a: b\n---\nc: [d]\n")]
    #[case::a_fragment("yaml", "- a: b\n  c: d # e\n")]
    #[case::lines("json", "{\"a\": 1}\n{\"b\": [2]}\n")]
    #[case::toml("toml", "[a]\nb = 'c'\n")]
    #[case::anything("text", "a: b: c")]
    #[case::commands("sh", "a: b: c")]
    fn valid_blocks_have_no_problem(#[case] language: &str, #[case] text: &str) {
        assert_eq!(problem(&Block { line: 1, language: language.into(), text: text.into() }), None);
    }

    #[rstest]
    #[case::no_language("", "a", "has no language")]
    #[case::another_language("yml", "a: b", "unknown language \"yml\"")]
    #[case::yaml(
        "yaml",
        "a: b: c\n",
        "the block is not yaml: line 1: mapping values are not allowed in this context; correct it, or name another language"
    )]
    #[case::a_later_document("yaml", "a: b\n---\nc: [d\n", "is not yaml")]
    #[case::json("json", "{\"a\": 1,}", "is not json")]
    #[case::toml("toml", "a = b", "is not toml")]
    fn others_have_one(#[case] language: &str, #[case] text: &str, #[case] says: &str) {
        let problem = problem(&Block { line: 1, language: language.into(), text: text.into() }).unwrap_or_default();
        assert!(problem.contains(says), "{problem}");
    }

    #[test]
    fn an_indented_block_has_no_language() {
        let blocks = blocks("a\n\n    b\n");
        assert_eq!(blocks.iter().filter_map(problem).count(), 1, "{blocks:?}");
    }
}
