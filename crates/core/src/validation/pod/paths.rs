//! Paths of files and directories.

use crate::field::{FieldError, FieldPath};

/// No element of `text` is `..`.
pub(super) fn check_no_backsteps(text: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if text.split('/').any(|element| element == "..") {
        errors.push(FieldError::invalid(path, text, "must not contain '..'"));
    }
}

/// `text` is relative and stays below where it starts.
pub(super) fn check_descending(text: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if text.starts_with('/') {
        errors.push(FieldError::invalid(path, text, "must be a relative path"));
    }
    check_no_backsteps(text, path, errors);
}

/// As [`check_descending`], and `text` does not start with `..`: such names belong to the kubelet.
pub(super) fn check_not_reserved(text: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    check_descending(text, path, errors);
    if text.starts_with("..") && !text.starts_with("../") {
        errors.push(FieldError::invalid(path, text, "must not start with '..'"));
    }
}
