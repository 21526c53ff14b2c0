//! The manifests in `deploy/` request and grant what the metadata of the artifacts lists, and the metadata lists the
//! requests that the module handles.

use std::collections::BTreeSet;

use assert_cmd::Command;
use pillion_admission::request::{Request, RequestTarget};
use pillion_admission::settings::{Role, Settings};
use rstest::rstest;
use serde_json::{Value, json};

use super::artifacts::{ARTIFACTS, Artifact};
use super::{sorted, yaml};
use crate::support::files::{RULE, combinations, objects, text};

const POLICIES: [&str; 5] = ["pods", "assert", "guards", "token-secrets", "sidecarsets"];

fn policy(name: &str) -> Value {
    yaml(&format!("deploy/policy-{name}.yaml"))
}

/// Returns the metadata of all artifacts.
fn metadata() -> Vec<Value> {
    ARTIFACTS.iter().map(Artifact::metadata).collect()
}

/// Returns the rules of all artifacts.
fn rules() -> BTreeSet<Vec<String>> {
    metadata().iter().flat_map(|metadata| combinations(&metadata["rules"], &RULE)).collect()
}

/// Returns what the artifacts of `deploy/` read.
fn read_by_artifacts() -> BTreeSet<String> {
    let list = |metadata: Value| metadata.get("contextAwareResources").map(sorted).unwrap_or_default();
    deployed().flat_map(list).collect()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Group, kind and resource, with subresource, of requests that may reach the policy.
const KINDS: [(&str, &str, &str); 43] = [
    ("", "PodExecOptions", "pods/exec"),
    ("", "PodAttachOptions", "pods/attach"),
    ("", "PodPortForwardOptions", "pods/portforward"),
    ("", "PodProxyOptions", "pods/proxy"),
    ("", "Pod", "pods/resize"),
    ("", "Binding", "pods/binding"),
    ("policy", "Eviction", "pods/eviction"),
    ("authentication.k8s.io", "TokenRequest", "serviceaccounts/token"),
    ("authentication.k8s.io", "TokenReview", "tokenreviews"),
    ("", "Pod", "pods"),
    ("", "Pod", "pods/ephemeralcontainers"),
    ("", "Pod", "pods/status"),
    ("", "Namespace", "namespaces"),
    ("", "ReplicationController", "replicationcontrollers"),
    ("", "ReplicationController", "replicationcontrollers/scale"),
    ("", "PodTemplate", "podtemplates"),
    ("", "ServiceAccount", "serviceaccounts"),
    ("", "Secret", "secrets"),
    ("", "ConfigMap", "configmaps"),
    ("", "Service", "services"),
    ("", "Service", "services/status"),
    ("apps", "Deployment", "deployments"),
    ("apps", "StatefulSet", "statefulsets"),
    ("apps", "DaemonSet", "daemonsets"),
    ("apps", "ReplicaSet", "replicasets"),
    ("apps", "Deployment", "deployments/scale"),
    ("batch", "Job", "jobs"),
    ("batch", "CronJob", "cronjobs"),
    ("rbac.authorization.k8s.io", "Role", "roles"),
    ("rbac.authorization.k8s.io", "RoleBinding", "rolebindings"),
    ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles"),
    ("apps.kruise.io", "SidecarSet", "sidecarsets"),
    ("apps.kruise.io", "SidecarSet", "sidecarsets/status"),
    ("apps.kruise.io", "CloneSet", "clonesets"),
    ("apps.kruise.io", "StatefulSet", "statefulsets"),
    ("apps.kruise.io", "DaemonSet", "daemonsets"),
    ("apps.kruise.io", "BroadcastJob", "broadcastjobs"),
    ("apps.kruise.io", "AdvancedCronJob", "advancedcronjobs"),
    ("apps.kruise.io", "UnitedDeployment", "uniteddeployments"),
    ("core.gardener.cloud", "Shoot", "shoots"),
    ("core.gardener.cloud", "Shoot", "shoots/status"),
    ("operator.gardener.cloud", "Garden", "gardens"),
    ("seedmanagement.gardener.cloud", "ManagedSeedSet", "managedseedsets"),
];

/// The artifacts together list every request that the module has rules for: a request that does not reach it is not
/// guarded. Gardens and `ManagedSeedSet`s are opt-in, since few clusters have their CRDs.
#[test]
fn the_artifacts_list_what_the_module_answers() {
    let listed: BTreeSet<(String, String, String)> =
        rules().into_iter().map(|rule| (rule[0].clone(), rule[2].clone(), rule[3].clone())).collect();
    // Some subresources have a kind of another group.
    let group_of = |group, resource| match resource {
        "serviceaccounts/token" | "pods/eviction" => "",
        _ => group,
    };
    for (group, kind, resource) in KINDS {
        let (_, sub_resource) = resource.split_once('/').unwrap_or((resource, ""));
        for operation in ["CREATE", "UPDATE", "DELETE", "CONNECT"] {
            let request = json!({
                "uid": "u", "operation": operation, "subResource": sub_resource,
                "kind": {"group": group, "version": "v1", "kind": kind}
            });
            let answers = Request::decode(request).unwrap().target() != RequestTarget::Other;
            let asks =
                listed.contains(&(group_of(group, resource).to_owned(), resource.to_owned(), operation.to_owned()));
            let is_extra = matches!(kind, "Garden" | "ManagedSeedSet");
            assert_eq!(asks, answers && !is_extra, "{operation} {resource}.{group}");
        }
    }
    let known: BTreeSet<_> =
        KINDS.map(|(group, _, resource)| (group_of(group, resource).to_owned(), resource.to_owned())).into();
    for (group, resource, _) in listed {
        assert!(known.contains(&(group.clone(), resource.clone())), "add {resource}.{group} to the table of this test");
    }
}

/// The artifacts whose policies are in `deploy/`. Only Gardener has Shoots, and the guards of running Pods are off by
/// default.
fn deployed() -> impl Iterator<Item = Value> {
    let is_left_out = |artifact: &&Artifact| {
        ["artifacts/shoots", "artifacts/exec", "artifacts/images", "artifacts/token-requests"]
            .contains(&artifact.folder)
    };
    ARTIFACTS.iter().filter(move |artifact| !is_left_out(artifact)).map(Artifact::metadata)
}

/// The policies of `deploy/` together have the rules of their artifacts.
#[test]
fn the_policies_share_the_rules_of_the_artifacts() {
    let mut asked = BTreeSet::new();
    for name in POLICIES {
        asked.extend(combinations(&policy(name)["spec"]["rules"], &RULE));
    }
    let wanted = deployed().flat_map(|metadata| combinations(&metadata["rules"], &RULE)).collect();
    assert_eq!(asked, wanted);
}

#[test]
fn the_policies_read_what_the_artifacts_list() {
    let mut read = BTreeSet::new();
    for name in POLICIES {
        read.extend(sorted(&policy(name)["spec"]["contextAwareResources"]));
    }
    assert_eq!(read, read_by_artifacts());
}

/// Returns all Roles and `ClusterRole`s of `deploy/rbac.yaml`.
fn roles() -> Vec<Value> {
    let objects = objects("rbac.yaml", &text("deploy/rbac.yaml"));
    objects.into_iter().filter(|object| object["rules"].is_array()).collect()
}

#[test]
fn the_policy_server_may_do_what_the_artifacts_ask_for_and_nothing_else() {
    let mut wanted = BTreeSet::new();
    for resource in read_by_artifacts() {
        let resource: Value = serde_json::from_str(&resource).unwrap();
        let api_version = resource["apiVersion"].as_str().unwrap();
        let (group, _) = api_version.split_once('/').unwrap_or_default();
        let plural = format!("{}s", resource["kind"].as_str().unwrap().to_lowercase());
        wanted.insert(vec![group.to_owned(), plural, "get".to_owned()]);
    }
    let declared = deployed().filter_map(|metadata| metadata.get("hostCapabilities").map(texts));
    for capability in declared.flatten() {
        match capability.as_str() {
            "kubernetes/get_resource" => {}
            "kubernetes/can_i" => {
                wanted.insert(["authorization.k8s.io", "subjectaccessreviews", "create"].map(str::to_owned).into());
            }
            other => panic!("what does {other} need?"),
        }
    }
    let mut granted = BTreeSet::new();
    for role in roles() {
        granted.extend(combinations(&role["rules"], &["apiGroups", "resources", "verbs"]));
    }
    assert_eq!(granted, wanted);
}

/// Settings that need every right: those of the chart, with identities.
const OF_THE_CHART: &str = "
featureGates: {SidecarSetServiceAccountInjection: true}
systemNamespace: pillion-system
bundleRef: {namespace: pillion-system, name: pillion-bundle}
";

/// Returns the rights of the policy server in Roles and `ClusterRole`s of rendered objects, wherever they hold. One role
/// is for people.
fn rendered_rights(settings: &str) -> BTreeSet<Vec<String>> {
    let arguments = ["manifest", "kubewarden", "--any-sidecar-sets", "--settings", "-"];
    let output = Command::cargo_bin("pillion").unwrap().args(arguments).write_stdin(settings).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let objects = objects("rendered", &String::from_utf8(output.stdout).unwrap());
    let is_for_people =
        |role: &Value| role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true";
    let roles = objects.iter().filter(|object| matches!(object["kind"].as_str(), Some("Role" | "ClusterRole")));
    let roles = roles.filter(|role| !is_for_people(role));
    roles.flat_map(|role| combinations(&role["rules"], &["apiGroups", "resources", "verbs"])).collect()
}

/// The rights that Kubewarden's chart grants by default, as group, resource and verb.
fn kubewardens_rights() -> BTreeSet<Vec<String>> {
    let read = [("", "namespaces"), ("", "pods"), ("", "services"), ("networking.k8s.io", "ingresses")];
    let mut rights: BTreeSet<_> = read
        .into_iter()
        .flat_map(|(group, resource)| ["get", "list", "watch"].map(|verb| [group, resource, verb].map(str::to_owned)))
        .map(Vec::from)
        .collect();
    rights.insert(["authorization.k8s.io", "subjectaccessreviews", "create"].map(str::to_owned).into());
    rights
}

/// The values have one group in each entry, and no verbs mean get, list and watch.
#[test]
fn the_values_for_kubewardens_chart_grant_what_is_rendered_and_what_the_chart_grants() {
    let values = yaml("deploy/values/policy-server.yaml");
    let mut granted = BTreeSet::new();
    for entry in values["policyServer"]["permissions"].as_array().unwrap() {
        let verbs = entry.get("verbs").cloned().unwrap_or_else(|| json!(["get", "list", "watch"]));
        let rule = json!([{"groups": [entry["apiGroup"]], "resources": entry["resources"], "verbs": verbs}]);
        granted.extend(combinations(&rule, &["groups", "resources", "verbs"]));
    }
    let wanted: BTreeSet<_> = rendered_rights(OF_THE_CHART).union(&kubewardens_rights()).cloned().collect();
    assert_eq!(granted, wanted);
}

#[test]
fn every_role_is_bound_to_the_policy_server() {
    let policy_server = json!([{"kind": "ServiceAccount", "name": "policy-server", "namespace": "kubewarden"}]);
    let objects = objects("rbac.yaml", &text("deploy/rbac.yaml"));
    let bindings: Vec<_> = objects.iter().filter(|object| object["roleRef"].is_object()).collect();
    for binding in &bindings {
        assert_eq!(binding["subjects"], policy_server, "{binding}");
    }
    let bound: Vec<_> = bindings
        .iter()
        .map(|binding| (&binding["roleRef"]["kind"], &binding["roleRef"]["name"], &binding["metadata"]["namespace"]))
        .collect();
    let roles = roles();
    let wanted: Vec<_> =
        roles.iter().map(|role| (&role["kind"], &role["metadata"]["name"], &role["metadata"]["namespace"])).collect();
    assert_eq!(bound, wanted);
}

#[test]
fn every_permission_has_its_reason() {
    let text = text("deploy/rbac.yaml");
    let lines: Vec<_> = text.lines().collect();
    let rules = lines.windows(2).filter(|pair| pair[1].starts_with("- apiGroups:"));
    let without: Vec<_> = rules.clone().filter(|pair| !pair[0].starts_with("# ")).collect();
    assert_eq!(without, [[""; 2]; 0]);
    assert_eq!(rules.count(), combined_rules());
}

fn combined_rules() -> usize {
    roles().iter().map(|role| role["rules"].as_array().unwrap().len()).sum()
}

#[rstest]
fn e12_a_policy_holds_where_it_matters(
    #[values("pods", "assert", "guards", "token-secrets", "sidecarsets")] name: &str,
) {
    let policy = policy(name);
    let spec = &policy["spec"];
    // E12: a policy that fails open guards nothing.
    assert_eq!((&spec["failurePolicy"], &spec["mode"]), (&json!("Fail"), &json!("protect")));
    // These policies mutate: two inject or set defaults, one writes a UID. The others are validating webhooks, which
    // run last.
    assert_eq!(spec["mutating"], json!(matches!(name, "pods" | "sidecarsets" | "token-secrets")));
    assert_eq!(spec["backgroundAudit"], yaml("metadata.yml")["backgroundAudit"]);
    let seconds = |field: &str| spec[field].as_u64().unwrap();
    assert!(seconds("timeoutEvalSeconds") <= seconds("timeoutSeconds"));
    assert!(seconds("timeoutEvalSeconds") >= if name == "sidecarsets" { 10 } else { 5 });
    let settings = Settings::decode(spec["settings"].clone()).unwrap();
    assert_eq!(settings.validate(), []);
    assert_eq!(settings.role, if name == "assert" { Role::Assert } else { Role::Inject });
}

/// The injecting policy, the guards and the twin have to know the same SidecarSets and rules.
#[rstest]
fn the_policies_that_know_sidecar_sets_have_the_same_settings(#[values("assert", "guards", "sidecarsets")] name: &str) {
    let mut settings = policy(name)["spec"]["settings"].clone();
    settings.as_object_mut().unwrap().remove("role");
    assert_eq!(settings, policy("pods")["spec"]["settings"]);
}

#[rstest]
fn the_twin_sees_the_pods_that_are_injected(
    #[values("rules", "namespaceSelector", "matchConditions", "contextAwareResources")] field: &str,
) {
    assert_eq!(policy("assert")["spec"][field], policy("pods")["spec"][field]);
}
