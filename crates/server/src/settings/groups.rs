//! SidecarSets in groups of those that the module compares with each other.

use std::collections::{BTreeMap, HashMap};

use pillion_kubernetes::json;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::validation::conflicts::{Claims, Kind};
use serde_json::{Map, Value};

/// The length of a portion, unless more sets have to be together.
pub(super) const PORTION: usize = 256 * 1024;
/// Words of which a SidecarSet with a ServiceAccount has one.
const IDENTITY: [&str; 2] = ["serviceAccount", "service-account"];

/// SidecarSets, in groups that have to be checked together.
pub(super) struct Groups {
    /// For each set, another one of its group that comes before it, or itself.
    before: Vec<usize>,
    /// The length of each set.
    pub(super) lengths: Vec<usize>,
    /// A set for each name over which sets are compared.
    by_name: HashMap<(Shared, String), usize>,
    has_identities: bool,
}

/// What two SidecarSets can have in common that makes the module compare them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Shared {
    /// Their own name, or that of their base.
    Set,
    Container,
    Volume,
    Annotation,
    /// That they have a ServiceAccount.
    Identity,
}

impl Groups {
    /// Starts with no set; `rest` are the other settings.
    pub(super) fn new(rest: &Map<String, Value>) -> Self {
        let has_identities = rest.contains_key("featureGates");
        Self { before: Vec::new(), lengths: Vec::new(), by_name: HashMap::new(), has_identities }
    }

    /// Adds a set that has defaults.
    pub(super) fn add(&mut self, set: &SidecarSet) {
        let index = self.before.len();
        self.before.push(index);
        self.lengths.push(json::length(set.as_value(), usize::MAX));
        let claims = Claims::from_sidecar_set(set);
        let kind = |kind| match kind {
            Kind::Container => Shared::Container,
            Kind::Volume => Shared::Volume,
            Kind::Annotation => Shared::Annotation,
        };
        let mut shared: Vec<_> = claims.names().map(|(of, name)| (kind(of), name.to_owned())).collect();
        shared.push((Shared::Set, set.name().to_owned()));
        shared.extend(set.canary_of().map(|base| (Shared::Set, base.to_owned())));
        if self.has_identities && may_have_account(set) {
            shared.push((Shared::Identity, String::new()));
        }
        for name in shared {
            let other = *self.by_name.entry(name).or_insert(index);
            self.join(other, index);
        }
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.first(one), self.first(other));
        if let Some(before) = self.before.get_mut(one.max(other)) {
            *before = one.min(other);
        }
    }

    /// Returns the first set of the group of a set.
    pub(super) fn first(&self, mut index: usize) -> usize {
        while let Some(before) = self.before.get(index).filter(|before| **before != index) {
            index = *before;
        }
        index
    }

    /// Returns the indices of the sets of each portion, ascending.
    pub(super) fn portions(&self) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for index in 0..self.before.len() {
            groups.entry(self.first(index)).or_default().push(index);
        }
        let length = |group: &[usize]| group.iter().filter_map(|index| self.lengths.get(*index)).sum::<usize>();
        let (mut portions, mut portion, mut taken) = (Vec::new(), Vec::new(), 0);
        for group in groups.into_values() {
            let more = length(&group);
            if taken > 0 && taken + more > PORTION {
                portions.push(std::mem::take(&mut portion));
                taken = 0;
            }
            portion.extend(group);
            taken += more;
        }
        portions.push(portion);
        for portion in &mut portions {
            portion.sort_unstable();
        }
        portions
    }
}

/// Whether a set has a ServiceAccount, or only a word for it.
pub(super) fn may_have_account(set: &SidecarSet) -> bool {
    let text = set.as_value().to_string();
    IDENTITY.iter().any(|word| text.contains(word))
}
