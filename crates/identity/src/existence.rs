//! Whether a ServiceAccount is there (`serviceaccounts.md` V3, A1-11).

use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{Lookup, ObjectRef};
use serde_json::Value;

/// What the cluster says about an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Existence {
    /// It is there.
    There {
        /// `automountServiceAccountToken`, which is true where it is not said.
        automount: bool,
    },
    /// It is not, or is on its way out: why.
    Missing(String),
    /// Nobody knows: why, and what to do.
    Unknown(String, String),
}

/// The question for an account.
pub fn account(name: &str, namespace: &str) -> ObjectRef {
    ObjectRef {
        api_version: "v1",
        kind: "ServiceAccount",
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    }
}

/// Asks whether an account is there. One that is being deleted counts as missing, since its tokens stop working;
/// "could not ask" does not.
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
