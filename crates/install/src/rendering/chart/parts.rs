//! The parts of the policy, and the rights for what they read.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::access::{self, Grant, WATCHED};
use super::super::answers::Part;
use super::super::answers::running::Listed;
use super::super::needs::{Needs, Read};
use super::facts::{self, Fact};

const READS: [Read; 7] = [
    Read::Namespace,
    Read::ConfigMap,
    Read::ControllerRevision,
    Read::ServiceAccount,
    Read::Pod,
    Read::Role,
    Read::RoleBinding,
];

/// When something is necessary: always, or if one of these facts holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum When {
    Always,
    AnyOf(Vec<Fact>),
}

impl When {
    fn to_value(&self) -> Value {
        match self {
            Self::Always => json!([]),
            Self::AnyOf(facts) => facts.iter().map(|fact| fact.name).collect(),
        }
    }

    /// Returns when `is_needed` holds, in each of these cases.
    fn find(cases: &[Vec<Fact>], is_needed: impl Fn(&Needs) -> bool) -> anyhow::Result<Option<Self>> {
        let in_every_case = |more: Option<Fact>| -> anyhow::Result<bool> {
            for case in cases {
                let facts: Vec<Fact> = case.iter().copied().chain(more).collect();
                if !is_needed(&facts::needs(&facts)?) {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        if in_every_case(None)? {
            return Ok(Some(Self::Always));
        }
        let mut enough = Vec::new();
        for fact in facts::ALL {
            if in_every_case(Some(fact))? {
                enough.push(fact);
            }
        }
        Ok((!enough.is_empty()).then_some(Self::AnyOf(enough)))
    }

    /// Returns the smallest sets of facts for which it holds.
    fn cases(&self) -> Vec<Vec<Fact>> {
        match self {
            Self::Always => vec![Vec::new()],
            Self::AnyOf(facts) => facts.iter().map(|fact| vec![*fact]).collect(),
        }
    }
}

/// A part: when it has work to do, and when it reads objects of a kind.
struct Needed {
    part: Part,
    when: When,
    reads: Vec<(Read, When)>,
}

fn needed() -> anyhow::Result<Vec<Needed>> {
    let mut parts = Vec::new();
    for part in Part::ALL {
        let Some(when) = When::find(&[Vec::new()], |needs| needs.has(part))? else { continue };
        let mut reads = Vec::new();
        for read in READS {
            let reads_it = |needs: &Needs| needs.parts.get(&part).is_some_and(|reads| reads.contains(&read));
            if let Some(when) = When::find(&when.cases(), reads_it)? {
                reads.push((read, when));
            }
        }
        parts.push(Needed { part, when, reads });
    }
    Ok(parts)
}

fn asks_authors() -> anyhow::Result<When> {
    Ok(When::find(&[Vec::new()], |needs| needs.asks_authors)?.unwrap_or(When::Always))
}

/// Returns the data.
///
/// # Errors
/// If the settings of [`facts`] do not decode, which is a bug.
pub fn data() -> anyhow::Result<Value> {
    let parts: Vec<Value> = needed()?.iter().map(part).collect();
    let watched =
        WATCHED.map(|read| json!({"kind": read.kind().1, "name": format!("{}/{}", read.kind().0, read.kind().1)}));
    Ok(json!({
        "parts": parts,
        "asksAuthors": asks_authors()?.to_value(),
        "watched": watched,
        "rights": rights(),
    }))
}

fn part(needed: &Needed) -> Value {
    let part = needed.part;
    let conditions: Vec<Value> = part
        .conditions(&Listed::places())
        .into_iter()
        .map(|condition| json!({"name": condition.name, "expression": condition.expression, "why": condition.why}))
        .collect();
    let reads: Vec<Value> = needed
        .reads
        .iter()
        .map(|(read, when)| json!({"apiVersion": read.kind().0, "kind": read.kind().1, "if": when.to_value()}))
        .collect();
    json!({
        "name": part.name(),
        "about": part.about(),
        "if": needed.when.to_value(),
        "mutates": part.mutates(),
        "aboutPods": part.is_about_pods(),
        "afterAdmission": part.is_after_admission(),
        "path": part.path(),
        "reads": reads,
        "rules": part.rules().iter().map(|rule| rule.to_value()).collect::<Vec<_>>(),
        "matchConditions": conditions,
    })
}

/// Returns the rights: each with what makes it necessary, a kind that is read, or a question.
fn rights() -> Value {
    let reading =
        |read: Read| Needs { parts: BTreeMap::from([(Part::Pods, BTreeSet::from([read]))]), ..Needs::default() };
    let mut situations: Vec<(&str, Needs)> = READS.map(|read| (read.kind().1, reading(read))).into();
    situations.push(("asksAuthors", Needs { asks_authors: true, ..Needs::default() }));
    let exec = BTreeMap::from([(Part::Exec, BTreeSet::new())]);
    situations.push(("asksUsers", Needs { parts: exec, ..Needs::default() }));
    situations.push(("readsWhitelist", Needs { reads_whitelist: true, ..Needs::default() }));
    let all = |rights: &dyn Fn(&Needs) -> Vec<Grant>| -> Vec<Value> {
        let of = |(when, needs): &(&str, Needs)| -> Vec<Value> {
            rights(needs).iter().map(|grant| described(grant, when)).collect()
        };
        situations.iter().flat_map(of).collect()
    };
    let bundle =
        |watches| -> Vec<Value> { access::of_bundle(watches).iter().map(|grant| described(grant, "")).collect() };
    json!({
        "policyServer": all(&|needs| access::everywhere(needs, false)),
        "server": all(&|needs| access::everywhere(needs, true)),
        "systemNamespace": all(&access::in_system_namespace),
        "bundle": bundle(false),
        "watchedBundle": bundle(true),
    })
}

fn described(grant: &Grant, when: &str) -> Value {
    json!({"if": when, "why": grant.why(), "rule": grant.to_value()})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(when: &When, facts: &[Fact]) -> bool {
        match when {
            When::Always => true,
            When::AnyOf(enough) => enough.iter().any(|fact| facts.contains(fact)),
        }
    }

    /// The data are as good as the code: for all combinations of facts, they lead to the same needs.
    #[test]
    fn the_facts_decide_about_every_need() {
        let (parts, asks) = (needed().unwrap(), asks_authors().unwrap());
        assert_eq!(parts.len(), Part::ALL.len());
        for number in 0..1_u32 << facts::ALL.len() {
            let facts: Vec<Fact> = facts::ALL
                .into_iter()
                .enumerate()
                .filter(|(at, _)| number >> at & 1 == 1)
                .map(|(_, fact)| fact)
                .collect();
            let wanted = facts::needs(&facts).unwrap();
            let found: BTreeMap<Part, BTreeSet<Read>> = parts
                .iter()
                .filter(|part| holds(&part.when, &facts))
                .map(|part| {
                    let reads = part.reads.iter().filter(|(_, when)| holds(when, &facts));
                    (part.part, reads.map(|(read, _)| *read).collect())
                })
                .collect();
            assert_eq!(found, wanted.parts, "{facts:?}");
            assert_eq!(holds(&asks, &facts), wanted.asks_authors, "{facts:?}");
        }
    }
}
