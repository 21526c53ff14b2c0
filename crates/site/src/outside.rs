//! Links that leave `docs/`. In the repository they are relative (`../examples/log-agent`), so that they work there. The
//! site has no such files, so they become links to the repository on GitHub. A link whose target is not in the repository
//! is an error.

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use mdbook_markdown::pulldown_cmark::{Event, Tag};
use mdbook_preprocessor::book::{Book, Chapter};
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};

use crate::files::normal;
use crate::markdown::{line, parser};

/// The branch that the site is built from.
const BRANCH: &str = "main";

/// Rewrites the links of all pages.
pub struct Outside;

impl Preprocessor for Outside {
    fn name(&self) -> &'static str {
        "outside"
    }

    fn run(&self, context: &PreprocessorContext, mut book: Book) -> Result<Book> {
        let repository = context.config.html_config().and_then(|html| html.git_repository_url);
        let repository = repository.context(
            "crates/site/book.toml: output.html.git-repository-url: Required value: links to files outside of docs/ lead there",
        )?;
        let links = Links { root: &context.root, docs: &context.config.book.src, repository: &repository };
        let mut missing = Vec::new();
        book.for_each_chapter_mut(|chapter: &mut Chapter| {
            if let Some(page) = &chapter.source_path {
                chapter.content = links.rewrite(page, &chapter.content, &mut missing);
            }
        });
        if missing.is_empty() { Ok(book) } else { bail!(missing.join("\n")) }
    }
}

/// What links are relative to.
struct Links<'a> {
    root: &'a Path,
    docs: &'a Path,
    repository: &'a str,
}

impl Links<'_> {
    /// Returns the text of a page with its links rewritten, and adds to `missing` what does not exist.
    fn rewrite(&self, page: &Path, text: &str, missing: &mut Vec<String>) -> String {
        let mut rewritten = text.to_owned();
        for (range, destination) in destinations(text).into_iter().rev() {
            match self.target(page, &destination) {
                Ok(Some(target)) => rewritten.replace_range(range, &target),
                Ok(None) => {}
                Err(problem) => {
                    let page = self.docs.join(page);
                    missing.push(format!("{}:{}: {problem}", page.display(), line(text, range.start)));
                }
            }
        }
        rewritten
    }

    /// Returns what a link becomes; nothing if it stays as it is.
    fn target(&self, page: &Path, destination: &str) -> Result<Option<String>> {
        let (path, anchor) = destination.split_at(destination.find('#').unwrap_or(destination.len()));
        if path.is_empty() || path.starts_with('/') || path.contains(':') {
            return Ok(None);
        }
        let folder = self.docs.join(page).parent().map_or_else(PathBuf::new, Path::to_owned);
        let Some(file) = normal(&folder.join(path)) else {
            bail!("{destination} leads out of the repository; correct the link");
        };
        if file != self.docs && file.starts_with(self.docs) {
            // mdBook makes index.html of a README, but leaves links to it as they are.
            let index = path.strip_suffix("README.md").map(|folder| format!("{folder}index.md{anchor}"));
            return Ok(index.filter(|_| self.root.join(&file).is_file()));
        }
        let on_disk = self.root.join(&file);
        if !on_disk.exists() {
            bail!("{destination}: the repository has no {}; correct the link", file.display());
        }
        let kind = if on_disk.is_dir() { "tree" } else { "blob" };
        Ok(Some(format!("{}/{kind}/{BRANCH}/{}{anchor}", self.repository, file.display())))
    }
}

