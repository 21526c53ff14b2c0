//! The documents are correct: the tests that they name exist, and so do the files and headings that they link to, and
//! the commands that they show work.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use rstest::rstest;

use pillion_samples::repository::{files, root};

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the paths of a file's functions, each behind the path of the module.
fn functions(file: &Path, module: &[String]) -> Vec<String> {
    let text = text(file);
    let function = |line: &str| line.trim_start().trim_start_matches("async ").strip_prefix("fn ").map(str::to_owned);
    let names = text.lines().filter_map(function).filter_map(|line| Some(line.split_once('(')?.0.to_owned()));
    names.map(|name| [module.join("::"), name].join("::")).collect()
}

/// Returns the module path of a file below a folder.
fn module(folder: &Path, file: &Path) -> Vec<String> {
    let path = file.strip_prefix(folder).unwrap().with_extension("");
    let parts = path.iter().map(|part| part.to_str().unwrap().to_owned());
    parts.filter(|part| !["mod", "lib", "main"].contains(&part.as_str())).collect()
}

/// Returns the source folders of all crates with the names of the crates' folders. The module's sources are called
/// `policy`.
fn crates() -> Vec<(String, PathBuf)> {
    let folders = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let name = |folder: &Path| folder.file_name().unwrap().to_str().unwrap().to_owned();
    let mut crates: Vec<_> = folders.map(|folder| (name(&folder), folder.join("src"))).collect();
    crates.push(("policy".to_owned(), root().join("src")));
    crates
}

/// The folders of integration tests.
const INTEGRATION: [&str; 6] = [
    "crates/check/tests/check",
    "crates/cli/tests/cli",
    "crates/host/tests/host",
    "crates/install/tests/install",
    "crates/preview/tests/preview",
    "crates/testenv/tests",
];

/// Returns the paths of all tests, each the name that cargo uses behind the folder of the crate:
/// `inject::matching::tests::match6_a_missing_namespace_is_no_match_and_an_unreadable_one_is_refused`. The module
/// `tests` of a file may be in the file or next to it; both yield the same path. The paths of integration tests begin
/// with their file.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (name, sources) in crates() {
        for file in files(&sources, "rs") {
            let mut module = module(&sources, &file);
            if !module.iter().any(|part| part == "tests") {
                module.push("tests".to_owned());
            }
            module.insert(0, name.clone());
            names.extend(functions(&file, &module));
        }
    }
    for integration in INTEGRATION {
        let folder = root().join(integration);
        for file in files(&folder, "rs") {
            names.extend(functions(&file, &module(&folder, &file)));
        }
    }
    names
}

/// Returns the words in backticks that look like the path of a test.
fn named(text: &str) -> Vec<&str> {
    let is_named = |word: &&str| {
        let is_integration =
            ["identity_", "packaging::", "rendering::", "cluster::", "trust::", "additions::", "limits::"]
                .iter()
                .any(|file| word.starts_with(file));
        (word.contains("tests::") || is_integration && word.contains("::")) && !word.contains('…')
    };
    text.split('`').skip(1).step_by(2).filter(is_named).collect()
}

#[test]
fn tests_that_a_document_names_exist() {
    let tests = tests();
    let mut seen = 0;
    for document in files(&root().join("docs"), "md") {
        let text = text(&document);
        let names = named(&text);
        seen += names.len();
        let missing: Vec<_> = names.into_iter().filter(|name| !tests.contains(*name)).collect();
        assert_eq!(missing, [""; 0], "{}", document.display());
    }
    assert!(seen > 100, "{seen}");
}

/// Pages for readers who do not develop Pillion. Names of tests belong into the others, such as [`EVIDENCE`].
#[test]
fn user_pages_name_no_test() {
    let for_developers = ["architecture.md", "benchmarks.md", "design.md", "contributing.md"];
    let mut pages = [files(&root().join("docs"), "md"), files(&root().join("examples"), "md")].concat();
    pages.extend(files(&root().join("deploy"), "md"));
    pages.push(root().join("README.md"));
    pages.retain(|page| {
        !page.starts_with(root().join("docs/spec")) && !for_developers.iter().any(|name| page.ends_with(name))
    });
    assert!(pages.len() > 20, "{pages:?}");
    for page in pages {
        let text = text(&page);
        assert_eq!(named(&text), [""; 0], "{}", page.display());
        assert!(!text.contains("cargo test"), "{}", page.display());
    }
}

