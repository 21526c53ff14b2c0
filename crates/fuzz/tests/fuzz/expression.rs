//! User-written expressions: those of `resourcesPolicy`, and the regular expressions of whitelists.

use anyhow::ensure;
use pillion_fuzz::corpus;
use pillion_fuzz::run::FuzzTarget;
use pillion_fuzz::sequence::changed_texts;
use pillion_kubernetes::quantity::Quantity;
use pillion_pattern::Pattern;
use pillion_sidecarset::expression::{Expression, Slot};
use proptest::prelude::*;
use serde_json::Value;

/// Tokens of both languages.
const WORDS: [&str; 64] = [
    "cpu",
    "memory",
    "CPU",
    "Memory",
    "max(",
    "min(",
    "MAX(",
    "(",
    ")",
    ",",
    "+",
    "-",
    "*",
    "/",
    " ",
    "\t",
    "0",
    "1",
    "2",
    "0.5",
    "1.5",
    "50%",
    "1e3",
    "1e999",
    "200m",
    "1Gi",
    "100Mi",
    "9223372036854775807",
    "9223372036854775808",
    ".",
    "%",
    "e",
    "cpux",
    "é",
    "\0",
    "\u{2028}",
    "[",
    "]",
    "^",
    "$",
    "|",
    "?",
    "{2}",
    "{2,}",
    "{1,1000}",
    "{1001}",
    "(?i)",
    "(?:",
    "(?P<a>",
    "\\",
    "\\d",
    "\\pL",
    "\\Q",
    "\\x{10ffff}",
    "\\x41",
    "[[:alpha:]]",
    "[^a-z]",
    "a-",
    ".*",
    "+?",
    "*?",
    "\\b",
    "(a{1000}){10}",
    "sidecar.istio.io/",
];
/// Resource amounts of a container.
const AMOUNTS: [&str; 6] = ["0", "1n", "200m", "1.5", "100Mi", "7Ei"];
/// Names and keys to match patterns with.
const NAMES: [&str; 4] = ["", "main", "sidecar.istio.io/inject", "a.very-long.example.com/name_with.all-of-it"];

#[test]
fn expressions_mean_the_same_in_parentheses_and_a_check_refuses_only_what_fails() -> anyhow::Result<()> {
    let inputs = corpus::read("expression")?;
    let texts: Vec<String> = inputs.iter().filter_map(|named| named.input.as_str().map(str::to_owned)).collect();
    ensure!(texts.len() == inputs.len(), "the corpus holds texts");
    let generated = changed_texts(&texts, &WORDS, 6).prop_map(Value::from);
    FuzzTarget("expression").run(&inputs, generated, |input| {
        let text = input.as_str().unwrap_or_default();
        expression(text)?;
        pattern(text)
    })
}

/// The properties of an expression of `resourcesPolicy` (EXPR-3 to EXPR-10, DIFF-6 to DIFF-10).
fn expression(text: &str) -> anyhow::Result<()> {
    let Ok(expression) = Expression::parse(text) else { return Ok(()) };
    let wrapped = Expression::parse(&format!("({text})")).ok();
    let cased = [text.replace("cpu", "CPU"), text.replace("CPU", "cpu")].map(|text| Expression::parse(&text));
    for slot in [Slot::Cpu, Slot::Memory] {
        let refused = expression.check(slot).is_err();
        for amount in AMOUNTS {
            let amount = Quantity::parse(amount)?;
            let result = expression.evaluate(slot, &amount);
            ensure!(!refused || result.is_err(), "the check refuses it, and it has a result: {result:?}");
            ensure!(refused || !expression.is_constant() || result.is_ok(), "the check accepts it: {result:?}");
            let Ok(result) = result else { continue };
            ensure!(!result.is_negative(), "{result} is negative");
            ensure!(slot == Slot::Cpu || result.is_whole(), "{result} is not a whole number of bytes");
            ensure!(Quantity::parse(&result.to_string())? == result, "{result} is read as another quantity");
            if let Some(wrapped) = &wrapped {
                ensure!(wrapped.evaluate(slot, &amount)? == result, "in parentheses it is not {result}");
            }
            for cased in &cased {
                let other = cased.as_ref().map(|cased| cased.evaluate(slot, &amount));
                ensure!(
                    matches!(&other, Ok(Ok(other)) if *other == result),
                    "in another case it is {other:?}, not {result}"
                );
            }
        }
    }
    Ok(())
}

/// The properties of a regular expression in RE2's syntax.
fn pattern(text: &str) -> anyhow::Result<()> {
    let Ok(pattern) = Pattern::new(text) else { return Ok(()) };
    let wrapped = Pattern::new(&format!("(?:{text})"));
    let doubled = Pattern::new(&format!("(?:{text})|(?:{text})"));
    for name in NAMES {
        let effort = pattern.effort(name);
        ensure!(effort >= pattern.steps(), "a match takes {effort}, and the expression has {} steps", pattern.steps());
        let matches = pattern.is_match(name);
        for other in [&wrapped, &doubled].into_iter().flatten() {
            ensure!(other.is_match(name) == matches, "in a group it does not match {name:?} the same way");
        }
    }
    Ok(())
}
