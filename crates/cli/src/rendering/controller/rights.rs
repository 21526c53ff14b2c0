//! The roles of the controllers: only what the running ones need, and no right to grant more than they hold.

use std::collections::BTreeSet;

use pillion_controller::selection::Name;
use pillion_kubernetes::rbac::PolicyRule;
use serde_json::{Value, json};

use super::super::access::{self, Access, Grant};
use super::super::document::{Document, metadata};
use super::super::needs::Needs;
use super::super::options::Controller;
use super::super::process::RBAC;

/// The label of the ClusterRoles whose permissions merged accounts may get.
pub const CEILING: &str = "pillion.dev/merged-ceiling";

const WATCH: &[&str] = &["list", "watch"];
const READ: &[&str] = &["get", "list", "watch"];
/// The verbs for objects that a controller creates, changes and deletes.
const KEEP: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// Returns the roles of the running controllers. `granted`: the permissions that the settings give to merged accounts.
pub fn documents(
    options: &Controller,
    needs: &Needs,
    running: &BTreeSet<Name>,
    granted: &[PolicyRule],
) -> Vec<Document> {
    let instance = options.name.as_str();
    let subject = (options.deployment.namespace.as_str(), instance);
    let of = |name, namespace, about| Access { name, namespace, instance, subject, about };
    let is = |name: Name| running.contains(&name);
    let (tokens_name, secrets_name) = (format!("{instance}-tokens"), format!("{instance}-token-secrets"));
    let bundle_name = format!("{instance}-bundle");

    let about =
        "What the controllers read and write in every namespace. None of it lets them grant more than they hold.";
    let mut all = access::documents(RBAC, of(instance, None, about), &everywhere(&is));
    let about = "In the controllers' own namespace: the Lease of the leader, and the compiled SidecarSets.";
    all.extend(access::documents(
        RBAC,
        of(instance, Some(&options.deployment.namespace), about),
        &at_home(options, needs, &is),
    ));
    let elsewhere = needs.bundle.as_ref().filter(|bundle| bundle.namespace != options.deployment.namespace);
    if let Some(place) = elsewhere.filter(|_| is(Name::Bundle)) {
        let about = "The compiled SidecarSets, in the namespace of settings.bundleRef.";
        all.extend(access::documents(RBAC, of(&bundle_name, Some(&place.namespace), about), &[bundle()]));
    }
    if is(Name::Bundle) {
        let about = "What is read in the systemNamespace of the settings.";
        let why = "Revisions that SidecarSets ask for, so that the policy need not look them up.";
        let mut grants = vec![Grant::new("apps", &["controllerrevisions"], READ, why)];
        if needs.reads_whitelist {
            let why = "The whitelist of patchPodMetadata, which the settings do not have.";
            grants.push(Grant::new("", &["configmaps"], READ, why).of(&["kruise-configuration"]));
        }
        all.extend(access::documents(RBAC, of(instance, Some(&needs.system_namespace), about), &grants));
    }
    if is(Name::SidecarTokens) {
        for namespace in options.token_namespaces.iter().collect::<BTreeSet<_>>() {
            let about = "Tokens for isolated sidecars of this namespace.";
            all.extend(access::documents(RBAC, of(&tokens_name, Some(namespace.as_str()), about), &tokens()));
        }
    }
    if is(Name::ServiceAccountToken) || is(Name::LegacyTokenCleaner) {
        let about = "Token Secrets of every namespace. Only serviceaccount-token and legacy-token-cleaner need this \
                     role: reading every Secret gives every identity of the cluster.";
        all.extend(access::documents(RBAC, of(&secrets_name, None, about), &token_secrets(&is)));
        let about = "What kube-controller-manager and the API server say about tokens.";
        all.extend(access::documents(RBAC, of(&secrets_name, Some("kube-system"), about), &in_kube_system(&is)));
    }
    if is(Name::MergedServiceAccounts) {
        all.extend(ceiling(options, granted));
    }
    all
}

