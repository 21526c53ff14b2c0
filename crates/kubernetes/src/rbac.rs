//! RBAC rules as sets of single permissions (MRG-3, ESC-1, ESC-4).
//!
//! A PolicyRule stands for every combination of its groups, resources, names and verbs. Joining two rules field by
//! field would grant combinations that neither grants, so this module works on single combinations. There can be many
//! more combinations than the rules have bytes. Therefore [`check_size`] comes first for rules from untrusted authors
//! (E18), and a [`Permission`] borrows its texts.

pub mod denied;

use std::collections::{BTreeMap, BTreeSet};

pub use k8s_openapi::api::rbac::v1::PolicyRule;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::json;
use crate::name_validation::{DNS_LABEL_MAX, DNS_SUBDOMAIN_MAX};

/// The maximum number of combinations. Rules with more are not expanded (ESC-3, E18).
pub const COMBINATIONS_MAX: usize = 4 * 1024;

/// The reason why rules are not expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Oversize {
    /// The rules stand for too many combinations.
    #[error("stands for more than {COMBINATIONS_MAX} permissions; name fewer groups, resources, verbs or objects")]
    Combinations,
    /// A text in a list of a rule is too long.
    #[error("may have at most {limit} bytes in each of its texts; Kubernetes has no longer ones")]
    Length {
        /// The index of the rule.
        rule: usize,
        /// The list.
        list: &'static str,
        /// The index of the text in the list.
        text: usize,
        /// The maximum length of the text, in bytes.
        limit: usize,
    },
}

/// One combination: a verb on a resource, for one named object or for all objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Atom {
    /// The API group; `""` is the core group, `*` is every group.
    pub group: String,
    /// `pods`, `pods/log`, `*` (everything), `*/scale` (this subresource of everything).
    pub resource: String,
    /// The name of the only object that it applies to; `None` means all objects.
    pub name: Option<String>,
    /// `get`, ..., `*`.
    pub verb: String,
}

impl Atom {
    /// Creates the permission for this verb on this resource, for one named object or for all.
    pub fn new(group: &str, resource: &str, name: Option<&str>, verb: &str) -> Self {
        Permission { group, resource, name, verb }.into()
    }

    /// Returns the same permission, borrowed.
    pub fn as_permission(&self) -> Permission<'_> {
        let Self { group, resource, name, verb } = self;
        Permission { group, resource, name: name.as_deref(), verb }
    }

    /// See [`Permission::covers`].
    pub fn covers(&self, other: &Self) -> bool {
        self.as_permission().covers(other.as_permission())
    }

    /// Returns the resource and the subresource, which are separate fields of a SubjectAccessReview (ESC-1).
    pub fn resource_and_subresource(&self) -> (&str, &str) {
        self.resource.split_once('/').unwrap_or((&self.resource, ""))
    }
}

impl From<Permission<'_>> for Atom {
    fn from(Permission { group, resource, name, verb }: Permission<'_>) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.map(str::to_owned),
            verb: verb.to_owned(),
        }
    }
}

/// An [`Atom`] that borrows its texts from the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permission<'a> {
    /// The API group.
    pub group: &'a str,
    /// The resource, with the subresource.
    pub resource: &'a str,
    /// The name of the only object that it applies to; `None` means all objects.
    pub name: Option<&'a str>,
    /// The verb.
    pub verb: &'a str,
}

impl<'a> Permission<'a> {
    /// Whether a holder of this permission also holds `other`, by the rules of the RBAC authorizer.
    pub fn covers(self, other: Self) -> bool {
        wider(self.group, other.group)
            && wider_resource(self.resource, other.resource)
            && (self.name.is_none() || self.name == other.name)
            && wider(self.verb, other.verb)
    }

    /// Returns every permission that could cover this one, itself included, if the candidates use `wildcards`.
    /// `suffixed` is the resource `*/<subresource>`, if a candidate has it.
    fn wider_ones(self, wildcards: Wildcards, suffixed: Option<&'a str>) -> impl Iterator<Item = Self> {
        let or_any = |text, is_used: bool| [Some(text), is_used.then_some("*")];
        let [resource, any_resource] = or_any(self.resource, wildcards.resource);
        let resources = [resource, any_resource, suffixed];
        let names = [Some(self.name), self.name.is_some().then_some(None)];
        or_any(self.group, wildcards.group).into_iter().flatten().flat_map(move |group| {
            resources.into_iter().flatten().flat_map(move |resource| {
                names.into_iter().flatten().flat_map(move |name| {
                    let verbs = or_any(self.verb, wildcards.verb);
                    verbs.into_iter().flatten().map(move |verb| Self { group, resource, name, verb })
                })
            })
        })
    }
}

/// The parts for which some permission has `*`. Most permissions have none, and then one lookup finds every permission
/// that covers another.
#[derive(Clone, Copy, Default)]
pub(super) struct Wildcards {
    pub group: bool,
    pub resource: bool,
    pub verb: bool,
}