/// The page that names the tests behind other pages.
const EVIDENCE: &str = "docs/spec/evidence.md";

/// Returns the first cell of a table's row.
fn first_cell(row: &str) -> &str {
    row.split('|').nth(1).unwrap().trim()
}

/// Returns the rows of [`EVIDENCE`] under a heading. They are those of the table under the same heading of another page.
fn evidence<'a>(evidence: &'a str, page: &str, heading: &str) -> Vec<&'a str> {
    let page = text(&root().join(page));
    let rows_of_page: Vec<_> = rows(&page, heading).into_iter().map(first_cell).collect();
    let rows = rows(evidence, heading);
    let named: Vec<_> = rows.iter().map(|row| first_cell(row)).collect();
    assert_eq!(named, rows_of_page, "{EVIDENCE}: {heading}");
    rows
}

/// Every row names a test that says by its name that it is about the threat.
#[rstest]
#[case("Threats", 1..=17)]
#[case("What attacks found", 19..=21)]
fn every_threat_has_a_test(#[case] heading: &str, #[case] expected: std::ops::RangeInclusive<u32>) {
    let document = text(&root().join(EVIDENCE));
    let rows = evidence(&document, "docs/security.md", heading);
    let number = |row: &&str| row.split('|').nth(1).unwrap().trim().strip_prefix('E').unwrap().parse::<u32>().unwrap();
    let numbers: Vec<_> = rows.iter().map(number).collect();
    assert!(expected.into_iter().all(|number| numbers.contains(&number)), "{numbers:?}");
    for (row, number) in rows.into_iter().zip(numbers) {
        let is_about_it = |name: &&str| {
            let function = name.rsplit("::").next().unwrap_or_default();
            function.split('_').any(|word| word == format!("e{number}"))
        };
        assert!(named(row).iter().any(is_about_it), "no test: {row}");
    }
}

/// A message that a document explains occurs in the sources. `…` stands for variable parts.
#[rstest]
#[case("docs/identities.md", "Messages")]
#[case("docs/guides/refused.md", "Common reasons")]
fn explained_messages_are_written_somewhere(#[case] document: &str, #[case] heading: &str) {
    let mut sources = String::new();
    let folders = crates().into_iter().map(|(_, folder)| folder).chain([root().join("crates/host/tests")]);
    for file in folders.flat_map(|folder| files(&folder, "rs")) {
        sources.push_str(&text(&file));
    }
    // Undoes the escapes of string literals: quotes, and backslashes that join lines.
    let sources = sources.replace("\\\"", "\"").split("\\\n").map(str::trim_start).collect::<String>();
    let document = text(&root().join(document));
    let messages: Vec<_> =
        rows(&document, heading).iter().filter_map(|row| row.strip_prefix("| `")?.split('`').next()).collect();
    assert!(messages.len() > 10);
    for part in messages.iter().flat_map(|message| message.split('…')) {
        assert!(sources.contains(part.trim()), "nothing says {part:?}");
    }
}

/// Returns the rows of the tables below a heading, without the header rows.
fn rows<'a>(document: &'a str, heading: &str) -> Vec<&'a str> {
    let section = document.split("\n## ").find(|section| section.starts_with(heading)).expect(heading);
    let mut rows: Vec<&str> = Vec::new();
    for line in section.lines().filter(|line| line.starts_with('|')) {
        if line.starts_with("| ---") {
            rows.pop();
        } else {
            rows.push(line);
        }
    }
    rows
}

#[rstest]
#[case("On purpose")]
#[case("Rollouts")]
#[case("Identities")]
#[case("Admitting a Pod again")]
#[case("Small differences")]
fn every_difference_has_a_test(#[case] heading: &str) {
    let document = text(&root().join(EVIDENCE));
    let rows = evidence(&document, "docs/compatibility.md", heading);
    assert!(rows.len() > 3, "{heading}");
    for row in rows {
        assert!(!named(row).is_empty() || row.contains("e2e.bats"), "no test: {row}");
    }
}

