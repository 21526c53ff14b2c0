//! JSON pointers (RFC 6901).

/// Escapes a key for a JSON pointer.
pub fn token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