impl Wildcards {
    /// Returns the wildcards that these permissions use.
    pub fn from_permissions<'a>(permissions: impl Iterator<Item = Permission<'a>>) -> Self {
        permissions.fold(Self::default(), |used, one| Self {
            group: used.group || one.group == "*",
            resource: used.resource || one.resource == "*",
            verb: used.verb || one.verb == "*",
        })
    }
}

/// An index of permissions that finds those that cover a given permission, without comparing it with each.
struct Held<'h, 'a> {
    all: &'h BTreeSet<Permission<'a>>,
    wildcards: Wildcards,
    /// The resources `*/<subresource>`, by subresource.
    suffixed: BTreeMap<&'a str, &'a str>,
}

impl<'h, 'a> Held<'h, 'a> {
    fn new(all: &'h BTreeSet<Permission<'a>>) -> Self {
        let suffixed = all.iter().filter_map(|held| Some((held.resource.strip_prefix("*/")?, held.resource)));
        let wildcards = Wildcards::from_permissions(all.iter().copied());
        Self { all, wildcards, suffixed: suffixed.collect() }
    }

    /// Returns the held permissions that cover `wanted`, including `wanted` itself if it is held.
    fn covering(&self, wanted: Permission<'a>) -> impl Iterator<Item = Permission<'a>> {
        let subresource = wanted.resource.split_once('/').map(|(_, subresource)| subresource);
        let suffixed = subresource.and_then(|subresource| self.suffixed.get(subresource)).copied();
        wanted.wider_ones(self.wildcards, suffixed).filter(|wide| self.all.contains(wide))
    }
}

fn wider(one: &str, other: &str) -> bool {
    one == "*" || one == other
}

/// Whether resource `one` covers `other`. `*` covers everything, subresources included; `*/scale` covers that
/// subresource of every resource.
fn wider_resource(one: &str, other: &str) -> bool {
    let same_subresource = || {
        let subresource = one.strip_prefix("*/");
        subresource.is_some() && subresource == other.split_once('/').map(|(_, subresource)| subresource)
    };
    wider(one, other) || same_subresource()
}

/// Checks the length of each text and the number of combinations of all rules together, so that the rules can be
/// expanded. An empty list counts like a list with one item.
///
/// # Errors
/// [`Oversize::Length`] for the first text that is too long, else [`Oversize::Combinations`].
pub fn check_size<'a>(rules: impl IntoIterator<Item = &'a PolicyRule>) -> Result<(), Oversize> {
    let mut combinations = 0_usize;
    for (rule, lists) in rules.into_iter().enumerate() {
        // Kubernetes limits verbs to the length of labels, and the other texts to the length of names.
        let lists = [
            ("apiGroups", DNS_SUBDOMAIN_MAX, listed(lists.api_groups.as_ref())),
            ("resources", DNS_SUBDOMAIN_MAX, listed(lists.resources.as_ref())),
            ("verbs", DNS_LABEL_MAX, lists.verbs.as_slice()),
            ("resourceNames", DNS_SUBDOMAIN_MAX, listed(lists.resource_names.as_ref())),
        ];
        for (list, limit, texts) in lists {
            if let Some(text) = texts.iter().position(|text| text.len() > limit) {
                return Err(Oversize::Length { rule, list, text, limit });
            }
        }
        let product = lists.iter().fold(1_usize, |product, (_, _, texts)| product.saturating_mul(texts.len().max(1)));
        combinations = combinations.saturating_add(product);
    }
    if combinations > COMBINATIONS_MAX { Err(Oversize::Combinations) } else { Ok(()) }
}

/// Reads the rules of a Role or a ClusterRole. Returns no rules if the field is absent or null.
///
/// # Errors
/// The field does not hold PolicyRules.
pub fn of_role(role: &Value) -> Result<Vec<PolicyRule>, serde_json::Error> {
    role.get("rules").map_or(Ok(None), Option::deserialize).map(Option::unwrap_or_default)
}

/// Returns namespace and name of the ServiceAccount that a subject of a binding is, also if it is written as a user;
/// `None` for other users and for groups.
pub fn account_of(subject: &Value) -> Option<(&str, &str)> {
    let text = |key: &str| json::text(subject, &[key]);
    match text("kind") {
        "ServiceAccount" => Some((text("namespace"), text("name"))),
        "User" => text("name").strip_prefix("system:serviceaccount:")?.split_once(':'),
        _ => None,
    }
}

/// Returns the items of an optional list.
pub fn listed(list: Option<&Vec<String>>) -> &[String] {
    list.map(Vec::as_slice).unwrap_or_default()
}

