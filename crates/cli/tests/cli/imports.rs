//! The modules of a crate import each other in one direction only. Cargo ensures the same for crates, and the table of
//! docs/architecture.md has them in this order.
//!
//! The test of modules reads every file of every crate of the workspace, as cargo lists them, and follows the declarations of
//! modules from the root of each library and program. It compares the modules of each folder: a module stands for its
//! file and for everything in its folder. So two files must not import each other, and two folders must not, even if
//! other files of them are concerned.
//!
//! A module may use the items of the modules that contain it: `foo/bar.rs` those of `foo/mod.rs`, and any file those of
//! lib.rs. `foo/mod.rs` is the story that its children tell in parts; an `impl` block is often split this way. But a
//! child that reaches a sibling through its parent, with `super::bar` or an item that `foo/mod.rs` re-exports from
//! `bar.rs`, imports the sibling.
//!
//! Code for tests may import everything: `#[cfg(test)]`, and the files of such modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rstest::rstest;
use serde_json::Value;

/// The names from the root of a crate to a module; the root itself has none.
type Module = Vec<String>;

/// The modules of a library or program.
#[derive(Default)]
struct Modules {
    files: BTreeMap<Module, PathBuf>,
    /// The modules whose items each module names.
    imports: BTreeMap<Module, BTreeSet<Module>>,
    /// The names that each module re-exports, with the path of the item.
    exports: BTreeMap<(Module, String), Module>,
    /// The files of tests.
    tests: BTreeSet<PathBuf>,
}

impl Modules {
    /// Reads a crate from its root, such as lib.rs.
    fn read(root: &Path) -> Self {
        let mut modules = Self::default();
        let mut parsed = Vec::new();
        modules.add(Vec::new(), root, &mut parsed);
        let mut named = Vec::new();
        for source in &parsed {
            for path in &source.paths {
                let target = absolute(path, &modules.files);
                if path.is_exported {
                    let name = path.alias.clone().or_else(|| target.last().cloned()).unwrap_or_default();
                    modules.exports.insert((path.within.clone(), name), target.clone());
                }
                named.push((source.module.clone(), target));
            }
        }
        for (module, target) in named {
            let target = modules.home(target);
            modules.imports.entry(module).or_default().insert(target);
        }
        modules
    }

    fn add(&mut self, module: Module, file: &Path, parsed: &mut Vec<Source>) {
        let source = Source::parse(&module, &fs::read_to_string(file).unwrap());
        let is_root = module.is_empty() || file.ends_with("mod.rs");
        let folder = if is_root { file.parent().unwrap().to_owned() } else { file.with_extension("") };
        for declared in &source.declared {
            let child = file_of(&folder, &declared.name)
                .unwrap_or_else(|| panic!("{} has no file for mod {}", file.display(), declared.name));
            if declared.is_test {
                self.tests.extend(files(&child));
                self.tests.extend(files(&child.with_extension("")));
            } else {
                self.add([module.clone(), vec![declared.name.clone()]].concat(), &child, parsed);
            }
        }
        self.files.insert(module, file.to_owned());
        parsed.push(source);
    }

    /// Returns the module that has the item of a path. A re-exported item is where the re-export leads.
    fn home(&self, mut path: Module) -> Module {
        for _ in 0..8 {
            let module = containing(&path, &self.files);
            let Some(name) = path.get(module.len()) else { return module };
            match self.exports.get(&(module.clone(), name.clone())) {
                Some(target) if !self.files.contains_key(target) && *target != path => {
                    path = [&target[..], &path[module.len() + 1..]].concat();
                }
                _ => return module,
            }
        }
        containing(&path, &self.files)
    }

    /// Returns the circles among the modules of each folder, as the files of their modules.
    fn circles(&self) -> Vec<BTreeSet<PathBuf>> {
        let folders: BTreeSet<Module> = self
            .files
            .keys()
            .filter(|module| !module.is_empty())
            .map(|module| module[..module.len() - 1].to_vec())
            .collect();
        folders.iter().flat_map(|folder| self.circles_in(folder)).collect()
    }

