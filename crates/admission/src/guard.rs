//! Admission of requests that could undo or steal an identity (docs/spec/threats.md, RUN-1 to RUN-4, MRG-8, AFT-1 to
//! AFT-8).

use std::borrow::Cow;
use std::collections::BTreeSet;

use pillion_identity::author::Inquiry;
use pillion_identity::declared::Declared;
use pillion_identity::guards::{
    Change, Objections, ephemeral, exec, image, is_exempt, managed, secret, template, token_request, trust_anchor,
};
use pillion_inject::matching;
use pillion_kubernetes::authorizer::Author;
use pillion_kubernetes::lookup::{Lookup, Memo};
use pillion_kubernetes::operation::Operation;
use pillion_kubernetes::outcome::{Outcome, Refusal, Verdict};
use pillion_kubernetes::world::World;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;

use super::bundle_ref::{self, Asker, Notice};
use crate::request::{Request, RequestTarget};
use crate::settings::BorrowedSettings;

/// Answers a request that one of the guards covers.
///
/// # Errors
/// The refusal, if the SidecarSets that use an account are unavailable.
pub fn admit(
    request: &Request,
    target: RequestTarget,
    settings: &BorrowedSettings<'_>,
    world: World<'_>,
) -> Result<Outcome, Outcome> {
    let lookup = &Memo::new(world.lookup);
    let rules = &settings.service_accounts;
    let (object, old_object) = (&request.object, &request.old_object);
    let author = &Author::from_user_info(&request.user_info);
    let change = Change {
        kind: &request.kind.kind,
        operation: request.operation,
        namespace: &request.namespace,
        object,
        old_object,
        author,
    };
    let mut changed = None;
    let mut notice = Notice::default();
    let mut every_set = || -> Result<Cow<'_, [SidecarSet]>, Outcome> {
        let asker = Asker { namespace: Some(&request.namespace), is_exempt: false };
        let (sets, unavailable) = bundle_ref::sidecar_sets(settings, Some(asker), world, &|bundle| bundle.sets())?;
        notice = unavailable;
        Ok(sets)
    };
    let findings = match target {
        RequestTarget::EphemeralContainers => ephemeral::judge(object, old_object, rules),
        RequestTarget::WorkloadWrite => template::judge(object, old_object),
        RequestTarget::PodConnect => {
            let is_to_container = is_to_container(request);
            let connection = exec::Connection {
                is_to_container,
                namespace: &request.namespace,
                pod: &request.name,
                options: object,
                author,
            };
            let mut inquiry = Inquiry::new(world.authorizer, world.elapsed);
            exec::judge(connection, rules, lookup, &mut inquiry, || Ok::<_, Outcome>(exec::accounts_of(&every_set()?)))?
        }
        RequestTarget::PodUpdate => image::judge(object, old_object, author, rules),
        RequestTarget::TokenRequest => {
            let asked = token_request::TokenRequest { namespace: &request.namespace, account: &request.name, author };
            token_request::judge(asked, rules)
        }
        RequestTarget::AccountChange => {
            // Only the deletion of an account depends on its users. Opening a whole bundle takes time.
            let is_deletion = request.operation == Operation::Delete && change.kind == "ServiceAccount";
            let is_asked = is_deletion
                && rules.protect_in_use
                && settings.gates.service_account_injection
                && !is_exempt(change.author, rules);
            let sets = if is_asked { every_set()? } else { Cow::default() };
            let users = Users { namespace: &request.namespace, sets: &sets, lookup };
            managed::judge(change, rules, lookup, |account| users.find(account))
        }
        RequestTarget::SecretWrite => {
            let findings = secret::judge(object, old_object, &request.namespace, rules, lookup);
            changed = secret::with_uid(object, old_object, &request.namespace, lookup);
            findings
        }
        // Without the gate, no sidecar has a token of its own.
        RequestTarget::TrustAnchorChange if settings.gates.service_account_injection => {
            trust_anchor::judge(change, rules, lookup)
        }
        _ => Objections::default(),
    };
    let verdict = match (Refusal::from_reasons(findings.reasons), changed) {
        (Some(refusal), _) => Verdict::Refused(refusal),
        (None, Some(object)) => Verdict::Mutated(object),
        (None, None) => Verdict::Unchanged,
    };
    Ok(notice.add_to(Outcome { warnings: findings.warnings, ..verdict.into() }, settings))
}

/// Whether a connection is to one container. That of a forwarded port is not, and neither is one of an unknown kind.
fn is_to_container(request: &Request) -> bool {
    matches!(request.kind.kind.as_str(), "PodExecOptions" | "PodAttachOptions")
        && matches!(request.sub_resource.as_str(), "exec" | "attach")
}

/// Finds the SidecarSets that use an account. Does not list Pods (MRG-8).
struct Users<'a> {
    namespace: &'a str,
    sets: &'a [SidecarSet],
    lookup: &'a dyn Lookup,
}

impl Users<'_> {
    /// Returns the SidecarSets that name the account and can be injected in the namespace. If the Namespace cannot be
    /// read, they count as matching.
    fn find(&self, account: &str) -> Vec<String> {
        let is_user = |set: &&SidecarSet| {
            Declared::from_sidecar_set(set).is_ok_and(|declared| declared.service_account.as_deref() == Some(account))
                && matching::can_be_in(&CompiledSet::new(set), self.namespace, self.lookup).unwrap_or(true)
        };
        let users: BTreeSet<_> = self.sets.iter().filter(is_user).map(|set| set.name().to_owned()).collect();
        users.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
