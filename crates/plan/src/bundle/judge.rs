//! Which SidecarSets are in the bundle.

use std::collections::{BTreeMap, BTreeSet};

use pillion_admission::settings::Settings;
use pillion_bundle::config_map::TooLong;
use pillion_identity::declared::Declared;
use pillion_identity::validation as identity;
use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::json;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use pillion_sidecarset::validation::conflicts::{self, Claims, Kind};
use pillion_sidecarset::validation::{canary, update, validate};

use super::candidate::{Candidate, shown};
use super::{Place, Seen, Verdict, Why};

/// The SidecarSets of the settings, which come before those of the cluster.
pub(super) fn of_settings(settings: &Settings) -> Vec<SidecarSet> {
    // A bundle of the settings that is damaged keeps the policy from starting; nobody meets its sets.
    let sets = settings.all_sidecar_sets().unwrap_or_default();
    sets.iter().map(prepared).collect()
}

/// Who is in the bundle, and who came in or changed.
pub(super) struct Judged {
    /// What stays as it was.
    base: BTreeMap<String, SidecarSet>,
    /// New versions, in the order in which they were taken.
    changed: Vec<SidecarSet>,
    verdicts: BTreeMap<String, Verdict>,
}

/// Judges each candidate as SidecarSet admission does, but for its author, whom nobody knows here. What an update may not
/// change (V-30, V-3) it may not change from the version in the bundle.
///
/// What is in the bundle as it stands stays there: it was judged when it came, and a rule that has become stricter meets
/// it when it is edited, as at admission. Of two that are in each other's way, the one that is in the bundle stays, then
/// the older one.
pub(super) fn judge(
    candidates: Vec<Candidate>,
    before: &BTreeMap<String, SidecarSet>,
    own: &[SidecarSet],
    seen: Seen<'_>,
) -> Judged {
    let mut judged = Judged { base: BTreeMap::new(), changed: Vec::new(), verdicts: BTreeMap::new() };
    let mut open: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        if own.iter().any(|set| set.name() == candidate.name) {
            let message =
                "the policy's settings have a SidecarSet of this name, which is the one that is injected; remove one";
            judged.say(&candidate, Place::Out, Why::InSettings, String::new(), message.to_owned());
            continue;
        }
        // Another object of this name has no share in what was there before.
        let kept = before.get(&candidate.name).filter(|kept| uid(kept) == candidate.uid);
        if let Some(kept) = kept {
            judged.base.insert(candidate.name.clone(), kept.clone());
        }
        if kept == Some(&candidate.set) {
            judged.say_in(&candidate);
        } else {
            open.push(candidate);
        }
    }
    open.sort_by(|one, other| (&one.created, &one.name).cmp(&(&other.created, &other.name)));
    judged.take(open, own, seen);
    judged
}

fn uid(set: &SidecarSet) -> &str {
    json::text(set.as_value(), &["metadata", "uid"])
}

impl Judged {
    /// Takes candidates as long as there is one that can be taken: a canary waits for its base, who was in the way may go
    /// out of it.
    fn take(&mut self, mut open: Vec<Candidate>, own: &[SidecarSet], seen: Seen<'_>) {
        let mut others = Others::new(own, &self.base);
        loop {
            let count = open.len();
            let mut refused = Vec::new();
            for candidate in open {
                let errors = others.errors(&candidate, seen.settings);
                if errors.is_empty() {
                    others.put(candidate.set.clone());
                    self.say_in(&candidate);
                    self.changed.push(candidate.set);
                } else {
                    refused.push((candidate, errors));
                }
            }
            if refused.is_empty() {
                return;
            }
            if refused.len() == count {
                for (candidate, errors) in refused {
                    self.refuse(&candidate, Why::Invalid, &shown(&errors));
                }
                return;
            }
            open = refused.into_iter().map(|(candidate, _)| candidate).collect();
        }
    }

    fn say_in(&mut self, candidate: &Candidate) {
        let hash = candidate.set.hash().to_owned();
        self.say(candidate, Place::In, Why::Current, hash, "Pods are injected with this version".to_owned());
    }

    fn refuse(&mut self, candidate: &Candidate, why: Why, wrong: &str) {
        let verdict = refused(&candidate.name, &candidate.uid, self.base.get(&candidate.name), (why, wrong));
        self.verdicts.insert(candidate.name.clone(), verdict);
    }

