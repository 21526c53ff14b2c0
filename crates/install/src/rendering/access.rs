//! The Roles of Pillion. Each rule carries its reason.

use serde_json::{Value, json};

use super::answers::Part;
use super::document::{Document, metadata};
use super::needs::{Needs, Read};

/// One rule of a Role.
#[derive(Clone, Debug)]
pub struct Grant {
    group: &'static str,
    resources: &'static [&'static str],
    /// The names of the objects that the rule covers; empty for all objects.
    names: Vec<String>,
    verbs: &'static [&'static str],
    why: &'static str,
}

/// A Role and its RoleBinding, or a ClusterRole and its `ClusterRoleBinding` if there is no namespace.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// The name of both the role and its binding.
    pub name: &'a str,
    /// The namespace in which the grants hold; `None` for all namespaces.
    pub namespace: Option<&'a str>,
    /// The instance, for the labels.
    pub instance: &'a str,
    /// The namespace and the name of the ServiceAccount.
    pub subject: (&'a str, &'a str),
    /// The comment of the role.
    pub about: &'a str,
}

/// The kinds that the server caches and watches if it reads them: most Pods need these objects.
pub const WATCHED: [Read; 2] = [Read::Namespace, Read::ServiceAccount];

const GET: &[&str] = &["get"];
const WATCH: &[&str] = &["get", "list", "watch"];

impl Grant {
    /// Returns a rule for all objects of some resources.
    pub fn new(
        group: &'static str,
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
        why: &'static str,
    ) -> Self {
        Self { group, resources, names: Vec::new(), verbs, why }
    }

    /// Limits the rule to objects of these names.
    #[must_use]
    pub fn named(mut self, names: &[&str]) -> Self {
        self.names = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// Returns the reason for the rule.
    pub fn why(&self) -> &'static str {
        self.why
    }

    /// Returns the rule as an entry of `rules`.
    pub fn to_value(&self) -> Value {
        let mut rule = json!({"apiGroups": [self.group], "resources": self.resources, "verbs": self.verbs});
        if let Some(rule) = rule.as_object_mut().filter(|_| !self.names.is_empty()) {
            rule.insert("resourceNames".to_owned(), json!(self.names));
        }
        rule
    }
}

/// Returns the rules for all namespaces. `watches`: whether the reader is the server, which caches [`WATCHED`].
pub fn everywhere(needs: &Needs, watches: bool) -> Vec<Grant> {
    let verbs = |read: Read| if watches && WATCHED.contains(&read) { WATCH } else { GET };
    let mut grants = Vec::new();
    if needs.reads(Read::Namespace) {
        let why = "The labels that a namespaceSelector selects, the annotation by which a namespace leaves SidecarSets \
                   out, and, before something of a namespace is kept from \
                   being deleted, whether the namespace itself is being deleted.";
        grants.push(Grant::new("", &["namespaces"], verbs(Read::Namespace), why));
    }
    if needs.reads(Read::ServiceAccount) {
        let why = "Whether a sidecar's ServiceAccount exists, is being deleted, and is automounted; the UID for a token \
                   Secret. In every namespace with Pods. A ServiceAccount contains no token.";
        grants.push(Grant::new("", &["serviceaccounts"], verbs(Read::ServiceAccount), why));
    }
    if needs.reads(Read::Pod) {
        let why = "Which containers of a running Pod hold an identity, before somebody opens one of them. In every namespace \
                   with Pods.";
        grants.push(Grant::new("", &["pods"], verbs(Read::Pod), why));
    }
    if needs.reads(Read::Role) {
        let why = "Whether the merged Role and RoleBinding match the SidecarSets, before a Pod runs under the merged \
                   ServiceAccount. RBAC cannot restrict this to \"names that start with sidecarset-merged-\".";
        grants.push(Grant::new("rbac.authorization.k8s.io", &["roles", "rolebindings"], verbs(Read::Role), why));
    }
    if needs.asks_authors {
        let why = "Whether the author of a SidecarSet holds the permissions that it grants, and whether its \
                   ServiceAccount holds too many. Asks, and changes nothing.";
        grants.push(Grant::new("authorization.k8s.io", &["subjectaccessreviews"], &["create"], why));
    } else if needs.has(Part::Exec) {
        let why = "Whether the user who opens a container may request tokens of its ServiceAccount. Asks, and changes nothing.";
        grants.push(Grant::new("authorization.k8s.io", &["subjectaccessreviews"], &["create"], why));
    }
    grants
}