    fn circles_in(&self, folder: &[String]) -> Vec<BTreeSet<PathBuf>> {
        let member = |module: &Module| module.starts_with(folder).then(|| module.get(folder.len()).cloned()).flatten();
        let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (module, named) in &self.imports {
            let Some(from) = member(module) else { continue };
            let others = named.iter().filter_map(member).filter(|to| *to != from).collect::<Vec<_>>();
            imports.entry(from).or_default().extend(others);
        }
        let file = |name: &String| self.files[&[folder, std::slice::from_ref(name)].concat()].clone();
        circles(&imports).iter().map(|circle| circle.iter().map(file).collect()).collect()
    }
}

/// Returns the groups of names that reach each other.
fn circles(imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<BTreeSet<String>> {
    let reached = |from: &String| {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&String> = imports.get(from).into_iter().flatten().collect();
        while let Some(name) = next.pop() {
            if reached.insert(name.clone()) {
                next.extend(imports.get(name).into_iter().flatten());
            }
        }
        reached
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = imports.keys().map(|name| (name, reached(name))).collect();
    let circular = reached.iter().filter(|(name, others)| others.contains(**name));
    circular
        .map(|(name, others)| {
            others.iter().filter(|other| reached.get(other).is_some_and(|back| back.contains(*name))).cloned().collect()
        })
        .collect()
}

/// A file: what it declares and names.
struct Source {
    module: Module,
    declared: Vec<Declared>,
    paths: Vec<Named>,
}

/// A `mod name;`.
struct Declared {
    name: String,
    is_test: bool,
}

/// A path that a file names, such as `super::foo::Bar`.
struct Named {
    /// The module that names it, which may be one in braces.
    within: Module,
    names: Vec<String>,
    alias: Option<String>,
    is_exported: bool,
}

impl Source {
    fn parse(module: &Module, text: &str) -> Self {
        let tokens = tokens(text);
        let mut source = Self { module: module.clone(), declared: Vec::new(), paths: Vec::new() };
        source.read(&tokens, module);
        source
    }

    fn read(&mut self, tokens: &[String], within: &Module) {
        let at = |position: usize| tokens.get(position).map_or("", String::as_str);
        let (mut position, mut is_test, mut is_exported) = (0, false, false);
        while position < tokens.len() {
            match at(position) {
                "#" if at(position + 1) == "[" => {
                    let end = closing(tokens, position + 1);
                    let attribute = tokens[position + 1..=end].concat();
                    is_test |= attribute == "[cfg(test)]" || attribute.starts_with("[cfg(all(test,");
                    position = end + 1;
                    continue;
                }
                "mod" if at(position + 2) == ";" => {
                    self.declared.push(Declared { name: at(position + 1).to_owned(), is_test });
                    position += 3;
                }
                "mod" if at(position + 2) == "{" => {
                    let end = closing(tokens, position + 2);
                    if !is_test {
                        let inner = [&within[..], &[at(position + 1).to_owned()]].concat();
                        self.read(&tokens[position + 3..end], &inner);
                    }
                    position = end + 1;
                }
                "pub" => {
                    is_exported = true;
                    position = if at(position + 1) == "(" { closing(tokens, position + 1) + 1 } else { position + 1 };
                    continue;
                }
                _ if is_test => position = item_end(tokens, position),
                "use" if is_exported => position = self.path(tokens, position + 1, within, true),
                word if is_word(word) && at(position + 1) == "::" => {
                    position = self.path(tokens, position, within, false);
                }
                _ => position += 1,
            }
            (is_test, is_exported) = (false, false);
        }
    }

    /// Reads a path, or a tree of them, and returns the position after it.
    fn path(&mut self, tokens: &[String], position: usize, within: &Module, is_exported: bool) -> usize {
        self.tree(tokens, position, &Named { within: within.clone(), names: Vec::new(), alias: None, is_exported })
    }

    fn tree(&mut self, tokens: &[String], mut position: usize, before: &Named) -> usize {
        let at = |position: usize| tokens.get(position).map_or("", String::as_str);
        let mut names = before.names.clone();
        loop {
            let word = at(position);
            if word == "{" {
                let end = closing(tokens, position);
                let before = Named { within: before.within.clone(), names, alias: None, ..*before };
                position += 1;
                while position < end {
                    position = self.tree(tokens, position, &before);
                    position += usize::from(at(position) == ",");
                }
                return end + 1;
            }
            // `foo::{self}` is `foo`.
            if is_word(word) && (word != "self" || names.is_empty()) {
                names.push(word.to_owned());
            }
            position += 1;
            if at(position) != "::" || at(position + 1) == "<" {
                break;
            }
            position += 1;
        }
        let is_renamed = at(position) == "as";
        let alias = is_renamed.then(|| at(position + 1).to_owned());
        self.paths.push(Named { within: before.within.clone(), names, alias, ..*before });
        // A generic argument after `::<` is read as any other code.
        position + if is_renamed { 2 } else { 0 }
    }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Returns the words and signs of code. Comments are left out, and texts are `""`.
fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let at = |position: usize| chars.get(position).copied().unwrap_or('\0');
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let (mut tokens, mut position) = (Vec::new(), 0);
    while position < chars.len() {
        let start = position;
        match at(position) {
            c if c.is_whitespace() => position += 1,
            '/' if at(position + 1) == '/' => {
                while position < chars.len() && at(position) != '\n' {
                    position += 1;
                }
            }
            '/' if at(position + 1) == '*' => {
                while position < chars.len() && (at(position), at(position + 1)) != ('*', '/') {
                    position += 1;
                }
                position += 2;
            }
            '"' => {
                position = quoted(&chars, position);
                tokens.push("\"\"".to_owned());
            }
            'r' | 'b' | 'c' if raw_hashes(&chars, position).is_some() => {
                let hashes = raw_hashes(&chars, position).unwrap();
                let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
                while at(position) != '"' {
                    position += 1;
                }
                position += 1;
                while position < chars.len() && !chars[position..].starts_with(&end) {
                    position += 1;
                }
                position += end.len();
                tokens.push("\"\"".to_owned());
            }
            // A character, not a lifetime.
            '\'' if at(position + 1) == '\\' => {
                position += 3;
                while position < chars.len() && at(position) != '\'' {
                    position += 1;
                }
                position += 1;
            }
            '\'' if at(position + 2) == '\'' => position += 3,
            c if is_part(c) => {
                while is_part(at(position)) {
                    position += 1;
                }
                tokens.push(chars[start..position].iter().collect());
            }
            ':' if at(position + 1) == ':' => {
                position += 2;
                tokens.push("::".to_owned());
            }
            c => {
                position += 1;
                tokens.push(c.to_string());
            }
        }
    }
    tokens
}

/// Returns the position after a text in quotes.
fn quoted(chars: &[char], mut position: usize) -> usize {
    position += 1;
    while position < chars.len() && chars[position] != '"' {
        position += if chars[position] == '\\' { 2 } else { 1 };
    }
    position + 1
}

/// Returns the number of hashes of the raw text that begins here.
fn raw_hashes(chars: &[char], position: usize) -> Option<usize> {
    let rest: String = chars[position..].iter().take(16).collect();
    let rest = ["r", "br", "cr"]
        .iter()
        .find_map(|prefix| rest.strip_prefix(prefix).filter(|rest| rest.starts_with(['"', '#'])).map(str::to_owned))?;
    let hashes = rest.chars().take_while(|c| *c == '#').count();
    (rest.chars().nth(hashes) == Some('"')).then_some(hashes)
}

/// Returns the position of the bracket that closes the one at a position.
fn closing(tokens: &[String], position: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, token) in tokens[position..].iter().enumerate() {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return position + offset;
        }
    }
    panic!("a bracket is not closed")
}