/// Returns the destinations of the links in a text, each with its place, in the order of their places. Links in
/// any form but `[text](destination)` are left out: what the site cannot resolve, the check of its pages finds.
fn destinations(text: &str) -> Vec<(Range<usize>, String)> {
    let mut found: Vec<(Range<usize>, String)> = Vec::new();
    for (event, range) in parser(text).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else { continue };
        // The last one in the range: a picture in the text of a link has a destination of its own.
        let opening = format!("]({dest_url}");
        let start = text.get(range.clone()).and_then(|link| link.rfind(&opening));
        if let Some(start) = start.filter(|_| !dest_url.is_empty()) {
            let start = range.start + start + "](".len();
            found.push((start..start + dest_url.len(), dest_url.into_string()));
        }
    }
    found.sort_by_key(|(range, _)| range.start);
    found
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rstest::rstest;

    use super::*;

    /// A repository with a page, a README of a folder, and files outside of docs/.
    fn repository() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in ["docs/page.md", "docs/spec/README.md", "docs/images/a.svg", "deploy/rbac.yaml", "SECURITY.md"] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    fn rewrite(page: &str, text: &str) -> (String, Vec<String>) {
        let root = repository();
        let links = Links { root: root.path(), docs: Path::new("docs"), repository: "https://example.com/o/r" };
        let mut missing = Vec::new();
        let rewritten = links.rewrite(Path::new(page), text, &mut missing);
        (rewritten, missing)
    }

    #[rstest]
    #[case::the_pages_themselves("page.md", "[a](../docs)", "[a](https://example.com/o/r/tree/main/docs)")]
    #[case::a_file("page.md", "[a](../SECURITY.md)", "[a](https://example.com/o/r/blob/main/SECURITY.md)")]
    #[case::a_folder("page.md", "[a](../deploy)", "[a](https://example.com/o/r/tree/main/deploy)")]
    #[case::an_anchor("page.md", "[a](../SECURITY.md#b)", "[a](https://example.com/o/r/blob/main/SECURITY.md#b)")]
    #[case::deeper(
        "spec/README.md",
        "[a](../../deploy/rbac.yaml)",
        "[a](https://example.com/o/r/blob/main/deploy/rbac.yaml)"
    )]
    #[case::two(
        "page.md",
        "[a](../deploy), [b](page.md), [c](../deploy)",
        "[a](https://example.com/o/r/tree/main/deploy), [b](page.md), [c](https://example.com/o/r/tree/main/deploy)"
    )]
    #[case::of_a_picture(
        "page.md",
        "[![b](images/a.svg)](../deploy)",
        "[![b](images/a.svg)](https://example.com/o/r/tree/main/deploy)"
    )]
    #[case::a_readme("page.md", "[a](spec/README.md#b)", "[a](spec/index.md#b)")]
    #[case::a_readme_of_the_repository(
        "page.md",
        "[a](spec/../../SECURITY.md)",
        "[a](https://example.com/o/r/blob/main/SECURITY.md)"
    )]
    fn links_out_of_the_site_lead_to_the_repository(#[case] page: &str, #[case] text: &str, #[case] rewritten: &str) {
        assert_eq!(rewrite(page, text), (rewritten.to_owned(), Vec::new()));
    }

    #[rstest]
    #[case::of_the_site("[a](page.md#b), [c](spec/x.md), ![d](images/a.svg)")]
    #[case::of_the_web("[a](https://example.com/../deploy) <https://example.com>")]
    #[case::of_the_page("[a](#b)")]
    #[case::not_a_link("`[a](../deploy)` and ../deploy")]
    #[case::in_a_block("```text\n[a](../gone)\n```\n")]
    fn everything_else_stays_as_it_is(#[case] text: &str) {
        assert_eq!(rewrite("page.md", text), (text.to_owned(), Vec::new()));
    }

    #[test]
    fn what_the_repository_does_not_have_is_reported_with_its_line() {
        let (_, missing) = rewrite("page.md", "a\n\n[a](../gone), [b](../../outside), [c](../deploy)");
        let wanted = [
            "docs/page.md:3: ../../outside leads out of the repository; correct the link",
            "docs/page.md:3: ../gone: the repository has no gone; correct the link",
        ];
        assert_eq!(missing, wanted);
    }
}