/// Expands PolicyRules to single permissions. A rule without verbs, groups or resources stands for none.
/// `nonResourceURLs` are ignored (IDV-6 refuses them).
pub fn permissions<'a>(rules: impl IntoIterator<Item = &'a PolicyRule>) -> BTreeSet<Permission<'a>> {
    // The permissions mostly come in order, and then sorting takes one comparison for each.
    let mut all = Vec::new();
    for rule in rules {
        let names: Vec<Option<&str>> = match listed(rule.resource_names.as_ref()) {
            // Without names the rule applies to every object.
            [] => vec![None],
            names => names.iter().map(|name| Some(name.as_str())).collect(),
        };
        for group in listed(rule.api_groups.as_ref()) {
            for resource in listed(rule.resources.as_ref()) {
                for verb in &rule.verbs {
                    all.extend(names.iter().map(|name| Permission { group, resource, name: *name, verb }));
                }
            }
        }
    }
    BTreeSet::from_iter(all)
}

/// Returns [`permissions`] with owned texts, ascending.
pub fn atoms<'a>(rules: impl IntoIterator<Item = &'a PolicyRule>) -> Vec<Atom> {
    permissions(rules).into_iter().map(Atom::from).collect()
}

/// Returns the permissions that no other permission covers, in the same order.
pub fn reduced<'a>(all: &BTreeSet<Permission<'a>>) -> Vec<Permission<'a>> {
    let held = Held::new(all);
    all.iter().copied().filter(|wanted| held.covering(*wanted).all(|wide| wide == *wanted)).collect()
}

/// Returns the permissions in `wanted` that `all` does not cover, in the same order.
pub fn uncovered<'a>(wanted: Vec<Permission<'a>>, all: &BTreeSet<Permission<'a>>) -> Vec<Permission<'a>> {
    let held = Held::new(all);
    wanted.into_iter().filter(|wanted| held.covering(*wanted).next().is_none()).collect()
}

/// Returns the rules of a Role that grants exactly what all of `rules` grant together (MRG-3).
///
/// The result is sorted and depends only on the permissions, not on how or in which order the rules were written: the
/// policy compares it with the Role in the cluster (MRG-5). Each rule is for one API group. Resources share a rule if
/// their names and verbs are equal.
pub fn normalised<'a>(rules: impl IntoIterator<Item = &'a PolicyRule>) -> Vec<PolicyRule> {
    // Permissions come in ascending order without duplicates, so the joined lists are sorted, too.
    let mut verbs: BTreeMap<(&str, &str, Option<&str>), Vec<&str>> = BTreeMap::new();
    for Permission { group, resource, name, verb } in reduced(&permissions(rules)) {
        verbs.entry((group, resource, name)).or_default().push(verb);
    }
    // Verbs are complete now. Join first the names of one resource, then the resources of one group. A grant for every
    // name is never joined with a grant for some names.
    let mut names: BTreeMap<(&str, &str, bool, Vec<&str>), Vec<&str>> = BTreeMap::new();
    for ((group, resource, name), verbs) in verbs {
        names.entry((group, resource, name.is_some(), verbs)).or_default().extend(name);
    }
    let mut resources: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for ((group, resource, _, verbs), names) in names {
        resources.entry((group, names, verbs)).or_default().push(resource);
    }
    let rules: BTreeSet<_> =
        resources.into_iter().map(|((group, names, verbs), resources)| (group, resources, names, verbs)).collect();
    rules
        .into_iter()
        .map(|(group, resources, names, verbs)| {
            let list = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect::<Vec<_>>();
            PolicyRule {
                api_groups: Some(list(vec![group])),
                resource_names: Some(list(names)).filter(|names| !names.is_empty()),
                resources: Some(list(resources)),
                verbs: list(verbs),
                non_resource_urls: None,
            }
        })
        .collect()
}

/// The permissions that no SidecarSet may grant, whoever its author is, unless `denyPermissions` says otherwise
/// (ESC-4), as PolicyRules.
///
/// Groups, resources and verbs; `""` is the core group.
const DENIED: [(Texts, Texts, Texts); 4] = [
    (&["*"], &["*"], &["escalate", "bind", "impersonate"]),
    // Write access to these decides which permissions users have in the cluster, and which policies apply.
    (
        &["rbac.authorization.k8s.io", "admissionregistration.k8s.io", "policies.kubewarden.io"],
        &["*"],
        &["create", "update", "patch", "delete", "deletecollection"],
    ),
    // Write access to these decides which containers run in every Pod.
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

/// Returns ESC-4's list as single permissions.
pub fn denied_by_default() -> Vec<Atom> {
    let of_rule = |(groups, resources, verbs): (Texts, Texts, Texts)| {
        groups.iter().flat_map(move |group| {
            resources.iter().flat_map(move |resource| verbs.iter().map(|verb| Atom::new(group, resource, None, verb)))
        })
    };
    DENIED.into_iter().flat_map(of_rule).collect()
}

/// Returns ESC-4's list as PolicyRules.
#[cfg(feature = "schema")]
pub fn denied_rules() -> Value {
    let rule = |(groups, resources, verbs): (Texts, Texts, Texts)| serde_json::json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    DENIED.into_iter().map(rule).collect()
}

#[cfg(test)]
mod tests;
