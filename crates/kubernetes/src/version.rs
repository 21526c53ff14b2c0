//! Versions of Kubernetes.

use std::fmt;

/// A minor version of Kubernetes 1: 34 is 1.34.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KubernetesVersion(pub u32);

impl KubernetesVersion {
    /// Reads `major` and `minor` of what an API server says of itself (`GET /version`). `None` if it is no version 1.
    /// Providers write more behind the number, as in `34+`.
    pub fn new(major: &str, minor: &str) -> Option<Self> {
        if major != "1" {
            return None;
        }
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

    use super::*;

    #[rstest]
    #[case::released("1", "34", Some("1.34"))]
    #[case::of_a_provider("1", "33+", Some("1.33"))]
    #[case::another_major("2", "1", None)]
    #[case::without_a_number("1", "+", None)]
    #[case::nothing("", "", None)]
    #[case::both_in_one("1.34", "", None)]
    fn the_answer_of_an_api_server_is_read(#[case] major: &str, #[case] minor: &str, #[case] expected: Option<&str>) {
        let version = KubernetesVersion::new(major, minor).map(|version| version.to_string());
        assert_eq!(version.as_deref(), expected);
    }
}
