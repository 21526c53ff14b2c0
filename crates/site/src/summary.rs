//! The sidebar (`docs/SUMMARY.md`) and the pages: each page is in it, once, and it names no other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;
use mdbook_summary::{SummaryItem, parse_summary};

use crate::files::{files, name, read};

/// Returns what is wrong with the sidebar of the pages in a folder.
pub fn problems(docs: &Path) -> Result<Vec<String>> {
    let file = docs.join("SUMMARY.md");
    let summary = match parse_summary(&read(&file)?) {
        Ok(summary) => summary,
        // A page in two places, or a list that is not one.
        Err(error) => return Ok(vec![format!("docs/SUMMARY.md: {error:#}")]),
    };
    let parts = [&summary.prefix_chapters, &summary.numbered_chapters, &summary.suffix_chapters];
    let mut problems = Vec::new();
    let mut listed = BTreeSet::new();
    for (title, location) in parts.into_iter().flat_map(|items| links(items)) {
        match location {
            Some(location) => drop(listed.insert(docs.join(location))),
            None => problems.push(format!("docs/SUMMARY.md: {title:?} has no page; name one, or remove the entry")),
        }
    }
    let pages: BTreeSet<PathBuf> = files(docs, "md")?.into_iter().filter(|page| *page != file).collect();
    problems.extend(
        pages
            .difference(&listed)
            .map(|page| format!("docs/SUMMARY.md does not list {}; add it to the sidebar", name(docs, page))),
    );
    problems.extend(listed.difference(&pages).map(|page| {
        format!("docs/SUMMARY.md lists {}, which does not exist; write it, or remove the entry", name(docs, page))
    }));
    Ok(problems)
}

/// Returns the titles and pages of a list of entries, nested ones included.
fn links(items: &[SummaryItem]) -> Vec<(String, Option<PathBuf>)> {
    let links_of = |item: &SummaryItem| match item {
        SummaryItem::Link(link) => {
            let mut all = vec![(link.name.clone(), link.location.clone())];
            all.extend(links(&link.nested_items));
            all
        }
        _ => Vec::new(),
    };
    items.iter().flat_map(links_of).collect()
}
