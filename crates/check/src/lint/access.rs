//! Who can get at the identities of sidecars by rights of RBAC (ESC-8): the subjects of the cluster's bindings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pillion_identity::declared::{Declared, Mode};
use pillion_identity::names;
use pillion_identity::rules::{OnAppAccount, Rules};
use pillion_inject::matching;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{Answer, Lookup, ObjectRef};
use pillion_kubernetes::rbac::{self, Permission};
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;
use serde_json::Value;

use super::Everything;
use crate::documents::{Document, Role};
use crate::report::{Finding, OptionalRule};
use crate::settings::Judged;
use crate::subject::{Spot, Subject};

/// A right with which its holder gets at an identity.
struct Right {
    resource: &'static str,
    /// Each of these verbs is enough. A message names the first.
    verbs: &'static [&'static str],
    to: To,
}

/// The objects that a right has to reach.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    /// Any Pod.
    Pods,
    /// The ServiceAccount of a SidecarSet.
    Accounts,
    /// The Secret with the token of an isolated sidecar.
    Secrets,
    /// Nodes, which are in no namespace.
    Nodes,
}

const fn right(resource: &'static str, verbs: &'static [&'static str], to: To) -> Right {
    Right { resource, verbs, to }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verbs.first().copied().unwrap_or_default(), self.resource)
    }
}

/// The rights, in the order of messages. Clients open connections with POST or GET, which are `create` and `get`.
const RIGHTS: [Right; 9] = [
    right("serviceaccounts", &["impersonate"], To::Accounts),
    right("serviceaccounts/token", &["create"], To::Accounts),
    right("secrets", &["get", "list", "watch"], To::Secrets),
    right("pods/exec", &["create", "get"], To::Pods),
    right("pods/attach", &["create", "get"], To::Pods),
    right("pods/portforward", &["create", "get"], To::Pods),
    right("pods/ephemeralcontainers", &["patch", "update"], To::Pods),
    right("pods", &["patch", "update"], To::Pods),
    right("nodes/proxy", &["get", "create"], To::Nodes),
];

/// The label of the bindings that every API server makes for its own components.
const OF_API_SERVER: &str = "kubernetes.io/bootstrapping";
/// The groups that stand for many users, and so are worth a warning in spite of their prefix.
const WIDE_GROUPS: [&str; 3] = ["system:authenticated", "system:unauthenticated", "system:serviceaccounts"];
/// The most namespaces that a message names.
const NAMESPACES_MAX: usize = 5;
/// The most administrators that the note names.
const ADMINISTRATORS_MAX: usize = 5;

/// A subject of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who<'a> {
    Group(&'a str),
    User(&'a str),
    Account(&'a str, &'a str),
}

impl<'a> Who<'a> {
    fn from_subject(subject: &'a Value) -> Option<Self> {
        if let Some((namespace, name)) = rbac::account_of(subject) {
            return Some(Self::Account(namespace, name));
        }
        let name = json::text(subject, &["name"]);
        match json::text(subject, &["kind"]) {
            "Group" => Some(Self::Group(name)),
            "User" => Some(Self::User(name)),
            _ => None,
        }
    }

    /// Whether this is a part of the system, which holds such rights by its nature: components of the control plane,
    /// nodes, and accounts in the namespaces of the system.
    fn is_of_system(self, systems: &BTreeSet<&str>) -> bool {
        match self {
            Self::Group(name) => {
                name.starts_with("system:") && !WIDE_GROUPS.iter().any(|wide| name.starts_with(wide))
                    || systems.iter().any(|system| name == format!("system:serviceaccounts:{system}"))
            }
            Self::User(name) => name.starts_with("system:"),
            Self::Account(namespace, _) => systems.contains(namespace),
        }
    }
}

impl fmt::Display for Who<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(name) => write!(f, "Group {name:?}"),
            Self::User(name) => write!(f, "User {name:?}"),
            Self::Account(namespace, name) => write!(f, "ServiceAccount \"{namespace}/{name}\""),
        }
    }
}

/// The ServiceAccounts and the Secrets of the SidecarSets in one namespace.
#[derive(Clone, Default)]
struct Used {
    accounts: BTreeSet<String>,
    secrets: BTreeSet<String>,
}

impl Used {
    fn add(&mut self, other: &Self) {
        self.accounts.extend(other.accounts.iter().cloned());
        self.secrets.extend(other.secrets.iter().cloned());
    }
}

/// Answers look-ups of Namespaces from the documents.
struct Namespaces<'a>(BTreeMap<&'a str, &'a Value>);

impl Lookup for Namespaces<'_> {
    fn get(&self, object: &ObjectRef) -> Answer {
        Ok(self.0.get(object.name.as_str()).map(|namespace| (*namespace).clone()))
    }
}

/// What a subject holds, and the first binding that gives it.
struct Holding<'a> {
    binding: &'a Document,
    subject: usize,
    /// The rights, as indices, by namespace; `None` is every namespace.
    rights: BTreeMap<Option<&'a str>, BTreeSet<usize>>,
}

