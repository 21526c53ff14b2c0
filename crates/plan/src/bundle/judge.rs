//! Decides which SidecarSets are in the bundle.

use std::collections::{BTreeMap, BTreeSet};

use pillion_admission::settings::Settings;
use pillion_bundle::config_map::TooLong;
use pillion_identity::conflicts::{can_conflict, check_claims, wants_account};
use pillion_identity::declared::Declared;
use pillion_identity::partners::Origin;
use pillion_identity::sharing::{Compared, Used, Versions};
use pillion_identity::validation as identity;
use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::json;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use pillion_sidecarset::validation::conflicts::{self, Claims, Kind};
use pillion_sidecarset::validation::{canary, update, validate};

use super::candidate::{Candidate, shown};
use super::{BundleInput, BundlePlace, Verdict, Why};
use crate::by_label::{ByLabel, labels};

/// Returns the SidecarSets of the settings. They take precedence over those of the cluster.
pub(super) fn of_settings(settings: &Settings) -> Vec<SidecarSet> {
    // If the bundle in the settings is damaged, the policy does not start and its sets have no effect.
    let sets = settings.all_sidecar_sets().unwrap_or_default();
    sets.iter().map(prepared).collect()
}

/// The sets of the bundle, and the changes among them.
#[derive(Default)]
pub(super) struct Judged {
    /// The versions that were in the bundle before.
    base: BTreeMap<String, SidecarSet>,
    /// The names of those versions by the times at which the SidecarSets were created, oldest first.
    by_age: BTreeSet<(String, String)>,
    /// New versions, in the order of their acceptance.
    changed: Vec<SidecarSet>,
    verdicts: BTreeMap<String, Verdict>,
}

