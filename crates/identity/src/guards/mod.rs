//! Guards for requests about other objects (RUN-1 to RUN-4, docs/spec/threats.md).
//!
//! Each guard is a function of a request's objects that returns reasons to refuse and warnings. [`managed`] and
//! [`trust_anchor`] exempt the namespace controller, the garbage collector and Pillion's controller.

pub mod ephemeral;
pub mod exec;
pub mod image;
pub mod managed;
pub mod secret;
pub mod template;
pub mod token_request;
pub mod trust_anchor;

use pillion_kubernetes::authorizer::Author;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{self, Failure, Lookup};
use pillion_kubernetes::operation::Operation;
use pillion_kubernetes::outcome::Reason;
use serde_json::Value;

use super::rules::Rules;

/// The result of a guard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objections {
    /// Reasons to refuse the request.
    pub reasons: Vec<Reason>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// A CREATE, an UPDATE or a DELETE of an object that a guard protects.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The kind of the object.
    pub kind: &'a str,
    /// The operation of the request.
    pub operation: Operation,
    /// The request's namespace.
    pub namespace: &'a str,
    /// The object; null on DELETE.
    pub object: &'a Value,
    /// The stored object; null on CREATE. Take the name from here: the name of a DELETECOLLECTION request is empty.
    pub old_object: &'a Value,
    /// The user who sends the request.
    pub author: &'a Author,
}

/// Controllers of the control plane that delete objects and update their own.
const SYSTEM: [&str; 3] = [
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    // Without `--use-service-account-credentials`, all controllers use this user.
    "system:kube-controller-manager",
];

/// Whether this author may change and delete what [`managed`] and [`trust_anchor`] protect.
pub fn is_exempt(author: &Author, rules: &Rules) -> bool {
    author.user == rules.controller_user || SYSTEM.contains(&author.user.as_str())
}

/// Whether a namespace is being deleted.
///
/// # Errors
/// The namespace could not be read.
fn is_terminating(namespace: &str, lookup: &dyn Lookup) -> Result<bool, Failure> {
    // Objects of a namespace that no longer exists may be deleted.
    Ok(lookup::namespace(namespace, lookup)?
        .is_none_or(|found| json::text(&found, &["status", "phase"]) == "Terminating" || json::is_terminating(&found)))
}

/// SET-8: returns why an object must not be deleted: `refused`, unless its namespace is being deleted. Whether it is
/// has to be known.
fn goes_with_its_namespace(namespace: &str, lookup: &dyn Lookup, refused: Reason) -> Option<Reason> {
    match is_terminating(namespace, lookup) {
        Ok(true) => None,
        Ok(false) => Some(refused),
        Err(failure) => {
            let what = format!("Namespace \"{namespace}\"");
            Some(Reason::unreadable("metadata.namespace", &what, &failure, ("v1", "Namespace")))
        }
    }
}

/// Returns `metadata.name` of an object.
fn name(object: &Value) -> &str {
    json::text(object, &["metadata", "name"])
}

/// If the name of a new object starts with `prefix`, returns its field and its value: `metadata.name`, or else
/// `metadata.generateName`, from which the API server generates the name.
///
/// `prefix` must end in `-`. A generated name is `generateName`, cut to 58 bytes, and five characters without `-`. So
/// it starts with `prefix` only if `generateName` does.
fn reserved<'a>(object: &'a Value, prefix: &str) -> Option<(&'static str, &'a str)> {
    let of = |key| json::text(object, &["metadata", key]);
    let (field, name) = match of("name") {
        "" => ("metadata.generateName", of("generateName")),
        name => ("metadata.name", name),
    };
    name.starts_with(prefix).then_some((field, name))
}
