//! The built pages: every link leads to a page, and its anchor to a place there; every picture exists and has a text.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};

use crate::files::{files, name, normal, read};

/// What a page has that others refer to, and what it refers to.
#[derive(Default)]
struct Page {
    anchors: BTreeSet<String>,
    /// The values of `href` and `src`, with the names of their elements.
    links: Vec<(String, String)>,
    /// Pictures without a text.
    silent: Vec<String>,
    /// Links are relative to the root of the site, because the page is shown at any address.
    has_base: bool,
}

/// Collects a page from its tags.
#[derive(Default)]
struct Collector(RefCell<Page>);

impl TokenSink for Collector {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let Token::TagToken(tag) = token else { return TokenSinkResult::Continue };
        if tag.kind != TagKind::StartTag {
            return TokenSinkResult::Continue;
        }
        self.0.borrow_mut().add(&tag);
        match &*tag.name {
            "script" => TokenSinkResult::RawData(RawKind::ScriptData),
            "style" => TokenSinkResult::RawData(RawKind::Rawtext),
            "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
            _ => TokenSinkResult::Continue,
        }
    }
}

impl Page {
    fn parse(html: &str) -> Self {
        let tokenizer = Tokenizer::new(Collector::default(), TokenizerOpts::default());
        let input = BufferQueue::default();
        input.push_back(StrTendril::from(html));
        // It stops early only if the collector asks for a script to run, which it never does.
        let _ = tokenizer.feed(&input);
        tokenizer.end();
        tokenizer.sink.0.into_inner()
    }

    fn add(&mut self, tag: &Tag) {
        let value = |name: &str| {
            let attribute = tag.attrs.iter().find(|attribute| &*attribute.name.local == name)?;
            Some(attribute.value.to_string())
        };
        self.anchors.extend(value("id"));
        if &*tag.name == "base" {
            self.has_base = true;
            return;
        }
        for link in [value("href"), value("src")].into_iter().flatten() {
            self.links.push((tag.name.to_string(), link));
        }
        if &*tag.name == "img" && value("alt").is_none_or(|text| text.trim().is_empty()) {
            self.silent.push(value("src").unwrap_or_default());
        }
    }
}

/// Returns what is wrong with the pages of a built site.
pub fn problems(site: &Path) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    for file in files(site, "html")? {
        pages.insert(PathBuf::from(name(site, &file)), Page::parse(&read(&file)?));
    }
    let mut problems = Vec::new();
    for (path, page) in &pages {
        let mut found: Vec<String> =
            page.links.iter().filter_map(|(element, link)| problem(site, &pages, path, element, link)).collect();
        found.extend(page.silent.iter().map(|picture| {
            format!("the picture {picture} has no text; write what it shows between the brackets: ![text]({picture})")
        }));
        found.sort();
        found.dedup();
        problems.extend(found.into_iter().map(|problem| format!("{}: {problem}", path.display())));
    }
    Ok(problems)
}

/// Returns what is wrong with one link of a page.
fn problem(site: &Path, pages: &BTreeMap<PathBuf, Page>, from: &Path, element: &str, link: &str) -> Option<String> {
    if has_scheme(link) {
        let is_loaded = ["img", "script", "iframe"].contains(&element);
        return is_loaded.then(|| format!("{link} is loaded from elsewhere; copy it into the repository"));
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = path.split('?').next().unwrap_or_default();
    let folder = if pages.get(from).is_some_and(|page| page.has_base) { None } else { from.parent() };
    let target =
        if path.is_empty() { Some(from.to_owned()) } else { normal(&folder.unwrap_or(Path::new("")).join(path)) };
    let Some(mut target) = target else {
        return Some(format!("{link} leads out of the site; correct the link"));
    };
    if site.join(&target).is_dir() {
        target.push("index.html");
    }
    if !site.join(&target).is_file() {
        return Some(format!("{link} leads nowhere: the site has no {}; correct the link", target.display()));
    }
    let has_anchor = |page: &Page| page.anchors.contains(anchor);
    if anchor.is_empty() || pages.get(&target).is_some_and(has_anchor) {
        return None;
    }
    Some(format!(
        "{link} leads nowhere: {} has no heading with the anchor {anchor}; correct the anchor",
        target.display()
    ))
}

/// Whether a link names its scheme: `https:`, `mailto:`, `data:`.
fn has_scheme(link: &str) -> bool {
    let scheme = link.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.chars().all(|one| one.is_ascii_alphanumeric() || "+-.".contains(one)))
        || link.starts_with("//")
}