/// Returns the position after the item, field or statement at a position.
fn item_end(tokens: &[String], mut position: usize) -> usize {
    while let Some(token) = tokens.get(position) {
        match token.as_str() {
            ";" | "," => return position + 1,
            "{" => return closing(tokens, position) + 1,
            "(" | "[" => position = closing(tokens, position) + 1,
            "}" => return position,
            _ => position += 1,
        }
    }
    position
}

/// Returns a path from the root of the crate. One that begins with the name of another crate leads to the module itself.
fn absolute(path: &Named, files: &BTreeMap<Module, PathBuf>) -> Module {
    let mut names = path.names.iter().peekable();
    let mut module = path.within.clone();
    match path.names.first().map_or("", String::as_str) {
        "crate" => {
            names.next();
            module.clear();
        }
        "self" => {
            names.next();
        }
        "super" => {
            while names.next_if(|name| *name == "super").is_some() {
                module.pop();
            }
        }
        first => {
            let child = [&module[..], &[first.to_owned()]].concat();
            if !files.contains_key(&child) {
                return module;
            }
        }
    }
    module.extend(names.cloned());
    module
}

/// Returns the module with a file of its own that contains a path.
fn containing(path: &[String], files: &BTreeMap<Module, PathBuf>) -> Module {
    (0..=path.len()).rev().map(|length| path[..length].to_vec()).find(|module| files.contains_key(module)).unwrap()
}

