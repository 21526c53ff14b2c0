//! What a Gardener Shoot may say about its ServiceAccount tokens (serviceaccounts.md, D and G).
//!
//! The object holds a `serviceAccountConfig` below one path (or several, [`crate::settings`]), and
//! annotations. Each rule looks at what is written now and what was before: [`judge`] collects everything that is
//! wrong (D1 to D19) and everything that its author should know (W1 to W7, D21).
#![forbid(unsafe_code)]

mod config;
mod issuers;
mod managed;
mod migration;
pub mod settings;
mod tokens;
pub mod url;

#[cfg(test)]
mod tests;

use config::{Config, Signer};
use pillion_kubernetes::field::{Cause, FieldError, FieldErrors, FieldPath};
use serde_json::Value;

use crate::settings::ShootSettings;

/// The most `acceptedIssuers` whose texts are looked at (`serviceaccounts.md` E18). kube-apiserver compares every token with
/// each of them.
const ACCEPTED_MAX: usize = 1_000;
/// How much of a value a warning shows, in characters: it has room for 256 in all.
const SHOWN: usize = 50;

/// What there is to say about an object; each list in the order of the paths of the settings, then of the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Fields of another type than they should have: 400.
    pub undecodable: Vec<FieldError>,
    /// Values that break a rule: 422.
    pub invalid: Vec<FieldError>,
    /// Sound values that may not be written over those before: 403.
    pub forbidden: Vec<FieldError>,
    /// What is allowed but has consequences; one short line each.
    pub warnings: Vec<String>,
}

impl Judgement {
    /// Joins the pieces of a warning.
    fn warn(&mut self, pieces: &[&str]) {
        self.warnings.push(pieces.concat());
    }
}

/// A `serviceAccountConfig` as it is written now and as it was before.
struct Change<'a> {
    /// The path of the `serviceAccountConfig`.
    at: FieldPath<'a>,
    /// There was an object before.
    updating: bool,
    new: Config<'a>,
    old: Config<'a>,
    /// Who signs tokens.
    signer: Signer<'a>,
    /// Who signed them before.
    old_signer: Signer<'a>,
    /// The object's uid; empty while the API server has given it none.
    uid: &'a str,
}

impl Change<'_> {
    /// Whether an update leaves `acceptedIssuers` as they were. Absent and empty lists are the same.
    fn keeps_accepted(&self) -> bool {
        self.updating && self.new.present && self.old.present && self.new.accepted == self.old.accepted
    }

    /// Whether there are more `acceptedIssuers` than are looked at. So many may stay, as long as nothing about issuers
    /// changes.
    fn has_too_many(&self, judgement: &mut Judgement) -> bool {
        let has_too_many = self.new.accepted.len() > ACCEPTED_MAX;
        if has_too_many {
            let detail = format!("may have at most {ACCEPTED_MAX} issuers");
            if self.keeps_accepted() && self.signer == self.old_signer && self.new.issuer == self.old.issuer {
                judgement.warn(&["acceptedIssuers ", &detail, "; these are not checked"]);
            } else {
                let at = self.at.child("acceptedIssuers");
                judgement.invalid.add(|| FieldError::new(at, Cause::TooMany, detail));
            }
        }
        has_too_many
    }
}

/// Judges an object that is written: a Shoot, or another kind that holds a `serviceAccountConfig` (`is_shoot` is
/// false: the annotation of the managed issuer means nothing there). `old` is the stored object of an update.
///
/// Where a field has another type than it should, nothing else is said (code 400). What only Pillion refuses (D11,
/// D14), it refuses when it is written, and warns of while it stays as it was: Gardener's own controllers have to be
/// able to update a Shoot from before the policy.
pub fn judge(new: &Value, old: Option<&Value>, is_shoot: bool, settings: &ShootSettings) -> Judgement {
    let mut judgement = Judgement::default();
    let root = FieldPath::new("");
    let old_root = FieldPath::new("oldObject");
    let stored = old.unwrap_or(&Value::Null);
    let annotations = config::annotations(new, &root, &mut judgement);
    let managed = is_shoot && managed::is_on(annotations);
    let was_managed = is_shoot && managed::is_on(config::annotations(stored, &old_root, &mut judgement));
    let mut changes = Vec::new();
    for path in &settings.paths {
        let new_config = config::read(new, path, &root, &mut judgement);
        let old_config = config::read(stored, path, &old_root, &mut judgement);
        changes.push(Change {
            at: FieldPath::new(path),
            updating: old.is_some(),
            signer: new_config.signer(managed),
            old_signer: old_config.signer(was_managed),
            new: new_config,
            old: old_config,
            uid: config::uid(new, stored),
        });
    }
    if !judgement.undecodable.is_empty() {
        return judgement;
    }
    let mut issuer_is_set = false;
    let mut signer_changes = false;
    for change in &changes {
        tokens::judge(change, &mut judgement);
        if !change.has_too_many(&mut judgement) {
            issuers::judge(change, &mut judgement);
            migration::judge(change, annotations, settings.migration, &mut judgement);
        }
        issuer_is_set |= change.new.issuer.is_some();
        signer_changes |= change.updating && change.signer != change.old_signer;
    }
    if signer_changes {
        judgement.warn(&[migration::TRUST]);
    }
    if is_shoot {
        let state = managed::State { managed, was_managed, updating: old.is_some(), issuer_is_set };
        managed::judge(&state, annotations, settings.managed_issuer, &mut judgement);
    }
    judgement
}

/// The beginning of a value, at most so many characters.
fn shown(value: &str, most: usize) -> String {
    let mut shown: String = value.chars().take(most).collect();
    if shown.len() < value.len() {
        shown.push_str("...");
    }
    shown
}
