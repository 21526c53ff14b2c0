//! `docs/reference/messages.md`, from the cases in `messages/`: the module answers each of them, and the page shows its
//! answer.

mod case;
mod texts;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use pillion_kubernetes::field::Cause;
use pillion_kubernetes::outcome::Code;
use regex_lite::Regex;
use serde::Deserialize;

use case::{Answer, Bases, Case};

use super::page::{self, Page, block};
use crate::support::files::text;

const FOLDER: &str = "crates/cli/tests/cli/reference/messages";

/// The files with the messages, in the order of the page.
const SECTIONS: [&str; 9] =
    ["pods", "identities", "asserting", "guards", "sidecarsets", "authors", "shoots", "requests", "settings"];

/// Messages of one kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    heading: String,
    text: String,
    /// The base of the cases that name none.
    base: String,
    /// Whether the messages explain themselves and are rows of a table.
    #[serde(default)]
    compact: bool,
    messages: Vec<Message>,
}

/// A message, and a case that makes the module say it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    /// The fixed words of the message; `…` stands for the parts that vary.
    says: String,
    /// The cause, for readers. Messages that explain themselves have none.
    #[serde(default)]
    means: String,
    /// What to do, if the message does not say it.
    #[serde(default)]
    remedy: String,
    #[serde(flatten)]
    case: Case,
}

/// A message with the answer of the module.
struct AnsweredMessage {
    message: Message,
    answer: Answer,
}

/// Returns all sections with the answers of the module, which is asked once.
fn sections() -> &'static [(Section, Vec<AnsweredMessage>)] {
    static SECTIONS: LazyLock<Vec<(Section, Vec<AnsweredMessage>)>> = LazyLock::new(asked);
    &SECTIONS
}

fn asked() -> Vec<(Section, Vec<AnsweredMessage>)> {
    let bases = Bases::read(&format!("{FOLDER}/bases.yaml"));
    let mut sections = Vec::new();
    for name in SECTIONS {
        let file = format!("{FOLDER}/{name}.yaml");
        let mut section: Section =
            serde_saphyr::from_str(&text(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let messages = std::mem::take(&mut section.messages);
        let told = messages.into_iter().map(|message| {
            let answer = message.case.answer(&bases, &section.base);
            let nothing = || Answer { code: None, message: "nothing is refused".to_owned() };
            AnsweredMessage { answer: answer.unwrap_or_else(nothing), message }
        });
        let told = told.collect();
        sections.push((section, told));
    }
    sections
}

fn answers() -> impl Iterator<Item = &'static Answer> {
    sections().iter().flat_map(|(_, told)| told).map(|told| &told.answer)
}

#[test]
fn the_page_of_the_messages_is_what_the_module_says() {
    let mut page = Page::new(
        "messages.md",
        "Messages",
        "What the policy says when it refuses something: each message with an example, its cause and a remedy. Search this \
         page for words of your message. `…` stands for what varies. The examples are answers of the module.",
    );
    codes(&mut page);
    let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
    for (section, told) in sections() {
        page.add(format!("## {}", section.heading));
        page.add(&section.text);
        let mut rows = Vec::new();
        for AnsweredMessage { message, answer } in told {
            let says = &message.says;
            if !pattern(says).is_match(&answer.message) {
                wrong.push(format!("{says:?} is not in {:?}", answer.message));
            }
            assert!(seen.insert(says.clone()), "{says:?} twice");
            if section.compact {
                let code = answer.code.map(|code| code.to_string()).unwrap_or_default();
                rows.push(vec![code, page::code(&answer.message), message.means.clone()]);
                continue;
            }
            page.add(format!("### {}", says.trim_end_matches('…').trim()));
            let code = answer.code.map_or("The settings are refused.".to_owned(), |code| format!("**{code}.**"));
            page.add([code.as_str(), &message.means].join(" "));
            page.add(block("text", &answer.message));
            if !message.remedy.is_empty() {
                page.add(format!("**Do:** {}", message.remedy));
            }
        }
        page.table(&["code", "message", ""], &rows);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    page.is_written();
}

/// Adds what the codes and the forms of messages mean.
fn codes(page: &mut Page) {
    page.add("## Codes");
    page.add(
        "The code of the answer is also in the audit annotation `refused-because` ([audit.md](../audit.md)). If several \
         things are wrong, the message lists them, joined by semicolons, and the lowest code counts.",
    );
    let rows: Vec<_> = CODES
        .iter()
        .map(|code| vec![code.as_u16().to_string(), format!("`{}`", code.name()), of_code(*code).to_owned()])
        .collect();
    page.table(&["code", "`refused-because`", "means"], &rows);
    page.add("## Errors of fields");
    page.add(
        "An error of a field has the form of Kubernetes' own errors: the field, one of the causes below, the value, and \
         what is wrong and what to do. Containers and volumes of a SidecarSet are checked as Kubernetes checks those of a \
         Pod, with its words; the [SidecarSets](#sidecarsets) section has the rules of SidecarSets.",
    );
    let rows: Vec<_> =
        CAUSES.iter().map(|cause| vec![format!("`{}`", cause.as_str()), of_cause(*cause).to_owned()]).collect();
    page.table(&["cause", "means"], &rows);
}

const CODES: [Code; 4] = [Code::Undecodable, Code::Forbidden, Code::Invalid, Code::Unavailable];

/// A new code does not compile here until it is explained.
const fn of_code(code: Code) -> &'static str {
    match code {
        Code::Undecodable => "the request or its object cannot be read. Correct the manifest",
        Code::Forbidden => "a rule of the policy forbids it. Trying again does not help",
        Code::Invalid => "fields of the object are not valid. Correct them",
        Code::Unavailable => {
            "the policy lacks something that it has to know: an object that is not there yet, or that cannot be read. Try \
             again; controllers do so by themselves"
        }
    }
}

const CAUSES: [Cause; 9] = [
    Cause::Required,
    Cause::Invalid,
    Cause::NotSupported,
    Cause::Duplicate,
    Cause::NotFound,
    Cause::Forbidden,
    Cause::TooLong,
    Cause::TooMany,
    Cause::Unknown,
];

const fn of_cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Required => "a value is missing",
        // Both say the same to readers.
        Cause::Invalid | Cause::Type => "a value is malformed, not allowed here, or of another JSON type",
        Cause::NotSupported => "a value is not one of those that there are; the message lists them",
        Cause::Duplicate => "a value is there twice and must be unique",
        Cause::NotFound => "a value names something that is not there",
        Cause::Forbidden => "a value is well formed and may not be set here",
        Cause::TooLong => "a value is too long",
        Cause::TooMany => "a list has too many items",
        Cause::Unknown => "there is no such field. In settings, the message names the nearest one",
    }
}

