//! RBAC rules as sets of single permissions (`serviceaccounts.md` G3, P1, P4).
//!
//! A PolicyRule stands for every combination of its groups, resources, names and verbs. Joining two rules field by
//! field would grant combinations that neither grants, so everything here works on the combinations themselves.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::format;
use crate::json;

/// One combination: a verb on a resource, of one name where it has one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Atom {
    /// The API group; `""` is the core group, `*` is every group.
    pub group: String,
    /// `pods`, `pods/log`, `*` (everything), `*/scale` (this subresource of everything).
    pub resource: String,
    /// The only object that it speaks of.
    pub name: Option<String>,
    /// `get`, ..., `*`.
    pub verb: String,
}

impl Atom {
    /// This verb on this resource, of one name or of all.
    pub fn new(group: &str, resource: &str, name: Option<&str>, verb: &str) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.map(str::to_owned),
            verb: verb.to_owned(),
        }
    }

    /// Whether whoever holds this holds `other` too, as the RBAC authorizer decides it.
    pub fn covers(&self, other: &Self) -> bool {
        wider(&self.group, &other.group)
            && wider_resource(&self.resource, &other.resource)
            && (self.name.is_none() || self.name == other.name)
            && wider(&self.verb, &other.verb)
    }

    /// Whether there is a permission that both stand for, whatever the name: `get` on `*` and anything on `secrets`.
    pub fn overlaps(&self, other: &Self) -> bool {
        let either = |one: &str, two: &str| wider(one, two) || wider(two, one);
        either(&self.group, &other.group)
            && (wider_resource(&self.resource, &other.resource) || wider_resource(&other.resource, &self.resource))
            && either(&self.verb, &other.verb)
    }

    /// Resource and subresource, which a SubjectAccessReview asks for apart (P1).
    pub fn resource_and_subresource(&self) -> (&str, &str) {
        format::cut(&self.resource, "/").unwrap_or((&self.resource, ""))
    }
}

fn wider(one: &str, other: &str) -> bool {
    one == "*" || one == other
}

/// `*` is everything, subresources included; `*/scale` is that subresource of everything.
fn wider_resource(one: &str, other: &str) -> bool {
    let same_subresource = || {
        let subresource = one.strip_prefix("*/");
        subresource.is_some() && subresource == format::cut(other, "/").map(|(_, subresource)| subresource)
    };
    wider(one, other) || same_subresource()
}

/// Every combination of some PolicyRules, ascending, each once. Rules without verbs, groups or resources stand for
/// nothing; `nonResourceURLs` are not looked at (V6 refuses them).
pub fn atoms(rules: &[Value]) -> Vec<Atom> {
    let mut atoms = BTreeSet::new();
    for rule in rules {
        let mut names = vec![None];
        for name in texts(rule, "resourceNames") {
            names.push(Some(name));
        }
        // Without names it is every object.
        let names = if names.len() > 1 { names.get(1..) } else { names.get(..) }.unwrap_or_default();
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                for verb in texts(rule, "verbs") {
                    for name in names {
                        atoms.insert(Atom::new(group, resource, *name, verb));
                    }
                }
            }
        }
    }
    atoms.into_iter().collect()
}

/// How many combinations some PolicyRules stand for, repetitions counted, without making them (P3).
pub fn count(rules: &[Value]) -> usize {
    let mut sum = 0_usize;
    for rule in rules {
        let mut product = 1_usize;
        for field in ["apiGroups", "resources", "verbs", "resourceNames"] {
            let length = texts(rule, field).len();
            product = product.saturating_mul(if field == "resourceNames" { length.max(1) } else { length });
        }
        sum = sum.saturating_add(product);
    }
    sum
}

fn texts<'a>(rule: &'a Value, field: &str) -> Vec<&'a str> {
    json::texts(rule, &[field])
}

/// The same permissions without those that others cover, in the same order.
pub fn reduced(atoms: &[Atom]) -> Vec<Atom> {
    let mut kept = Vec::new();
    for atom in atoms {
        if !atoms.iter().any(|other| other != atom && other.covers(atom)) {
            kept.push(atom.clone());
        }
    }
    kept
}

