//! Locations of modules.

use std::path::PathBuf;

use anyhow::{anyhow, bail};

/// Returns the path of a module, given a name in kwctl's syntax.
///
/// # Errors
/// If the name is not a file: `pillion run` pulls nothing.
pub(super) fn path(name: &str) -> anyhow::Result<PathBuf> {
    if let Some(path) = name.strip_prefix("file://") {
        let path = path.strip_prefix("localhost").unwrap_or(path);
        if !path.starts_with('/') {
            bail!("{name}: a file:// URL has three slashes and an absolute path");
        }
        return decoded(path).ok_or_else(|| anyhow!("{name}: not the URL of a file"));
    }
    let scheme = name.split_once("://").map(|(scheme, _)| scheme);
    if scheme.is_some_and(|scheme| !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
    {
        bail!(
            "{name}: nothing is pulled here; save the module to a file first: `kwctl pull --output-path policy.wasm \
             {name}`"
        );
    }
    let path = PathBuf::from(name);
    if path.exists() { Ok(path) } else { bail!("Cannot find policy with uri: {name}: there is no such file") }
}

/// Returns the path of a URL with its percent-encoding decoded.
fn decoded(path: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = if *byte == b'%' {
            let (digits, after) = after.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            after
        } else {
            bytes.push(*byte);
            after
        };
    }
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::url("file:///a/b.wasm", "/a/b.wasm")]
    #[case::escaped("file:///a%20b/%C3%A4.wasm", "/a b/ä.wasm")]
    #[case::host("file://localhost/a.wasm", "/a.wasm")]
    #[case::relative("Cargo.toml", "Cargo.toml")]
    fn files_are_found(#[case] name: &str, #[case] expected: &str) {
        assert_eq!(path(name).unwrap(), PathBuf::from(expected));
    }

    #[rstest]
    #[case::registry(
        "registry://registry.example.com/pillion:v0.1.0",
        "nothing is pulled here; save the module to a file first: `kwctl pull --output-path policy.wasm \
         registry://registry.example.com/pillion:v0.1.0`"
    )]
    #[case::https("https://example.com/policy.wasm", "nothing is pulled here")]
    #[case::missing("no/such.wasm", "Cannot find policy with uri: no/such.wasm: there is no such file")]
    #[case::relative_url("file://a/b.wasm", "three slashes")]
    #[case::cut_off("file:///a%2", "not the URL of a file")]
    #[case::no_digits("file:///a%zz", "not the URL of a file")]
    #[case::no_utf8("file:///a%ff", "not the URL of a file")]
    fn what_is_no_file_is_refused_with_a_way_out(#[case] name: &str, #[case] expected: &str) {
        let message = path(name).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}
