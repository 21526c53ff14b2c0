//! Chooses the revision of a matching `SidecarSet` for a new Pod (INJ-1 to INJ-6).

use std::cell::OnceCell;
use std::collections::BTreeSet;

use pillion_identity::declared;
use pillion_kubernetes::field::{FieldPath, joined};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::outcome::{Code, Reason};
use pillion_kubernetes::selector::Selector;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::hash;
use pillion_sidecarset::made;
use pillion_sidecarset::names;
use pillion_sidecarset::pod::{self, Pod};
use pillion_sidecarset::requested_revision::{RequestedRevision, RevisionIndex};
use pillion_sidecarset::sidecar::{List, is_native, names_in_pod};
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::Query;
use super::draw::draw;
use crate::records::Records;

/// Returns the `SidecarSet` to inject: the latest version, or a stored revision of it (INJ-1 to INJ-5). If the bundle
/// contains the revision, it is not looked up elsewhere.
///
/// # Errors
/// A revision that cannot be found or read, or a Partial policy with an invalid selector or partition.
pub(crate) fn suitable(
    set: SidecarSet,
    query: Query<'_>,
    (known, lookup): (&RevisionIndex<'_>, &dyn Lookup),
    there: &There<'_>,
) -> Result<SidecarSet, Reason> {
    let Some(selection) = RequestedRevision::from_sidecar_set(&set) else { return Ok(set) };
    let stored = match set.revision() {
        Some(revision) => Some(revision),
        None => stored(&set, selection, known, lookup)?,
    };
    // There is no version before the latest one (DIFF-30).
    let Some(stored) = stored else { return Ok(set) };
    let history = history(&set, &stored)?;
    if json::flag(set.as_value(), &["spec", "updateStrategy", "paused"]) {
        return Ok(history);
    }
    match set.spec(&["injectionStrategy", "revision", "policy"]).and_then(Value::as_str) {
        Some("Partial") => partial(set, history, query, there),
        _ => Ok(history),
    }
}

fn stored(
    set: &SidecarSet,
    selection: RequestedRevision<'_>,
    known: &RevisionIndex<'_>,
    lookup: &dyn Lookup,
) -> Result<Option<ControllerRevision>, Reason> {
    known.find(set, selection, lookup).map_err(|error| {
        // The Pod is not at fault, so a problem with the SidecarSet is reported as a refusal by policy.
        let code = if error.code() == Code::Unavailable { Code::Unavailable } else { Code::Forbidden };
        let field = FieldPath::new("spec.injectionStrategy.revision").child(selection.field()).to_string();
        Reason::new(code, field, error.to_string(), "").about(set.name())
    })
}

/// INJ-4: Pods that `updateStrategy` does not select get the stored revision, others the latest one. A partition in
/// percent is the share of the selected Pods that get the stored revision nevertheless.
fn partial(set: SidecarSet, history: SidecarSet, query: Query<'_>, there: &There<'_>) -> Result<SidecarSet, Reason> {
    let strategy = FieldPath::new("spec.updateStrategy");
    let reason = |field: &str, problem: String, remedy: &str| {
        Reason::forbidden(strategy.child(field), problem, remedy).about(set.name())
    };
    if let Some(selector) = set.spec(&["updateStrategy", "selector"]) {
        let selector =
            Selector::parse(selector).map_err(|errors| reason("selector", joined(&errors), "correct the selector"))?;
        if !selector.matches_labels(query.pod.labels()) {
            return Ok(history);
        }
    }
    let share = match set.spec(&["updateStrategy", "partition"]).and_then(Value::as_str) {
        None => return Ok(set),
        Some(text) => percentage(text).ok_or_else(|| {
            reason("partition", format!("\"{text}\" is not a percentage"), "write a number and %, such as \"50%\"")
        })?,
    };
    if let Some(standing) = there.standing([&history, &set]) {
        return Ok(standing.clone());
    }
    // A draw is below 1, so 100% always takes the stored revision, and 0% never does.
    Ok(if draw(query.uid, set.name()) < share { history } else { set })
}

/// Parses `<number>%` as a fraction. The number has the syntax of Go's decimal floats, including digit separators
/// (`1_000`).
pub fn percentage(text: &str) -> Option<f64> {
    let number = text.strip_suffix('%')?;
    let is_digit = |part: &str, at_end: bool| {
        let mut bytes = part.bytes();
        if at_end { bytes.next_back() } else { bytes.next() }.is_some_and(|byte| byte.is_ascii_digit())
    };
    let parts: Vec<&str> = number.split('_').collect();
    if !parts.iter().zip(parts.iter().skip(1)).all(|(one, next)| is_digit(one, true) && is_digit(next, false)) {
        return None;
    }
    let number = parts.concat();
    let value: f64 = number.parse().ok()?;
    // Go accepts `inf`, but neither a number that is too large for a float nor a signed NaN.
    let is_refused = if value.is_nan() {
        number.starts_with(['+', '-'])
    } else {
        value.is_infinite() && number.contains(|one: char| one.is_ascii_digit())
    };
    (!is_refused).then_some(value / 100.0)
}

/// What a Pod has from an earlier admission, read once for all SidecarSets (E18).
pub(crate) struct There<'a> {
    pod: Pod<'a>,
    records: OnceCell<Option<Records>>,
    init_containers: OnceCell<BTreeSet<&'a str>>,
    containers: OnceCell<BTreeSet<&'a str>>,
}