/// The rules of the Role that grants what all of `rules` grant together, and nothing else (G3).
///
/// Sorted and the same bytes for the same permissions, in whatever way and order they were written: the policy
/// compares them with those of the Role in the cluster (G5). Each rule is for one API group; resources share a rule
/// where names and verbs are the same.
pub fn normalised(rules: &[Value]) -> Vec<Value> {
    let mut grants: Vec<Grant> = Vec::new();
    for atom in reduced(&atoms(rules)) {
        let key = (atom.group, vec![atom.resource], Vec::from_iter(atom.name));
        match grants.iter_mut().find(|grant| grant.key() == key) {
            Some(grant) => grant.verbs.push(atom.verb),
            None => grants.push(Grant { group: key.0, resources: key.1, names: key.2, verbs: vec![atom.verb] }),
        }
    }
    // Verbs are complete now: first names of one resource, then resources of one group.
    join(&mut grants, |one, other| one.resources == other.resources, |grant| &mut grant.names);
    join(&mut grants, |one, other| one.names == other.names, |grant| &mut grant.resources);
    grants.sort_by(Grant::cmp);
    grants.into_iter().map(Grant::into_rule).collect()
}

/// A rule in the making.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    group: String,
    resources: Vec<String>,
    names: Vec<String>,
    verbs: Vec<String>,
}

impl Grant {
    fn key(&self) -> (String, Vec<String>, Vec<String>) {
        (self.group.clone(), self.resources.clone(), self.names.clone())
    }

    fn into_rule(self) -> Value {
        let list = |texts: Vec<String>| Value::Array(texts.into_iter().map(Value::String).collect());
        let mut rule = json::Object::new();
        rule.insert("apiGroups".to_owned(), list(vec![self.group]));
        if !self.names.is_empty() {
            rule.insert("resourceNames".to_owned(), list(self.names));
        }
        rule.insert("resources".to_owned(), list(self.resources));
        rule.insert("verbs".to_owned(), list(self.verbs));
        Value::Object(rule)
    }
}

/// Joins grants of one group with the same verbs whose `part` is all that differs. A grant for every name is never
/// joined with one for some.
fn join(grants: &mut Vec<Grant>, alike: fn(&Grant, &Grant) -> bool, part: fn(&mut Grant) -> &mut Vec<String>) {
    let mut joined: Vec<Grant> = Vec::new();
    for mut grant in std::mem::take(grants) {
        let same = joined.iter_mut().find(|other| {
            other.group == grant.group
                && other.verbs == grant.verbs
                && other.names.is_empty() == grant.names.is_empty()
                && alike(other, &grant)
        });
        match same {
            Some(other) => {
                // Grants come in ascending order, and so do their parts; none is there twice.
                part(other).append(part(&mut grant));
            }
            None => joined.push(grant),
        }
    }
    *grants = joined;
}

/// What no SidecarSet may grant, whoever asks, unless `denyPermissions` says otherwise (P4), as PolicyRules.
///
/// Groups, resources and verbs; `""` is the core group.
const DENIED: [(Texts, Texts, Texts); 4] = [
    (&["*"], &["*"], &["escalate", "bind", "impersonate"]),
    // Who writes these decides what may be done in the cluster, and by whom.
    (
        &["rbac.authorization.k8s.io", "admissionregistration.k8s.io", "policies.kubewarden.io"],
        &["*"],
        &["create", "update", "patch", "delete", "deletecollection"],
    ),
    // Who writes these decides what runs in every Pod.
    (&["apps.kruise.io"], &["sidecarsets"], &["create", "update", "patch", "delete", "deletecollection"]),
    (
        &[""],
        &[
            "secrets",
            "serviceaccounts/token",
            "pods/exec",
            "pods/attach",
            "pods/portforward",
            "pods/proxy",
            "pods/ephemeralcontainers",
            "services/proxy",
            "nodes/proxy",
        ],
        &["*"],
    ),
];
type Texts = &'static [&'static str];

/// P4's list.
pub fn denied_by_default() -> Vec<Atom> {
    let mut atoms = Vec::new();
    for (groups, resources, verbs) in DENIED {
        for group in groups {
            for resource in resources {
                for verb in verbs {
                    atoms.push(Atom::new(group, resource, None, verb));
                }
            }
        }
    }
    atoms
}

/// The entry of `denied` that `atom` would grant some of; a wildcard in the atom reaches what the list names (P4).
pub fn denial<'a>(atom: &Atom, denied: &'a [Atom]) -> Option<&'a Atom> {
    denied.iter().find(|entry| entry.overlaps(atom))
}

#[cfg(test)]
mod tests;
