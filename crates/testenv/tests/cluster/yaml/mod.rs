//! Generated documents, read by Pillion's reader and by kubectl's (testenv/read-yaml). Each has the same value, or is
//! refused by both.
//!
//! `PILLION_YAML_DOCUMENTS=100000 PILLION_YAML_SEED=1 testenv/run-tests yaml` reads others, and more of them.

mod generator;
mod pools;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pillion_testenv::tool;
use pillion_yaml::Problem;
use rstest::rstest;
use serde_json::Value;

use self::generator::document;

const DOCUMENTS: u64 = 10_000;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().unwrap())
}

/// Returns what kubectl's reader says of each text: its documents, each with a value or an error.
fn kubectl(texts: &[String]) -> Vec<Vec<Value>> {
    let mut reader = Command::new(tool("read-yaml").unwrap());
    let mut reader = reader.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = reader.stdin.take().unwrap();
    let lines: Vec<String> = texts.iter().map(|text| format!("\"{}\"\n", STANDARD.encode(text))).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.concat().as_bytes()).unwrap());
    let output = BufReader::new(reader.stdout.take().unwrap());
    let answers = output.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    writer.join().unwrap();
    assert!(reader.wait().unwrap().success());
    answers
}

type Read = Result<Value, Problem>;

fn pillion(text: &str) -> Vec<Read> {
    pillion_yaml::documents(text).into_iter().map(|read| read.map(|document| document.value)).collect()
}

/// Whether kubectl's reading is one that no user could want, so that Pillion's is another: docs/design.md has the list.
fn is_other_on_purpose(text: &str, theirs: &[Value]) -> bool {
    let says =
        |word: &str| theirs.iter().any(|answer| answer["error"].as_str().is_some_and(|error| error.contains(word)));
    let marker_and_carriage_return = text.replace("\r\n", "\n").contains('\r') && text.contains("---");
    // kubectl takes a line that begins with --- for a separator whatever follows, and drops what it does not like.
    text.contains("---#")
        || says("invalid Yaml document separator")
        || marker_and_carriage_return
        || text.contains("\r\r\n")
        // It drops what follows the end of a document, and reads directives without their document.
        || text.lines().any(|line| line.starts_with("...") || line.starts_with('%'))
        // Behind a marker in the first line, and where there are two, a byte order mark is text to it.
        || (text.contains('\u{feff}') && (text.contains("---") || text.contains("\u{feff}\u{feff}")))
        || text.lines().any(|line| line.trim() == "\u{feff}")
}

/// Whether both have the same value, or both have none. A repeated key is an error here, and the last one's value there.
fn is_same(ours: &Read, theirs: &Value) -> bool {
    let repeats = |key: &str| key.starts_with("duplicate key");
    match (ours, theirs.get("value")) {
        (Ok(ours), Some(theirs)) => ours == theirs,
        (Err(_), None) => true,
        // Of two keys with one text, such as 1 and "1", kubectl takes one or the other.
        (Err(problem), Some(_)) if repeats(&problem.message) => {
            let key = problem.message.split('"').nth(1).unwrap_or_default();
            !theirs["strict"].is_null() || key.trim_start_matches('.').parse::<f64>().is_ok()
        }
        // The value of a repeated key may have no JSON; kubectl drops it before it sees that.
        (Err(problem), Some(_)) => {
            let words = ["JSON has no number", "too large for a key", "a key is empty or null"];
            !theirs["strict"].is_null() && words.iter().any(|word| problem.message.contains(word))
        }
        (Ok(_), None) => false,
    }
}

#[test]
fn generated_documents_are_read_as_kubectl_reads_them() {
    let (count, seed) = (number("PILLION_YAML_DOCUMENTS", DOCUMENTS), number("PILLION_YAML_SEED", 0));
    let texts: Vec<String> = (seed..seed + count).map(document).collect();
    let answers = kubectl(&texts);
    assert_eq!(answers.len(), texts.len());
    let (mut values, mut errors, mut others) = (0, 0, 0);
    let mut different = Vec::new();
    for (text, theirs) in texts.iter().zip(&answers) {
        // Empty documents are null to one reader, and none to the other.
        let ours: Vec<Read> = pillion(text).into_iter().filter(|read| !matches!(read, Ok(Value::Null))).collect();
        let said: Vec<&Value> = theirs.iter().filter(|answer| answer.get("value") != Some(&Value::Null)).collect();
        let is_read = ours.iter().all(Result::is_ok);
        let each = ours.len() == said.len() && ours.iter().zip(&said).all(|(ours, theirs)| is_same(ours, theirs));
        let none = !is_read && said.iter().any(|answer| answer.get("error").is_some());
        if each || none {
            *(if is_read { &mut values } else { &mut errors }) += 1;
        } else if is_other_on_purpose(text, theirs) {
            others += 1;
        } else {
            different.push(format!("{text:?}\n  Pillion: {ours:?}\n  kubectl: {said:?}"));
        }
    }
    println!("{values} have the same value, {errors} are refused by both, {others} differ on purpose");
    assert!(different.is_empty(), "{} are read otherwise:\n{}", different.len(), different.join("\n"));
    assert!(values > count / 3 && errors > 0 && others < count / 50, "the generator makes too few documents of a kind");
}

/// What the issue and reports named, by kubectl's word.
#[rstest]
#[case::commit("a: 7e4321987\n")]
#[case::odd_words("a: [yEs, nO, oN, tRue, nUll]\n")]
#[case::keys("on: 1\nno: 2\n0644: 3\n1e3: 4\n")]
#[case::merge_behind_keys("b: &b {x: 1}\nc: {x: 2, <<: *b}\n")]
#[case::two_merges("b: &b {x: 1}\nc: &c {x: 2}\nd:\n  <<: *b\n  <<: *c\n")]
#[case::column_0("a: 'b\nc'\n")]
#[case::later_mark("a: 1\n---\n\u{feff}b: 2\n")]
fn what_was_read_otherwise_is_read_as_kubectl_reads_it(#[case] text: &str) {
    let theirs: Vec<Value> = kubectl(&[text.to_owned()])[0].iter().map(|answer| answer["value"].clone()).collect();
    let ours: Vec<Value> = pillion(text).into_iter().map(Result::unwrap).collect();
    assert_eq!(ours, theirs);
}

/// Aliases that expand without bound are refused from the same size on.
#[test]
fn aliases_are_followed_as_far_as_kubectl_follows_them() {
    let laughs = |lists: usize, items: usize| {
        let list =
            |index: usize| format!("a{index}: &a{index} [{}]\n", vec![format!("*a{}", index - 1); items].join(", "));
        format!("a0: &a0 [x]\n{}", (1..lists).map(list).collect::<String>())
    };
    let texts: Vec<String> = (2..8).flat_map(|lists| [2, 5, 9].map(|items| laughs(lists, items))).collect();
    for (text, theirs) in texts.iter().zip(kubectl(&texts)) {
        let ours = pillion(text);
        assert!(is_same(&ours[0], &theirs[0]), "{text}\n{:?}\n{}", ours[0].as_ref().err(), theirs[0]["error"]);
    }
}
