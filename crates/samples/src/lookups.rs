//! A cluster in memory, for rules that look objects up.

use std::cell::RefCell;
use std::collections::BTreeMap;

use pillion_kubernetes::lookup::{Answer, Lookup, ObjectRef};

/// Answers look-ups, and remembers them.
///
/// An object is named by its kind and its place: `ServiceAccount web/agent`, `Namespace web`. A look-up for which there is
/// no answer fails the test.
#[derive(Debug, Default)]
pub struct FakeObjects {
    answers: BTreeMap<String, Answer>,
    otherwise: Option<Answer>,
    asked: RefCell<Vec<String>>,
}

impl FakeObjects {
    /// Returns a cluster that must not be asked.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a cluster that gives this answer to every look-up.
    pub fn answering(answer: Answer) -> Self {
        Self::new().otherwise(answer)
    }

    /// Answers so when it is asked for this object.
    #[must_use]
    pub fn with(mut self, object: &str, answer: Answer) -> Self {
        self.answers.insert(object.to_owned(), answer);
        self
    }

    /// Answers so when it is asked for any other object.
    #[must_use]
    pub fn otherwise(mut self, answer: Answer) -> Self {
        self.otherwise = Some(answer);
        self
    }

    /// Returns what was asked since the last call, in this order.
    pub fn asked(&self) -> Vec<String> {
        self.asked.take()
    }
}

impl Lookup for FakeObjects {
    fn get(&self, object: &ObjectRef) -> Answer {
        let place = object.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let name = format!("{} {place}{}", object.kind, object.name);
        let answer = self.answers.get(&name).or(self.otherwise.as_ref()).cloned();
        let answer = answer.unwrap_or_else(|| panic!("{name} is looked up"));
        self.asked.borrow_mut().push(name);
        answer
    }
}

#[cfg(test)]
mod tests {
    use pillion_kubernetes::lookup::Failure;
    use serde_json::json;

    use super::*;

    fn account() -> ObjectRef {
        let (namespace, name) = (Some("web".to_owned()), "agent".to_owned());
        ObjectRef { api_version: "v1", kind: "ServiceAccount", namespace, name }
    }

    #[test]
    fn an_object_has_its_answer_and_others_another() {
        let namespace = ObjectRef { kind: "Namespace", namespace: None, ..account() };
        let objects =
            FakeObjects::answering(Err(Failure::Timeout)).with("ServiceAccount web/agent", Ok(Some(json!(1))));
        assert_eq!((objects.get(&account()), objects.get(&namespace)), (Ok(Some(json!(1))), Err(Failure::Timeout)));
        assert_eq!(objects.asked(), ["ServiceAccount web/agent", "Namespace agent"]);
        assert!(objects.asked().is_empty());
    }

    #[test]
    #[should_panic(expected = "ServiceAccount web/agent is looked up")]
    fn what_has_no_answer_must_not_be_asked() {
        let _ = FakeObjects::new().with("Namespace web", Ok(None)).get(&account());
    }
}