/// The subjects that can get at identities.
#[derive(Default)]
pub struct Access {
    /// A warning for each subject.
    pub findings: Vec<Finding>,
    /// Who is not listed.
    pub note: Option<String>,
}

/// The rights of [`RIGHTS`] that a binding gives.
struct Bound<'a> {
    /// `None` for a `ClusterRoleBinding`.
    namespace: Option<&'a str>,
    /// The rights, as indices.
    rights: BTreeSet<usize>,
    /// Whether it gives every permission everywhere.
    is_everything: bool,
}

/// The Roles and ClusterRoles of the documents, by kind, namespace and name.
type Roles<'a> = BTreeMap<(&'a str, &'a str, &'a str), &'a Document>;

/// Returns what a binding gives; `None` if it gives none of [`RIGHTS`], or is no binding.
fn bound<'a>(
    binding: &'a Value,
    used: &BTreeMap<&str, Used>,
    everywhere: &Used,
    roles: &Roles<'a>,
) -> Option<Bound<'a>> {
    let text = |path: &[&str]| json::text(binding, path);
    let namespace = match text(&["kind"]) {
        "RoleBinding" => Some(text(&["metadata", "namespace"])),
        "ClusterRoleBinding" => None,
        _ => return None,
    };
    let reached = namespace.map_or(Some(everywhere), |name| used.get(name))?;
    let (kind, role) = (text(&["roleRef", "kind"]), text(&["roleRef", "name"]));
    let role_in = if kind == "Role" { namespace.unwrap_or_default() } else { "" };
    let bound = rbac::of_role(&roles.get(&(kind, role_in, role))?.manifest.value).ok()?;
    let held = rbac::permissions(&bound);
    let rights = rights(&held, reached, namespace.is_none());
    let everything = Permission { group: "*", resource: "*", name: None, verb: "*" };
    let is_everything = namespace.is_none() && held.iter().any(|held| held.covers(everything));
    (!rights.is_empty()).then_some(Bound { namespace, rights, is_everything })
}

/// Returns the subjects who hold a right of [`RIGHTS`] in a namespace in which one of these SidecarSets gives an identity.
pub fn find(naming: &[&Subject<'_>], everything: &Everything<'_>) -> Access {
    let Everything { documents, settings, .. } = *everything;
    let of = |role: Role| documents.iter().filter(move |document| document.role == role);
    let namespaces = of(Role::Namespace).map(|document| &document.manifest.value);
    let namespaces = Namespaces(namespaces.map(|value| (json::text(value, &["metadata", "name"]), value)).collect());
    // Most folders have no Roles and no bindings. Then no subject holds a right.
    let used = if of(Role::Rbac).next().is_some() { used(naming, settings, &namespaces) } else { BTreeMap::new() };
    if used.is_empty() {
        return Access::default();
    }
    let mut everywhere = Used::default();
    for of in used.values() {
        everywhere.add(of);
    }
    let systems: BTreeSet<&str> = settings
        .iter()
        .flat_map(|judged| &judged.settings.service_accounts.protected_namespaces)
        .map(String::as_str)
        .chain(pillion_identity::rules::SYSTEM_NAMESPACES)
        .collect();
    let roles: Roles<'_> = of(Role::Rbac).map(|document| (key(&document.manifest.value), document)).collect();
    let mut held: BTreeMap<Who<'_>, Holding<'_>> = BTreeMap::new();
    let (mut of_system, mut administrators) = (BTreeSet::new(), BTreeSet::new());
    for binding in of(Role::Rbac) {
        let object = &binding.manifest.value;
        let Some(Bound { namespace, rights, is_everything }) = bound(object, &used, &everywhere, &roles) else {
            continue;
        };
        let is_made = !json::text(object, &["metadata", "labels", OF_API_SERVER]).is_empty();
        for (index, subject) in json::items(object, &["subjects"]).iter().enumerate() {
            let Some(who) = Who::from_subject(subject) else { continue };
            if who.is_of_system(&systems) {
                if !is_made {
                    of_system.insert(who);
                }
                continue;
            }
            if is_everything {
                administrators.insert(who);
                continue;
            }
            let holding =
                held.entry(who).or_insert_with(|| Holding { binding, subject: index, rights: BTreeMap::new() });
            holding.rights.entry(namespace).or_default().extend(&rights);
        }
    }
    let listed = held.iter().filter(|(who, _)| !administrators.contains(*who));
    let findings = listed.map(|(who, holding)| finding(*who, holding)).collect();
    Access { findings, note: note(&administrators, of_system.len()) }
}

/// Returns the namespaces in which the SidecarSets can give identities, each with the accounts and Secrets.
fn used<'a>(naming: &[&Subject<'_>], settings: &[Judged<'_>], namespaces: &Namespaces<'a>) -> BTreeMap<&'a str, Used> {
    let default = Rules::default();
    let rules = settings.iter().map(|judged| &judged.settings.service_accounts);
    let rules: Vec<&Rules> = rules.chain(settings.is_empty().then_some(&default)).collect();
    let is_protected = |name: &str| rules.iter().any(|rules| rules.protects(name));
    let isolates = rules.iter().any(|rules| rules.on_app_account == OnAppAccount::Isolate);
    let mut found: BTreeMap<&str, Used> = BTreeMap::new();
    for subject in naming {
        let Ok(declared) = Declared::from_sidecar_set(&subject.prepared) else { continue };
        let Some(account) = declared.service_account else { continue };
        let compiled = CompiledSet::new(&subject.prepared);
        let own = Some(subject.prepared.name()).filter(|_| !declared.tokens.is_empty());
        let secret = (isolates || declared.mode == Mode::Isolate)
            .then(|| names::token_secret(&names::credential(&account, own)));
        for name in namespaces.0.keys().copied().filter(|name| !is_protected(name)) {
            if matching::can_be_in(&compiled, name, namespaces).unwrap_or(true) {
                let used = found.entry(name).or_default();
                used.accounts.insert(account.clone());
                used.secrets.extend(secret.clone());
            }
        }
    }
    found
}