    fn say(&mut self, candidate: &Candidate, place: Place, why: Why, hash: String, message: String) {
        let (name, uid) = (candidate.name.clone(), candidate.uid.clone());
        self.verdicts.insert(candidate.name.clone(), Verdict { name, uid, place, why, hash, message });
    }

    /// How many are new in the bundle, or changed.
    pub(super) fn changes(&self) -> usize {
        self.changed.len()
    }

    /// The sets of the bundle with the first so many changes.
    pub(super) fn sets_with(&self, changes: usize) -> BTreeMap<String, SidecarSet> {
        let mut sets = self.base.clone();
        sets.extend(self.changed.iter().take(changes).map(|set| (set.name().to_owned(), set.clone())));
        sets
    }

    /// Takes back all changes but the first so many.
    pub(super) fn keep(&mut self, changes: usize, error: &TooLong) {
        for set in self.changed.split_off(changes) {
            let verdict = refused(set.name(), uid(&set), self.base.get(set.name()), (Why::TooLong, &error.to_string()));
            self.verdicts.insert(set.name().to_owned(), verdict);
        }
    }

    pub(super) fn verdicts(self) -> Vec<Verdict> {
        self.verdicts.into_values().collect()
    }
}

fn refused(name: &str, uid: &str, kept: Option<&SidecarSet>, (why, wrong): (Why, &str)) -> Verdict {
    let (place, hash, stays) = match kept {
        Some(kept) => (Place::Kept, kept.hash().to_owned(), "Pods are injected with the version before this one"),
        None => (Place::Out, String::new(), "Pods are not injected with it"),
    };
    let message = [stays, ": ", wrong].concat();
    Verdict { name: name.to_owned(), uid: uid.to_owned(), place, why, hash, message }
}

/// The sets that a candidate meets.
struct Others {
    sets: BTreeMap<String, SidecarSet>,
    /// Who has a name that two sets can be in conflict over. Of a thousand sets there are half a million pairs.
    names: BTreeMap<(Kind, String), BTreeSet<String>>,
}

impl Others {
    fn new(own: &[SidecarSet], base: &BTreeMap<String, SidecarSet>) -> Self {
        let mut others = Self { sets: BTreeMap::new(), names: BTreeMap::new() };
        for set in own.iter().chain(base.values()) {
            others.put(set.clone());
        }
        others
    }

    fn put(&mut self, set: SidecarSet) {
        for (kind, name) in Claims::of(&set).names() {
            self.names.entry((kind, name.to_owned())).or_default().insert(set.name().to_owned());
        }
        self.sets.insert(set.name().to_owned(), set);
    }

    /// What is wrong with a candidate. It meets the others once nothing else is (V-1).
    fn errors(&self, candidate: &Candidate, settings: &Settings) -> Vec<FieldError> {
        if !candidate.errors.is_empty() {
            return candidate.errors.clone();
        }
        let set = &candidate.set;
        let mut errors = validate(set);
        let base: Vec<SidecarSet> = set.canary_of().and_then(|base| self.sets.get(base)).cloned().into_iter().collect();
        canary::check_base(set, &base, &mut errors);
        // Whatever was edited in between: what no single edit may do, several of them cannot do either.
        if let Some(before) = self.sets.get(set.name()) {
            update::check(set, before, &mut errors);
        }
        let gate = settings.gates.service_account_injection;
        let declared = if gate {
            let (declared, findings) = identity::check(set, &settings.service_accounts);
            errors.append(&mut findings.into_errors());
            declared
        } else {
            errors.append(&mut identity::check_gate(set, self.sets.get(set.name())));
            Declared::default()
        };
        if !errors.is_empty() {
            return errors;
        }
        let claims = Claims::of(set);
        let names = claims.names().map(|(kind, name)| (kind, name.to_owned()));
        let sharing: BTreeSet<&String> = names.filter_map(|name| self.names.get(&name)).flatten().collect();
        for other in sharing.into_iter().filter_map(|name| self.sets.get(name)) {
            conflicts::check(set, other, &mut errors);
        }
        if gate && declared.service_account.is_some() {
            let mut findings = identity::Findings::default();
            for other in self.sets.values().filter(|other| other.name() != set.name()) {
                if let Ok(theirs) = Declared::of(other) {
                    pillion_identity::conflicts::check(
                        (set, &declared),
                        (other, &theirs),
                        &settings.service_accounts,
                        &mut findings,
                    );
                }
            }
            errors.append(&mut findings.into_errors());
        }
        errors
    }
}
