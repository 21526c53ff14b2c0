//! Paths of the downward API: `metadata.labels['app']`.

/// Splits `path['key']`. Returns `None` if there is no subscript, or nothing before it.
pub fn subscript(path: &str) -> Option<(&str, &str)> {
    let (field, key) = path.strip_suffix("']")?.split_once("['")?;
    (!field.is_empty()).then_some((field, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscripts() {
        assert_eq!(subscript("metadata.labels['a']"), Some(("metadata.labels", "a")));
        assert_eq!(subscript("a['b']['c']"), Some(("a", "b']['c")));
        for none in ["metadata.labels", "['a']", "metadata.labels['a'", "metadata.labels[a]", "']"] {
            assert_eq!(subscript(none), None, "{none}");
        }
    }
}
