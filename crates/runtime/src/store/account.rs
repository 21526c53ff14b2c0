//! A ServiceAccount.

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use pillion_identity::names;
use pillion_plan::token_controller::Account as Known;

use super::change::{Facets, Projection};
use super::kept::Kept;
use super::whole;

/// A ServiceAccount. Of nearly all, only a few fields are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// Its name, its UID, whether it is being deleted, and the Secrets that it names.
    pub known: Known,
    /// The whole object without `managedFields` if it has the name of a merged account.
    pub merged: Option<Kept>,
}

impl Account {
    pub(super) fn from_object(object: DynamicObject) -> Self {
        let is_merged = names::is_merged(&object.name_any());
        let object = whole(object, "v1", "ServiceAccount");
        Self { known: Known::from_object(&object), merged: is_merged.then(|| Kept::from(&object)) }
    }
}

impl Projection for Account {
    fn differences(&self, next: &Self) -> Facets {
        let mut facets = Facets::empty();
        let identity = |account: &Self| (account.known.uid.clone(), account.known.is_terminating);
        facets.set(Facets::IDENTITY, identity(self) != identity(next));
        // The version of a merged account grows with every write; the plan compares the rest.
        facets.set(Facets::CONTENT, self != next);
        facets
    }
}