/// Returns the expression for a message in which `…` stands for anything.
fn pattern(says: &str) -> Regex {
    let parts: Vec<String> = says.split('…').map(str::trim).map(regex_lite::escape).collect();
    Regex::new(&parts.join("(?s:.*)")).unwrap()
}

#[test]
fn every_code_and_every_cause_has_an_example() {
    let answers: Vec<&Answer> = answers().collect();
    for code in CODES {
        assert!(answers.iter().any(|answer| answer.code == Some(code.as_u16())), "no example of {}", code.as_u16());
    }
    for cause in CAUSES {
        let shown = format!(": {}", cause.as_str());
        assert!(answers.iter().any(|answer| answer.message.contains(&shown)), "no example of {cause:?}");
    }
}

/// Every text of the rules that refuse is in an example, or in the list of texts that are no part of a refusal.
#[test]
fn every_text_of_a_refusal_is_in_an_example() {
    let answers: Vec<&Answer> = answers().collect();
    let exempt = texts::exempt(&format!("{FOLDER}/exempt.yaml"));
    let (mut missing, mut used) = (Vec::new(), BTreeSet::new());
    for (file, literal) in texts::of_refusals() {
        let pattern = pattern(&texts::with_gaps(&literal));
        if answers.iter().any(|answer| pattern.is_match(&answer.message)) {
            continue;
        }
        if exempt.contains(&literal) {
            used.insert(literal);
        } else {
            missing.push(format!("{file}: {literal}"));
        }
    }
    assert!(missing.is_empty(), "no example says:\n{}", missing.join("\n"));
    let stale: Vec<_> = exempt.iter().filter(|text| !used.contains(*text)).collect();
    assert!(stale.is_empty(), "exempt.yaml lists texts that are in an example or in no source: {stale:#?}");
}

#[test]
fn a_pattern_has_gaps() {
    assert!(pattern("the Pod has … of its own").is_match("x: the Pod has the ServiceAccount \"a\" of its own; y"));
    assert!(!pattern("the Pod has … of its own").is_match("the Pod has none"));
    assert!(pattern("may (not) …").is_match("may (not) write"));
}
