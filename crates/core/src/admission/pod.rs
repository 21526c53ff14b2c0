//! Admission of a Pod: select, inject, say what was done (sections 4 and 5).

use serde_json::Value;

use super::audit;
use crate::controller_revision::ControllerRevision;
use crate::field::{FieldError, FieldPath};
use crate::gates::Gates;
use crate::inject::{self, Injected};
use crate::lookup::{Lookup, Memo};
use crate::outcome::{Code, Outcome, Reason, Refusal, Verdict};
use crate::pod::Pod;
use crate::select::compiled::CompiledSet;
use crate::select::{self, Query, Sources};
use crate::sidecar_set::SidecarSet;
use crate::time::Timestamp;

/// A Pod that is about to be created.
#[derive(Clone, Copy, Debug)]
pub struct PodRequest<'a> {
    /// The request's uid.
    pub uid: &'a str,
    /// The request's namespace.
    pub namespace: &'a str,
    /// The Pod.
    pub object: &'a Value,
}

/// What admission depends on besides the request.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The `SidecarSet`s of the settings.
    pub sidecar_sets: &'a [SidecarSet],
    /// The ControllerRevisions of the settings.
    pub revisions: &'a [ControllerRevision],
    /// Which features are on.
    pub gates: Gates,
    /// Where other ControllerRevisions are looked up.
    pub system_namespace: &'a str,
    /// The cluster.
    pub lookup: &'a dyn Lookup,
    /// The time.
    pub now: Timestamp,
}

/// Injects the `SidecarSet`s that match the Pod. A Pod that has finished or is being deleted stays as it is (P-2).
pub fn admit(request: PodRequest<'_>, context: Context<'_>) -> Outcome {
    match injected(request, context) {
        Ok(None) => Verdict::Unchanged.into(),
        Ok(Some(injected)) => outcome(request.object, injected),
        Err(reasons) => match Refusal::of(reasons) {
            Some(refusal) => refusal.into(),
            None => Verdict::Unchanged.into(),
        },
    }
}

fn injected(request: PodRequest<'_>, context: Context<'_>) -> Result<Option<Injected>, Vec<Reason>> {
    let pod = Pod::decode(request.object).map_err(|errors| errors.into_iter().map(undecodable).collect::<Vec<_>>())?;
    if !pod.is_active() {
        return Ok(None);
    }
    let namespace = [pod.namespace(), request.namespace].into_iter().find(|namespace| !namespace.is_empty());
    let query = Query { pod, namespace: namespace.unwrap_or("default"), uid: request.uid };
    let compiled: Vec<CompiledSet<'_>> = context.sidecar_sets.iter().map(CompiledSet::of_manifest).collect();
    let lookup = Memo::new(context.lookup);
    let sources = Sources { revisions: context.revisions, system_namespace: context.system_namespace, lookup: &lookup };
    let sets = select::select(&compiled, query, sources)?;
    if sets.is_empty() {
        return Ok(None);
    }
    let how = inject::Context { now: context.now, sort_by_name: context.gates.sort_sidecar_containers_by_name };
    inject::inject(pod, &sets, how).map(Some)
}

fn outcome(before: &Value, injected: Injected) -> Outcome {
    let audit = audit::injected(&injected.sidecars);
    let verdict = if injected.pod == *before { Verdict::Unchanged } else { Verdict::Mutated(injected.pod) };
    Outcome { verdict, warnings: injected.warnings, audit }
}

fn undecodable(error: FieldError) -> Reason {
    Reason {
        sidecar_set: None,
        field: if error.path.as_str().is_empty() { FieldPath::new("object") } else { error.path },
        problem: error.detail,
        remedy: String::new(),
        code: Code::Undecodable,
    }
}
