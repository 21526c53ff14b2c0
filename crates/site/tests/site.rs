//! The site builds, and nothing is wrong with it. Each check would find what it is there for.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

use std::fs;
use std::path::{Path, PathBuf};

use rstest::rstest;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Builds the site of a repository into a folder of its own, and returns the folder and what is wrong.
fn build(root: &Path) -> (tempfile::TempDir, Vec<String>) {
    let site = tempfile::tempdir().unwrap();
    let problems = pillion_site::build(root, Some(site.path())).unwrap();
    (site, problems)
}

/// `make site` says the same.
#[test]
fn nothing_is_wrong_with_the_site() {
    let (site, problems) = build(&root());
    assert_eq!(problems, [""; 0], "{}", problems.join("\n"));
    let text = |name: &str| fs::read_to_string(site.path().join(name)).unwrap();
    let page = text("settings.html");
    for wanted in [
        "href=\"https://github.com/pillion/pillion/edit/main/docs/settings.md\"",
        "class=\"light ",
        "default_dark_theme = \"navy\"",
        "id=\"mdbook-searchbar\"",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert!(text("deploying.html").contains("href=\"https://github.com/pillion/pillion/tree/main/deploy\""));
    let styles = fs::read_dir(site.path().join("crates/site/theme")).unwrap();
    assert_eq!(styles.count(), 1, "the style sheet of the site");
}

/// A repository with two pages, a picture and a README, and nothing wrong.
fn repository() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in [
        (
            "crates/site/book.toml",
            "[book]\ntitle = 'A'\nsrc = 'docs'\n[build]\ncreate-missing = false\n[output.html]\ngit-repository-url = 'https://example.com/a'\n",
        ),
        ("README.md", "# Read me\n\n```sh\nmake\n```\n"),
        ("docs/SUMMARY.md", "# Part\n\n- [One](one.md)\n- [Two](more/two.md)\n"),
        ("docs/one.md", "# One\n\n[two](more/two.md#a-heading), [itself](#one), [read me](../README.md)\n"),
        ("docs/more/two.md", "# Two\n\n## A heading\n\n![A small picture](../a.svg)\n\n[one](../one.md)\n"),
        ("docs/a.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>"),
    ] {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

#[test]
fn nothing_is_wrong_with_the_small_repository() {
    let (site, problems) = build(repository().path());
    assert_eq!(problems, [""; 0]);
    let page = fs::read_to_string(site.path().join("one.html")).unwrap();
    assert!(page.contains("href=\"https://example.com/a/blob/main/README.md\""), "{page}");
}

#[rstest]
#[case::a_page_that_is_not_there(
    "docs/one.md",
    "[a](gone.md)",
    "one.html: gone.html leads nowhere: the site has no gone.html; correct the link"
)]
#[case::an_anchor_that_is_not_there(
    "docs/one.md",
    "[a](more/two.md#gone)",
    "one.html: more/two.html#gone leads nowhere: more/two.html has no heading with the anchor gone; correct the anchor"
)]
#[case::an_anchor_of_the_page(
    "docs/one.md",
    "[a](#gone)",
    "one.html: #gone leads nowhere: one.html has no heading with the anchor gone; correct the anchor"
)]
#[case::an_anchor_of_a_picture("docs/one.md", "[a](a.svg#gone)", "one.html: a.svg#gone leads nowhere")]
#[case::a_link_in_html("docs/one.md", "<a href=\"gone.html\">a</a>", "one.html: gone.html leads nowhere")]
#[case::a_link_out_of_the_site_in_html(
    "docs/one.md",
    "<a href=\"../README.md\">a</a>",
    "one.html: ../README.html leads out of the site"
)]
#[case::a_file_that_is_not_there(
    "docs/one.md",
    "\n\n[a](../gone.yaml)",
    "docs/one.md:6: ../gone.yaml: the repository has no gone.yaml; correct the link"
)]
#[case::a_picture_that_is_not_there("docs/one.md", "![a](gone.svg)", "one.html: gone.svg leads nowhere")]
#[case::a_picture_without_a_text("docs/one.md", "![](a.svg)", "one.html: the picture a.svg has no text")]
#[case::a_picture_from_elsewhere(
    "docs/one.md",
    "![a](https://example.com/a.svg)",
    "https://example.com/a.svg is loaded from elsewhere"
)]
#[case::a_block_without_a_language("README.md", "\n```\na\n```\n", "README.md:7: the code block has no language")]
#[case::a_block_that_is_not_yaml(
    "docs/more/two.md",
    "\n```yaml\na: b: c\n```\n",
    "docs/more/two.md:9: the block is not yaml"
)]
#[case::html_without_an_end("docs/one.md", "\n<div>\n\ntext\n", "unclosed HTML tag `<div>`")]
#[case::a_page_that_the_sidebar_does_not_list(
    "docs/more/three.md",
    "# Three\n",
    "docs/SUMMARY.md does not list more/three.md; add it to the sidebar"
)]
#[case::a_page_of_the_sidebar_that_is_not_there(
    "docs/SUMMARY.md",
    "- [Three](three.md)\n",
    "docs/SUMMARY.md lists three.md, which does not exist"
)]
#[case::a_page_in_two_places(
    "docs/SUMMARY.md",
    "- [Three](one.md)\n",
    "docs/SUMMARY.md: Duplicate file in SUMMARY.md: \"one.md\""
)]
#[case::an_entry_without_a_page("docs/SUMMARY.md", "- [Three]()\n", "docs/SUMMARY.md: \"Three\" has no page")]
fn what_is_wrong_is_found(#[case] file: &str, #[case] added: &str, #[case] says: &str) {
    let root = repository();
    let path = root.path().join(file);
    let text = fs::read_to_string(&path).unwrap_or_default();
    fs::write(&path, text + added).unwrap();
    let (_, problems) = build(root.path());
    assert!(problems.iter().any(|problem| problem.contains(says)), "{problems:#?}");
}
