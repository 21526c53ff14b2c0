//! The Roles and bindings of the cluster, as watches show them.

use std::sync::Arc;

use kube::Api;
use kube::api::DynamicObject;
use pillion_plan::account_permissions::{Binding, Role};
use pillion_runtime::context::Context;
use pillion_runtime::controller::Controller as _;
use pillion_runtime::store::{Facets, Projection, Watch, Watched, resource, whole};
use pillion_runtime::wakes::{Keys, Wakes};

use super::{AccountPermissions, Pass};

/// The version of RBAC's kinds.
const VERSION: &str = "rbac.authorization.k8s.io/v1";

/// A role, or a binding to ServiceAccounts.
#[derive(Debug, PartialEq)]
pub(super) struct Projected<T>(pub T);

impl<T: PartialEq + Send + Sync + 'static> Projection for Projected<T> {
    fn differences(&self, next: &Self) -> Facets {
        if self == next { Facets::empty() } else { Facets::CONTENT }
    }
}

/// The watches of RBAC's four kinds.
pub(super) struct Watches {
    roles: [Watched<Projected<Role>>; 2],
    bindings: [Watched<Projected<Binding>>; 2],
}

impl Watches {
    /// Starts the watches, and waits until everything was listed.
    pub async fn start(context: &Context) -> Self {
        let watch = |kind: &'static str| {
            Watch::new(Api::<DynamicObject>::all_with(context.client.clone(), &resource(VERSION, kind)), kind)
        };
        let of = |object, kind| whole(object, VERSION, kind);
        let roles = ["ClusterRole", "Role"].map(|kind| {
            let see = move |object: DynamicObject| Some(Projected(Role::from_object(&of(object, kind))));
            context.store.keep(AccountPermissions::NAME, watch(kind), see)
        });
        let bindings = ["ClusterRoleBinding", "RoleBinding"].map(|kind| {
            let see = move |object: DynamicObject| Binding::from_object(&of(object, kind)).map(Projected);
            context.store.keep(AccountPermissions::NAME, watch(kind), see)
        });
        for roles in &roles {
            roles.listed().await;
        }
        for bindings in &bindings {
            bindings.listed().await;
        }
        Self { roles, bindings }
    }

    /// Wakes the controller when RBAC changes.
    pub fn wake(&self, wakes: &Wakes<Pass>) {
        for roles in &self.roles {
            wakes.on(roles, Facets::CONTENT, |_| Keys::One(Pass));
        }
        for bindings in &self.bindings {
            wakes.on(bindings, Facets::CONTENT, |_| Keys::One(Pass));
        }
    }

    pub fn roles(&self) -> Vec<Arc<Projected<Role>>> {
        self.roles.iter().flat_map(|roles| roles.all()).collect()
    }

    pub fn bindings(&self) -> Vec<Arc<Projected<Binding>>> {
        self.bindings.iter().flat_map(|bindings| bindings.all()).collect()
    }
}
