//! Reading SidecarSets of a cluster.

use std::str::FromStr;

use anyhow::bail;
use pillion_sidecarset::sidecar_set::version::Version;
use serde_json::Value;

use crate::{Kind, Reader, Trouble};

/// The kind of SidecarSets.
pub const KIND: &str = "SidecarSet";

/// The name of a SidecarSet on the command line. Takes kubectl's notation, too: `sidecarset/log-agent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetName(pub String);

impl FromStr for SetName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = match text.split_once('/') {
            None => text,
            Some(("sidecarset" | "sidecarsets" | "sidecarset.apps.kruise.io" | "sidecarsets.apps.kruise.io", name)) => {
                name
            }
            Some((kind, _)) => return Err(format!("\"{kind}\" is no SidecarSet; write the name alone")),
        };
        if name.is_empty() || name.contains('/') {
            return Err("the name of a SidecarSet is missing".to_owned());
        }
        Ok(Self(name.to_owned()))
    }
}

/// Returns the SidecarSets of the cluster, sorted by name, and the first version in which the API server has them.
/// `labels` is a selector as in `kubectl get --selector`.
///
/// # Errors
/// If the cluster does not answer, does not allow the request, or does not serve SidecarSets.
pub fn all(reader: &Reader, labels: Option<&str>) -> anyhow::Result<(Vec<Value>, &'static str)> {
    for version in Version::ALL {
        if let Some(found) = reader.list(Kind(version.api_version(), KIND), None, labels)? {
            return Ok((found, version.api_version()));
        }
    }
    Err(Trouble::NoDefinition.into())
}

/// Returns a SidecarSet, and the version in which the API server has it.
///
/// # Errors
/// If the cluster does not answer, does not allow the request, or has no such SidecarSet.
pub fn one(reader: &Reader, name: &SetName) -> anyhow::Result<(Value, &'static str)> {
    for version in Version::ALL {
        if let Some(found) = reader.get(Kind(version.api_version(), KIND), None, &name.0)? {
            return Ok((found, version.api_version()));
        }
    }
    // A missing definition looks like a missing object.
    all(reader, None)?;
    bail!("SidecarSet \"{}\" does not exist; `pillion status` lists those that do", name.0)
}

/// Whether the cluster serves SidecarSets. It counts as yes if the user may not list them.
///
/// # Errors
/// If the cluster does not answer.
pub fn are_served(reader: &Reader) -> Result<bool, Trouble> {
    for version in Version::ALL {
        match reader.try_list(Kind(version.api_version(), KIND), None, None) {
            Ok(Some(_)) | Err(Trouble::Forbidden { .. }) => return Ok(true),
            Ok(None) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("log-agent", "log-agent")]
    #[case("sidecarset/log-agent", "log-agent")]
    #[case("sidecarset.apps.kruise.io/log-agent", "log-agent")]
    fn names_may_have_the_kind_before_them(#[case] text: &str, #[case] name: &str) {
        assert_eq!(text.parse(), Ok(SetName(name.to_owned())));
    }

    #[rstest]
    #[case("", "is missing")]
    #[case("sidecarset/", "is missing")]
    #[case("deployment/web", "\"deployment\" is no SidecarSet")]
    fn other_texts_are_no_names(#[case] text: &str, #[case] problem: &str) {
        let error = text.parse::<SetName>().unwrap_err();
        assert!(error.contains(problem), "{error}");
    }
}
