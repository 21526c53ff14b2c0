//! The ServiceAccount fields of SidecarSets.

use rstest::rstest;
use serde_json::{Value, json};

use super::support::{agent, check, folder, found, json_set, lines, set};

const RULE: &str = "{apiGroups: [''], resources: [pods], verbs: [get]}";

/// Returns a SidecarSet that is restricted to `team-a`.
fn closed(spec: &str) -> String {
    set(
        "a",
        &format!("  namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: team-a}}}}\n{spec}{}", agent("a")),
    )
}

fn settings(gate: bool, rules: &Value, sets: &[Value]) -> Value {
    json!({
        "sidecarSets": sets, "serviceAccounts": rules, "featureGates": {"SidecarSetServiceAccountInjection": gate},
    })
}

/// Returns a SidecarSet that names an account, with the other fields of `spec`.
fn naming(name: &str, account: &str, spec: &Value) -> Value {
    let mut set = json_set(name, spec);
    set["spec"]["serviceAccountName"] = account.into();
    set
}

fn everywhere() -> Value {
    json!({"protectedNamespaces": []})
}

/// Returns the findings without their places, which are all on the one line of a JSON file.
fn said(settings: &Value) -> Vec<String> {
    found(&settings.to_string())
        .iter()
        .map(|line| {
            let mut words = line.splitn(3, ' ');
            let severity = words.next().unwrap();
            words.next();
            format!("{severity} {}", words.next().unwrap())
        })
        .collect()
}

#[rstest]
#[case::nothing_is_wrong("  serviceAccountName: logs\n", &[])]
#[case::idv2_default("  serviceAccountName: default\n", &[
    "error 9:23 spec.serviceAccountName: Invalid value: \"default\": every Pod has \"default\" -> name an account of the \
     sidecar's own"
])]
#[case::idv8_mode("  serviceAccountName: logs\n  serviceAccountMode: SidecarOnly\n", &[
    "error 10:23 spec.serviceAccountMode: Unsupported value: \"SidecarOnly\" -> did you mean \"SidecarsOnly\"? Supported \
     are \"SidecarsOnly\", \"Isolate\", \"Pod\""
])]
#[case::idv6_verbs(
    "  serviceAccountName: logs\n  behaviorWhenServiceAccountInjection: Merge\n  serviceAccountPermissions:\n  - \
     {apiGroups: [''], resources: [pods]}\n",
    &["error 12:5 spec.serviceAccountPermissions[0].verbs: Required value: give at least one verb"]
)]
#[case::no_field_of_a_rule(
    "  serviceAccountName: logs\n  behaviorWhenServiceAccountInjection: Merge\n  serviceAccountPermissions:\n  - \
     {apiGroups: [''], resource: [pods], verbs: [get]}\n",
    &["error 12:23 spec.serviceAccountPermissions[0].resource: Unknown field \"resource\" -> did you mean \"resources\"?"]
)]
#[case::idv7_permissions_without_use(&format!("  serviceAccountName: logs\n  serviceAccountPermissions: [{RULE}]\n"), &[
    "warning 10:3 spec.serviceAccountPermissions: spec.serviceAccountPermissions is only used where \
     spec.behaviorWhenServiceAccountInjection is Merge"
])]
#[case::idv7_merging_nothing("  serviceAccountName: logs\n  behaviorWhenServiceAccountInjection: Merge\n", &[
    "warning 10:40 spec.behaviorWhenServiceAccountInjection: spec.behaviorWhenServiceAccountInjection is Merge, but \
     spec.serviceAccountPermissions is empty: nothing of \"logs\" reaches a merged ServiceAccount"
])]
#[case::idv7_permissions_of_nobody(
    &format!("  behaviorWhenServiceAccountInjection: Merge\n  serviceAccountPermissions: [{RULE}]\n"),
    &["error 10:3 spec.serviceAccountPermissions: Forbidden: permissions belong to a ServiceAccount -> set \
       spec.serviceAccountName"]
)]
#[case::mrg3_names_of_what_is_to_be_created(
    "  serviceAccountName: logs\n  behaviorWhenServiceAccountInjection: Merge\n  serviceAccountPermissions:\n  - \
     {apiGroups: [''], resources: [pods], verbs: [create, get], resourceNames: [a]}\n",
    &["warning 12:5 spec.serviceAccountPermissions[0]: \"create\" with resourceNames is never granted: it names no object"]
)]
#[case::e3_mode_pod_needs_a_setting("  serviceAccountName: logs\n  serviceAccountMode: Pod\n", &[
    "warning 10:23 spec.serviceAccountMode: with the default settings: Forbidden: mode Pod would give the app the \
     permissions of \"logs\" -> use SidecarsOnly or Isolate, or set serviceAccounts.allowPodMode"
])]
#[case::esc4_what_nobody_may_grant(
    "  serviceAccountName: logs\n  behaviorWhenServiceAccountInjection: Merge\n  serviceAccountPermissions:\n  - \
     {apiGroups: [''], resources: [secrets], verbs: [get]}\n",
    &["warning 12:5 spec.serviceAccountPermissions[0]: with the default settings: Forbidden: grants get secrets, which \
       reaches * secrets -> no sidecar may get that; grant less, or change serviceAccounts.denyPermissions"]
)]
#[case::a_misspelt_field("  serviceAcountName: logs\n", &[
    "warning 9:3 spec.serviceAcountName: unknown field; nothing reads it -> did you mean \"serviceAccountName\"?"
])]
fn a_sidecar_set_alone_is_judged_as_if_the_gate_were_on(#[case] spec: &str, #[case] expected: &[&str]) {
    assert_eq!(found(&closed(spec)), expected);
}

