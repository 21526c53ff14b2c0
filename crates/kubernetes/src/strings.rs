//! Text functions that take fewer bytes of the module than those of the standard library, and functions for parts of
//! field paths.

/// Joins the texts with `separator`.
pub fn joined(texts: &[&str], separator: &str) -> String {
    let mut joined = String::new();
    for (index, text) in texts.iter().enumerate() {
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    joined
}

/// Whether `text` contains `byte`, which is ASCII. (The standard library's function includes a search for any text.)
pub fn has(text: &str, byte: u8) -> bool {
    text.as_bytes().contains(&byte)
}

/// Splits `text` at the first `mark`.
///
/// For marks of several characters in short texts: the standard library's search would add three kilobytes to the
/// module.
pub fn cut<'t>(text: &'t str, mark: &str) -> Option<(&'t str, &'t str)> {
    let place = text.as_bytes().windows(mark.len()).position(|window| window == mark.as_bytes())?;
    Some((text.get(..place)?, text.get(place + mark.len()..)?))
}

/// Splits `path['key']`. Returns `None` if there is no subscript, or nothing before it.
pub fn subscript(path: &str) -> Option<(&str, &str)> {
    let (field, key) = cut(path.strip_suffix("']")?, "['")?;
    (!field.is_empty()).then_some((field, key))
}

/// Whether the text is a percentage: digits and `%`.
pub fn is_percent(text: &str) -> bool {
    text.strip_suffix('%').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_the_first_mark() {
        assert_eq!(cut("a--b--c", "--"), Some(("a", "b--c")));
        assert_eq!(cut("é--", "--"), Some(("é", "")));
        assert_eq!(cut("---", "--"), Some(("", "-")));
        for none in ["", "-", "a-b-"] {
            assert_eq!(cut(none, "--"), None, "{none}");
        }
    }

    #[test]
    fn subscripts() {
        assert_eq!(subscript("metadata.labels['a']"), Some(("metadata.labels", "a")));
        assert_eq!(subscript("a['b']['c']"), Some(("a", "b']['c")));
        for none in ["metadata.labels", "['a']", "metadata.labels['a'", "metadata.labels[a]", "']"] {
            assert_eq!(subscript(none), None, "{none}");
        }
    }

    #[test]
    fn percentages() {
        assert!(is_percent("0%") && is_percent("150%"));
        assert!(!is_percent("%") && !is_percent("1.5%") && !is_percent("-1%") && !is_percent("10"));
    }
}
