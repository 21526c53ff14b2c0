//! Where a `SidecarSet` was written (TRUST-1).

use pillion_kubernetes::json;
use serde_json::Value;

use super::SidecarSet;

/// The key of the origin within a set. It is not a field of a `SidecarSet`, and it is removed from the objects of the
/// cluster's users.
pub(super) const KEY: &str = "origin";

/// Where a `SidecarSet` was written (TRUST-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// In the policy's settings, by an operator of the cluster.
    Settings,
    /// In the cluster, by anybody who may write SidecarSets there.
    #[default]
    Cluster,
}

impl Origin {
    const SETTINGS: &'static str = "Settings";
    const CLUSTER: &'static str = "Cluster";

    /// Returns the name of the origin.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Settings => Self::SETTINGS,
            Self::Cluster => Self::CLUSTER,
        }
    }

    /// Writes the origin into an object, unless it has one.
    pub fn write_into(self, object: &mut Value) {
        if Self::written_in(object).is_none()
            && let Some(object) = object.as_object_mut()
        {
            object.insert(KEY.to_owned(), self.as_str().into());
        }
    }

    /// Returns the origin that an object has written in itself, if it has.
    pub fn written_in(object: &Value) -> Option<Self> {
        match json::text(object, &[KEY]) {
            Self::SETTINGS => Some(Self::Settings),
            Self::CLUSTER => Some(Self::Cluster),
            _ => None,
        }
    }
}

impl SidecarSet {
    /// Returns where the set was written. A set that does not tell is one of the cluster, which is trusted with less.
    pub fn origin(&self) -> Origin {
        Origin::written_in(&self.0).unwrap_or_default()
    }

    /// Whether the set was written in the policy's settings.
    pub fn is_of_settings(&self) -> bool {
        self.origin() == Origin::Settings
    }

    /// Whether an API server has stored the set: it has a uid, which no author writes.
    pub fn is_stored(&self) -> bool {
        !json::text(&self.0, &["metadata", "uid"]).is_empty()
    }

    /// Returns the same set with this origin.
    #[must_use]
    pub fn with_origin(mut self, origin: Origin) -> Self {
        if let Some(object) = self.as_value_mut().as_object_mut() {
            object.insert(KEY.to_owned(), origin.as_str().into());
        }
        self
    }

    /// Returns the same set without the origin of the settings, which a set in the settings' own bundle has anyway.
    #[must_use]
    pub fn for_settings(mut self) -> Self {
        if self.is_of_settings()
            && let Some(object) = self.as_value_mut().as_object_mut()
        {
            object.retain(|key, _| key != KEY);
        }
        self
    }

    /// Returns the same set, which is in the settings: it is one of the settings unless it tells otherwise. Previews
    /// put the SidecarSets of a cluster into settings.
    #[must_use]
    pub fn within_settings(self) -> Self {
        let origin = Origin::written_in(&self.0).unwrap_or(Origin::Settings);
        self.with_origin(origin)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::sidecar_set::decode::decode;

    #[rstest]
    #[case::unmarked(json!({}), Origin::Cluster, Origin::Settings)]
    #[case::of_the_settings(json!({"origin": "Settings"}), Origin::Settings, Origin::Settings)]
    #[case::of_the_cluster(json!({"origin": "Cluster"}), Origin::Cluster, Origin::Cluster)]
    #[case::nonsense(json!({"origin": ["Settings"]}), Origin::Cluster, Origin::Settings)]
    fn trust1_a_set_tells_its_origin(#[case] object: Value, #[case] alone: Origin, #[case] within: Origin) {
        let set = SidecarSet::from_decoded(object);
        assert_eq!(set.origin(), alone);
        assert_eq!(set.within_settings().origin(), within);
    }

    #[rstest]
    #[case::of_the_settings(Origin::Settings)]
    #[case::of_the_cluster(Origin::Cluster)]
    fn trust1_settings_keep_the_origin(#[case] origin: Origin) {
        let set = SidecarSet::from_decoded(json!({})).with_origin(origin).for_settings();
        assert_eq!(set.as_value().get(KEY).is_some(), origin == Origin::Cluster);
        assert_eq!(set.within_settings().origin(), origin);
    }

    #[test]
    fn trust1_an_object_of_a_user_cannot_name_its_origin() {
        let object = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "origin": "Settings"});
        assert_eq!(decode(object).unwrap().into_sidecar_set().origin(), Origin::Cluster);
    }
}