/// Judges each candidate as SidecarSet admission does, except for checks of its author, which is unknown here. The
/// rules for updates (VAL-30, VAL-3) compare the candidate with the version in the bundle.
///
/// A set whose version is in the bundle already stays there. It was judged when it came in; a rule that has become
/// stricter applies when the set is edited, as at admission. If two sets conflict, the one in the bundle wins, then the
/// older one.
pub(super) fn judge(
    candidates: Vec<Candidate>,
    before: &BTreeMap<String, SidecarSet>,
    own: &[SidecarSet],
    seen: BundleInput<'_>,
) -> Judged {
    let mut judged = Judged::default();
    let mut open: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        if own.iter().any(|set| set.name() == candidate.name) {
            let message =
                "the policy's settings have a SidecarSet of this name, which is the one that is injected; remove one";
            judged.say(&candidate, BundlePlace::Out, Why::InSettings, String::new(), message.to_owned());
            continue;
        }
        if let Some(base) = candidate.set.canary_of()
            && own.iter().any(|set| set.name() == base)
        {
            let message = format!(
                "its base \"{base}\" is a SidecarSet of the policy's settings, which only a canary of the settings replaces; \
                 write the canary into the settings"
            );
            judged.say(&candidate, BundlePlace::Out, Why::InSettings, String::new(), message);
            continue;
        }
        // A set with another UID does not inherit the version in the bundle.
        let kept = before.get(&candidate.name).filter(|kept| uid(kept) == candidate.uid);
        if let Some(kept) = kept {
            judged.base.insert(candidate.name.clone(), kept.clone());
            judged.by_age.insert((candidate.created.clone(), candidate.name.clone()));
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
    /// Accepts candidates in rounds until a round accepts none: a canary waits for its base, and a conflicting set may
    /// change so that the conflict ends.
    fn take(&mut self, mut open: Vec<Candidate>, own: &[SidecarSet], seen: BundleInput<'_>) {
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
        match &candidate.back {
            None => {
                self.say(
                    candidate,
                    BundlePlace::In,
                    Why::Current,
                    hash,
                    "Pods are injected with this version".to_owned(),
                );
            }
            Some(text) => self.say(candidate, BundlePlace::Kept, Why::RolledBack, hash, text.clone()),
        }
    }

    fn refuse(&mut self, candidate: &Candidate, why: Why, wrong: &str) {
        let verdict = refused(&candidate.name, &candidate.uid, self.base.get(&candidate.name), (why, wrong));
        self.verdicts.insert(candidate.name.clone(), verdict);
    }

    fn say(&mut self, candidate: &Candidate, place: BundlePlace, why: Why, hash: String, message: String) {
        let (name, uid) = (candidate.name.clone(), candidate.uid.clone());
        self.verdicts.insert(candidate.name.clone(), Verdict { name, uid, place, why, hash, message });
    }

    /// Returns the number of sets that are new or changed in the bundle.
    pub(super) fn changes(&self) -> usize {
        self.changed.len()
    }

    /// Returns the sets of the bundle with only the first `changes` changes.
    pub(super) fn sets_with(&self, changes: usize) -> BTreeMap<String, SidecarSet> {
        let mut sets = self.base.clone();
        sets.extend(self.changed.iter().take(changes).map(|set| (set.name().to_owned(), set.clone())));
        sets
    }

    /// Reverts all but the first `changes` changes.
    pub(super) fn keep(&mut self, changes: usize, error: &TooLong) {
        for set in self.changed.split_off(changes) {
            let verdict = refused(set.name(), uid(&set), self.base.get(set.name()), (Why::TooLong, &error.to_string()));
            self.verdicts.insert(set.name().to_owned(), verdict);
        }
    }

    /// Returns the number of sets that were in the bundle before.
    pub(super) fn oldest(&self) -> usize {
        self.by_age.len()
    }

    /// Returns the `count` oldest of the sets that were in the bundle before, without changes.
    pub(super) fn only_oldest(&self, count: usize) -> BTreeMap<String, SidecarSet> {
        let oldest = self.by_age.iter().take(count);
        oldest
            .filter_map(|(_, name)| self.base.get_key_value(name))
            .map(|(name, set)| (name.clone(), set.clone()))
            .collect()
    }

    /// Takes all but the `count` oldest sets out of the bundle.
    pub(super) fn keep_oldest(&mut self, count: usize, error: &TooLong) {
        for (_, name) in self.by_age.iter().skip(count) {
            let Some(set) = self.base.remove(name) else { continue };
            let wrong = format!(
                "the SidecarSets of the policy's settings come first, and for this one there is no room: {error}"
            );
            self.verdicts.insert(name.clone(), refused(name, uid(&set), None, (Why::TooLong, &wrong)));
        }
    }

    pub(super) fn verdicts(self) -> Vec<Verdict> {
        self.verdicts.into_values().collect()
    }
}

fn refused(name: &str, uid: &str, kept: Option<&SidecarSet>, (why, wrong): (Why, &str)) -> Verdict {
    let (place, hash, stays) = match kept {
        Some(kept) => (BundlePlace::Kept, kept.hash().to_owned(), "Pods are injected with the version before this one"),
        None => (BundlePlace::Out, String::new(), "Pods are not injected with it"),
    };
    let message = format!("{stays}: {wrong}");
    Verdict { name: name.to_owned(), uid: uid.to_owned(), place, why, hash, message }
}

/// The sets that a candidate is checked against.
struct Others {
    sets: BTreeMap<String, SidecarSet>,
    /// The sets that use each name over which two sets can conflict. This index avoids comparing all pairs: a thousand
    /// sets have half a million pairs.
    names: BTreeMap<(Kind, String), BTreeSet<String>>,
    /// The sets that use each volume in one of their versions.
    users: BTreeMap<String, BTreeSet<String>>,
    /// The sets that want an account for their Pods, with their identity fields.
    accounts: BTreeMap<String, Declared>,
    /// The names of the sets. Those of earlier versions stay.
    neighbours: ByLabel<String>,
}

impl Others {
    fn new(own: &[SidecarSet], base: &BTreeMap<String, SidecarSet>) -> Self {
        let mut others = Self {
            sets: BTreeMap::new(),
            names: BTreeMap::new(),
            users: BTreeMap::new(),
            accounts: BTreeMap::new(),
            neighbours: ByLabel::default(),
        };
        for set in own.iter().chain(base.values()) {
            others.put(set.clone());
        }
        others
    }

    fn put(&mut self, set: SidecarSet) {
        for (kind, name) in Claims::from_sidecar_set(&set).names() {
            self.names.entry((kind, name.to_owned())).or_default().insert(set.name().to_owned());
        }
        for volume in Versions::bundled(&set).used().iter().flat_map(Used::names) {
            self.users.entry(volume.to_owned()).or_default().insert(set.name().to_owned());
        }
        self.neighbours.put(labels(&set).next(), set.name().to_owned());
        self.accounts.remove(set.name());
        if let Some(declared) = Declared::from_sidecar_set(&set).ok().filter(wants_account) {
            self.accounts.insert(set.name().to_owned(), declared);
        }
        self.sets.insert(set.name().to_owned(), set);
    }

    /// Returns the neighbours that are in one of these sets. There may be thousands of others in them.
    fn among<'s>(
        &'s self,
        neighbours: &'s BTreeSet<&String>,
        users: &'s [&BTreeSet<String>],
    ) -> impl Iterator<Item = &'s SidecarSet> {
        let users = neighbours.iter().filter(|name| users.iter().any(|users| users.contains(name.as_str())));
        users.filter_map(|name| self.sets.get(*name))
    }

    /// IDC-11: returns an error for each volume that the set shares with a set that it does not trust.
    fn shared_volumes(&self, set: &SidecarSet, declared: &Declared, neighbours: &BTreeSet<&String>) -> Vec<FieldError> {
        let versions = Versions::bundled(set);
        let used = versions.used();
        let candidate = Compared::new(set, declared, Origin::Cluster, &used);
        let users: Vec<&BTreeSet<String>> =
            used.iter().flat_map(Used::names).filter_map(|volume| self.users.get(volume)).collect();
        let mut errors = Vec::new();
        for other in self.among(neighbours, &users) {
            let Ok(theirs) = Declared::from_sidecar_set(other) else { continue };
            let versions = Versions::bundled(other);
            let used = versions.used();
            candidate.check(&Compared::new(other, &theirs, other.origin(), &used), &mut errors);
        }
        errors
    }

    /// Returns the errors of a candidate. It is compared with the other sets only if it has no other error (VAL-1).
    fn errors(&self, candidate: &Candidate, settings: &Settings) -> Vec<FieldError> {
        if !candidate.errors.is_empty() {
            return candidate.errors.clone();
        }
        let set = &candidate.set;
        let mut errors = validate(set);
        let base: Vec<SidecarSet> = set.canary_of().and_then(|base| self.sets.get(base)).cloned().into_iter().collect();
        canary::check_base(set, &base, &mut errors);
        // Edits between the two versions do not matter: a change that no single edit may make is refused for several
        // edits, too.
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
        let claims = Claims::from_sidecar_set(set);
        let names = claims.names().map(|(kind, name)| (kind, name.to_owned()));
        let users: Vec<&BTreeSet<String>> = names.filter_map(|name| self.names.get(&name)).collect();
        let neighbours = self.neighbours.beside(set);
        for other in self.among(&neighbours, &users) {
            conflicts::check(set, other, &mut errors);
        }
        if gate {
            errors.append(&mut self.shared_volumes(set, &declared, &neighbours));
        }
        if gate && can_conflict(set, &declared, &settings.service_accounts) {
            let mut findings = identity::Findings::default();
            for (name, theirs) in self.accounts.iter().filter(|(name, _)| neighbours.contains(*name)) {
                if let Some(other) = self.sets.get(name).filter(|_| name != set.name()) {
                    let others = Claims::from_sidecar_set(other);
                    check_claims((&claims, &declared), (&others, theirs), &settings.service_accounts, &mut findings);
                }
            }
            errors.append(&mut findings.into_errors());
        }
        errors
    }
}
