//! Paths of files and directories.

use crate::field::{FieldError, Place, Report};

/// No element of `text` is `..`.
pub(super) fn check_no_backsteps(text: &str, place: &Place<'_>, errors: &mut Vec<FieldError>) {
    if text.split('/').any(|element| element == "..") {
        errors.invalid(place, text, "must not contain '..'");
    }
}

/// `text` is relative and stays below where it starts.
#[inline(never)]
pub(super) fn check_descending(text: &str, place: &Place<'_>, errors: &mut Vec<FieldError>) {
    if text.starts_with('/') {
        errors.invalid(place, text, "must be a relative path");
    }
    check_no_backsteps(text, place, errors);
}

/// As [`check_descending`], and `text` does not start with `..`: such names belong to the kubelet.
#[inline(never)]
pub(super) fn check_not_reserved(text: &str, place: &Place<'_>, errors: &mut Vec<FieldError>) {
    check_descending(text, place, errors);
    if text.starts_with("..") && !text.starts_with("../") {
        errors.invalid(place, text, "must not start with '..'");
    }
}
