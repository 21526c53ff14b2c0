//! The checks of `validate_settings` beyond decoding.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use pillion_bundle::Bundle;
use pillion_identity::content;
use pillion_identity::declared::Declared;
use pillion_identity::validation as identity;
use pillion_kubernetes::field::{Cause, FieldError, FieldPath};
use pillion_kubernetes::lookup::NoObjects;
use pillion_kubernetes::node::Node;
use pillion_sidecarset::requested_revision::{RequestedRevision, RevisionIndex};
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::origin::Origin;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use pillion_sidecarset::validation::conflicts::{Claims, Kind};
use pillion_sidecarset::validation::{canary, validate_manifest};

use super::rivals::{COMPARISONS_MAX, Rivals, TooMany};
use super::{BorrowedSettings, ManifestName, naming, whitelist};

pub(super) fn settings(settings: &BorrowedSettings<'_>) -> Vec<FieldError> {
    let (path, bundle) = (FieldPath::new("sidecarSets"), FieldPath::new("bundle"));
    let mut errors = Vec::new();
    let mut sets: Vec<SidecarSet> = settings.sidecar_sets.iter().map(prepared).collect();
    if let Some(text) = &settings.bundle {
        bundled(text, &mut sets, &mut errors);
    }
    let own = settings.sidecar_sets.len();
    let named: BTreeMap<_, _> = sets.iter().rev().map(|set| (set.name(), set)).collect();
    let claims: Vec<Claims<'_>> = sets.iter().map(Claims::from_sidecar_set).collect();
    let revisions = RevisionIndex::new(&settings.controller_revisions, &settings.system_namespace);
    let mut rivals = Compared { left: COMPARISONS_MAX, ..Compared::default() };
    for (index, (set, claims_of)) in sets.iter().zip(&claims).enumerate() {
        let mut wrong = validate_manifest(set);
        let base = set.canary_of().and_then(|base| named.get(base)).map_or(&[][..], |base| std::slice::from_ref(*base));
        canary::check_base(set, base, &mut wrong);
        let declared = settings.gates.service_account_injection.then(|| {
            let (declared, findings) = identity::check(set, &settings.service_accounts);
            wrong.append(&mut findings.into_errors());
            if declared.service_account.is_some()
                && let Some(requested) = RequestedRevision::from_sidecar_set(set)
                // Nothing is looked up, and a bundle has the versions of its sets (IDC-9).
                && let Ok(Some(revision)) = revisions.find(set, requested, &NoObjects)
            {
                let trusted = &settings.service_accounts.trusted_csi_drivers;
                wrong.append(&mut content::check_revision(set, &revision, trusted));
            }
            declared
        });
        if rivals.compare((index, claims_of), &claims, declared, settings, &mut wrong).is_err() {
            let detail = "too many SidecarSets of the same names could meet in a Pod: they are not compared with each other; \
                          let each select its Pods or Namespaces by a label of its own";
            errors.push(FieldError::new(path, Cause::TooMany, detail));
            break;
        }
        let at = if index < own { path.index(index) } else { bundle.key(set.name()) };
        let manifest = ManifestName { kind: "SidecarSet", name: set.name() };
        errors.extend(wrong.into_iter().map(|error| naming(error, &at, &manifest)));
    }
    if let Some(rules) = &settings.patch_pod_metadata_whitelist {
        whitelist::validate(&Node { value: rules, place: FieldPath::new("patchPodMetadataWhitelist") }, &mut errors);
    }
    errors
}

/// The sets that use the same name. Most names have only one set, which needs no index.
struct Sharers<'a> {
    first: usize,
    rivals: Option<Rivals<'a>>,
}

impl<'a> Sharers<'a> {
    /// Returns the index of these sets. Creates it at the second set.
    fn rivals(&mut self, all: &[Claims<'a>]) -> &mut Rivals<'a> {
        let first = self.first;
        self.rivals.get_or_insert_with(|| {
            let mut rivals = Rivals::default();
            if let Some(claims) = all.get(first) {
                rivals.add(first, claims);
            }
            rivals
        })
    }
}

/// The sets that have been compared with each other.
#[derive(Default)]
struct Compared<'c, 'a> {
    /// The sets by the names over which they could conflict.
    sharing: BTreeMap<(Kind, &'c str), Sharers<'a>>,
    /// The sets with an identity.
    identities: Rivals<'a>,
    declared: BTreeMap<usize, Declared>,
    /// The number of comparisons that may still be made.
    left: usize,
}

impl<'c, 'a> Compared<'c, 'a> {
    /// Compares a set with those before it, and adds it.
    fn compare(
        &mut self,
        (index, claims): (usize, &'c Claims<'a>),
        all: &[Claims<'a>],
        declared: Option<Declared>,
        settings: &BorrowedSettings<'_>,
        wrong: &mut Vec<FieldError>,
    ) -> Result<(), TooMany> {
        // As at admission, a set is compared only if it is valid otherwise (VAL-1). A conflict is reported once, at the
        // later of the two sets.
        let is_fine = wrong.is_empty();
        let mut earlier = BTreeSet::new();
        for name in claims.names() {
            match self.sharing.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(Sharers { first: index, rivals: None });
                }
                Entry::Occupied(mut entry) => {
                    let sharers = entry.get_mut().rivals(all);
                    sharers.find(claims, &mut earlier, &mut self.left)?;
                    sharers.add(index, claims);
                }
            }
        }
        if is_fine {
            for other in earlier.iter().filter_map(|index| all.get(*index)) {
                if !(is_of_a_cluster(claims.set) && is_of_a_cluster(other.set)) {
                    claims.check(other, wrong);
                }
            }
        }
        if let Some(declared) = declared.filter(|declared| is_fine && declared.service_account.is_some()) {
            let mut findings = identity::Findings::default();
            let mut earlier = BTreeSet::new();
            self.identities.find(claims, &mut earlier, &mut self.left)?;
            for (other, theirs) in earlier.iter().filter_map(|index| all.get(*index).zip(self.declared.get(index))) {
                let rules = &settings.service_accounts;
                pillion_identity::conflicts::check_claims((claims, &declared), (other, theirs), rules, &mut findings);
            }
            wrong.append(&mut findings.into_errors());
            self.identities.add(index, claims);
            self.declared.insert(index, declared);
        }
        Ok(())
    }
}

/// Whether a set is stored in a cluster, and only carried in the settings, as in those of a preview. Such sets were
/// compared when they were written. If a rule is younger, they stay (VAL-52).
fn is_of_a_cluster(set: &SidecarSet) -> bool {
    set.is_stored() && Origin::written_in(set.as_value()) == Some(Origin::Cluster)
}

/// Adds the sets of a bundle, which are of the settings (TRUST-1), after verifying its checksum. A name that also occurs in `sidecarSets` is an error.
fn bundled(text: &[u8], sets: &mut Vec<SidecarSet>, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("bundle");
    let read = Bundle::read(text).and_then(|bundle| bundle.verify());
    let bundled = match read {
        Ok(bundled) => bundled,
        Err(error) => return errors.push(FieldError::new(path, Cause::Invalid, error.to_string())),
    };
    let mut names: BTreeSet<_> = sets.iter().map(|set| set.name().to_owned()).collect();
    for set in bundled {
        if !names.insert(set.name().to_owned()) {
            errors.push(FieldError::duplicate(path.key(set.name()), set.name()));
        }
        sets.push(set.within_settings());
    }
}
