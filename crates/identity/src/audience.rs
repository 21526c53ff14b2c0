//! The tokens of a sidecar's account for audiences other than the API server (AUD-1, AUD-2).

use pillion_kubernetes::field::{Cause, ERRORS_MAX, FieldError, FieldPath};
use pillion_kubernetes::text::LENGTH_MAX;
use serde_json::{Value, json};

/// The most tokens of one SidecarSet (AUD-2).
pub const TOKENS_MAX: usize = 16;
/// The lifetime of a token whose entry gives none, in seconds: the default of `serviceAccountToken` (core/v1).
pub const LIFETIME: u64 = 3600;
/// The shortest lifetime that the API server grants, in seconds (TOK-6).
pub const LIFETIME_MIN: u64 = 600;
/// The longest lifetime that the API server accepts, in seconds (core/v1: at most 2^32).
pub const LIFETIME_MAX: u64 = 1 << 32;
/// The fields of an entry of the list (AUD-1).
pub const FIELDS: [&str; 3] = ["audience", "path", "expirationSeconds"];
/// The files that the token directory has in any case (SAP-4).
pub const RESERVED: [&str; 3] = ["token", "ca.crt", "namespace"];
/// The longest name of a file: keys of a Secret have at most so many bytes.
pub const PATH_MAX: usize = 253;

/// A token for one audience, in a file of the directory that holds the sidecar's token (AUD-1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AudienceToken {
    /// The intended recipient (RFC 7519, `aud`): a service that trusts the cluster's issuer.
    pub audience: String,
    /// The name of the file. In mode `Isolate`, also the key of the Secret.
    pub path: String,
    /// The requested lifetime, in seconds.
    pub expiration_seconds: u64,
}

impl AudienceToken {
    /// Returns the entry as a SidecarSet writes it, with its lifetime.
    pub fn to_json(&self) -> Value {
        json!({"audience": self.audience, "expirationSeconds": self.expiration_seconds, "path": self.path})
    }
}

/// Reads the list of tokens at `at`. In an entry, null counts as an absent field.
///
/// # Errors
/// AUD-2: entries of the wrong shape, too many entries, audiences and names of files that are missing, invalid or there
/// twice, and lifetimes that the API server does not accept.
pub(crate) fn read(tokens: &Value, at: &FieldPath<'_>) -> Result<Vec<AudienceToken>, Vec<FieldError>> {
    let Some(list) = tokens.as_array() else {
        return Err(vec![FieldError::wrong_type(at, "a list of tokens", tokens)]);
    };
    if list.len() > TOKENS_MAX {
        let detail = format!("a SidecarSet may have at most {TOKENS_MAX} tokens; remove some");
        return Err(vec![FieldError::new(at, Cause::TooMany, detail)]);
    }
    let mut errors = Vec::new();
    let tokens: Vec<AudienceToken> =
        list.iter().enumerate().map(|(index, token)| read_one(token, &at.index(index), &mut errors)).collect();
    for (index, token) in tokens.iter().enumerate() {
        let at = at.index(index);
        let before = || tokens.iter().take(index);
        if !token.audience.is_empty() && before().any(|other| other.audience == token.audience) {
            errors.push(FieldError::duplicate(at.child("audience"), &token.audience));
        }
        if !token.path.is_empty() && before().any(|other| is_same_file(&other.path, &token.path)) {
            errors.push(FieldError::duplicate(at.child("path"), &token.path));
        }
    }
    if errors.is_empty() { Ok(tokens) } else { Err(errors) }
}

fn read_one(token: &Value, at: &FieldPath<'_>, errors: &mut Vec<FieldError>) -> AudienceToken {
    let mut read = AudienceToken { audience: String::new(), path: String::new(), expiration_seconds: LIFETIME };
    let Some(fields) = token.as_object() else {
        errors.push(FieldError::wrong_type(at, "an object with audience and path", token));
        return read;
    };
    let count = errors.len();
    for (field, value) in fields.iter().filter(|(_, value)| !value.is_null()).take(ERRORS_MAX) {
        let at = at.child(field);
        match (field.as_str(), value) {
            ("audience", Value::String(text)) => read.audience.clone_from(text),
            ("path", Value::String(text)) => read.path.clone_from(text),
            ("audience" | "path", _) => errors.push(FieldError::wrong_type(at, "a string", value)),
            ("expirationSeconds", _) => match value.as_u64() {
                Some(seconds) if (LIFETIME_MIN..=LIFETIME_MAX).contains(&seconds) => read.expiration_seconds = seconds,
                _ => {
                    let detail = format!("give whole seconds, from {LIFETIME_MIN} to {LIFETIME_MAX}");
                    errors.push(FieldError::invalid(at, value.to_string(), detail));
                }
            },
            _ => errors.push(FieldError::new(at, Cause::Unknown, "a token has audience, path and expirationSeconds")),
        }
    }
    if errors.len() == count {
        errors.extend(audience_error(&read.audience, &at.child("audience")));
        errors.extend(path_error(&read.path, &at.child("path")));
    }
    read
}

fn audience_error(audience: &str, at: &FieldPath<'_>) -> Option<FieldError> {
    if audience.is_empty() {
        let detail = "name the service that accepts the token; the token for the API server is in the file \"token\"";
        return Some(FieldError::required(at, detail));
    }
    if audience.len() > LENGTH_MAX {
        return Some(FieldError::too_long(at, LENGTH_MAX));
    }
    let is_plain = audience.bytes().all(|byte| byte.is_ascii_graphic());
    (!is_plain).then(|| FieldError::invalid(at, audience, "use printable ASCII characters without spaces"))
}

/// Whether two names are those of one file. On nodes with Windows, case does not matter.
fn is_same_file(name: &str, other: &str) -> bool {
    name.eq_ignore_ascii_case(other)
}

/// AUD-2: the file must be in the token directory, and its name must be a valid key of a Secret (core/v1).
fn path_error(path: &str, at: &FieldPath<'_>) -> Option<FieldError> {
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let detail = if path.is_empty() {
        return Some(FieldError::required(at, "name the file that holds the token"));
    } else if path.len() > PATH_MAX {
        return Some(FieldError::too_long(at, PATH_MAX));
    } else if !path.bytes().all(is_key) || path == "." || path.starts_with("..") {
        "must be the name of a file in the token directory: letters, digits, \"-\", \"_\" and \".\", without folders"
    } else if RESERVED.iter().any(|name| is_same_file(name, path)) {
        "is the name of a file that the token directory has already; choose another name"
    } else {
        return None;
    };
    Some(FieldError::invalid(at, path, detail))
}

#[cfg(test)]
mod tests;
