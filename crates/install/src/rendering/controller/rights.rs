//! The roles of the controllers: only what the running ones need, and no right to grant more than they hold.

use std::collections::BTreeSet;

use pillion_controllers::registry::Name;
use pillion_kubernetes::rbac::PolicyRule;
use pillion_runtime::rights::{Right, Scope, Situation};
use serde_json::{Value, json};

use super::super::access::{self, Access, Grant};
use super::super::document::{Document, metadata};
use super::super::needs::Needs;
use super::super::options::Controller;
use super::super::process::RBAC;

/// The label of the ClusterRoles whose permissions merged accounts may get.
pub const CEILING: &str = "pillion.dev/merged-ceiling";

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// Returns the roles of the running controllers. `granted`: the permissions that the settings give to merged accounts.
pub fn documents(
    options: &Controller,
    needs: &Needs,
    running: &BTreeSet<Name>,
    granted: &[PolicyRule],
) -> Vec<Document> {
    let instance = options.name.as_str();
    let home = options.deployment.namespace.as_str();
    let subject = (home, instance);
    let of = |name, namespace, about| Access { name, namespace, instance, subject, about };
    let rights = rights(needs, running);
    let grants = |scope: Scope| rights.iter().filter(|right| right.scope == scope).map(grant).collect::<Vec<_>>();
    let (tokens_name, secrets_name) = (format!("{instance}-tokens"), format!("{instance}-token-secrets"));
    let bundle_name = format!("{instance}-bundle");

    let about =
        "What the controllers read and write in every namespace. None of it lets them grant more than they hold.";
    let mut everywhere = grants(Scope::Cluster);
    everywhere.push(events());
    let mut all = access::documents(RBAC, of(instance, None, about), &everywhere);

    let about = "In the controllers' own namespace: the Lease of the leader, and the compiled SidecarSets.";
    let mut at_home = Vec::from(leases(&options.name));
    let bundle = grants(Scope::Bundle);
    let place = needs.bundle.as_ref().map(|bundle| bundle.namespace.as_str());
    if place == Some(home) {
        at_home.extend_from_slice(&bundle);
    }
    // One Role has one name: a second one would replace the first.
    let system = grants(Scope::System);
    let is_system_elsewhere = needs.system_namespace != home;
    if !is_system_elsewhere {
        at_home.extend_from_slice(&system);
    }
    all.extend(access::documents(RBAC, of(instance, Some(home), about), &at_home));
    if let Some(place) = place.filter(|place| *place != home) {
        let about = "The compiled SidecarSets, in the namespace of settings.bundleRef.";
        all.extend(access::documents(RBAC, of(&bundle_name, Some(place), about), &bundle));
    }
    if is_system_elsewhere {
        let about = "What is read in the systemNamespace of the settings.";
        let access = of(instance, Some(&needs.system_namespace), about);
        all.extend(access::documents(RBAC, access, &system));
    }
    for namespace in options.token_namespaces.iter().collect::<BTreeSet<_>>() {
        let about = "Tokens for isolated sidecars of this namespace.";
        let tokens = of(&tokens_name, Some(namespace.as_str()), about);
        all.extend(access::documents(RBAC, tokens, &grants(Scope::Tokens)));
    }
    let about = "Token Secrets of every namespace. Only serviceaccount-token and legacy-token-cleaner need this \
                 role: reading every Secret gives every identity of the cluster.";
    all.extend(access::documents(RBAC, of(&secrets_name, None, about), &grants(Scope::EverySecret)));
    let about = "What kube-controller-manager and the API server say about tokens.";
    let in_kube_system = of(&secrets_name, Some("kube-system"), about);
    all.extend(access::documents(RBAC, in_kube_system, &grants(Scope::KubeSystem)));
    if running.contains(&Name::MergedServiceAccounts) {
        all.extend(ceiling(options, granted));
    }
    all
}

/// Returns the rule for events, which every process of controllers needs.
pub fn events() -> Grant {
    let why = "Events about objects, which kubectl describe shows.";
    Grant::new("events.k8s.io", &["events"], &["create", "patch"], why)
}

/// Returns the rules for the Lease of this name, which every process of controllers needs.
pub fn leases(name: &str) -> [Grant; 2] {
    [
        Grant::new("coordination.k8s.io", &["leases"], &["create"], "The first time."),
        Grant::new("coordination.k8s.io", &["leases"], &["get", "update"], "The leader among the replicas.")
            .named(&[name]),
    ]
}

/// Whether a right includes another one to the same objects.
pub fn includes(one: &Right, other: &Right) -> bool {
    let objects = |right: &Right| (right.scope.clone(), right.group, right.resources, right.names);
    objects(one) == objects(other) && other.verbs.iter().all(|verb| one.verbs.contains(verb))
}

/// Returns the rights of the running controllers. Of two rights to the same objects, the one that includes the other
/// stays.
pub fn rights(needs: &Needs, running: &BTreeSet<Name>) -> Vec<Right> {
    let situation = Situation { reads_whitelist: needs.reads_whitelist };
    let mut all: Vec<Right> = Vec::new();
    for right in running.iter().flat_map(|name| name.rights(&situation)) {
        if all.iter().any(|known| includes(known, &right)) {
            continue;
        }
        match all.iter_mut().find(|known| includes(&right, known)) {
            Some(known) => *known = right,
            None => all.push(right),
        }
    }
    all
}

/// Returns a right as a rule of a role.
pub fn grant(right: &Right) -> Grant {
    Grant::new(right.group, right.resources, right.verbs, right.why).named(right.names)
}

/// Returns the roles that limit merged accounts: the permissions that the settings give, and those of ClusterRoles with
/// the label.
fn ceiling(options: &Controller, granted: &[PolicyRule]) -> Vec<Document> {
    let instance = options.name.as_str();
    let name = format!("{instance}-ceiling");
    let api_version = "rbac.authorization.k8s.io/v1";
    let metadata = |name: &str| metadata(name, None, instance, "rbac", &Value::Null);
    let role = json!({
        "apiVersion": api_version, "kind": "ClusterRole", "metadata": metadata(&name),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {CEILING: "true"}}]},
    });
    let about = "The most that merged accounts may get: the permissions of every ClusterRole with this label. The \
                 controller holds them, since the API server allows it no grant beyond its own permissions.";
    let binding = json!({
        "apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": metadata(&name),
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": instance, "namespace": options.deployment.namespace}],
    });
    let mut documents = vec![Document::new(RBAC, about, role), Document::new(RBAC, "", binding)];
    if !granted.is_empty() {
        let mut metadata = metadata(&format!("{instance}-settings"));
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.insert(CEILING.to_owned(), "true".into());
        }
        let role = json!({"apiVersion": api_version, "kind": "ClusterRole", "metadata": metadata, "rules": granted});
        documents.push(Document::new(RBAC, "The permissions that SidecarSets of the settings give.", role));
    }
    documents
}
