//! Paths of files and directories: what is wrong with them, if anything.

/// No element of `path` is `..`.
pub(super) fn without_backsteps(path: &str) -> Option<&'static str> {
    path.split('/').any(|element| element == "..").then_some("must not contain '..'")
}

/// `path` is relative and stays below where it starts.
pub(super) fn descending(path: &str) -> Option<&'static str> {
    if path.starts_with('/') { Some("must be a relative path") } else { without_backsteps(path) }
}

/// As [`descending`], and `path` does not start with `..`: such names belong to the kubelet.
pub(super) fn not_reserved(path: &str) -> Option<&'static str> {
    let is_reserved = path.starts_with("..") && !path.starts_with("../");
    descending(path).or(is_reserved.then_some("must not start with '..'"))
}
