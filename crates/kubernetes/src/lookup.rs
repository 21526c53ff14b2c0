//! Lookups of objects in the cluster.
//!
//! The host answers one lookup at a time. Each object is looked up at most once per request ([`Memo`]), and only when a
//! rule needs it. "Not found" and "no answer" are different: the first is a fact, the second means try again.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::json;

/// A reference to one object of the cluster.
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

/// The reason why a lookup has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Failure {
    /// The host may not read this object: because of RBAC, or of the policy's `contextAwareResources` or
    /// `hostCapabilities`.
    #[error("not allowed")]
    Forbidden,
    /// The API server did not answer in time.
    #[error("no answer in time")]
    Timeout,
    /// Anything else: no connection, an error of the API server, an answer that is not an object.
    #[error("no usable answer")]
    Unavailable,
}

/// The answer to a lookup: the object, or `None` if the API server says that it does not exist.
pub type Answer = Result<Option<Value>, Failure>;

/// A source of objects.
pub trait Lookup {
    /// Reads one object.
    ///
    /// # Errors
    /// [`Failure`]: whether the object exists is unknown.
    fn get(&self, object: &ObjectRef) -> Answer;

    /// Reads one object. The answer may be some seconds old, if the source has a cache.
    ///
    /// # Errors
    /// As [`Lookup::get`].
    fn get_cached(&self, object: &ObjectRef) -> Answer {
        self.get(object)
    }
}

/// A cluster without objects.
pub struct NoObjects;

impl Lookup for NoObjects {
    fn get(&self, _: &ObjectRef) -> Answer {
        Ok(None)
    }
}

/// A cluster in which every object is this one: for rules that look up a Namespace alone.
pub struct OneObject<'a>(pub &'a Value);

impl Lookup for OneObject<'_> {
    fn get(&self, _: &ObjectRef) -> Answer {
        Ok(Some(self.0.clone()))
    }
}

/// A cache that looks up each object once.
pub struct Memo<'a> {
    inner: &'a dyn Lookup,
    answers: RefCell<BTreeMap<ObjectRef, Answer>>,
}

impl<'a> Memo<'a> {
    /// Creates an empty cache of the answers of `inner`.
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

    /// Is not remembered: who may read an old object may want to read it again.
    fn get_cached(&self, object: &ObjectRef) -> Answer {
        self.inner.get_cached(object)
    }
}

/// Returns a Namespace, or `None` if it does not exist.
///
/// # Errors
/// The Namespace could not be read.
pub fn namespace(name: &str, lookup: &dyn Lookup) -> Answer {
    let object = ObjectRef { api_version: "v1", kind: "Namespace", namespace: None, name: name.to_owned() };
    let found = lookup.get(&object)?;
    // An answer with another name is not this Namespace.
    if found.as_ref().is_some_and(|found| json::text(found, &["metadata", "name"]) != name) {
        return Err(Failure::Unavailable);
    }
    Ok(found)
}

/// Classifies the text of a host's error: the policy server reports every error as a string.
///
/// Searches for substrings, because the text carries prefixes. With backtraces enabled it also carries a stack trace,
/// which is cut off first. "Not found" must name the object: a kind that the API server does not serve, or a 404 for
/// anything but the object, says nothing about the object. Users never see the text itself.
pub fn classify(error: &str) -> Answer {
    let message = error.split_once("Stack backtrace").map_or(error, |(before, _)| before).to_ascii_lowercase();
    let says = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    if says(&["cannot find "]) && says(&[" named '"]) {
        Ok(None)
    } else if says(&["forbidden", "not been granted access", "unauthorized", "code: 401", "code: 403"]) {
        Err(Failure::Forbidden)
    } else if says(&["timeout", "timed out", "deadline", "elapsed"]) {
        Err(Failure::Timeout)
    } else {
        Err(Failure::Unavailable)
    }
}

