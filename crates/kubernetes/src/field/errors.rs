//! The collector of field errors.

use std::fmt;

use serde_json::Value;

use super::error::FieldError;
use super::path::FieldPath;

/// The maximum number of errors reported for one kind of object. More errors add no information, and each error is
/// longer than its cause (E18).
pub const ERRORS_MAX: usize = 1_000;

/// A list of at most [`ERRORS_MAX`] errors. The methods are named after the constructors of [`FieldError`], which
/// describe them. A full list does not call the constructors.
pub trait FieldErrors {
    /// Adds an error. Creates it only if the list is not full.
    fn add(&mut self, error: impl FnOnce() -> FieldError);

    /// Whether the list is full.
    fn is_full(&self) -> bool;

    /// Adds [`FieldError::required`].
    fn required(&mut self, path: &FieldPath<'_>, detail: &str) {
        self.add(|| FieldError::required(path, detail));
    }

    /// Adds [`FieldError::forbidden`].
    fn forbidden(&mut self, path: &FieldPath<'_>, detail: &str) {
        self.add(|| FieldError::forbidden(path, detail));
    }

    /// Adds [`FieldError::too_long`]. The limit is in bytes.
    fn too_long(&mut self, path: &FieldPath<'_>, limit: usize) {
        self.add(|| FieldError::too_long(path, limit));
    }

    /// Adds [`FieldError::invalid`].
    fn invalid(&mut self, path: &FieldPath<'_>, value: impl fmt::Display, detail: &str) {
        self.add(|| FieldError::invalid(path, value, detail));
    }

    /// Adds [`FieldError::duplicate`].
    fn duplicate(&mut self, path: &FieldPath<'_>, value: &str) {
        self.add(|| FieldError::duplicate(path, value));
    }

    /// Adds [`FieldError::not_found`].
    fn not_found(&mut self, path: &FieldPath<'_>, value: &str, detail: &str) {
        self.add(|| FieldError::not_found(path, value, detail));
    }

    /// Adds [`FieldError::not_supported`].
    fn not_supported(&mut self, path: &FieldPath<'_>, value: &str, supported: &[&str]) {
        self.add(|| FieldError::not_supported(path, value, supported));
    }

    /// Adds [`FieldError::wrong_type`].
    fn wrong_type(&mut self, path: &FieldPath<'_>, wanted: &str, found: &Value) {
        self.add(|| FieldError::wrong_type(path, wanted, found));
    }

    /// Adds [`FieldError::invalid`] if `wrong` names a problem of `value`.
    fn wrong(&mut self, path: &FieldPath<'_>, value: &str, wrong: Option<&str>) {
        if let Some(detail) = wrong {
            self.invalid(path, value, detail);
        }
    }
}

impl FieldErrors for Vec<FieldError> {
    fn add(&mut self, error: impl FnOnce() -> FieldError) {
        if !self.is_full() {
            self.push(error());
        }
    }

    fn is_full(&self) -> bool {
        self.len() >= ERRORS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e18_a_list_of_errors_has_a_limit_and_makes_no_error_beyond_it() {
        let mut errors = Vec::new();
        for _ in 0..ERRORS_MAX {
            errors.required(&FieldPath::new("name"), "");
        }
        assert!(errors.is_full());
        let mut made = 0;
        errors.add(|| {
            made += 1;
            FieldError::required("name", "")
        });
        assert_eq!((errors.len(), made), (ERRORS_MAX, 0));
    }
}
