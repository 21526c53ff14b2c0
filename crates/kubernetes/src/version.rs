//! Versions of Kubernetes.

use std::fmt;

use serde_json::Value;

use crate::json;

/// A minor version of Kubernetes 1: 34 is 1.34.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KubernetesVersion(pub u32);

impl KubernetesVersion {
    /// Reads the answer of an API server to `GET /version`. `None` if it is no version 1. Providers write more behind the
    /// number, as in `34+`.
    pub fn from_answer(answer: &Value) -> Option<Self> {
        if json::text(answer, &["major"]) != "1" {
            return None;
        }
        let minor = json::text(answer, &["minor"]);
        let digits = minor.find(|character: char| !character.is_ascii_digit()).unwrap_or(minor.len());
        minor.get(..digits)?.parse().ok().map(Self)
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::released(json!({"major": "1", "minor": "34", "gitVersion": "v1.34.2"}), Some("1.34"))]
    #[case::of_a_provider(json!({"major": "1", "minor": "33+", "gitVersion": "v1.33.5-gke.1080000"}), Some("1.33"))]
    #[case::another_major(json!({"major": "2", "minor": "1"}), None)]
    #[case::without_a_number(json!({"major": "1", "minor": "+"}), None)]
    #[case::nothing(json!({}), None)]
    #[case::another_shape(json!(["1", "34"]), None)]
    fn the_answer_of_an_api_server_is_read(#[case] answer: Value, #[case] expected: Option<&str>) {
        let version = KubernetesVersion::from_answer(&answer).map(|version| version.to_string());
        assert_eq!(version.as_deref(), expected);
    }
}
