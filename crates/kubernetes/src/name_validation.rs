//! Formats of names, keys and values that Kubernetes checks everywhere.
//!
//! Each function returns `None` if the text is well formed, else the problem. Sources: RFC 1123, RFC 1035 and
//! Kubernetes' `apimachinery/pkg/util/validation`.

/// The longest DNS label, in bytes.
pub(crate) const DNS_LABEL_MAX: usize = 63;
/// The longest DNS subdomain, in bytes.
pub(crate) const DNS_SUBDOMAIN_MAX: usize = 253;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const QUALIFIED: &str = "must be a name of alphanumeric characters, '-', '_' or '.', starting and ending with an alphanumeric character, with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_TOO_LONG: &str = "must be no more than 63 bytes";
const SUBDOMAIN_TOO_LONG: &str = "must be no more than 253 bytes";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
const VARIABLE: &str = "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit";
const BACKSTEP: &str = "must not be '.' or start with '..'";

fn lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(lower_alphanumeric)
        && bytes.last().copied().is_some_and(lower_alphanumeric)
        && bytes.iter().all(|byte| lower_alphanumeric(*byte) || *byte == b'-')
}

/// Whether the text has only letters, digits, `-`, `_` and `.`.
fn has_name_characters(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// Whether the text also is not empty and starts and ends with an alphanumeric character.
fn is_name_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && has_name_characters(text)
}

/// Checks an RFC 1123 label: at most 63 bytes.
pub fn dns_label(text: &str) -> Option<&'static str> {
    if text.len() > DNS_LABEL_MAX {
        return Some(LABEL_TOO_LONG);
    }
    (!is_label(text)).then_some(LABEL)
}

/// Checks an RFC 1123 subdomain: labels joined by dots, at most 253 bytes in all.
pub fn dns_subdomain(text: &str) -> Option<&'static str> {
    if text.len() > DNS_SUBDOMAIN_MAX {
        return Some(SUBDOMAIN_TOO_LONG);
    }
    (!text.split('.').all(is_label)).then_some(SUBDOMAIN)
}

/// Checks the key of a label or an annotation: `name` or `prefix/name`, the name at most 63 bytes.
pub fn qualified_name(text: &str) -> Option<&'static str> {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    if name.len() > DNS_LABEL_MAX {
        return Some("the name must be no more than 63 bytes");
    }
    (!is_name_part(name) || prefix.is_some_and(|prefix| dns_subdomain(prefix).is_some())).then_some(QUALIFIED)
}

/// Checks the value of a label: empty, or at most 63 bytes.
pub fn label_value(text: &str) -> Option<&'static str> {
    if text.len() > DNS_LABEL_MAX {
        return Some(LABEL_TOO_LONG);
    }
    (!text.is_empty() && !is_name_part(text)).then_some(VALUE)
}

/// Checks a key in a ConfigMap or a Secret: at most 253 bytes.
pub(crate) fn config_key(text: &str) -> Option<&'static str> {
    if text.len() > DNS_SUBDOMAIN_MAX {
        return Some(SUBDOMAIN_TOO_LONG);
    }
    if text.is_empty() || !has_name_characters(text) {
        return Some(CONFIG_KEY);
    }
    backstep(text)
}

/// Checks the name of an environment variable by Kubernetes' strict rule: letters, digits, `_`, `-` and `.`, not
/// starting with a digit.
pub fn env_var_name(text: &str) -> Option<&'static str> {
    if text.bytes().next().is_none_or(|byte| byte.is_ascii_digit()) || !has_name_characters(text) {
        return Some(VARIABLE);
    }
    backstep(text)
}

/// Refuses `.` and texts that start with `..`: a file of that name could be in another directory.
fn backstep(text: &str) -> Option<&'static str> {
    (text == "." || text.starts_with("..")).then_some(BACKSTEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_labels() {
        for fine in ["a", "a-b", "0", "x9-0"] {
            assert_eq!(dns_label(fine), None, "{fine}");
        }
        for wrong in ["", "-a", "a-", "A", "a.b", "a_b", "é", &"a".repeat(64)] {
            assert!(dns_label(wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn dns_subdomains() {
        for fine in ["a", "a.b", "a-b.c0"] {
            assert_eq!(dns_subdomain(fine), None, "{fine}");
        }
        for wrong in ["", ".", "a.", "a..b", "A.b", &"a".repeat(254)] {
            assert!(dns_subdomain(wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn qualified_names() {
        for fine in ["a", "A_b.c", "example.com/Name", "x/y"] {
            assert_eq!(qualified_name(fine), None, "{fine}");
        }
        for wrong in ["", "/a", "a/", "a/b/c", "bad key!", "Ex/a", "-a", &"a".repeat(64)] {
            assert!(qualified_name(wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn label_values_config_keys_and_variables() {
        assert_eq!(label_value(""), None);
        assert!(label_value("a/b").is_some());
        assert_eq!(config_key("a.b_c-D"), None);
        assert!(config_key("..a").is_some() && config_key("").is_some() && config_key("a/b").is_some());
        assert_eq!(env_var_name("A.b-C_9"), None);
        assert!(env_var_name("9A").is_some() && env_var_name("A=").is_some() && env_var_name("").is_some());
    }
}
