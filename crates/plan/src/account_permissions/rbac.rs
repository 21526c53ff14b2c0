//! What RBAC gives to ServiceAccounts: which permission to ask the API server about.

use std::cell::RefCell;
use std::collections::BTreeMap;

use pillion_identity::author;
use pillion_kubernetes::json;
use pillion_kubernetes::rbac::denied::Denied;
use pillion_kubernetes::rbac::{self, Atom, Permission, PolicyRule};
use serde_json::Value;

use super::Account;

/// The namespace and the name of a Role; the namespace of a ClusterRole is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleKey {
    namespace: String,
    name: String,
}

/// A Role or a ClusterRole.
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    key: RoleKey,
    rules: Vec<PolicyRule>,
}

impl Role {
    /// Reads a role. One whose rules cannot be read allows nothing.
    pub fn from_object(object: &Value) -> Self {
        let text = |key| json::text(object, &["metadata", key]).to_owned();
        let mut rules = rbac::of_role(object).unwrap_or_default();
        // A rule for named objects says nothing about others (E5), and URLs belong to no SidecarSet.
        rules.retain(|rule| rbac::listed(rule.resource_names.as_ref()).is_empty() && rule.non_resource_urls.is_none());
        Self { key: RoleKey { namespace: text("namespace"), name: text("name") }, rules }
    }
}

/// A RoleBinding or a `ClusterRoleBinding` with a subject that can be a ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// `None` for a `ClusterRoleBinding`.
    namespace: Option<String>,
    name: String,
    role: RoleKey,
    accounts: Vec<Account>,
    groups: Vec<String>,
}

impl Binding {
    /// Reads a binding. Returns `None` if no ServiceAccount can be among its subjects.
    pub fn from_object(object: &Value) -> Option<Self> {
        let text = |path: &[&str]| json::text(object, path).to_owned();
        let namespace = Some(text(&["metadata", "namespace"])).filter(|namespace| !namespace.is_empty());
        let (mut accounts, mut groups) = (Vec::new(), Vec::new());
        for subject in json::items(object, &["subjects"]) {
            let name = json::text(subject, &["name"]);
            if let Some((namespace, name)) = rbac::account_of(subject) {
                accounts.push(Account::new(namespace, name));
            } else if json::text(subject, &["kind"]) == "Group" && is_of_accounts(name) {
                groups.push(name.to_owned());
            }
        }
        let is_local = text(&["roleRef", "kind"]) == "Role";
        let role_in = namespace.clone().filter(|_| is_local).unwrap_or_default();
        let role = RoleKey { namespace: role_in, name: text(&["roleRef", "name"]) };
        let name = text(&["metadata", "name"]);
        (!accounts.is_empty() || !groups.is_empty()).then_some(Self { namespace, name, role, accounts, groups })
    }

    /// Names the binding for a message.
    fn shown(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("RoleBinding \"{namespace}/{}\"", self.name),
            None => format!("ClusterRoleBinding \"{}\"", self.name),
        }
    }
}

/// Whether ServiceAccounts are in a group.
fn is_of_accounts(group: &str) -> bool {
    matches!(group, "system:authenticated" | ACCOUNTS) || group.starts_with("system:serviceaccounts:")
}

const ACCOUNTS: &str = "system:serviceaccounts";

/// A permission that RBAC gives to an account and that no SidecarSet may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Where it holds; empty for every namespace.
    pub namespace: String,
    /// The permission, as one question.
    pub atom: Atom,
    /// What gives it, for a message.
    pub binding: String,
}

/// The bindings of a cluster by their subjects.
pub struct Index<'a> {
    roles: BTreeMap<&'a RoleKey, &'a Role>,
    accounts: BTreeMap<&'a Account, Vec<&'a Binding>>,
    groups: BTreeMap<&'a str, Vec<&'a Binding>>,
    denied: Denied<'a>,
    /// What each role gives of what is denied, once it was asked for.
    found: RefCell<BTreeMap<&'a RoleKey, Option<Atom>>>,
}

impl<'a> Index<'a> {
    /// Indexes roles and bindings. `denied` are the permissions that no SidecarSet may have, [`ordered`].
    pub fn new(
        roles: impl IntoIterator<Item = &'a Role>,
        bindings: impl IntoIterator<Item = &'a Binding>,
        denied: &'a [Atom],
    ) -> Self {
        let mut index = Self {
            roles: roles.into_iter().map(|role| (&role.key, role)).collect(),
            accounts: BTreeMap::new(),
            groups: BTreeMap::new(),
            denied: Denied::new(denied),
            found: RefCell::default(),
        };
        for binding in bindings {
            for account in &binding.accounts {
                index.accounts.entry(account).or_default().push(binding);
            }
            for group in &binding.groups {
                index.groups.entry(group).or_default().push(binding);
            }
        }
        index
    }

    /// Returns a permission that RBAC gives to this account although no SidecarSet may have it. One that holds everywhere
    /// comes first.
    pub fn given(&self, account: &Account) -> Option<Given> {
        let own_group = format!("{ACCOUNTS}:{}", account.namespace);
        let groups = [ACCOUNTS, &own_group, "system:authenticated"];
        let of_groups = groups.into_iter().filter_map(|group| self.groups.get(group)).flatten();
        let mut bindings: Vec<&Binding> =
            self.accounts.get(account).into_iter().flatten().chain(of_groups).copied().collect();
        bindings.sort_by_key(|binding| (&binding.namespace, &binding.name));
        bindings.into_iter().find_map(|binding| {
            let namespace = binding.namespace.clone().unwrap_or_default();
            Some(Given { namespace, atom: self.denied_by(&binding.role)?, binding: binding.shown() })
        })
    }

    /// Returns the first denied permission that a role gives.
    fn denied_by(&self, key: &RoleKey) -> Option<Atom> {
        let (key, role) = self.roles.get_key_value(key)?;
        if let Some(known) = self.found.borrow().get(*key) {
            return known.clone();
        }
        let permissions = rbac::permissions(&role.rules);
        let found = permissions.into_iter().find_map(|held| {
            let common = common(held, self.denied.denial(held)?.as_permission());
            // A question about every verb would be answered with no by whoever gives each of them.
            author::questions(&common).into_iter().next()
        });
        self.found.borrow_mut().insert(key, found.clone());
        found
    }
}

/// Returns what two permissions that overlap have in common, as one permission.
fn common(held: Permission<'_>, denied: Permission<'_>) -> Atom {
    let narrower = |one: &str, other: &str| if one == "*" { other.to_owned() } else { one.to_owned() };
    let resource = match held.resource.strip_prefix("*/") {
        // `*/exec` and `pods/exec`.
        Some(_) if denied.resource != "*" => denied.resource.to_owned(),
        _ => narrower(held.resource, denied.resource),
    };
    Atom { group: narrower(held.group, denied.group), resource, name: None, verb: narrower(held.verb, denied.verb) }
}

/// Returns the permissions that no SidecarSet may have (ESC-4), with those to a resource of their own first: who may do
/// everything with Secrets may also "escalate" them, but that says little.
pub fn ordered(denied: &[Atom]) -> Vec<Atom> {
    let (general, own): (Vec<&Atom>, Vec<&Atom>) = denied.iter().partition(|entry| entry.resource == "*");
    own.into_iter().chain(general).cloned().collect()
}
