//! Checks `SidecarSet`s in files of their own as their admission would.

use std::borrow::Cow;

use pillion_admission::settings::Settings;
use pillion_documents::manifest::Manifest;
use pillion_identity::content;
use pillion_identity::declared::Declared;
use pillion_identity::partners::Origin;
use pillion_identity::validation::{Findings as Identity, check_gate};
use pillion_kubernetes::field::{Cause, FieldError};
use pillion_kubernetes::json;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::decode::{Decoded, decode as decode_set};
use pillion_sidecarset::validation::conflicts::Claims;
use pillion_sidecarset::validation::{self, canary, injection, whitelist};
use serde_json::{Value, json};

use super::Folders;
use super::documents::{Document, Role};
use super::files::Files;
use super::identity::{self, Member};
use super::lint::admits_sets;
use super::settings::{Judged, rest_of};
use super::subject::{Spot, Subject};
use crate::report::Finding;

/// Returns the errors of ControllerRevisions in files.
pub fn revisions(documents: &[Document]) -> Vec<Finding> {
    let revisions = documents.iter().filter(|document| document.role == Role::ControllerRevision);
    let mut findings = Vec::new();
    for document in revisions {
        let spot = Spot::document(&document.manifest);
        let errors = match ControllerRevision::decode(document.manifest.value.clone()) {
            Ok(revision) => revision.spec().err(),
            Err(errors) => Some(errors),
        };
        findings.extend(errors.unwrap_or_default().iter().map(|error| spot.error(error)));
    }
    findings
}

/// Decodes the `SidecarSet`s of all files as one list.
pub fn decode<'a>(spots: &[Spot<'a>]) -> (Vec<Subject<'a>>, Vec<Finding>) {
    let list: Vec<Value> = spots.iter().map(|spot| spot.raw.clone()).collect();
    let errors = Settings::decode(json!({ "sidecarSets": list })).err().unwrap_or_default();
    let findings = errors.iter().filter_map(|error| {
        let (index, path) = super::item_of(&error.path)?;
        let spot = spots.get(index)?;
        let finding = spot.error(&FieldError { path, ..error.clone() });
        let other = spots.iter().take(index).find(|other| other.sidecar_set == spot.sidecar_set);
        Some(match other.filter(|_| error.cause == Cause::Duplicate) {
            Some(other) => {
                Finding { remedy: format!("{}; the other is at {}", finding.remedy, other.line()), ..finding }
            }
            None => finding,
        })
    });
    (spots.iter().cloned().filter_map(Subject::decode).collect(), findings.collect())
}

