//! Whether the ServiceAccounts of SidecarSets hold a permission that no SidecarSet may have (ESC-9).
//!
//! A SidecarSet is judged when it is written (E5); roles and bindings change later. The rules of RBAC say which question to
//! ask about an account first, and each finding is an answer of the API server. Other authorizers have no rules to read, so
//! the remaining questions are asked in turn, a limited number each time.

mod rbac;

use std::collections::{BTreeMap, BTreeSet};

use pillion_identity::author;
use pillion_identity::declared::Declared;
use pillion_identity::names;
use pillion_identity::rules::Rules;
use pillion_inject::matching;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::OneObject;
use pillion_kubernetes::rbac::Atom;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;
use serde_json::Value;

pub use self::rbac::{Binding, Given, Index, Role, ordered};

/// The condition of a SidecarSet whose ServiceAccount holds such a permission, and the reason of its Events.
pub const DENIED_PERMISSION_HELD: &str = "DeniedPermissionHeld";
/// The reason of the condition once no account holds one.
pub const NOT_HELD: &str = "NotHeld";
/// The most accounts that a message names.
const SHOWN_MAX: usize = 3;

/// A ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Account {
    /// Returns the account of this name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// The accounts to ask about, each with the SidecarSets that give it to sidecars.
pub type Accounts = BTreeMap<Account, BTreeSet<String>>;

/// Returns the accounts that SidecarSets can give in these namespaces: those that they name, where `is_there`, and merged
/// ones, which say themselves for which SidecarSets they are.
pub fn accounts<'a>(
    sets: &[SidecarSet],
    rules: &Rules,
    namespaces: impl IntoIterator<Item = &'a Value>,
    merged: impl IntoIterator<Item = &'a Value>,
    is_there: &dyn Fn(&Account) -> bool,
) -> Accounts {
    let naming = sets.iter().filter_map(|set| {
        let account = Declared::from_sidecar_set(set).ok()?.service_account?;
        Some((CompiledSet::new(set), account))
    });
    let naming: Vec<(CompiledSet<'_>, String)> = naming.collect();
    let mut found = Accounts::new();
    for namespace in namespaces {
        let name = json::text(namespace, &["metadata", "name"]);
        if rules.protects(name) {
            continue;
        }
        for (set, account) in &naming {
            let account = Account::new(name, account);
            // Most namespaces have no such account. A set whose selector cannot be read matches nothing.
            if is_there(&account)
                && rules.allows(name, &account.name)
                && matching::can_be_in(set, name, &OneObject(namespace)).unwrap_or_default()
            {
                found.entry(account).or_default().insert(set.name.to_owned());
            }
        }
    }
    for object in merged {
        let text = |path: &[&str]| json::text(object, path);
        let sets = text(&["metadata", "annotations", names::SIDECAR_SETS]).split(',').filter(|set| !set.is_empty());
        let account = Account::new(text(&["metadata", "namespace"]), text(&["metadata", "name"]));
        found.entry(account).or_default().extend(sets.map(str::to_owned));
    }
    found
}

/// A question about an account for the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The account.
    pub account: Account,
    /// Where the permission should hold; empty for every namespace.
    pub namespace: String,
    /// The permission.
    pub atom: Atom,
    /// What gives the permission by RBAC; `None` for a question whose turn it is.
    pub binding: Option<String>,
}

/// What bounds the questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The seconds after which a question is asked again.
    pub interval: i64,
    /// The most questions at a time.
    pub questions: usize,
}

impl Default for Limits {
    /// Ten minutes, and one question in two seconds on average.
    fn default() -> Self {
        Self { interval: 600, questions: 300 }
    }
}

/// What is asked about.
pub struct Input<'a> {
    /// The accounts.
    pub accounts: &'a Accounts,
    /// What RBAC says.
    pub index: &'a Index<'a>,
    /// The permissions that no SidecarSet may have.
    pub denied: &'a [Atom],
    /// The current time.
    pub now: Timestamp,
    /// What bounds the questions.
    pub limits: Limits,
}

/// The last answer about an account.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answered {
    question: Question,
    is_held: bool,
    at: Timestamp,
}

/// What was asked and answered.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    answers: BTreeMap<Account, Answered>,
    /// How many of the questions that are asked in turn are behind.
    turn: usize,
    /// When questions were asked in turn.
    turned: Option<Timestamp>,
}

/// The questions to ask now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The questions.
    pub questions: Vec<Question>,
    /// Whether no question that RBAC gives rise to is left for later.
    pub is_complete: bool,
}