fn annotated(annotations: &str, spec: &str) -> String {
    closed(spec).replace("  name: a\nspec", &format!("  name: a\n  annotations:\n{annotations}spec"))
}

#[rstest]
#[case::mode(
    "    pillion.dev/service-account-name: logs\n    pillion.dev/service-account-mode: pod\n", "",
    &["warning 7:39 metadata.annotations[pillion.dev/service-account-mode]: with the default settings: Forbidden: mode \
       Pod would give the app the permissions of \"logs\" -> use SidecarsOnly or Isolate, or set \
       serviceAccounts.allowPodMode"]
)]
#[case::permissions(
    "    pillion.dev/service-account-name: logs\n    pillion.dev/service-account-permissions: '[{\"verbs\": [\"get\"]}]'\n", "",
    &[
        "error 7:46 metadata.annotations[pillion.dev/service-account-permissions]: Required value: give at least one \
         group -> \"\" is the core group",
        "error 7:46 metadata.annotations[pillion.dev/service-account-permissions]: Required value: give at least one \
         resource",
        "warning 7:46 metadata.annotations[pillion.dev/service-account-permissions]: spec.serviceAccountPermissions is \
         only used where spec.behaviorWhenServiceAccountInjection is Merge",
    ]
)]
#[case::disagreement(
    "    pillion.dev/service-account-name: logs\n", "  serviceAccountName: metrics\n",
    &["error 6:39 metadata.annotations[pillion.dev/service-account-name]: Invalid value: says something else than \
       spec.serviceAccountName -> keep one of the two"]
)]
#[case::misspelt(
    "    pillion.dev/service-account-nmae: logs\n", "",
    &["warning 6:39 metadata.annotations[pillion.dev/service-account-nmae]: nothing reads this annotation -> did you \
       mean \"pillion.dev/service-account-name\"?"]
)]
#[case::of_pods(
    "    pillion.dev/service-account-injected: '{}'\n", "",
    &["warning 6:43 metadata.annotations[pillion.dev/service-account-injected]: nothing reads this annotation -> known \
       are pillion.dev/service-account-name, -conflict, -permissions, -mode, -tokens, -partners"]
)]
fn annotations_stand_for_fields(#[case] annotations: &str, #[case] spec: &str, #[case] expected: &[&str]) {
    assert_eq!(found(&annotated(annotations, spec)), expected);
}

#[test]
fn e1_a_selector_that_may_match_protected_namespaces_gets_a_warning() {
    assert_eq!(
        found(&set("a", &format!("  serviceAccountName: logs\n{}", agent("a")))),
        [
            "warning 5:1 spec.namespaceSelector: Pods in the protected namespaces kube-system, kube-public, kube-node-lease, \
          kruise-system, pillion-system, kubewarden, cattle-kubewarden-system, suse-sec-adm-controller are refused where this SidecarSet matches them -> exclude them in \
          spec.namespaceSelector"
        ]
    );
    let excluding = "  namespaceSelector:\n    matchExpressions:\n    - {key: kubernetes.io/metadata.name, operator: NotIn, \
                     values: [kube-system, kube-public, kube-node-lease, kruise-system, pillion-system, kubewarden, \
                     cattle-kubewarden-system, suse-sec-adm-controller]}\n";
    let text = set("a", &format!("{excluding}  serviceAccountName: logs\n{}", agent("a")));
    assert_eq!(found(&text), [""; 0]);
}

