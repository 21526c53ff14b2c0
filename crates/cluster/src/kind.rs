//! The kinds of objects that commands read and write.

use kube::api::ApiResource;
use kube::core::GroupVersionKind;

/// A kind of objects: its `apiVersion` and `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind<'a>(pub &'a str, pub &'a str);

impl Kind<'_> {
    /// Returns the resource under which the API server serves the kind. All kinds that Pillion reads have a regular
    /// plural.
    pub(super) fn api(self) -> ApiResource {
        let (group, version) = self.0.split_once('/').unwrap_or(("", self.0));
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, self.1))
    }

    /// Returns the name of the resource with its group, as in `roles.rbac.authorization.k8s.io`.
    pub(super) fn resource(self) -> String {
        let api = self.api();
        if api.group.is_empty() { api.plural } else { format!("{}.{}", api.plural, api.group) }
    }
}
