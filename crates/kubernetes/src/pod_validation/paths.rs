//! Checks of file and directory paths. Each returns the problem, if there is one.

/// Checks that no element of `path` is `..`.
pub(super) fn without_backsteps(path: &str) -> Option<&'static str> {
    path.split('/').any(|element| element == "..").then_some("must not contain '..'")
}

/// Checks that `path` is relative and stays below its starting directory.
pub(super) fn descending(path: &str) -> Option<&'static str> {
    if path.starts_with('/') { Some("must be a relative path") } else { without_backsteps(path) }
}

/// Checks like [`descending`], and that `path` does not start with `..`: such names are reserved for the kubelet.
pub(super) fn not_reserved(path: &str) -> Option<&'static str> {
    let is_reserved = path.starts_with("..") && !path.starts_with("../");
    descending(path).or(is_reserved.then_some("must not start with '..'"))
}
