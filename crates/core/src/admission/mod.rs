//! Decisions, by the kind of object that is admitted.

pub mod audit;
pub mod guard;
pub mod identity;
pub mod pod;
pub mod shoot;
pub mod sidecar_set;

use std::time::Duration;

use crate::bundle::BundleError;
use crate::field::FieldPath;
use crate::json;
use crate::lookup::Lookup;
use crate::outcome::{Code, Outcome, Reason, Refusal, Verdict};
use crate::request::{Operation, Request, Target};
use crate::service_account::author::{Author, Authorizer};
use crate::settings::{Role, Settings};
use crate::sidecar_set::prepare::prepared;
use crate::time::Timestamp;

/// What is known besides the request and the settings.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// The cluster.
    pub lookup: &'a dyn Lookup,
    /// Who may do what in it.
    pub authorizer: &'a dyn Authorizer,
    /// The time.
    pub now: Timestamp,
    /// How long this request has been worked on, by a clock that only goes forward.
    pub elapsed: &'a dyn Fn() -> Duration,
}

/// Answers a request. What no rule speaks of is accepted as it is; the asserting twin only looks at Pods.
///
/// Look-ups, each at most once: for a Pod the Namespace, then revisions in the order of injection, then the
/// ServiceAccounts that they name, then the merged ServiceAccount, Role and RoleBinding; for a `SidecarSet` its revision,
/// then the whitelist, then the author's rights, then the rights of its ServiceAccount, then that account in each
/// namespace; for the deletion of a ServiceAccount its Namespace; for a token Secret its ServiceAccount.
pub fn admit(request: &mut Request, settings: &Settings, world: World<'_>) -> Outcome {
    let target = request.target();
    if settings.role == Role::Assert && target != Target::PodCreate {
        return Verdict::Unchanged.into();
    }
    match target {
        Target::PodCreate => {
            let asked = pod::PodRequest { uid: &request.uid, namespace: &request.namespace, object: &request.object };
            let namespace = asked.namespace();
            let labels = json::object(&request.object, &["metadata", "labels"]);
            let sidecar_sets = match settings.sidecar_sets_for(namespace, labels) {
                Ok(sets) => sets,
                Err(error) => return damaged(&error),
            };
            let context = pod::Context {
                sidecar_sets: &sidecar_sets,
                revisions: &settings.controller_revisions,
                gates: settings.gates,
                system_namespace: &settings.system_namespace,
                lookup: world.lookup,
                now: world.now,
                rules: &settings.service_accounts,
                role: settings.role,
            };
            pod::admit(asked, context)
        }
        Target::SidecarSetWrite => {
            let operation = match request.operation {
                Operation::Update => sidecar_set::Operation::Update,
                _ => sidecar_set::Operation::Create,
            };
            let mut others = Vec::new();
            match settings.all_sidecar_sets() {
                Ok(sets) => {
                    for set in sets.iter() {
                        others.push(prepared(set));
                    }
                }
                Err(error) => return damaged(&error),
            }
            let context = sidecar_set::Context {
                others: &others,
                revisions: &settings.controller_revisions,
                gates: settings.gates,
                system_namespace: &settings.system_namespace,
                whitelist: settings.patch_pod_metadata_whitelist.as_ref(),
                rules: &settings.service_accounts,
                world,
            };
            let old_object = Some(request.old_object.take()).filter(|object| !object.is_null());
            let version = request.kind.version.clone();
            let author = Author::of(&request.user_info);
            sidecar_set::admit(
                sidecar_set::SidecarSetRequest {
                    operation,
                    version,
                    object: request.object.take(),
                    old_object,
                    author,
                },
                &context,
            )
        }
        Target::EphemeralContainers | Target::WorkloadWrite | Target::AccountChange | Target::SecretWrite => {
            guard::admit(request, target, settings, world.lookup)
        }
        Target::ShootWrite => shoot::admit(request, &settings.shoots),
        Target::Other => Verdict::Unchanged.into(),
    }
}

/// A bundle that cannot be used: a policy server refuses it when it starts, so only other hosts get here.
fn damaged(error: &BundleError) -> Outcome {
    let reason = Reason {
        sidecar_set: None,
        field: FieldPath::new("settings.bundle"),
        problem: error.to_string(),
        remedy: String::new(),
        code: Code::Undecodable,
    };
    Refusal::from(reason).into()
}
