//! What other requests may not do (`serviceaccounts.md` C4, E).
//!
//! Each guard is a function of a request's objects that answers reasons to refuse and warnings. None of them stands in
//! the way of the namespace controller, the garbage collector or Pillion's controller.

pub mod ephemeral;
pub mod managed;
pub mod secret;
pub mod template;

use pillion_kubernetes::authorizer::Author;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{Failure, Lookup, ObjectRef};
use pillion_kubernetes::outcome::Reason;
use serde_json::Value;

use super::rules::Rules;

/// What a guard says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Why the request is refused.
    pub reasons: Vec<Reason>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Controllers of the control plane that delete what has to go, and write what belongs to them.
const SYSTEM: [&str; 3] = [
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    // Without `--use-service-account-credentials`, all of them are this one.
    "system:kube-controller-manager",
];

/// Whether nobody stands in this author's way.
pub fn is_exempt(author: &Author, rules: &Rules) -> bool {
    author.user == rules.controller_user || SYSTEM.contains(&author.user.as_str())
}

/// Whether a namespace is on its way out; one that cannot be read is not known to be.
fn is_terminating(namespace: &str, lookup: &dyn Lookup) -> Result<bool, Failure> {
    let object = ObjectRef { api_version: "v1", kind: "Namespace", namespace: None, name: namespace.to_owned() };
    // Objects of a namespace that is gone may go.
    Ok(lookup
        .get(&object)?
        .is_none_or(|found| json::text(&found, &["status", "phase"]) == "Terminating" || json::is_terminating(&found)))
}

/// `metadata.name` of an object.
fn name(object: &Value) -> &str {
    json::text(object, &["metadata", "name"])
}

/// The name of a new object, or the prefix of the name that the API server will generate, where it starts with
/// `prefix`; and the field in which it is.
///
/// A generated name is the prefix, cut to 58 bytes, and five characters without `-`, so that it starts with a prefix
/// that ends in `-` only where `generateName` does.
fn reserved<'a>(object: &'a Value, prefix: &str) -> Option<(&'static str, &'a str)> {
    let of = |key| json::text(object, &["metadata", key]);
    let (field, name) = match of("name") {
        "" => ("metadata.generateName", of("generateName")),
        name => ("metadata.name", name),
    };
    name.starts_with(prefix).then_some((field, name))
}