fn file_of(folder: &Path, name: &str) -> Option<PathBuf> {
    [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")].into_iter().find(|file| file.exists())
}

/// Returns the Rust files at a path; those of a folder if it is the mod.rs of one.
fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        return fs::read_dir(path).unwrap().flat_map(|entry| files(&entry.unwrap().path())).collect();
    }
    if path.ends_with("mod.rs") {
        return fs::read_dir(path.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .flat_map(|other| if other == path { vec![other] } else { files(&other) })
            .collect();
    }
    if path.extension().is_some_and(|extension| extension == "rs") && path.exists() {
        vec![path.to_owned()]
    } else {
        Vec::new()
    }
}

pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A library or program of the workspace.
struct CrateRoot {
    package: String,
    root: PathBuf,
}

/// Returns the packages of the workspace, as cargo describes them.
pub fn packages() -> Vec<Value> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(workspace());
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Returns the libraries and programs of the workspace.
fn crate_roots() -> Vec<CrateRoot> {
    let packages = packages();
    let all = packages.iter().flat_map(|package| {
        let targets = package["targets"].as_array().unwrap().iter();
        targets.map(|target| (package["name"].as_str().unwrap(), target))
    });
    let is_code = |target: &Value| {
        let kinds = target["kind"].as_array().unwrap();
        kinds.iter().any(|kind| ["lib", "rlib", "cdylib", "bin", "proc-macro"].contains(&kind.as_str().unwrap()))
    };
    all.filter(|(_, target)| is_code(target))
        .map(|(package, target)| CrateRoot {
            package: package.to_owned(),
            root: Path::new(target["src_path"].as_str().unwrap()).canonicalize().unwrap(),
        })
        .collect()
}

/// Each case is what `one.rs` and `two.rs` contain, and what is in lib.rs and in the folder `two`.
#[rstest]
#[case::by_their_paths("use crate::two::Two;", "use super::one;", "", "")]
#[case::in_a_tree("use crate::{two::{self, Two}};", "use super::{one::One as Other};", "", "")]
#[case::in_an_expression("fn f() { crate::two::f() }", "type T = Vec<super::one::One>;", "", "")]
#[case::through_lib("use crate::Second;", "use crate::one::One;", "pub use two::Two as Second;", "")]
#[case::from_a_folder("use crate::two::Two;", "mod below;", "", "use super::super::one::One;")]
#[case::in_a_module_in_braces("mod inner { use super::super::two::Two; }", "use crate::one::One;", "", "")]
fn files_that_import_each_other_are_found(
    #[case] one: &str,
    #[case] two: &str,
    #[case] root: &str,
    #[case] below: &str,
) {
    assert_eq!(circles_of(one, two, root, below), [["one.rs", "two.rs"]]);
}