impl Memory {
    /// Chooses the questions of a round, and forgets accounts that are gone and permissions that RBAC no longer gives.
    pub fn round(&mut self, input: &Input<'_>) -> Round {
        let Input { accounts, now, limits, .. } = *input;
        self.answers.retain(|account, _| accounts.contains_key(account));
        let is_due = |at: Timestamp| now.0.saturating_sub(at.0) >= limits.interval;
        let mut questions = Vec::new();
        for account in accounts.keys() {
            let given = input.index.given(account);
            let known = self.answers.get(account);
            let question = match (given, known) {
                (Some(Given { namespace, atom, binding }), known) => {
                    let question = Question { account: account.clone(), namespace, atom, binding: Some(binding) };
                    let is_fresh = |known: &Answered| known.question == question && !is_due(known.at);
                    (!known.is_some_and(is_fresh)).then_some(question)
                }
                (None, Some(known)) if known.question.binding.is_none() && known.is_held => {
                    is_due(known.at).then(|| known.question.clone())
                }
                (None, Some(_)) => {
                    self.answers.remove(account);
                    None
                }
                (None, None) => None,
            };
            questions.extend(question);
        }
        let is_complete = questions.len() <= limits.questions;
        questions.truncate(limits.questions);
        if self.turned.is_none_or(is_due) {
            let left = limits.questions.saturating_sub(questions.len());
            let asked: BTreeSet<Account> = questions.iter().map(|question| question.account.clone()).collect();
            questions.append(&mut self.in_turn(input, &asked, left));
            self.turned = Some(now);
        }
        Round { questions, is_complete }
    }

    /// Returns the next of the questions that are asked in turn: every denied permission, about every account that is not
    /// known to hold one, and is not `asked` about anyway.
    fn in_turn(&mut self, input: &Input<'_>, asked: &BTreeSet<Account>, most: usize) -> Vec<Question> {
        let atoms: Vec<Atom> = input.denied.iter().flat_map(author::questions).collect();
        let accounts: Vec<&Account> = input.accounts.keys().collect();
        let all = atoms.len().saturating_mul(accounts.len());
        let mut chosen = Vec::new();
        for _ in 0..all {
            if chosen.len() >= most {
                break;
            }
            let place = self.turn.checked_rem(all).unwrap_or_default();
            self.turn = place.saturating_add(1);
            let account = place.checked_div(atoms.len()).and_then(|index| accounts.get(index));
            let atom = place.checked_rem(atoms.len()).and_then(|index| atoms.get(index));
            let (Some(account), Some(atom)) = (account, atom) else { break };
            if asked.contains(*account) || self.answers.get(*account).is_some_and(|known| known.is_held) {
                continue;
            }
            let namespace = account.namespace.clone();
            chosen.push(Question { account: (*account).clone(), namespace, atom: atom.clone(), binding: None });
        }
        chosen
    }

    /// Notes an answer. Of the questions that are asked in turn, only a yes counts, and the end of an earlier one.
    pub fn answered(&mut self, question: Question, is_held: bool, at: Timestamp) {
        let known = self.answers.get(&question.account);
        let is_about_known = known.is_some_and(|known| known.question == question);
        if question.binding.is_some() || is_held {
            self.answers.insert(question.account.clone(), Answered { question, is_held, at });
        } else if is_about_known {
            self.answers.remove(&question.account);
        }
    }

    /// Returns the seconds until something has to be asked again.
    pub fn look_again(&self, now: Timestamp, limits: Limits) -> i64 {
        let times = self.answers.values().map(|known| known.at).chain(self.turned);
        let next = times.map(|at| at.0.saturating_add(limits.interval)).min();
        next.map_or(limits.interval, |next| next.saturating_sub(now.0)).clamp(1, limits.interval.max(1))
    }

    /// Returns what people should know, by SidecarSet: of those whose accounts hold a denied permission.
    pub fn problems<'a>(&self, accounts: &'a Accounts) -> BTreeMap<&'a str, String> {
        let mut held: BTreeMap<&str, Vec<&Question>> = BTreeMap::new();
        for (account, known) in self.answers.iter().filter(|(_, known)| known.is_held) {
            for set in accounts.get(account).into_iter().flatten() {
                held.entry(set).or_default().push(&known.question);
            }
        }
        held.into_iter().map(|(set, questions)| (set, problem(&questions))).collect()
    }
}

/// Says which permissions the accounts of one SidecarSet hold.
fn problem(held: &[&Question]) -> String {
    let mut parts: Vec<String> = held.iter().take(SHOWN_MAX).map(|question| shown(question)).collect();
    let more = held.len().saturating_sub(SHOWN_MAX);
    if more > 0 {
        parts.push(format!("and so may {more} more of its ServiceAccounts hold one"));
    }
    format!(
        "{}; no sidecar may have that: take the permission away, or change serviceAccounts.denyPermissions",
        parts.join("; ")
    )
}

fn shown(question: &Question) -> String {
    let Question { account, namespace, atom, binding } = question;
    let binding = binding.as_ref().map(|binding| format!(" ({binding})")).unwrap_or_default();
    format!(
        "ServiceAccount \"{}/{}\" may {} {}{binding}",
        account.namespace,
        account.name,
        author::shown(atom.as_permission()),
        author::place(namespace)
    )
}

#[cfg(test)]
mod tests;
