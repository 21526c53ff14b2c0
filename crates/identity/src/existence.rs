//! Whether a ServiceAccount exists (IDV-3, SAP-11).

use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{Lookup, ObjectRef};
use serde_json::Value;

/// Whether an account exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Existence {
    /// The account exists.
    There {
        /// `automountServiceAccountToken`; true if the account does not set it.
        automount: bool,
    },
    /// The account does not exist or is being deleted. Holds the message.
    Missing(String),
    /// The account could not be read. Holds the message and the remedy.
    Unknown(String, String),
}

/// Returns the reference of an account, for a lookup.
pub fn account(name: &str, namespace: &str) -> ObjectRef {
    ObjectRef {
        api_version: "v1",
        kind: "ServiceAccount",
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    }
}

/// Looks up whether an account exists. An account that is being deleted counts as missing, since its tokens stop
/// working. A failed lookup does not count as missing.
pub fn exists(name: &str, namespace: &str, lookup: &dyn Lookup) -> Existence {
    let called = |what| format!("ServiceAccount \"{name}\" {what} namespace \"{namespace}\"");
    match lookup.get(&account(name, namespace)) {
        Ok(Some(object)) if json::is_terminating(&object) => Existence::Missing(called("is being deleted in")),
        Ok(Some(object)) => {
            let automount = json::at(&object, &["automountServiceAccountToken"]);
            Existence::There { automount: automount.and_then(Value::as_bool).unwrap_or(true) }
        }
        Ok(None) => Existence::Missing(called("does not exist in")),
        Err(failure) => Existence::Unknown(
            format!("{}: {failure}", called("could not be read in")),
            failure.remedy("v1", "ServiceAccount"),
        ),
    }
}

#[cfg(test)]
mod tests;