impl<'a> There<'a> {
    pub(crate) fn from_pod(pod: Pod<'a>) -> Self {
        Self { pod, records: OnceCell::new(), init_containers: OnceCell::new(), containers: OnceCell::new() }
    }

    /// Returns the candidate that is recorded in the Pod, if all its containers are there. The API server gives each
    /// call of a webhook a new uid, and a second draw must not change a Pod that was just admitted.
    pub(crate) fn standing<'s>(&self, candidates: [&'s SidecarSet; 2]) -> Option<&'s SidecarSet> {
        let read = || Records::read(self.pod.annotations(), names::HASH).ok();
        let records = self.records.get_or_init(read).as_ref()?;
        candidates.into_iter().find(|set| {
            let revision = json::text(set.as_value(), &["status", "latestRevision"]);
            let recorded =
                records.get(set.name()).is_some_and(|record| record.hash == set.hash() && record.revision == revision);
            recorded
                && made::sidecars(set).all(|(list, _, sidecar)| {
                    names_in_pod(sidecar, list).iter().all(|name| self.names(list).contains(name.as_str()))
                })
        })
    }

    /// Returns the names of the containers that a sidecar of this list may be: a container may be a native sidecar (NAT-2).
    fn names(&self, list: List) -> &BTreeSet<&'a str> {
        match list {
            List::Init => {
                self.init_containers.get_or_init(|| self.pod.init_containers().iter().map(pod::name).collect())
            }
            List::Containers => self.containers.get_or_init(|| {
                let natives = self.pod.init_containers().iter().filter(|container| is_native(container));
                self.pod.containers().iter().chain(natives).map(pod::name).collect()
            }),
        }
    }
}

/// Returns the candidate that is recorded in the Pod, if all its containers are there.
pub fn standing<'s>(candidates: [&'s SidecarSet; 2], pod: Pod<'_>) -> Option<&'s SidecarSet> {
    There::from_pod(pod).standing(candidates)
}

/// Returns the `SidecarSet` with the contents of a stored revision: current metadata; the revision's containers,
/// volumes, secrets, patches and hashes; and the revision's name as the latest revision (INJ-6).
fn history(set: &SidecarSet, revision: &ControllerRevision) -> Result<SidecarSet, Reason> {
    let spec = revision.spec().map_err(|errors| {
        let problem = format!("ControllerRevision \"{}\" cannot be read: {}", revision.name(), joined(&errors));
        Reason::forbidden("spec.injectionStrategy.revision", problem, "name another revision").about(set.name())
    })?;
    let mut hashes = None;
    let mut hash_of = |key: &str, computed: fn(&hash::Hashes) -> &str| match revision.annotation(key) {
        "" => computed(hashes.get_or_insert_with(|| hash::hashes(&spec))).to_owned(),
        stored => stored.to_owned(),
    };
    let with_image = hash_of(names::HASH, |hashes| &hashes.hash);
    let without_image = hash_of(names::HASH_WITHOUT_IMAGE, |hashes| &hashes.without_image);

    let mut spec = spec;
    // Revisions do not contain identity fields. Use those of the current set (IDC-9).
    if let Some(spec) = spec.as_object_mut() {
        for field in declared::FIELDS {
            spec.insert(field.name.to_owned(), set.spec(&[field.name]).cloned().unwrap_or_default());
        }
    }
    let mut object = set.as_value().clone();
    if let Some(object) = object.as_object_mut() {
        object.insert("spec".to_owned(), spec);
        if let Some(status) = json::object_mut(object, "status") {
            status.insert("latestRevision".to_owned(), revision.name().into());
        }
        if let Some(annotations) =
            json::object_mut(object, "metadata").and_then(|metadata| json::object_mut(metadata, "annotations"))
        {
            annotations.insert(names::HASH.to_owned(), with_image.into());
            annotations.insert(names::HASH_WITHOUT_IMAGE.to_owned(), without_image.into());
        }
    }
    Ok(SidecarSet::from_decoded(object).stored_as(revision.name()))
}