/// Validates the `SidecarSet`s of files together, and against the settings if given.
pub fn judge(subjects: &[Subject<'_>], settings: Option<&Judged<'_>>, documents: &[Document]) -> Vec<Finding> {
    let none = Settings::default();
    let context = settings.map_or(&none, |judged| &judged.settings);
    let mut findings = conflicts_and_errors(subjects, context);
    findings.extend(identities(subjects, settings));
    findings.extend(subjects.iter().flat_map(|subject| beside_settings(subject, context)));
    let files = Files(documents);
    let stored: Vec<ControllerRevision> = documents
        .iter()
        .filter(|document| document.role == Role::ControllerRevision && settings.is_none())
        .filter_map(|document| ControllerRevision::decode(document.manifest.value.clone()).ok())
        .collect();
    // Without settings, a missing revision is unknown rather than absent.
    let revisions =
        if settings.is_some() { Cow::Borrowed(context.controller_revisions.as_slice()) } else { Cow::Owned(stored) };
    for subject in subjects {
        let rules = context.patch_pod_metadata_whitelist.as_ref();
        let namespace = context.system_namespace.as_str();
        let mut found = validation::LookupErrors::default();
        let sources = injection::Sources {
            revisions: &revisions,
            sets: &context.sidecar_sets,
            is_watched: context.bundle_source.config_map.is_some(),
            system_namespace: namespace,
            lookup: &files,
        };
        let unknown = injection::check_written(&subject.prepared, None, sources, &mut found);
        let place = "spec.injectionStrategy.revision.customVersion";
        let remedy = "look at the condition once the SidecarSet is written";
        findings.extend(unknown.map(|message| subject.spot.warning(place, message, remedy)));
        if settings.is_none() || context.gates.service_account_injection {
            findings.extend(requested(subject, sources, context));
        }
        whitelist::check(&subject.prepared, context.gates, rules, namespace, &files, &mut found);
        findings.extend(found.unavailable.iter().map(|error| not_checked(&subject.spot, error, namespace)));
        findings.extend(found.invalid.iter().map(|error| match settings {
            None => subject.spot.warning_of(error, "as far as these files tell"),
            Some(_) => subject.spot.error(error),
        }));
    }
    findings
}

/// IDC-9: returns the errors of the stored version that a `SidecarSet` with an account requests, if it is known.
fn requested(subject: &Subject<'_>, sources: injection::Sources<'_>, context: &Settings) -> Vec<Finding> {
    let set = &subject.prepared;
    let has_account = Declared::from_sidecar_set(set).is_ok_and(|declared| declared.service_account.is_some());
    let revision = has_account.then(|| injection::requested(set, sources).ok().flatten()).flatten();
    let trusted = &context.service_accounts.trusted_csi_drivers;
    let errors = revision.map(|revision| content::check_revision(set, &revision, trusted)).unwrap_or_default();
    errors.iter().map(|error| subject.spot.error(error)).collect()
}

/// Returns further errors of `SidecarSet`s that cannot be decoded.
pub fn broken(spots: &[Spot<'_>], settings: Option<&Judged<'_>>) -> Vec<Finding> {
    let none = Settings::default();
    let context = settings.map_or(&none, |judged| &judged.settings);
    spots.iter().filter(|spot| decode_set(spot.raw.clone()).is_err()).flat_map(|spot| rest_of(spot, context)).collect()
}

/// IDV-1: returns the errors of admission while the gate is off. Policies that the API server asks about SidecarSets
/// decide: one refusal is enough. Without such a policy, all settings that apply must have the gate off.
pub fn refused_without_gate(
    subjects: &[Subject<'_>],
    settings: &[Judged<'_>],
    folders: &Folders<'_>,
    before: &[Manifest],
) -> Vec<Finding> {
    let is_off = |judged: &&Judged<'_>| judged.has_known_gates && !judged.settings.gates.service_account_injection;
    let asked: Vec<&Judged<'_>> = settings.iter().filter(|judged| admits_sets(judged)).collect();
    let is_refused = |spot: &Spot<'_>| {
        let mut counted = settings.iter().filter(|judged| folders.applies(spot, judged)).peekable();
        if asked.is_empty() {
            counted.peek().is_some() && counted.all(|judged| is_off(&judged))
        } else {
            asked.iter().any(is_off)
        }
    };
    let mut findings = Vec::new();
    for Subject { spot, set, .. } in subjects.iter().filter(|subject| is_refused(&subject.spot)) {
        let is_it = |old: &&Manifest| {
            ["kind", "apiVersion"].iter().all(|key| json::text(&old.value, &[key]) == json::text(spot.raw, &[key]))
                && json::text(&old.value, &["metadata", "name"]) == spot.sidecar_set
        };
        let old = before.iter().find(is_it).and_then(|old| decode_set(old.value.clone()).ok());
        let old = old.map(Decoded::into_sidecar_set);
        findings.extend(check_gate(set, old.as_ref()).iter().map(|error| spot.error(error)));
    }
    findings
}

/// Returns the warning about a check that needs the cluster.
fn not_checked(spot: &Spot<'_>, error: &FieldError, namespace: &str) -> Finding {
    let path = error.path.as_str();
    if path.starts_with("spec.patchPodMetadata") {
        let message = format!(
            "not checked whether these annotations are allowed: there is neither a whitelist in settings nor ConfigMap \
             \"{namespace}/{}\"",
            names::WHITELIST_CONFIG_MAP
        );
        return spot.warning(path, message, "check it together with the settings, or with that ConfigMap");
    }
    let message = format!("not checked whether this ControllerRevision is in namespace {namespace:?} and can be used");
    spot.warning(path, message, "check it together with the ControllerRevision")
}

/// Validates a list with the settings' own `SidecarSet`s first, so that a conflict is reported at the later of the two,
/// and a base may be on either side. A `SidecarSet` in a file replaces one of the same name in the settings. `SidecarSet`s
/// that a cluster has stored come before new ones, so that a conflict is reported at the new one. A conflict of two stored
/// `SidecarSet`s is a warning (VAL-52).
fn conflicts_and_errors(subjects: &[Subject<'_>], context: &Settings) -> Vec<Finding> {
    let mut sidecar_sets: Vec<_> = others(subjects, context).cloned().collect();
    let count = sidecar_sets.len();
    let origin = origin_beside(context);
    let mut subjects: Vec<&Subject<'_>> = subjects.iter().collect();
    subjects.sort_by_key(|subject| !subject.set.is_stored());
    sidecar_sets.extend(subjects.iter().map(|subject| subject.set.clone().with_origin(origin)));
    let service_accounts = context.service_accounts.clone();
    let errors = Settings { sidecar_sets, gates: context.gates, service_accounts, ..Settings::default() }.validate();
    let stored: Vec<&Subject<'_>> = subjects.iter().copied().take_while(|subject| subject.set.is_stored()).collect();
    let kept = conflicts_of(&stored);
    let words = "stored already; an edit is refused";
    let mut findings: Vec<Finding> = kept.iter().map(|(spot, error)| spot.warning_of(error, words)).collect();
    findings.extend(errors.iter().filter_map(|error| {
        let (index, path) = super::item_of(&error.path)?;
        let subject = subjects.get(index.checked_sub(count)?)?;
        let spot = &subject.spot;
        let error = FieldError { path, ..error.clone() };
        // `kubectl create` has the API server make a name.
        if error.path == "metadata.name" && error.cause == Cause::Required && has_prefix(spot.raw) {
            return None;
        }
        // The settings name the SidecarSet after the detail.
        let name = format!(" (SidecarSet \"{}\")", subject.set.name());
        let detail = error.detail.strip_suffix(&name).unwrap_or(&error.detail).to_owned();
        let unnamed = FieldError { detail, ..error.clone() };
        let is_kept = kept.iter().any(|(of, kept)| std::ptr::eq(*of, spot) && *kept == unnamed);
        (!is_kept).then(|| spot.error(&error))
    }));
    findings
}

fn has_prefix(manifest: &Value) -> bool {
    !json::text(manifest, &["metadata", "generateName"]).is_empty()
}

/// Returns the conflicts of `SidecarSet`s, each once, at the later of the two.
fn conflicts_of<'a>(subjects: &[&'a Subject<'_>]) -> Vec<(&'a Spot<'a>, FieldError)> {
    let claims: Vec<Claims<'_>> = subjects.iter().map(|subject| Claims::from_sidecar_set(&subject.prepared)).collect();
    let mut found = Vec::new();
    for (index, (subject, claims_of)) in subjects.iter().zip(&claims).enumerate() {
        let mut errors = Vec::new();
        claims.iter().take(index).for_each(|other| claims_of.check(other, &mut errors));
        found.extend(errors.into_iter().map(|error| (&subject.spot, error)));
    }
    found
}

/// TRUST-3, TRUST-4: returns findings about a SidecarSet of the cluster that gives way to one of the settings.
fn beside_settings(subject: &Subject<'_>, context: &Settings) -> Vec<Finding> {
    if origin_beside(context) == Origin::Settings {
        return Vec::new();
    }
    let mut errors = Vec::new();
    canary::check_trust(&subject.set, None, &context.sidecar_sets, &mut errors);
    let mut findings: Vec<Finding> = errors.iter().map(|error| subject.spot.error(error)).collect();
    if context.sidecar_sets.iter().any(|own| own.name() == subject.set.name()) {
        let message = "the policy's settings have a SidecarSet of this name, which is the one that is injected";
        findings.push(subject.spot.warning("metadata.name", message, "remove one of them, or rename this one"));
    }
    findings
}

/// Returns the origin of SidecarSets in files beside these settings. They join the settings, unless the policy looks
/// SidecarSets up in the cluster.
fn origin_beside(settings: &Settings) -> Origin {
    if settings.bundle_source.config_map.is_some() { Origin::Cluster } else { Origin::Settings }
}

/// Returns the `SidecarSet`s of the settings whose names are not among `subjects`.
fn others<'a>(subjects: &'a [Subject<'_>], context: &'a Settings) -> impl Iterator<Item = &'a SidecarSet> {
    let is_here = |name: &str| subjects.iter().any(|subject| subject.set.name() == name);
    context.sidecar_sets.iter().filter(move |set| !is_here(set.name()))
}

/// Returns findings about identities that [`conflicts_and_errors`] does not report. Without settings, the gate and the
/// rules are unknown: invalid values are errors, refusals by the default settings are warnings.
fn identities(subjects: &[Subject<'_>], settings: Option<&Judged<'_>>) -> Vec<Finding> {
    let none = Settings::default();
    let context = settings.map_or(&none, |judged| &judged.settings);
    if settings.is_some() && !context.gates.service_account_injection {
        return Vec::new();
    }
    // Without settings, the SidecarSets count as SidecarSets of the cluster, for which more rules hold.
    let origin = settings.map_or(Origin::Cluster, |judged| origin_beside(&judged.settings));
    let members: Vec<_> = others(subjects, context)
        .map(Member::beside)
        .chain(subjects.iter().map(|subject| Member::new(subject, origin)))
        .collect();
    let shared = identity::shared_volumes(&members);
    // Files beside settings may become part of them, and then the sets trust each other (IDF-8).
    let words = "as SidecarSets of the cluster";
    let mut findings: Vec<Finding> = shared.iter().map(|(spot, error)| spot.warning_of(error, words)).collect();
    for (spot, found) in identity::judge(&members, &context.service_accounts) {
        findings.extend(identity::warnings(spot, &found));
        if settings.is_none() {
            findings.extend(found.invalid.iter().map(|error| spot.error(error)));
            let refused = Identity { refused: found.refused, ..Default::default() }.into_errors();
            let words = "with the default settings";
            findings.extend(refused.iter().map(|error| spot.warning_of(error, words)));
        }
    }
    findings
}
