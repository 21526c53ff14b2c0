//! Admission decisions, by the kind of the object.
//!
//! [`admit`] takes a [`request`], the [`settings`] and a view of the cluster, and returns what the API server is told:
//! nothing, a changed object, or a refusal. [`pod`] and [`pod_identity`] decide on Pods; SidecarSets, guarded objects
//! and Shoots have a module each. [`audit`] has the annotations for the audit log.
//!
//! It never talks to a host: look-ups are a trait, and their answers are values. It decides who is asked, and leaves
//! the rules to `pillion_inject`, `pillion_identity`, `pillion_sidecarset` and `pillion_gardener`.
//!
//! Start with [`admit`].
#![forbid(unsafe_code)]

pub mod audit;
mod bundle_ref;
mod guard;
pub mod pod;
pub mod pod_identity;
pub mod request;
pub mod settings;
mod shoot;
mod sidecar_set;

use pillion_kubernetes::annotations;
use pillion_kubernetes::authorizer::Author;
use pillion_kubernetes::json;
use pillion_kubernetes::outcome::{Code, Outcome, Reason, Refusal, Verdict};
use pillion_kubernetes::world::World;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::prepared;

use self::bundle_ref::Asker;
use crate::request::{Request, RequestTarget};
use crate::settings::{BorrowedSettings, Role};

/// Answers a request. Accepts objects without a rule as they are. With [`Role::Assert`], only judges Pods.
///
/// Lookups, each at most once:
///
/// * First of all, for Pods, SidecarSets and deletions of accounts that could be in use: the ConfigMap of `bundleRef`
///   and its shard.
/// * For a Pod: the Namespace, then revisions in the order of injection, then the ServiceAccounts that the sets name,
///   then the merged ServiceAccount, Role and RoleBinding.
/// * For a `SidecarSet`: its revision, then the whitelist, then the author's permissions, then the permissions of its
///   ServiceAccount, then that account in each namespace.
/// * For the deletion of a ServiceAccount: its Namespace.
/// * For a token Secret: its ServiceAccount.
/// * For a connection to a Pod: the Pod, then the bundle if a container of it has a token from a Secret, then the user's
///   permissions.
pub fn admit(request: &mut Request, settings: &BorrowedSettings<'_>, world: World<'_>) -> Outcome {
    admitted(request, settings, world).unwrap_or_else(|refused| refused)
}

/// Like [`admit`]; the error is an answer, too, to a request that was refused before it was judged.
fn admitted(request: &mut Request, settings: &BorrowedSettings<'_>, world: World<'_>) -> Result<Outcome, Outcome> {
    let target = request.target();
    if settings.role == Role::Assert && target != RequestTarget::PodCreate {
        return Ok(Verdict::Unchanged.into());
    }
    // The API server would refuse the object after the webhooks. Nothing parses its annotations before this check (E18).
    if target != RequestTarget::Other
        && let Some(error) = annotations::too_long(&request.object)
    {
        return Err(Refusal::from(Reason::of_field(Code::Invalid, error)).into());
    }
    Ok(match target {
        RequestTarget::PodCreate => {
            let pod = request.pod();
            let namespace = pod.namespace();
            // A mirror Pod stays as it is, so no bundle is read for it.
            let asker = (!pod_identity::is_mirror(pod.object))
                .then_some(Asker { namespace: Some(namespace), is_exempt: false });
            let (sets, notice) =
                bundle_ref::sidecar_sets(settings, asker, world, &|bundle| bundle.sets_for(namespace, pod.labels()))?;
            let context = pod::Context { settings, sidecar_sets: &sets, lookup: world.lookup, now: world.now };
            let Request { uid, namespace, object, .. } = request;
            notice.add_to(pod::admit_in_place(pod::PodCreation { uid, namespace, object }, context), settings)
        }
        RequestTarget::SidecarSetWrite => {
            // Compare with the other sets of its namespace. If the set has several or all namespaces, the controller
            // compares it with sets in other shards. An object that is being deleted is exempt: its finalizers must be
            // removable.
            let namespace = sidecar_set::only_namespace(&request.object);
            let asker = Asker { namespace, is_exempt: json::is_terminating(&request.object) };
            let (sets, notice) =
                bundle_ref::sidecar_sets(settings, Some(asker), world, &|bundle| bundle.sets_beside(&request.object))?;
            let others: Vec<SidecarSet> = sets.iter().map(prepared).collect();
            let sent = sidecar_set::SidecarSetRequest {
                operation: request.operation,
                version: request.kind.version.clone(),
                object: request.object.take(),
                old_object: Some(request.old_object.take()).filter(|object| !object.is_null()),
                author: Author::from_user_info(&request.user_info),
            };
            let outcome = sidecar_set::admit(sent, &sidecar_set::Context { settings, others: &others, world });
            notice.add_to(outcome, settings)
        }
        RequestTarget::EphemeralContainers
        | RequestTarget::PodConnect
        | RequestTarget::PodUpdate
        | RequestTarget::TokenRequest
        | RequestTarget::WorkloadWrite
        | RequestTarget::AccountChange
        | RequestTarget::SecretWrite
        | RequestTarget::TrustAnchorChange => guard::admit(request, target, settings, world)?,
        RequestTarget::ShootWrite => shoot::admit(request, &settings.shoots),
        RequestTarget::Other => Verdict::Unchanged.into(),
    })
}