#[rstest]
#[case::e1_protected(
    &json!({}), naming("a", "logs", &json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}})),
    &["error sidecarSets[0].spec.namespaceSelector: Forbidden: no sidecar gets a ServiceAccount in the protected namespace \
       \"kube-system\" -> leave the namespace out, or change serviceAccounts.protectedNamespaces"]
)]
#[case::idv5_not_allowed(
    &json!({"allowed": [{"namespaces": ["*"], "names": ["mesh-*"]}], "protectedNamespaces": []}), naming("a", "logs", &json!({})),
    &["error sidecarSets[0].spec.serviceAccountName: Forbidden: ServiceAccount \"logs\" is not allowed in any namespace -> \
       add it to serviceAccounts.allowed"]
)]
#[case::e3_mode_pod(
    &everywhere(), naming("a", "logs", &json!({"serviceAccountMode": "pod"})),
    &["error sidecarSets[0].spec.serviceAccountMode: Forbidden: mode Pod would give the app the permissions of \"logs\" -> \
       use SidecarsOnly or Isolate, or set serviceAccounts.allowPodMode"]
)]
#[case::e3_mode_pod_allowed(
    &json!({"protectedNamespaces": [], "allowPodMode": true}), naming("a", "logs", &json!({"serviceAccountMode": "pod"})), &[]
)]
fn settings_say_what_is_allowed(#[case] rules: &Value, #[case] set: Value, #[case] expected: &[&str]) {
    assert_eq!(said(&settings(true, rules, &[set])), expected);
}

#[rstest]
#[case::the_same_pods(&json!({}), &[
    "error sidecarSets[1].spec.serviceAccountName: Forbidden: SidecarSet \"a\" wants ServiceAccount \"logs\" for the same \
     Pods, and not both merge -> give them one account, the behaviour Merge or the mode Isolate"
])]
#[case::some_pods(&json!({"selector": {"matchLabels": {"mesh": "on"}}}), &[
    "warning sidecarSets[1].spec.serviceAccountName: where both match: SidecarSet \"a\" wants ServiceAccount \"logs\" for \
     the same Pods, and not both merge"
])]
#[case::no_pod(&json!({"selector": {"matchLabels": {"logs": "none"}}}), &[])]
#[case::isolated(&json!({"serviceAccountMode": "Isolate"}), &[])]
fn idv4_conflicts_are_errors_where_they_are_certain(#[case] other: &Value, #[case] expected: &[&str]) {
    let sets = [naming("a", "logs", &json!({})), naming("b", "mesh", other)];
    assert_eq!(said(&settings(true, &everywhere(), &sets)), expected);
}

#[test]
fn idv4_sidecar_sets_of_files_are_held_against_those_of_settings() {
    let isolated = json!({"selector": {"matchLabels": {"mesh": "on"}}});
    let here = folder(&[
        ("settings.json", &settings(true, &everywhere(), &[naming("a", "logs", &json!({}))]).to_string()),
        ("b.json", &naming("b", "mesh", &json!({})).to_string()),
        ("c.json", &naming("c", "other", &isolated).to_string()),
    ]);
    let answer = check(here.path(), &["settings.json", "b.json", "c.json", "-o", "json"], "");
    assert_eq!(answer.code, 1);
    let of_accounts: Vec<String> =
        lines(&answer.out).into_iter().filter(|line| line.contains("spec.serviceAccountName")).collect();
    assert_eq!(of_accounts.len(), 3, "{of_accounts:#?}");
    assert!(
        of_accounts[0].starts_with("error") && of_accounts[0].contains("SidecarSet \"a\" wants"),
        "{of_accounts:#?}"
    );
    assert!(of_accounts[1].starts_with("warning") && of_accounts[1].contains("where both match: SidecarSet \"a\""));
}

#[test]
fn idv1_without_the_gate_a_warning_says_what_is_missing() {
    let message = "sidecarSets[0].spec.serviceAccountName: the SidecarSet is injected without its ServiceAccount: the \
                   feature gate SidecarSetServiceAccountInjection is off -> turn it on in featureGates, or remove what is \
                   said of ServiceAccounts";
    // The other fields are not checked, since they have no effect.
    let set = naming("a", "default", &json!({"serviceAccountMode": "Pod"}));
    assert_eq!(said(&settings(false, &json!({}), &[set])), [format!("warning {message}")]);
    let mut annotated = json_set("a", &json!({}));
    annotated["metadata"]["annotations"] = json!({"pillion.dev/service-account-conflict": "Merge"});
    let said = said(&settings(false, &json!({}), &[annotated]));
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].starts_with("warning sidecarSets[0].metadata.annotations[pillion.dev/service-account-conflict]: "));
}