#[rstest]
#[case::one_way("use crate::two::Two;", "", "", "")]
#[case::an_item_of_the_root("use crate::Item;", "use crate::one::One;", "pub struct Item;", "")]
#[case::tests("use crate::two::Two;", "#[cfg(test)]\nmod tests { use crate::one::One; }", "", "")]
#[case::an_import_for_tests("use crate::two::Two;", "#[cfg(test)]\nuse crate::one::One;", "", "")]
#[case::comments_and_texts(
    "use crate::two::Two;",
    "// crate::one::One\nconst T: &str = r#\"crate::one::One\"#;",
    "",
    ""
)]
#[case::an_item_of_the_parent("", "mod below;\npub struct Two;", "", "use super::Two;")]
fn files_that_import_others_one_way_are_no_circle(
    #[case] one: &str,
    #[case] two: &str,
    #[case] root: &str,
    #[case] below: &str,
) {
    assert_eq!(circles_of(one, two, root, below), Vec::<Vec<String>>::new());
}

/// Returns the circles of a crate with these files.
fn circles_of(one: &str, two: &str, root: &str, below: &str) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("two")).unwrap();
    for (name, text) in [("lib.rs", root), ("one.rs", one), ("two.rs", two), ("two/below.rs", below)] {
        let modules = if name == "lib.rs" { "mod one;\nmod two;\n" } else { "" };
        fs::write(path(name), format!("{modules}{text}\n")).unwrap();
    }
    let circles = Modules::read(&path("lib.rs")).circles();
    let name = |file: &PathBuf| file.strip_prefix(folder.path()).unwrap().display().to_string();
    circles.iter().map(|circle| circle.iter().map(name).collect()).collect()
}

#[test]
fn modules_import_each_other_one_way() {
    let (mut circles, mut seen, mut crates) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let mut sources = BTreeSet::new();
    for target in crate_roots() {
        let modules = Modules::read(&target.root);
        circles.extend(modules.circles());
        seen.extend(modules.files.values().cloned().chain(modules.tests.iter().cloned()));
        sources.extend(files(target.root.parent().unwrap()));
        crates.insert(target.package);
    }
    let list = |circle: &BTreeSet<PathBuf>| {
        let name = |file: &PathBuf| file.strip_prefix(workspace()).unwrap().display().to_string();
        circle.iter().map(name).collect::<Vec<_>>().join("\n  ")
    };
    let circles: Vec<String> = circles.iter().map(list).collect();
    assert!(circles.is_empty(), "files import each other in circles:\n\n  {}\n", circles.join("\n\n  "));
    let unseen: Vec<&PathBuf> = sources.iter().filter(|file| !seen.contains(*file)).collect();
    assert!(unseen.is_empty(), "no module declares these files: {unseen:?}");
    assert!(
        ["pillion", "pillion-admission", "pillion-policy", "pillion-rollout"].iter().all(|name| crates.contains(*name)),
        "{crates:?}"
    );
}

/// Examples in comments are compiled for a crate only if its Cargo.toml does not turn that off, which saves time where
/// there are none.
#[test]
fn examples_in_comments_are_compiled() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut without = 0;
    for folder in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        if !manifest.contains("\ndoctest = false\n") {
            continue;
        }
        without += 1;
        for file in files(&folder.join("src")) {
            let text = fs::read_to_string(&file).unwrap();
            let is_example = |line: &str| line.trim_start().starts_with("//") && line.contains("```");
            assert!(
                !text.lines().any(is_example),
                "{} has an example in a comment: remove doctest = false from the Cargo.toml of its crate",
                file.display()
            );
        }
    }
    assert!(without > 10, "{without} crates");
}
