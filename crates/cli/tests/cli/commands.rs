//! The commands in the documents: each calls a program that is known, and `pillion` takes its options.

use std::fs;
use std::path::PathBuf;

use clap::error::ErrorKind;
use rstest::rstest;

use crate::support::shell;
use pillion_samples::repository::{files, root};

/// The programs that documents call, besides scripts of the repository. A new one is a decision: readers need it.
const PROGRAMS: [&str; 37] = [
    "argocd",
    "base64",
    "cargo",
    "cat",
    "cd",
    "cosign",
    "curl",
    "cut",
    "docker",
    "gh",
    "git",
    "grep",
    "helm",
    "jq",
    "k3d",
    "kind",
    "kubectl",
    "kwctl",
    "ln",
    "make",
    "man",
    "mkdir",
    "mv",
    "openssl",
    "pillion",
    "printf",
    "rm",
    "sed",
    "sh",
    "sha256sum",
    "source",
    "tar",
    "tee",
    "timeout",
    "tr",
    "true",
    "xargs",
];

/// Returns the documents for users and for people who change the code, each with its name.
fn documents() -> Vec<(String, String)> {
    let mut documents: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name)).into();
    for folder in ["artifacts", "charts", "deploy", "docs", "examples", "testenv"] {
        documents.extend(files(&root().join(folder), "md"));
    }
    let named =
        |path: PathBuf| (path.strip_prefix(root()).unwrap().display().to_string(), fs::read_to_string(&path).unwrap());
    documents.into_iter().map(named).collect()
}

/// Returns what is wrong with the command of a shell block.
fn problem(words: &[String]) -> Option<String> {
    let program = words[0].as_str();
    if program.contains('/') {
        return (!root().join(program).is_file()).then(|| format!("the repository has no {program}"));
    }
    if !PROGRAMS.contains(&program) {
        return Some(format!("unknown program {program}"));
    }
    if program != "pillion" {
        return None;
    }
    let error = pillion::args::command(None).try_get_matches_from(words).err()?;
    let is_text = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion].contains(&error.kind());
    (!is_text).then(|| error.to_string())
}

#[test]
fn commands_in_shell_blocks_can_be_called() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (name, text) in documents() {
        for words in shell::commands(&text) {
            seen += usize::from(words[0] == "pillion");
            wrong.extend(problem(&words).map(|problem| format!("{name}: {}: {problem}", words.join(" "))));
        }
    }
    assert!(seen > 60, "{seen}");
    assert_eq!(wrong, [""; 0], "{}", wrong.join("\n"));
}

/// Returns what is wrong with a command in a sentence, which may leave out values: its subcommands and options exist.
fn problem_of_mention(mention: &str) -> Option<String> {
    let cli = pillion::args::command(None);
    let mut command = &cli;
    let mut words = mention.split([' ', '=', '|', '[', ']']).filter(|word| !word.is_empty()).skip(1).peekable();
    while let Some(next) = words.peek().and_then(|word| command.find_subcommand(word)) {
        command = next;
        words.next();
    }
    let first = words.peek().copied().unwrap_or("--help");
    if command.has_subcommands() && !first.starts_with(['-', '…']) {
        return Some(format!("{} has no subcommand {first}", command.get_name()));
    }
    let unknown = words.filter_map(|word| word.strip_prefix("--")).find(|option| {
        let mut arguments = command.get_arguments().chain(cli.get_arguments());
        let has = |argument: &clap::Arg| {
            argument.get_long() == Some(option)
                || argument.get_all_aliases().is_some_and(|aliases| aliases.contains(option))
        };
        !["", "help", "version"].contains(option) && !arguments.any(has)
    });
    unknown.map(|option| format!("{} has no --{option}", command.get_name()))
}

/// Returns the commands of pillion between backticks, outside of code blocks. A text with a colon is a message.
fn mentions(markdown: &str) -> Vec<&str> {
    let text = markdown.split("```").step_by(2);
    let spans = text.flat_map(|text| text.split('`').skip(1).step_by(2));
    spans.filter(|span| span.starts_with("pillion ") && !span.contains('\n') && !span.contains(": ")).collect()
}

#[test]
fn commands_in_sentences_exist() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (name, text) in documents() {
        for mention in mentions(&text) {
            seen += 1;
            wrong.extend(problem_of_mention(mention).map(|problem| format!("{name}: `{mention}`: {problem}")));
        }
    }
    assert!(seen > 100, "{seen}");
    assert_eq!(wrong, [""; 0], "{}", wrong.join("\n"));
}

#[rstest]
#[case::lines("```sh\na b\nc\n```\n```yaml\nd\n```\n", &["a b", "c"])]
#[case::an_indented_block("1. x:\n\n   ```console\n   a b\n   ```\n", &["a b"])]
#[case::output("```console\n$ a b\nc d\n$ e\n```\n", &["a b", "e"])]
#[case::comments("```sh\n# a\nb # c\nd#e\n```\n", &["b", "d#e"])]
#[case::continued("```sh\na \\\n  b\n```\n", &["a b"])]
#[case::a_here_document("```sh\na -f - <<'EOF'\nb: c\nEOF\nd\n```\n", &["a -f -", "d"])]
#[case::pipes_and_lists("```sh\na | b && c; d &\n```\n", &["a", "b", "c", "d"])]
#[case::quotes("```sh\na 'b | c' \"d; e\" f='g h'\n```\n", &["a b | c d; e f=g h"])]
#[case::redirections("```sh\na > b 2>&1 <c >>d e\n```\n", &["a", "1 e"])]
#[case::substitutions("```sh\na=$(b c | d)\nA=b c\n{ a; b; } | c\n```\n", &["b c", "d", "c", "a", "b", "c"])]
fn commands_are_found(#[case] markdown: &str, #[case] wanted: &[&str]) {
    let found: Vec<_> = shell::commands(markdown).into_iter().map(|words| words.join(" ")).collect();
    assert_eq!(found, wanted);
}

#[rstest]
#[case::a_program("kubctl get pods", "unknown program kubctl")]
#[case::a_script("tools/gone a", "the repository has no tools/gone")]
#[case::a_subcommand("pillion chek a.yaml", "unrecognized subcommand 'chek'")]
#[case::an_option("pillion check --stricter a.yaml", "unexpected argument '--stricter'")]
#[case::a_value("pillion check -o xml a.yaml", "invalid value 'xml'")]
fn a_command_that_cannot_be_called_is_found(#[case] command: &str, #[case] says: &str) {
    let words: Vec<_> = command.split(' ').map(str::to_owned).collect();
    let problem = problem(&words).unwrap_or_default();
    assert!(problem.contains(says), "{problem}");
}

#[rstest]
#[case::a_subcommand("pillion chek", Some("pillion has no subcommand chek"))]
#[case::a_nested_one("pillion rollout stop", Some("rollout has no subcommand stop"))]
#[case::an_option("pillion check --stricter=true", Some("check has no --stricter"))]
#[case::without_a_value("pillion inject --settings", None)]
#[case::a_nested_command("pillion rollout status", None)]
fn a_mention_that_does_not_exist_is_found(#[case] mention: &str, #[case] says: Option<&str>) {
    assert_eq!(problem_of_mention(mention).as_deref(), says);
}