#[test]
fn idv1_the_admission_of_a_file_would_refuse_what_it_says_anew() {
    let off = settings(false, &json!({}), &[json_set("a", &json!({}))]).to_string();
    let on = settings(true, &everywhere(), &[json_set("a", &json!({}))]).to_string();
    let here = folder(&[("off.json", &off), ("on.json", &on), ("a.yaml", &closed("  serviceAccountName: logs\n"))]);
    let found = |args: &[&str]| lines(&check(here.path(), args, "").out);
    assert_eq!(
        found(&["off.json", "a.yaml", "-o", "json"]),
        [
            "error 9:23 spec.serviceAccountName: Forbidden: the feature gate SidecarSetServiceAccountInjection is off -> \
             turn it on in featureGates, or remove this"
        ]
    );
    assert_eq!(check(here.path(), &["off.json", "a.yaml"], "").code, 1);
    // A field that exists already may stay.
    assert_eq!(found(&["off.json", "a.yaml", "--old", "a.yaml", "-o", "json"]), [""; 0]);
    // One settings file with the gate is enough.
    assert_eq!(found(&["off.json", "on.json", "a.yaml", "-o", "json"]), [""; 0]);
}

/// The policy for SidecarSets decides whether to refuse one, whatever the policy for Pods does with it.
#[rstest]
#[case::at_the_policy_for_sets(true, false, 1)]
#[case::at_the_policy_for_pods(false, true, 0)]
#[case::nowhere(true, true, 0)]
fn idv1_the_gate_of_the_policy_that_admits_sets_counts(#[case] pods: bool, #[case] sets: bool, #[case] errors: usize) {
    let policy = |name: &str, group: &str, resource: &str, gate: bool| {
        let rule = json!({"apiGroups": [group], "apiVersions": ["*"], "resources": [resource], "operations": ["CREATE", "UPDATE"]});
        let mut settings = settings(gate, &everywhere(), &[]);
        settings["bundleRef"] = json!({"namespace": "pillion-system", "name": "sidecarsets"});
        json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy", "metadata": {"name": name},
            "spec": {"module": "registry://registry.example.com/pillion:v1", "mutating": true, "rules": [rule], "settings": settings}
        })
    };
    let text = format!(
        "{}\n---\n{}\n---\n{}",
        policy("pods", "", "pods", pods),
        policy("sets", "apps.kruise.io", "sidecarsets", sets),
        closed("  serviceAccountName: logs\n")
    );
    let found: Vec<String> = found(&text).into_iter().filter(|line| line.starts_with("error")).collect();
    assert_eq!(found.len(), errors, "{found:#?}");
    assert!(
        found.iter().all(|line| line.contains("spec.serviceAccountName: Forbidden: the feature gate")),
        "{found:#?}"
    );
}

#[rstest]
#[case::key("serviceAccounts: {onmissing: Skip}", "did you mean \"onMissing\"?")]
#[case::value("serviceAccounts: {onMissing: skip}", "did you mean \"Skip\"? Supported are \"Deny\", \"Skip\"")]
#[case::entry("serviceAccounts: {allowed: [{namespace: [a], names: [a]}]}", "did you mean \"namespaces\"?")]
#[case::rule("serviceAccounts: {denyPermissions: [{verb: [get]}]}", "did you mean \"verbs\"?")]
#[case::role("role: assert", "did you mean \"Assert\"? Supported are \"Inject\", \"Assert\"")]
fn misspelt_settings_are_told_what_they_could_be(#[case] text: &str, #[case] remedy: &str) {
    let found = found(&format!("sidecarSets: []\n{text}\n"));
    assert!(found.iter().any(|line| line.ends_with(&format!(" -> {remedy}"))), "{found:#?}");
}

#[rstest]
#[case::nothing("[]", &[
    "warning 2:19 serviceAccounts.denyPermissions: nothing is denied: a SidecarSet may grant whatever its author holds, \
     escalate and bind included -> leave it out for the default list"
])]
#[case::some("[{apiGroups: [''], resources: [nodes], verbs: ['*']}]", &[])]
#[case::absent("null", &[])]
fn esc4_lists_that_deny_nothing_are_found(#[case] list: &str, #[case] expected: &[&str]) {
    assert_eq!(found(&format!("sidecarSets: []\nserviceAccounts: {{denyPermissions: {list}}}\n")), expected);
}