impl Failure {
    /// Returns what the user can do about the failure, for an object of this kind.
    pub fn remedy(self, api_version: &str, kind: &str) -> String {
        match self {
            Self::Forbidden => format!(
                "allow the policy to read it: its server's ServiceAccount needs \"get\" on it, and under Kubewarden \
                 contextAwareResources must list {api_version} {kind} and hostCapabilities kubernetes/get_resource"
            ),
            Self::Timeout | Self::Unavailable => "try again".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const FORBIDDEN: Answer = Err(Failure::Forbidden);
    const TIMEOUT: Answer = Err(Failure::Timeout);
    const UNAVAILABLE: Answer = Err(Failure::Unavailable);

    #[rstest]
    #[case::absent_namespace(
        "Host error: Callback evaluation failure: Cannot find v1/Namespace named 'x' inside of namespace 'None'",
        Ok(None)
    )]
    #[case::absent_config_map(
        "Host error: Callback evaluation failure: Cannot find v1/ConfigMap named 'c' inside of namespace 'Some(\"n\")'",
        Ok(None)
    )]
    #[case::replayed("Cannot find v1/Namespace named 'test' inside of namespace 'None'", Ok(None))]
    #[case::absent_with_a_trace_that_names_a_timeout(
        "Cannot find v1/Namespace named 'x' inside of namespace 'None'\n\nStack backtrace:\n   0: tokio::time::timeout",
        Ok(None)
    )]
    #[case::named_like_an_error(
        "Cannot find v1/Namespace named 'forbidden-timeout-403' inside of namespace 'None'",
        Ok(None)
    )]
    #[case::rbac(
        "Host error: Callback evaluation failure: ApiError: namespaces \"x\" is forbidden: User \
         \"system:serviceaccount:kubewarden:policy-server\" cannot get resource \"namespaces\" in API group \"\" in \
         the namespace \"x\": Forbidden (ErrorResponse { status: \"Failure\", reason: \"Forbidden\", code: 403 })",
        FORBIDDEN
    )]
    #[case::expired_token("ApiError: Unauthorized: Unauthorized (ErrorResponse { code: 401 })", FORBIDDEN)]
    #[case::not_in_context_aware_resources(
        "Host error: Policy has not been granted access to Kubernetes v1/Namespace resources. The violation has been reported.",
        FORBIDDEN
    )]
    #[case::not_in_host_capabilities(
        "Host error: Policy has not been granted access to the 'kubernetes/get_resource' host capability. The violation has been reported.",
        FORBIDDEN
    )]
    #[case::slow("Callback evaluation failure: ServiceError: client error (Connect): deadline has elapsed", TIMEOUT)]
    #[case::slow_connection("HyperError: operation timed out", TIMEOUT)]
    #[case::kind_not_served(
        "Callback evaluation failure: Cannot find resource apps/v1/ControllerRevision",
        UNAVAILABLE
    )]
    #[case::group_not_served(
        "Callback evaluation failure: error finding resource apps/v1 / ControllerRevision: ApiError: the server could \
         not find the requested resource: NotFound (ErrorResponse { code: 404 })",
        UNAVAILABLE
    )]
    #[case::no_client("Callback evaluation failure: kube::Client was not initialized properly", UNAVAILABLE)]
    #[case::no_channel("Cannot process Wasm guest request: callback channel not provided", UNAVAILABLE)]
    #[case::full_channel("Error sending request over callback channel: Full(..)", UNAVAILABLE)]
    #[case::refused_connection(
        "client error (Connect): tcp connect error: Connection refused (os error 111)",
        UNAVAILABLE
    )]
    #[case::trace_only("boom\n\nStack backtrace:\n  0: Cannot find named ' forbidden timeout", UNAVAILABLE)]
    #[case::empty("", UNAVAILABLE)]
    fn look2_match6_host_errors_are_told_apart(#[case] error: &str, #[case] answer: Answer) {
        assert_eq!(classify(error), answer);
    }

    /// Counts the lookups.
    struct Counting(Cell<u32>);

    impl Lookup for Counting {
        fn get(&self, object: &ObjectRef) -> Answer {
            self.0.set(self.0.get() + 1);
            Ok(Some(json!({ "kind": object.kind })))
        }
    }

    #[test]
    fn each_question_is_asked_once() {
        let cluster = Counting(Cell::new(0));
        let memo = Memo::new(&cluster);
        let object =
            |name: &str| ObjectRef { api_version: "v1", kind: "Namespace", namespace: None, name: name.to_owned() };
        assert_eq!(memo.get(&object("a")), memo.get(&object("a")));
        assert_eq!(cluster.0.get(), 1);
        assert!(memo.get(&object("b")).is_ok());
        assert_eq!(cluster.0.get(), 2);
    }
}
