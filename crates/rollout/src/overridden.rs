//! What a running Pod and its Namespace override in its sidecars (OVR-10).

use pillion_sidecarset::overrides::{Annotations, Values, judge};

use crate::pod::Metadata;
use crate::target::RolloutTarget;

impl RolloutTarget<'_> {
    /// Returns the values that the sidecars of a Pod have instead of those of the version. What is not allowed any more is
    /// clamped, since a running Pod cannot be refused: an amount to its bound, all else to what the version says.
    pub(crate) fn overridden(&self, pod: &Metadata) -> Values {
        let Some(rules) = &self.overrides else { return Values::default() };
        let namespace = self.surroundings.overrides.get(&pod.namespace);
        let of_pod = |key: &str| pod.annotations.get(key);
        let of_namespace = |key: &str| namespace.and_then(|all| all.get(key)).map(String::as_str);
        Values::from(&judge(self.version, Some(rules), &Annotations::new(&of_pod, &of_namespace)))
    }
}
