//! The permissions that no SidecarSet may grant (ESC-4).

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::rbac::{Atom, Permission, Wildcards};

/// An index of denied permissions. A SidecarSet may ask for as many permissions as the list has entries, and comparing
/// each with each would take seconds (E18).
pub struct Denied<'a> {
    list: &'a [Atom],
    wildcards: Wildcards,
    /// The first entry for each [`Key`], for the shapes that were requested so far.
    by_shape: RefCell<BTreeMap<Shape, BTreeMap<Key<'a>, usize>>>,
}

/// Tells which parts of a permission are wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    any_group: bool,
    resource: Resources,
    any_verb: bool,
}

/// The resources that a permission applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Resources {
    /// One resource.
    One,
    /// One subresource of all resources: `*/scale`.
    Subresource,
    /// All resources: `*`.
    All,
}

/// A permission without the parts that are wildcards in its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    group: Option<&'a str>,
    resource: Resource<'a>,
    verb: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Resource<'a> {
    Any,
    Named(&'a str),
    Subresource(&'a str),
}

const WILDCARD: &str = "*";

impl<'a> Denied<'a> {
    /// Creates the index of a list.
    pub fn new(list: &'a [Atom]) -> Self {
        let wildcards = Wildcards::from_permissions(list.iter().map(Atom::as_permission));
        Self { list, wildcards, by_shape: RefCell::default() }
    }

    /// Returns the first entry of the list that overlaps the permission. A wildcard in the permission matches every
    /// entry, and a wildcard in the entry matches every permission. Names of objects are ignored.
    pub fn denial(&self, permission: Permission<'_>) -> Option<&'a Atom> {
        let shape = Shape::from_permission(permission);
        let mut by_shape = self.by_shape.borrow_mut();
        let entries = by_shape.entry(shape).or_insert_with(|| self.index(shape));
        let first = shape.keys(permission, self.wildcards).into_iter().filter_map(|key| entries.get(&key)).min()?;
        self.list.get(*first)
    }

    fn index(&self, shape: Shape) -> BTreeMap<Key<'a>, usize> {
        let entries = self.list.iter().enumerate().rev();
        entries.filter_map(|(place, entry)| Some((shape.key(entry.as_permission())?, place))).collect()
    }
}

impl Shape {
    fn from_permission(Permission { group, resource, verb, .. }: Permission<'_>) -> Self {
        let resource = match resource {
            WILDCARD => Resources::All,
            _ if resource.starts_with("*/") => Resources::Subresource,
            _ => Resources::One,
        };
        Self { any_group: group == WILDCARD, resource, any_verb: verb == WILDCARD }
    }

    /// Returns the key of an entry of the list; `None` if no permission of this shape overlaps it.
    fn key(self, Permission { group, resource, verb, .. }: Permission<'_>) -> Option<Key<'_>> {
        let resource = match self.resource {
            Resources::All => Resource::Any,
            Resources::One => resource.strip_prefix("*/").map_or(Resource::Named(resource), Resource::Subresource),
            Resources::Subresource if resource == WILDCARD => Resource::Named(resource),
            Resources::Subresource => Resource::Subresource(resource.split_once('/')?.1),
        };
        Some(Key { group: (!self.any_group).then_some(group), resource, verb: (!self.any_verb).then_some(verb) })
    }

    /// Returns the keys of the entries that can overlap a permission of this shape, if the entries use `wildcards`.
    fn keys<'p>(self, permission: Permission<'p>, wildcards: Wildcards) -> Vec<Key<'p>> {
        let Permission { group, resource, verb, .. } = permission;
        let either = |is_any: bool, text: &'p str, or_any: bool| {
            let others = [Some(text), or_any.then_some(WILDCARD)].into_iter().flatten().map(Some);
            if is_any { vec![None] } else { others.collect() }
        };
        let groups = either(self.any_group, group, wildcards.group);
        let verbs = either(self.any_verb, verb, wildcards.verb);
        let subresource = resource.split_once('/').map(|(_, subresource)| Resource::Subresource(subresource));
        let every = wildcards.resource.then_some(Resource::Named(WILDCARD));
        let resources: Vec<Resource<'_>> = match self.resource {
            Resources::All => vec![Resource::Any],
            Resources::Subresource => subresource.into_iter().chain(every).collect(),
            Resources::One => subresource.into_iter().chain([Resource::Named(resource)]).chain(every).collect(),
        };
        groups
            .iter()
            .flat_map(|group| resources.iter().map(move |resource| (*group, *resource)))
            .flat_map(|(group, resource)| verbs.iter().map(move |verb| Key { group, resource, verb: *verb }))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether some permission is part of both.
    fn overlaps(one: Permission<'_>, other: Permission<'_>) -> bool {
        let wider = |one: &str, other: &str| one == WILDCARD || one == other;
        let wider_resource = |one: &str, other: &str| {
            let same = one.strip_prefix("*/").zip(other.split_once('/')).is_some_and(|(one, (_, other))| one == other);
            wider(one, other) || same
        };
        let either = |wider: &dyn Fn(&str, &str) -> bool, one, other| wider(one, other) || wider(other, one);
        either(&wider, one.group, other.group)
            && either(&wider_resource, one.resource, other.resource)
            && either(&wider, one.verb, other.verb)
    }

    fn atoms(most: usize) -> impl Strategy<Value = Vec<Atom>> {
        let resource = ["*", "a", "b", "*/s", "*/t", "a/s", "a/*", "*/", "a/s/t", "*/s/t"];
        let parts = (
            prop::sample::select(&["", "*", "g"]),
            prop::sample::select(resource.to_vec()),
            prop::sample::select(&["*", "get", "list"]),
        );
        let atom = parts.prop_map(|(group, resource, verb)| Atom::new(group, resource, None, verb));
        prop::collection::vec(atom, 0..most)
    }

    proptest! {
        #[test]
        fn esc4_the_index_finds_the_first_entry_that_overlaps(list in atoms(8), asked in atoms(4)) {
            let denied = Denied::new(&list);
            for atom in &asked {
                let permission = atom.as_permission();
                let first = list.iter().find(|entry| overlaps(entry.as_permission(), permission));
                prop_assert_eq!(denied.denial(permission), first);
            }
        }
    }
}
