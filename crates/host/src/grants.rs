//! Host capabilities and kinds of objects that a policy may use.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Every host capability that Kubewarden's hosts know, as `namespace/operation` of the call. Logging needs no
/// capability.
const KNOWN: [&str; 11] = [
    "crypto/v1/is_certificate_trusted",
    "kubernetes/can_i",
    "kubernetes/get_resource",
    "kubernetes/list_resources_all",
    "kubernetes/list_resources_by_namespace",
    "net/v1/dns_lookup_host",
    "oci/v1/manifest_digest",
    "oci/v1/oci_manifest",
    "oci/v1/oci_manifest_config",
    "oci/v1/verify",
    "oci/v2/verify",
];

/// Returns the host capabilities that Kubewarden's hosts know, sorted.
pub fn known_capabilities() -> &'static [&'static str] {
    &KNOWN
}

/// A kind of object that a policy may read, an entry of `contextAwareResources`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextAwareResource {
    /// `v1`, `apps/v1`, ...
    pub api_version: String,
    /// `Namespace`, `ConfigMap`, ...
    pub kind: String,
}

/// The host capabilities that one entry of `hostCapabilities` allows: `*`, a prefix (`oci/*`, `oci/v1/*`) or one
/// capability (`kubernetes/can_i`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CapabilityPattern {
    /// All capabilities.
    All,
    /// The capabilities that start with this prefix, which ends in a slash.
    Under(String),
    /// This capability.
    One(String),
}

/// Why an entry of `hostCapabilities` is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The entry is empty.
    #[error("invalid host capabilities pattern \"\": it is empty; \"*\" allows everything")]
    Empty,
    /// A star that is not the whole last part.
    #[error(
        "invalid host capabilities pattern {0:?}: \"*\" can only stand for everything after a slash, as in \"oci/*\""
    )]
    Wildcard(String),
    /// The start of several capabilities, without a star.
    #[error("invalid host capabilities pattern {0:?}: it is the start of several; write \"{0}/*\" to allow them all")]
    Incomplete(String),
    /// No known capability matches.
    #[error("invalid host capabilities pattern {pattern:?}: unknown, known are {}", known.join(", "))]
    Unknown {
        /// The entry.
        pattern: String,
        /// Suggestions: the capabilities of the same namespace, or else all.
        known: Vec<&'static str>,
    },
}

impl FromStr for CapabilityPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let pattern = text.trim();
        if pattern.is_empty() {
            return Err(PatternError::Empty);
        }
        if pattern == "*" {
            return Ok(Self::All);
        }
        if let Some(prefix) = pattern.strip_suffix('*') {
            if prefix.contains('*') || !prefix.ends_with('/') {
                return Err(PatternError::Wildcard(pattern.to_owned()));
            }
            return if starts_some(prefix) { Ok(Self::Under(prefix.to_owned())) } else { Err(unknown(pattern)) };
        }
        if pattern.contains('*') {
            return Err(PatternError::Wildcard(pattern.to_owned()));
        }
        if KNOWN.contains(&pattern) {
            Ok(Self::One(pattern.to_owned()))
        } else if starts_some(&format!("{pattern}/")) {
            Err(PatternError::Incomplete(pattern.to_owned()))
        } else {
            Err(unknown(pattern))
        }
    }
}

fn starts_some(prefix: &str) -> bool {
    KNOWN.iter().any(|known| known.starts_with(prefix))
}

fn unknown(pattern: &str) -> PatternError {
    let namespace = pattern.split_once('/').map_or(pattern, |(namespace, _)| namespace);
    let same = |known: &&str| known.split_once('/').is_some_and(|(of, _)| of == namespace);
    let mut known: Vec<&str> = KNOWN.into_iter().filter(same).collect();
    if known.is_empty() {
        known = KNOWN.to_vec();
    }
    PatternError::Unknown { pattern: pattern.to_owned(), known }
}

impl CapabilityPattern {
    fn allows(&self, capability: &str) -> bool {
        match self {
            Self::All => true,
            Self::Under(prefix) => capability.starts_with(prefix.as_str()),
            Self::One(one) => capability == one,
        }
    }
}

impl fmt::Display for CapabilityPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Under(prefix) => write!(f, "{prefix}*"),
            Self::One(one) => f.write_str(one),
        }
    }
}

