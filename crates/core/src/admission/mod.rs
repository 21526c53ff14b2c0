//! Decisions, by the kind of object that is admitted.

pub mod audit;
pub mod pod;
pub mod shoot;
pub mod sidecar_set;

use crate::lookup::Lookup;
use crate::outcome::{Outcome, Verdict};
use crate::request::{Operation, Request, Target};
use crate::settings::Settings;
use crate::sidecar_set::prepare::prepared;
use crate::time::Timestamp;

/// Answers a request. What no rule speaks of is accepted as it is.
///
/// Look-ups, each at most once: for a Pod the Namespace, then revisions in the order of injection; for a
/// `SidecarSet` its revision, then the whitelist.
pub fn admit(request: Request, settings: &Settings, lookup: &dyn Lookup, now: Timestamp) -> Outcome {
    match request.target() {
        Target::PodCreate => {
            let asked = pod::PodRequest { uid: &request.uid, namespace: &request.namespace, object: &request.object };
            let context = pod::Context {
                sidecar_sets: &settings.sidecar_sets,
                revisions: &settings.controller_revisions,
                gates: settings.gates,
                system_namespace: &settings.system_namespace,
                lookup,
                now,
            };
            pod::admit(asked, context)
        }
        Target::SidecarSetWrite => {
            let operation = match request.operation {
                Operation::Update => sidecar_set::Operation::Update,
                _ => sidecar_set::Operation::Create,
            };
            let mut others = Vec::new();
            for set in &settings.sidecar_sets {
                others.push(prepared(set));
            }
            let context = sidecar_set::Context {
                others: &others,
                revisions: &settings.controller_revisions,
                gates: settings.gates,
                system_namespace: &settings.system_namespace,
                whitelist: settings.patch_pod_metadata_whitelist.as_ref(),
                lookup,
            };
            let old_object = Some(request.old_object).filter(|object| !object.is_null());
            let version = request.kind.version;
            sidecar_set::admit(
                sidecar_set::SidecarSetRequest { operation, version, object: request.object, old_object },
                &context,
            )
        }
        Target::ShootWrite => shoot::admit(&request, &settings.shoots),
        Target::Other => Verdict::Unchanged.into(),
    }
}
