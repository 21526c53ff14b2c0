//! Rules for the ServiceAccount tokens of Gardener Shoots (docs/spec/shoots.md).
//!
//! The object contains a `serviceAccountConfig` below one or several paths ([`crate::settings`]), and annotations. Each
//! rule compares the new object with the old one. [`judge`] collects all errors (D1 to D19) and all warnings for the
//! author (W1 to W7, D21).
//!
//! It never changes a Shoot, and looks nothing up. Start with [`judge`].
#![forbid(unsafe_code)]

mod config;
mod issuers;
mod managed;
mod migration;
pub mod settings;
mod tokens;
mod url;

#[cfg(test)]
mod tests;

use config::{Config, Signer};
use pillion_kubernetes::field::{Cause, FieldError, FieldErrors, FieldPath};
use serde_json::Value;

use crate::settings::ShootSettings;

/// The most `acceptedIssuers` whose texts are checked (E18). kube-apiserver compares every token with each of them.
const ACCEPTED_MAX: usize = 1_000;
/// The most characters of a value in a warning, whose maximum length is 256.
const SHOWN: usize = 50;

/// The result of judging an object. Each list is in the order of the paths in the settings, then of the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Fields of the wrong type: 400.
    pub undecodable: Vec<FieldError>,
    /// Values that break a rule: 422.
    pub invalid: Vec<FieldError>,
    /// Valid values that must not replace the old ones: 403.
    pub forbidden: Vec<FieldError>,
    /// Warnings about allowed values with consequences; one short line each.
    pub warnings: Vec<String>,
}

impl Judgement {
    fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }
}

/// A `serviceAccountConfig` in the new and in the old object.
struct Change<'a> {
    /// The path of the `serviceAccountConfig`.
    at: FieldPath<'a>,
    /// Whether this is an update.
    updating: bool,
    new: Config<'a>,
    old: Config<'a>,
    /// The issuer that signs tokens.
    signer: Signer<'a>,
    /// The issuer that signed tokens before.
    old_signer: Signer<'a>,
    /// The object's uid; empty if the API server has not set it yet.
    uid: &'a str,
}

impl Change<'_> {
    /// Whether an update does not change `acceptedIssuers`. Absent and empty lists are equal.
    fn keeps_accepted(&self) -> bool {
        self.updating && self.new.present && self.old.present && self.new.accepted == self.old.accepted
    }

    /// Whether there are more `acceptedIssuers` than [`ACCEPTED_MAX`]. Adds a warning if nothing about issuers changes,
    /// else an error.
    fn has_too_many(&self, judgement: &mut Judgement) -> bool {
        let has_too_many = self.new.accepted.len() > ACCEPTED_MAX;
        if has_too_many {
            let detail = format!("may have at most {ACCEPTED_MAX} issuers");
            if self.keeps_accepted() && self.signer == self.old_signer && self.new.issuer == self.old.issuer {
                judgement.warn(format!("acceptedIssuers {detail}; these are not checked"));
            } else {
                let at = self.at.child("acceptedIssuers");
                judgement.invalid.add(|| FieldError::new(at, Cause::TooMany, detail));
            }
        }
        has_too_many
    }
}

/// Judges a Shoot, or another kind that contains a `serviceAccountConfig`. `old` is the stored object of an update.
/// `is_shoot` is false for the other kinds, for which the annotation of the managed issuer has no meaning.
///
/// If a field has the wrong type (code 400), the result contains nothing else. Values that only Pillion refuses (D11,
/// D14) are errors when they are written, and warnings while they stay the same: Gardener's own controllers must be
/// able to update a Shoot that is older than the policy.
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
        judgement.warn(migration::TRUST);
    }
    if is_shoot {
        let state = managed::ManagedIssuerState { managed, was_managed, updating: old.is_some(), issuer_is_set };
        managed::judge(&state, annotations, settings.managed_issuer, &mut judgement);
    }
    judgement
}

/// Returns the beginning of a value, with at most `most` characters.
fn shown(value: &str, most: usize) -> String {
    let mut shown: String = value.chars().take(most).collect();
    if shown.len() < value.len() {
        shown.push_str("...");
    }
    shown
}