/// The host capabilities and kinds of objects that a policy may use. The default allows everything, which suits trusted
/// modules such as a built-in one.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    /// `None` allows all.
    capabilities: Option<Vec<CapabilityPattern>>,
    /// `None` allows all.
    resources: Option<BTreeSet<ContextAwareResource>>,
}

impl Grants {
    /// Allows these host capabilities and reading these kinds of objects.
    pub fn new(capabilities: Vec<CapabilityPattern>, resources: BTreeSet<ContextAwareResource>) -> Self {
        Self { capabilities: Some(capabilities), resources: Some(resources) }
    }

    /// Whether a call of `namespace/operation` is allowed.
    pub fn allows(&self, capability: &str) -> bool {
        self.capabilities.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.allows(capability)))
    }

    /// Whether objects of this kind may be read.
    pub fn may_read(&self, api_version: &str, kind: &str) -> bool {
        self.resources.as_ref().is_none_or(|resources| {
            resources.iter().any(|resource| resource.api_version == api_version && resource.kind == kind)
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::everything("*", &["oci/v1/verify", "kubernetes/can_i"], &[])]
    #[case::a_namespace("oci/*", &["oci/v1/verify", "oci/v2/verify"], &["kubernetes/can_i"])]
    #[case::a_version("oci/v1/*", &["oci/v1/verify"], &["oci/v2/verify"])]
    #[case::one("kubernetes/can_i", &["kubernetes/can_i"], &["kubernetes/get_resource"])]
    #[case::spaces_around(" net/* ", &["net/v1/dns_lookup_host"], &["oci/v1/verify"])]
    fn patterns_allow_what_they_name(#[case] pattern: &str, #[case] allowed: &[&str], #[case] denied: &[&str]) {
        let parsed: CapabilityPattern = pattern.parse().unwrap();
        assert_eq!(parsed.to_string(), pattern.trim());
        let grants = Grants::new(vec![parsed], BTreeSet::new());
        assert!(allowed.iter().all(|capability| grants.allows(capability)));
        assert!(!denied.iter().any(|capability| grants.allows(capability)));
    }

    #[rstest]
    #[case::empty(" ", r#"invalid host capabilities pattern "": it is empty; "*" allows everything"#)]
    #[case::star_in_a_word(
        "oci*",
        r#"invalid host capabilities pattern "oci*": "*" can only stand for everything after a slash, as in "oci/*""#
    )]
    #[case::star_in_the_middle(
        "*/verify",
        r#"invalid host capabilities pattern "*/verify": "*" can only stand for everything after a slash, as in "oci/*""#
    )]
    #[case::two_stars(
        "oci/*/*",
        r#"invalid host capabilities pattern "oci/*/*": "*" can only stand for everything after a slash, as in "oci/*""#
    )]
    #[case::not_complete(
        "oci/v1",
        r#"invalid host capabilities pattern "oci/v1": it is the start of several; write "oci/v1/*" to allow them all"#
    )]
    #[case::unknown(
        "net/v1/fly",
        r#"invalid host capabilities pattern "net/v1/fly": unknown, known are net/v1/dns_lookup_host"#
    )]
    #[case::unknown_prefix(
        "net/v9/*",
        r#"invalid host capabilities pattern "net/v9/*": unknown, known are net/v1/dns_lookup_host"#
    )]
    fn what_names_nothing_is_refused(#[case] pattern: &str, #[case] message: &str) {
        assert_eq!(pattern.parse::<CapabilityPattern>().unwrap_err().to_string(), message);
    }

    #[test]
    fn an_unknown_namespace_shows_everything_there_is() {
        let message = "moon/fly".parse::<CapabilityPattern>().unwrap_err().to_string();
        assert!(KNOWN.iter().all(|known| message.contains(known)), "{message}");
    }

    #[test]
    fn kinds_are_compared_as_a_whole() {
        let resource = ContextAwareResource { api_version: "v1".to_owned(), kind: "Namespace".to_owned() };
        let grants = Grants::new(Vec::new(), BTreeSet::from([resource]));
        assert!(grants.may_read("v1", "Namespace"));
        assert!(!grants.may_read("v1", "namespace") && !grants.may_read("v2", "Namespace"));
        assert!(!grants.allows("kubernetes/get_resource"), "no pattern allows nothing");
        assert!(Grants::default().allows("oci/v1/verify") && Grants::default().may_read("v1", "Secret"));
    }
}