fn everywhere(is: &dyn Fn(Name) -> bool) -> Vec<Grant> {
    let has_sets = is(Name::MergedServiceAccounts) || is(Name::SidecarTokens) || is(Name::Bundle);
    let why =
        "Which namespaces there are, which of them are being deleted, and the labels that namespaceSelectors select.";
    let mut grants = vec![Grant::new("", &["namespaces"], READ, why)];
    if has_sets {
        let why = "The SidecarSets.";
        grants.push(Grant::new("apps.kruise.io", &["sidecarsets"], READ, why));
        let why = "What to know about a SidecarSet, as a condition: a permission that cannot be granted, a bundle that it \
                   is not in.";
        grants.push(Grant::new("apps.kruise.io", &["sidecarsets/status"], &["patch"], why));
        let why = "Which identities Pods need; of each only labels, account, volumes with Secrets and phase are kept.";
        grants.push(Grant::new("", &["pods"], WATCH, why));
        let why = "Which identities Pods will need: merged accounts have to be there before the first one.";
        grants.push(Grant::new("apps", &["daemonsets", "deployments", "replicasets", "statefulsets"], WATCH, why));
        grants.push(Grant::new("batch", &["cronjobs", "jobs"], WATCH, ""));
        grants.push(Grant::new("apps.kruise.io", &["clonesets"], WATCH, ""));
    }
    if is(Name::MergedServiceAccounts) {
        let why = "Merged ServiceAccounts. RBAC cannot say \"names that start with sidecarset-merged-\"; no other is written.";
        grants.push(Grant::new("", &["serviceaccounts"], KEEP, why));
        let why = "Their Roles and RoleBindings. Without \"escalate\" and \"bind\" the API server allows the \
                   controller no grant beyond its own permissions.";
        grants.push(Grant::new(RBAC_GROUP, &["rolebindings", "roles"], KEEP, why));
    } else if is(Name::SidecarTokens) || is(Name::ServiceAccountToken) {
        let why = "Whether accounts are there, and their UIDs. A ServiceAccount holds no token.";
        grants.push(Grant::new("", &["serviceaccounts"], READ, why));
    }
    if is(Name::ServiceAccount) {
        let why =
            "The ServiceAccount \"default\" of each namespace. RBAC cannot say by which name something is created.";
        grants.push(Grant::new("", &["serviceaccounts"], &["create"], why));
        grants.push(Grant::new("", &["serviceaccounts"], WATCH, "").of(&["default"]));
    }
    if is(Name::ServiceAccountToken) {
        let why = "References to token Secrets that are gone.";
        grants.push(Grant::new("", &["serviceaccounts"], &["patch"], why));
        let why = "Tokens for token Secrets.";
        grants.push(Grant::new("", &["serviceaccounts/token"], &["create"], why));
    }
    if is(Name::RootCaPublisher) {
        let why = "The ConfigMap kube-root-ca.crt of each namespace.";
        grants.push(Grant::new(
            "",
            &["configmaps"],
            &["create"],
            "RBAC cannot say by which name something is created.",
        ));
        let kept = Grant::new("", &["configmaps"], &["list", "watch", "patch"], why);
        grants.push(kept.of(&["kube-root-ca.crt"]));
    }
    let why = "Events about objects, which kubectl describe shows.";
    grants.push(Grant::new("events.k8s.io", &["events"], &["create", "patch"], why));
    grants
}

fn at_home(options: &Controller, needs: &Needs, is: &dyn Fn(Name) -> bool) -> Vec<Grant> {
    let why = "The leader among the replicas.";
    let mut grants = vec![
        Grant::new("coordination.k8s.io", &["leases"], &["create"], "The first time."),
        Grant::new("coordination.k8s.io", &["leases"], &["get", "update"], why).of(&[&options.name]),
    ];
    let is_here = needs.bundle.as_ref().is_some_and(|bundle| bundle.namespace == options.deployment.namespace);
    if is(Name::Bundle) && is_here {
        grants.push(bundle());
    }
    grants
}

fn bundle() -> Grant {
    let why = "The compiled SidecarSets of the cluster. If there are many, they are in several ConfigMaps, whose names are \
               not known beforehand.";
    Grant::new("", &["configmaps"], KEEP, why)
}

fn tokens() -> Vec<Grant> {
    vec![
        Grant::new(
            "",
            &["secrets"],
            KEEP,
            "The Secrets with the tokens. RBAC cannot say \"names that start with sidecarset-token-\"; no other is written, \
             and only those with Pillion's label are read.",
        ),
        Grant::new("", &["serviceaccounts/token"], &["create"], "The tokens."),
    ]
}

fn token_secrets(is: &dyn Fn(Name) -> bool) -> Vec<Grant> {
    let mut grants = Vec::new();
    if is(Name::ServiceAccountToken) {
        let why = "Token Secrets: what is missing in them, those whose ServiceAccount is gone, and whether one is gone that \
                   a ServiceAccount names.";
        grants.push(Grant::new("", &["secrets"], &["get", "list", "watch", "patch", "delete"], why));
    }
    if is(Name::LegacyTokenCleaner) {
        let why = "Unused token Secrets, once a day.";
        grants.push(Grant::new("", &["secrets"], &["list", "patch", "delete"], why));
        grants.push(Grant::new("", &["serviceaccounts"], &["get"], "Which ServiceAccount refers to them."));
        grants.push(Grant::new("", &["pods"], &["list"], "Whether a Pod mounts them."));
    }
    grants
}

fn in_kube_system(is: &dyn Fn(Name) -> bool) -> Vec<Grant> {
    let mut grants = Vec::new();
    if is(Name::ServiceAccountToken) {
        let why = "Whether kube-controller-manager is running: two controllers that create tokens would interfere with \
                   each other.";
        let leases = Grant::new("coordination.k8s.io", &["leases"], &["get"], why);
        grants.push(leases.of(&["kube-controller-manager"]));
    }
    if is(Name::LegacyTokenCleaner) {
        let why = "Since when the API server has written down which tokens are used.";
        let tracking = Grant::new("", &["configmaps"], &["get"], why);
        grants.push(tracking.of(&["kube-apiserver-legacy-service-account-token-tracking"]));
    }
    grants
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