/// Returns the rules for the `systemNamespace` of the settings.
pub fn in_system_namespace(needs: &Needs) -> Vec<Grant> {
    let mut grants = Vec::new();
    if needs.reads_whitelist {
        let why = "The whitelist of patchPodMetadata, which the settings do not have.";
        grants.push(Grant::new("", &["configmaps"], GET, why).named(&["kruise-configuration"]));
    }
    if needs.reads(Read::ControllerRevision) {
        let why =
            "Revisions that a SidecarSet names and the settings do not have. Their names are not known beforehand.";
        grants.push(Grant::new("apps", &["controllerrevisions"], GET, why));
    }
    grants
}

/// Returns the rules for the namespace of the compiled SidecarSets. `watches`: whether the reader is the server, which
/// watches them.
pub fn of_bundle(watches: bool) -> Vec<Grant> {
    let why = "The compiled SidecarSets of the cluster. If there are many, they are in several ConfigMaps, whose names are \
               not known beforehand.";
    vec![Grant::new("", &["configmaps"], if watches { WATCH } else { GET }, why)]
}

/// Returns the role and its binding, or nothing if there are no rules.
pub fn documents(file: &'static str, access: Access<'_>, grants: &[Grant]) -> Vec<Document> {
    if grants.is_empty() {
        return Vec::new();
    }
    let (role_kind, binding_kind) =
        if access.namespace.is_some() { ("Role", "RoleBinding") } else { ("ClusterRole", "ClusterRoleBinding") };
    let metadata = || metadata(access.name, access.namespace, access.instance, "rbac", &Value::Null);
    let api_version = "rbac.authorization.k8s.io/v1";
    let rules: Vec<Value> = grants.iter().map(Grant::to_value).collect();
    let role = json!({"apiVersion": api_version, "kind": role_kind, "metadata": metadata(), "rules": rules});
    let mut role = Document::new(file, access.about, role);
    for (index, grant) in grants.iter().enumerate() {
        role = role.with_comment(format!("/rules/{index}"), grant.why);
    }
    let (namespace, account) = access.subject;
    let binding = json!({
        "apiVersion": api_version,
        "kind": binding_kind,
        "metadata": metadata(),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": access.name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    });
    vec![role, Document::new(file, "", binding)]
}

/// The process that reads the objects which the settings need.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The name of the installation.
    pub instance: &'a str,
    /// The namespace and the name of the ServiceAccount.
    pub subject: (&'a str, &'a str),
    /// Whether it caches and watches the kinds in [`WATCHED`].
    pub watches: bool,
    /// Whether the `systemNamespace` exists.
    pub has_system_namespace: bool,
}

/// Returns the roles for reading what the settings need.
pub fn for_settings(file: &'static str, needs: &Needs, reader: Reader<'_>) -> Vec<Document> {
    let Reader { instance, subject, .. } = reader;
    let of = |name, namespace, about| Access { name, namespace, instance, subject, about };
    let about = "What Pillion may read and ask: what the settings need, and nothing else. Objects are read by name.";
    let mut all = documents(file, of(instance, None, about), &everywhere(needs, reader.watches));
    if reader.has_system_namespace {
        let about = "What is read in the systemNamespace of the settings.";
        let access = of(instance, Some(needs.system_namespace.as_str()), about);
        all.extend(documents(file, access, &in_system_namespace(needs)));
    }
    if let Some(bundle) = &needs.bundle {
        let name = format!("{instance}-bundle");
        let about = "What is read in the namespace of settings.bundleRef.";
        all.extend(documents(file, of(&name, Some(&bundle.namespace), about), &of_bundle(reader.watches)));
    }
    all
}