/// The differences that the project decided on.
#[test]
fn every_decided_difference_is_a_row() {
    let document = text(&root().join("docs/compatibility.md"));
    let ids =
        (1..=32).map(|number| format!("DIFF-{number} ")).chain(["MATCH-2 ", "MATCH-6 ", "VAL-6 "].map(str::to_owned));
    for id in ids {
        assert!(document.lines().any(|line| line.starts_with(&format!("| {id}"))), "no row for {id}");
    }
}

fn documents() -> Vec<PathBuf> {
    let mut documents: Vec<_> = fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    documents.extend(files(&root().join("docs"), "md"));
    documents.extend(files(&root().join("examples"), "md"));
    documents.extend(files(&root().join("deploy"), "md"));
    documents.extend(files(&root().join("artifacts"), "md"));
    documents
}

/// Returns the anchor that GitHub gives to a heading.
fn anchor(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .chars()
        .filter_map(|character| match character {
            ' ' => Some('-'),
            '-' | '_' => Some(character),
            character if character.is_alphanumeric() => Some(character.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        for link in
            text(&document).split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link.to_owned()))
        {
            if link.starts_with("http") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { document.clone() } else { document.with_file_name(file) };
            let is_there = target.exists()
                && (heading.is_empty()
                    || text(&target).lines().any(|line| line.starts_with('#') && anchor(line) == heading));
            if !is_there {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert_eq!(broken, [""; 0]);
}

/// Returns the lines in `console` blocks of a text that call pillion.
fn commands(text: &str) -> Vec<&str> {
    let mut is_console = false;
    let mut commands = Vec::new();
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_console = language == "console";
        } else if is_console && line.trim_start().starts_with("pillion ") {
            commands.push(line.trim());
        }
    }
    commands
}

#[rstest]
fn commands_that_a_document_shows_work(
    #[files("../../docs/try.md")]
    #[files("../../docs/deploying.md")]
    #[files("../../docs/migration.md")]
    #[files("../../docs/identities.md")]
    #[files("../../docs/guides/cloud-identities.md")]
    #[files("../../docs/serve.md")]
    #[files("../../deploy/README.md")]
    #[files("../../examples/*/README.md")]
    document: PathBuf,
) {
    let document = text(&document);
    let commands = commands(&document);
    assert!(!commands.is_empty(), "no commands");
    for command in commands {
        let arguments = command.split_whitespace().skip(1);
        Command::cargo_bin("pillion").unwrap().current_dir(root()).args(arguments).assert().success();
    }
}

/// On a phone, a wide table and a long command are read by scrolling to and fro.
#[rstest]
fn a_first_page_fits_a_narrow_screen(
    #[files("../../README.md")]
    #[files("../../docs/README.md")]
    #[files("../../docs/from-source.md")]
    #[files("../../docs/quickstart*.md")]
    #[files("../../docs/rollouts.md")]
    #[files("../../docs/try.md")]
    #[files("../../docs/guides/*.md")]
    document: PathBuf,
) {
    const COLUMNS: usize = 4;
    const WIDTH: usize = 80;
    // The commands of these pages fit, too.
    const NARROW: [&str; 5] =
        ["README.md", "from-source.md", "quickstart.md", "quickstart-standalone.md", "roll-out.md"];
    let is_narrow = document.file_name().is_some_and(|name| NARROW.iter().any(|narrow| name == *narrow));
    let mut block = None;
    for line in text(&document).lines() {
        match (line.trim_start().strip_prefix("```"), block.as_deref()) {
            (Some(_), Some(_)) => block = None,
            (Some(language), None) => block = Some(language.to_owned()),
            (None, Some("sh" | "console" | "yaml")) => {
                assert!(!is_narrow || line.chars().count() <= WIDTH, "longer than {WIDTH} characters: {line}");
            }
            (None, Some(_)) => {}
            (None, None) => {
                let columns = line.replace("\\|", "").matches('|').count().saturating_sub(1);
                assert!(!line.starts_with('|') || columns <= COLUMNS, "more than {COLUMNS} columns: {line}");
            }
        }
    }
}

/// Returns the pictures of the repository that a document shows, each with the text in place of it.
fn shown(document: &Path) -> Vec<(String, PathBuf)> {
    let text = text(document);
    let pictures =
        text.split("![").skip(1).filter_map(|rest| rest.split_once("](")).filter_map(|(alternative, rest)| {
            let (link, _) = rest.split_once(')')?;
            Some((alternative.to_owned(), link)).filter(|_| !link.starts_with("http"))
        });
    pictures.map(|(alternative, link)| (alternative, document.with_file_name(link))).collect()
}

#[test]
fn each_picture_is_shown_and_each_shown_picture_exists() {
    let mut unused: BTreeSet<_> = fs::read_dir(root().join("docs/images"))
        .unwrap()
        .map(|entry| entry.unwrap().path().canonicalize().unwrap())
        .collect();
    assert!(unused.iter().all(|picture| picture.extension().is_some_and(|extension| extension == "svg")), "{unused:?}");
    for document in documents() {
        for (alternative, picture) in shown(&document) {
            let name = format!("{}: {}", document.display(), picture.display());
            assert!(alternative.split_whitespace().count() > 8, "{name}: the text in place of it is too short");
            unused.remove(&picture.canonicalize().unwrap_or_else(|error| panic!("{name}: {error}")));
        }
    }
    assert!(unused.is_empty(), "no document shows {unused:?}");
}

/// A reader without the picture gets its title and description. GitHub and a site show it as a document of its own: it
/// loads nothing, runs nothing, and takes the width that it gets.
#[rstest]
fn pictures_describe_themselves_and_need_nothing_else(
    #[files("../../docs/images/*.svg")]
    #[files("../../docs/charts/*.svg")]
    picture: PathBuf,
) {
    let text = text(&picture);
    let picture = roxmltree::Document::parse(&text).unwrap();
    let root = picture.root_element();
    assert_eq!((root.tag_name().name(), root.attribute("role")), ("svg", Some("img")));
    assert!(root.has_attribute("viewBox") && !root.has_attribute("width") && !root.has_attribute("height"));
    let ids: BTreeSet<_> = picture.descendants().filter_map(|node| node.attribute("id")).collect();
    assert_eq!(root.attribute("aria-labelledby"), Some("title desc"));
    for id in ["title", "desc"] {
        let child = root.children().find(|node| node.has_tag_name(("http://www.w3.org/2000/svg", id)));
        let child = child.unwrap_or_else(|| panic!("no {id}"));
        assert_eq!(child.attribute("id"), Some(id));
        assert!(child.text().is_some_and(|text| text.split_whitespace().count() > 2), "{id} is too short");
    }
    let allowed = [
        "svg", "title", "desc", "style", "defs", "marker", "rect", "path", "line", "polyline", "circle", "use", "text",
        "tspan", "g",
    ];
    for node in picture.descendants().filter(roxmltree::Node::is_element) {
        assert!(allowed.contains(&node.tag_name().name()), "{node:?}");
        assert!(!node.attributes().any(|attribute| attribute.name().starts_with("on")), "{node:?}");
    }
    let attributes = picture.descendants().flat_map(|node| node.attributes());
    let links = attributes.filter(|attribute| attribute.name() == "href").map(|attribute| attribute.value());
    let urls = text.split("url(").skip(1).filter_map(|rest| rest.split(')').next());
    for reference in links.chain(urls) {
        assert!(reference.strip_prefix('#').is_some_and(|id| ids.contains(id)), "{reference:?} is not in the picture");
    }
    assert!(!text.contains("@import"));
}

/// A colour means the same in all pictures.
#[test]
fn pictures_share_one_style() {
    let pictures = files(&root().join("docs/images"), "svg").into_iter().map(|picture| text(&picture));
    let style = |picture: String| picture.split_once("<style>").unwrap().1.split_once("</defs>").unwrap().0.to_owned();
    let styles: BTreeSet<_> = pictures.map(style).collect();
    assert_eq!(styles.len(), 1, "{styles:#?}");
    assert!(styles.iter().all(|style| style.contains("@media (prefers-color-scheme: dark)")));
}