/// Returns kind, namespace and name of a Role or ClusterRole.
fn key(object: &Value) -> (&str, &str, &str) {
    let text = |path: &[&str]| json::text(object, path);
    (text(&["kind"]), text(&["metadata", "namespace"]), text(&["metadata", "name"]))
}

/// Returns which of [`RIGHTS`] are among the permissions.
fn rights(held: &BTreeSet<Permission<'_>>, reached: &Used, is_cluster_wide: bool) -> BTreeSet<usize> {
    let gives = |right: &Right, name: Option<&str>| {
        right.verbs.iter().any(|verb| {
            let wanted = Permission { group: "", resource: right.resource, name, verb };
            held.iter().any(|held| held.covers(wanted))
        })
    };
    let is_given = |right: &Right| match right.to {
        To::Pods => gives(right, None),
        To::Nodes => is_cluster_wide && gives(right, None),
        To::Accounts => reached.accounts.iter().any(|name| gives(right, Some(name))),
        To::Secrets => reached.secrets.iter().any(|name| gives(right, Some(name))),
    };
    RIGHTS.iter().enumerate().filter(|(_, right)| is_given(right)).map(|(index, _)| index).collect()
}

/// Returns the warning about a subject. Namespaces with the same rights are named together.
fn finding(who: Who<'_>, holding: &Holding<'_>) -> Finding {
    let everywhere = holding.rights.get(&None).cloned().unwrap_or_default();
    let mut places: BTreeMap<Vec<usize>, Vec<&str>> = BTreeMap::new();
    for (namespace, rights) in &holding.rights {
        let Some(namespace) = namespace else { continue };
        let rights: Vec<usize> = rights.difference(&everywhere).copied().collect();
        if !rights.is_empty() {
            places.entry(rights).or_default().push(namespace);
        }
    }
    let listed = |rights: &mut dyn Iterator<Item = usize>| -> String {
        rights.filter_map(|index| RIGHTS.get(index)).map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let mut parts = Vec::new();
    if !everywhere.is_empty() {
        parts.push(format!("{} in every namespace", listed(&mut everywhere.into_iter())));
    }
    parts.extend(places.into_iter().map(|(rights, namespaces)| {
        let shown: Vec<String> = namespaces.iter().take(NAMESPACES_MAX).map(|name| format!("{name:?}")).collect();
        let word = if namespaces.len() == 1 { "namespace" } else { "namespaces" };
        format!(
            "{} in {word} {}{}",
            listed(&mut rights.into_iter()),
            shown.join(", "),
            more(namespaces.len(), NAMESPACES_MAX)
        )
    }));
    let message = format!("{who} can get at identities of sidecars: may {}", parts.join("; "));
    let remedy = "take the rights away, or count this subject among those who hold the identities";
    let path = format!("subjects[{}]", holding.subject);
    Spot::document(&holding.binding.manifest).warning(&path, message, remedy).with_rule(OptionalRule::IdentityAccess)
}

/// Returns the end of a list of which a message shows at most `shown` items.
fn more(all: usize, shown: usize) -> String {
    match all.saturating_sub(shown) {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

/// Returns the sentence about those who hold such rights by their nature.
fn note(administrators: &BTreeSet<Who<'_>>, of_system: usize) -> Option<String> {
    let mut parts = Vec::new();
    if !administrators.is_empty() {
        let shown: Vec<String> = administrators.iter().take(ADMINISTRATORS_MAX).map(ToString::to_string).collect();
        let more = more(administrators.len(), ADMINISTRATORS_MAX);
        parts.push(format!("those who may do everything ({}{more})", shown.join(", ")));
    }
    if of_system > 0 {
        let subjects = if of_system == 1 { "subject" } else { "subjects" };
        parts.push(format!("{of_system} {subjects} of the system and its namespaces"));
    }
    (!parts.is_empty()).then(|| format!("identities of sidecars can also be had by {}", parts.join(", and by ")))
}
