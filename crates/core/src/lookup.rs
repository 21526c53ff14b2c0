//! Questions to the cluster.
//!
//! The host answers them one by one; each is asked at most once per request ([`Memo`]) and only when a rule needs
//! it. "Not found" and "could not ask" are different answers: the first is a fact, the second means try again.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::Value;

/// One object of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// `v1`, `apps/v1`, ...
    pub api_version: &'static str,
    /// `Namespace`, `ConfigMap`, ...
    pub kind: &'static str,
    /// The namespace, for namespaced kinds.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

/// Why a look-up has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// The host may not read this: RBAC or the policy's `contextAwareResources`.
    Forbidden,
    /// The API server did not answer in time.
    Timeout,
    /// Anything else: no connection, an error of the API server, an answer that is no object.
    Unavailable,
}

/// The answer to a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The object.
    Found(Value),
    /// The API server says that it does not exist.
    NotFound,
    /// Nobody knows.
    Failed(Failure),
}

/// Something that can look objects up.
pub trait Lookup {
    /// Reads one object.
    fn get(&self, object: &ObjectRef) -> Answer;
}

/// Asks each question once.
pub struct Memo<'a> {
    inner: &'a dyn Lookup,
    answers: RefCell<BTreeMap<ObjectRef, Answer>>,
}

impl<'a> Memo<'a> {
    /// Remembers the answers of `inner`.
    pub fn new(inner: &'a dyn Lookup) -> Self {
        Self { inner, answers: RefCell::default() }
    }
}

impl Lookup for Memo<'_> {
    fn get(&self, object: &ObjectRef) -> Answer {
        if let Some(answer) = self.answers.borrow().get(object) {
            return answer.clone();
        }
        let answer = self.inner.get(object);
        self.answers.borrow_mut().insert(object.clone(), answer.clone());
        answer
    }
}

/// Reads the text of a host's error: the policy server reports everything as a string.
///
/// Substrings, because the text carries a prefix and, with backtraces on, a stack trace (`kubewarden.md`,
/// section 2). The text itself is never shown to users.
pub fn classify(error: &str) -> Answer {
    let error = error.to_ascii_lowercase();
    let says = |texts: &[&str]| texts.iter().any(|text| error.contains(text));
    if says(&["cannot find ", "notfound", "not found (404)", "code: 404"]) {
        Answer::NotFound
    } else if says(&["forbidden", "403", "not been granted access", "unauthorized", "401", "no access"]) {
        Answer::Failed(Failure::Forbidden)
    } else if says(&["timeout", "timed out", "deadline", "elapsed"]) {
        Answer::Failed(Failure::Timeout)
    } else {
        Answer::Failed(Failure::Unavailable)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Forbidden => "not allowed",
            Self::Timeout => "no answer in time",
            Self::Unavailable => "no usable answer",
        })
    }
}

impl Failure {
    /// What to do about it, for an object of this kind.
    pub fn remedy(self, api_version: &str, kind: &str) -> String {
        match self {
            Self::Forbidden => format!(
                "allow the policy to read it: contextAwareResources must list {api_version} {kind}, and the policy \
                 server's ServiceAccount needs \"get\" on it"
            ),
            Self::Timeout | Self::Unavailable => "try again".to_owned(),
        }
    }
}
