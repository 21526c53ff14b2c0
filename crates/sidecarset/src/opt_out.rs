//! Whether Pods may leave a `SidecarSet` out (OPT-1).

use pillion_kubernetes::field::{FieldError, FieldPath};

use crate::sidecar_set::SidecarSet;

/// The annotation of a `SidecarSet` that says whether Pods may leave it out (OPT-1).
pub const OPT_OUT: &str = "pillion.dev/opt-out";

/// Whether Pods may leave a `SidecarSet` out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OptOut {
    /// Every Pod that the set matches gets it.
    #[default]
    Denied,
    /// A Pod or its Namespace may leave it out by name.
    Allowed,
}

/// The values with their names.
const ALL: [(&str, OptOut); 2] = [("Denied", OptOut::Denied), ("Allowed", OptOut::Allowed)];

impl OptOut {
    /// Returns what a `SidecarSet` says. Without the annotation, nothing may leave it out.
    ///
    /// # Errors
    /// The annotation has another value.
    pub fn from_sidecar_set(set: &SidecarSet) -> Result<Self, FieldError> {
        let text = set.annotation(OPT_OUT).trim();
        if text.is_empty() {
            return Ok(Self::default());
        }
        ALL.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
            let path = FieldPath::new("metadata.annotations").key(OPT_OUT).to_string();
            FieldError::not_supported(path, text, &ALL.map(|(name, _)| name))
        })
    }

    /// Whether a `SidecarSet` may be left out. An unknown value of the annotation does not allow it.
    pub fn is_allowed_by(set: &SidecarSet) -> bool {
        Self::from_sidecar_set(set) == Ok(Self::Allowed)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn set(annotation: &str) -> SidecarSet {
        SidecarSet::from_decoded(json!({"metadata": {"name": "s", "annotations": {OPT_OUT: annotation}}, "spec": {}}))
    }

    #[rstest]
    #[case("", OptOut::Denied)]
    #[case("Denied", OptOut::Denied)]
    #[case("Allowed", OptOut::Allowed)]
    #[case(" Allowed ", OptOut::Allowed)]
    fn opt1_a_sidecar_set_says_whether_it_may_be_left_out(#[case] annotation: &str, #[case] expected: OptOut) {
        assert_eq!(OptOut::from_sidecar_set(&set(annotation)), Ok(expected));
    }

    #[rstest]
    #[case("allowed")]
    #[case("true")]
    fn opt1_another_value_is_an_error(#[case] annotation: &str) {
        let error = OptOut::from_sidecar_set(&set(annotation)).unwrap_err();
        assert_eq!(error.path, "metadata.annotations[pillion.dev/opt-out]");
        assert!(error.detail.contains("\"Denied\""), "{}", error.detail);
    }
}