/// Returns a Role `reader`, and a RoleBinding that gives a Role to the account `logs` of a namespace.
fn bound(role: &str, namespace: &str, subject: &str) -> String {
    let group = "rbac.authorization.k8s.io";
    format!(
        "---\napiVersion: {group}/v1\nkind: Role\nmetadata: {{name: reader, namespace: {namespace}}}\nrules:\n- \
         {{apiGroups: [''], resources: [pods], verbs: [get, list]}}\n---\napiVersion: {group}/v1\nkind: \
         RoleBinding\nmetadata: {{name: logs, namespace: {namespace}}}\nroleRef: {{apiGroup: {group}, kind: Role, name: \
         {role}}}\nsubjects: [{{kind: ServiceAccount, name: logs, namespace: {subject}}}]\n"
    )
}

/// IDC-5: a merged account gets the listed permissions, and none that are bound to the accounts it replaces.
#[rstest]
#[case::what_is_not_listed("Merge", "reader", "team-a", &["list pods (RoleBinding \"logs\")"])]
#[case::a_role_in_no_file("Merge", "other", "team-a", &[])]
#[case::elsewhere("Merge", "reader", "team-b", &[])]
#[case::not_merged("Refuse", "reader", "team-a", &[])]
fn idc5_what_is_bound_and_not_listed_is_told(
    #[case] behavior: &str,
    #[case] role: &str,
    #[case] namespace: &str,
    #[case] lost: &[&str],
) {
    let fields = format!(
        "  serviceAccountName: logs\n  behaviorWhenServiceAccountInjection: {behavior}\n  serviceAccountPermissions:\n  - \
         {RULE}\n"
    );
    let said = found(&format!("{}{}", closed(&fields), bound(role, namespace, namespace)));
    let said: Vec<&String> = said.iter().filter(|line| line.contains("is merged")).collect();
    assert_eq!(said.len(), lost.len(), "{said:?}");
    for (said, lost) in said.iter().zip(lost) {
        assert!(said.contains("spec.serviceAccountPermissions: ") && said.contains(lost), "{said}");
    }
}

/// A stored version with a token, which runs under the account of the present set.
#[test]
fn idc9_a_requested_version_is_checked_like_the_present_one() {
    let pinned = naming("a", "logs", &json!({"injectionStrategy": {"revision": {"revisionName": "a-1"}}}));
    let token =
        json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"audience": "x", "path": "t"}}]}});
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {"name": "a-1", "namespace": "kruise-system", "labels": {"kruise.io/sidecarset-name": "a"}},
        "data": {"spec": {"containers": [{"name": "a", "image": "agent:0"}], "volumes": [token]}},
    });
    let says = "spec.injectionStrategy.revision.revisionName: Invalid value: \"a-1\": ControllerRevision \"a-1\" would run \
                under the ServiceAccount, and has spec.volumes[0].projected";
    let here = folder(&[("a.json", &pinned.to_string()), ("revision.json", &revision.to_string())]);
    let of_files = lines(&check(here.path(), &["a.json", "revision.json", "-o", "json"], "").out);
    let mut settings = settings(true, &everywhere(), std::slice::from_ref(&pinned));
    settings["controllerRevisions"] = json!([revision]);
    for found in [of_files, said(&settings)] {
        assert!(found.iter().any(|line| line.starts_with("error ") && line.contains(says)), "{found:?}");
    }
}

/// Two SidecarSets of the cluster that share a folder.
#[test]
fn idc11_sets_that_share_a_volume_are_told() {
    let shared = |partners: &[&str]| {
        json!({
            "containers": [{"name": "c", "image": "agent:1", "volumeMounts": [{"name": "conf", "mountPath": "/conf"}]}],
            "volumes": [{"name": "conf", "emptyDir": {}}], "serviceAccountPartners": partners,
        })
    };
    let named = |mut set: Value, container: &str| {
        set["spec"]["containers"][0]["name"] = container.into();
        set.to_string()
    };
    let found = |of_a: &[&str], of_b: &[&str]| {
        let (a, b) = (named(naming("a", "logs", &shared(of_a)), "a"), named(json_set("b", &shared(of_b)), "b"));
        let here = folder(&[("a.json", &a), ("b.json", &b)]);
        let found = lines(&check(here.path(), &["a.json", "b.json", "-o", "json"], "").out);
        found.into_iter().filter(|line| line.contains("uses the volume \"conf\"")).collect::<Vec<_>>()
    };
    let [line] = found(&["b"], &[]).try_into().unwrap();
    assert!(line.starts_with("warning ") && line.contains("as SidecarSets of the cluster: "), "{line}");
    assert!(line.contains("let \"b\" and \"a\" name each other in spec.serviceAccountPartners"), "{line}");
    assert_eq!(found(&["b"], &["a"]), [""; 0]);
}
