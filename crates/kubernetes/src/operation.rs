//! The operations of the API server on objects.

use std::str::FromStr;

use crate::field::FieldError;

/// An operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Creates the object.
    Create,
    /// Changes the object.
    Update,
    /// Deletes the object.
    Delete,
    /// Opens a connection to the object (`exec`, `attach`, `proxy`, ...).
    Connect,
}

impl Operation {
    /// The names that the API server uses.
    const NAMES: [&'static str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];
}

impl FromStr for Operation {
    type Err = FieldError;

    fn from_str(name: &str) -> Result<Self, FieldError> {
        match name {
            "CREATE" => Ok(Self::Create),
            "UPDATE" => Ok(Self::Update),
            "DELETE" => Ok(Self::Delete),
            "CONNECT" => Ok(Self::Connect),
            _ => Err(FieldError::not_supported("request.operation", name, &Self::NAMES)),
        }
    }
}
