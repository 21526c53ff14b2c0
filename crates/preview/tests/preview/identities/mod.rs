//! ServiceAccounts of sidecars in `pillion inject` and `explain`.

mod audiences;
mod explain;

use std::fs;

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Run, pillion, readable};

const SETTINGS: &str = "featureGates: {SidecarSetServiceAccountInjection: true}\n";

const WEB: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: web
        image: nginx:1.27
        volumeMounts: [{name: data, mountPath: /data}]
      volumes:
      - {name: data, emptyDir: {}}
";

/// Returns a SidecarSet with a container of the same name. `fields` are lines of its spec.
fn set(name: &str, fields: &str) -> String {
    format!(
        "---
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {{name: {name}}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  containers: [{{name: {name}, image: 'i:1', podInjectPolicy: AfterAppContainer}}]
{fields}"
    )
}

/// Returns two SidecarSets with accounts `log-agent` and `metrics` that merge.
fn merging() -> String {
    let fields = |account: &str, resource: &str| {
        format!(
            "  serviceAccountName: {account}
  behaviorWhenServiceAccountInjection: Merge
  serviceAccountPermissions: [{{apiGroups: [''], resources: [{resource}], verbs: [get]}}]
"
        )
    };
    set("agent", &fields("log-agent", "pods")) + &set("metrics", &fields("metrics", "nodes"))
}

fn accounts(names: &[&str]) -> String {
    let account = |name: &&str| {
        format!("---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {name}, namespace: shop}}\n")
    };
    names.iter().map(account).collect()
}

/// Runs a command on the Deployment, SidecarSets and other manifests, with the gate on.
fn preview(command: &str, others: &str, args: &[&str]) -> Run {
    preview_on(WEB, command, others, args)
}

fn preview_on(input: &str, command: &str, others: &str, args: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("web.yaml", input), ("others.yaml", others), ("settings.yaml", SETTINGS)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let given = [command, "web.yaml", "--sidecar-sets", "others.yaml", "--settings", "settings.yaml"];
    pillion(folder.path(), &[&given, args].concat(), "")
}

#[test]
fn a_deployment_shows_what_it_would_say_with_the_identity() {
    let others = set("agent", "  serviceAccountName: log-agent\n") + &accounts(&["log-agent"]);
    let run = preview("inject", &others, &["--diff"]);
    assert_eq!(run.code, 0, "{}", run.err);
    insta::assert_snapshot!(readable(&run), @r#"
    --- Deployment shop/web
    +++ Deployment shop/web (injected)
    @@ -6,10 +6,47 @@
       template:
         metadata:
           labels: {app: web}
    +      annotations:
    +        kruise.io/sidecarset-injected-list: agent
    +        pillion.dev/service-account-injected: '{"injected":"log-agent","original":"default","sidecarSets":["agent"]}'
         spec:
           containers:
           - name: web
             image: nginx:1.27
             volumeMounts: [{name: data, mountPath: /data}]
    +      - name: agent
    +        image: i:1
    +        env:
    +        - name: IS_INJECTED
    +          value: "true"
    +        imagePullPolicy: IfNotPresent
    +        terminationMessagePath: /dev/termination-log
    +        terminationMessagePolicy: File
    +        volumeMounts:
    +        - name: sidecarset-sa-b077d031c6eaa197
    +          mountPath: /var/run/secrets/kubernetes.io/serviceaccount
    +          readOnly: true
           volumes:
           - {name: data, emptyDir: {}}
    +      - name: sidecarset-sa-b077d031c6eaa197
    +        projected:
    +          defaultMode: 420
    +          sources:
    +          - serviceAccountToken:
    +              expirationSeconds: 3607
    +              path: token
    +          - configMap:
    +              name: kube-root-ca.crt
    +              items:
    +              - key: ca.crt
    +                path: ca.crt
    +          - downwardAPI:
    +              items:
    +              - fieldRef:
    +                  apiVersion: v1
    +                  fieldPath: metadata.namespace
    +                path: namespace
    +      automountServiceAccountToken: false
    +      serviceAccountName: log-agent
    "#);
    insta::assert_snapshot!(run.err, @"
    Deployment shop/web: injected agent/agent, with the ServiceAccounts agent/log-agent
    1 injected, 0 unchanged, 0 refused
    ");
}

#[test]
fn an_account_that_is_not_given_is_refused_and_stderr_tells_of_the_flag() {
    let run = preview("inject", &set("agent", "  serviceAccountName: log-agent\n"), &[]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    insta::assert_snapshot!(run.err, @r#"
    warning: ServiceAccount shop/log-agent is in no manifest; give it, or assume that it exists with --assume-service-accounts
    error: web.yaml:1: Deployment shop/web: refused (403): SidecarSet "agent": spec.serviceAccountName: ServiceAccount "log-agent" does not exist in namespace "shop"; create the ServiceAccount in the Pod's namespace, or set serviceAccounts.onMissing to Skip
    0 injected, 0 unchanged, 1 refused
    "#);
}

#[test]
fn accounts_are_assumed_where_asked_without_a_word() {
    let others =
        set("agent", "  serviceAccountName: log-agent\n") + &set("metrics", "  serviceAccountName: log-agent\n");
    let run = preview("inject", &others, &["--assume-service-accounts", "--as-pods", "-o", "json"]);
    assert_eq!(run.code, 0, "{}", run.err);
    insta::assert_snapshot!(run.err, @"
    Deployment shop/web: injected agent/agent, metrics/metrics, with the ServiceAccounts agent/log-agent, metrics/log-agent
    1 injected, 0 unchanged, 0 refused
    ");
    let spec = &run.json()["spec"];
    assert_eq!(
        (&spec["serviceAccountName"], &spec["automountServiceAccountToken"]),
        (&json!("log-agent"), &json!(false))
    );
    assert_eq!(spec.get("serviceAccount"), None, "the alias is the API server's");
    assert!(!run.out.contains("kube-api-access"), "{}", run.out);
}

#[test]
fn what_a_manifest_says_of_an_account_counts_before_the_flag() {
    let account = "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: log-agent, namespace: shop, deletionTimestamp: '2026-01-02T03:04:05Z'}\n";
    let run = preview(
        "inject",
        &(set("agent", "  serviceAccountName: log-agent\n") + account),
        &["--assume-service-accounts"],
    );
    assert_eq!(run.code, 1);
    assert!(run.err.contains("is being deleted"), "{}", run.err);
}

#[test]
fn merged_objects_are_assumed_as_the_controller_makes_them_and_templates_are_not_to_be_applied() {
    let run = preview("inject", &merging(), &["--assume-service-accounts", "--diff"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("+      serviceAccountName: sidecarset-merged-c1c364c813e3611b\n"), "{}", run.out);
    insta::assert_snapshot!(run.err, @r#"
    warning: Deployment shop/web: the output is not for kubectl apply: "sidecarset-merged-c1c364c813e3611b" is a merged ServiceAccount, which belongs to Pods, and the policy refuses templates that name it; apply the manifest as it was
    Deployment shop/web: injected agent/agent, metrics/metrics, with the ServiceAccounts agent/sidecarset-merged-c1c364c813e3611b, metrics/sidecarset-merged-c1c364c813e3611b
    1 injected, 0 unchanged, 0 refused
    "#);
}

#[test]
fn merged_objects_can_be_given_as_manifests() {
    let name = "sidecarset-merged-c1c364c813e3611b";
    let metadata = json!({
        "name": name, "namespace": "shop", "annotations": {"pillion.dev/sidecarsets": "agent,metrics"}
    });
    let rules = json!([{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get"]}]);
    let rbac = "rbac.authorization.k8s.io/v1";
    let objects = [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({"apiVersion": rbac, "kind": "Role", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": rbac, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "shop"}]
        }),
    ];
    let documents =
        |objects: &[Value]| objects.iter().map(|object| format!("---\n{object}\n")).collect::<Vec<_>>().concat();
    let others = merging() + &accounts(&["log-agent", "metrics"]);
    let ready = preview("inject", &(others.clone() + &documents(&objects)), &["--as-pods"]);
    assert_eq!(ready.code, 0, "{}", ready.err);
    insta::assert_snapshot!(ready.err, @"
    Deployment shop/web: injected agent/agent, metrics/metrics, with the ServiceAccounts agent/sidecarset-merged-c1c364c813e3611b, metrics/sidecarset-merged-c1c364c813e3611b
    1 injected, 0 unchanged, 0 refused
    ");
    let without = preview("inject", &(others + &documents(&objects[..2])), &["--as-pods"]);
    assert_eq!(without.code, 1);
    insta::assert_snapshot!(without.err, @r#"
    warning: the merged ServiceAccount shop/sidecarset-merged-c1c364c813e3611b, its Role or its RoleBinding is in no manifest; give all three, or assume that they exist with --assume-service-accounts
    error: web.yaml:1: Deployment shop/web: refused (503): spec.serviceAccountName: RoleBinding "sidecarset-merged-c1c364c813e3611b" in namespace "shop", merged for the SidecarSets agent,metrics, is not there yet; the controller prepares it; try again
    0 injected, 0 unchanged, 1 refused
    "#);
}

#[test]
fn a_pod_with_an_account_of_its_own_keeps_it_and_a_warning_says_so() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop, labels: {app: web}}, spec: {serviceAccountName: own, containers: [{name: web, image: 'i:1'}]}}\n";
    let others = set("agent", "  serviceAccountName: log-agent\n") + &accounts(&["log-agent"]);
    let run = preview_on(pod, "inject", &others, &["-o", "json"]);
    assert_eq!(run.code, 0, "{}", run.err);
    insta::assert_snapshot!(run.err, @r#"
    warning: Pod shop/p: SidecarSet "agent" is injected without its ServiceAccount: the Pod has the ServiceAccount "own" of its own; mode Isolate gives the sidecars theirs beside it
    Pod shop/p: injected agent/agent
    1 injected, 0 unchanged, 0 refused
    "#);
    assert_eq!(run.json()["spec"]["serviceAccountName"], "own");
}

/// The admission of the output's Pods must neither undo the injection nor repeat it.
#[rstest]
#[case::sidecars_only("  serviceAccountName: log-agent\n")]
#[case::isolate("  serviceAccountName: log-agent\n  serviceAccountMode: Isolate\n")]
fn what_came_out_with_an_identity_comes_out_again(#[case] fields: &str) {
    let others = set("agent", fields) + &accounts(&["log-agent"]);
    let once = preview("inject", &others, &[]);
    assert_eq!(once.code, 0, "{}", once.err);
    let twice = preview_on(&once.out, "inject", &others, &[]);
    assert_eq!(twice.out, once.out);
    assert!(twice.err.contains("already has agent/agent, with the ServiceAccounts agent/log-agent"), "{}", twice.err);
}

/// TOK-3: the app's part stays byte-identical.
#[test]
fn tok3_in_mode_isolate_the_app_stays_as_it_is() {
    let others = set("agent", "  serviceAccountName: log-agent\n  serviceAccountMode: Isolate\n");
    let run = preview("inject", &others, &["--diff", "--assume-service-accounts"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(!run.out.lines().any(|line| line.starts_with('-') && !line.starts_with("---")), "{}", run.out);
    assert!(!run.out.contains("serviceAccountName"), "{}", run.out);
    assert!(run.out.contains("name: sidecarset-token-b077d031c6eaa197"), "{}", run.out);
}

#[test]
fn a_policy_that_asserts_injects_nothing_and_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let files = [("web.yaml", WEB.to_owned() + &set("agent", "")), ("settings.yaml", "role: Assert\n".to_owned())];
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let run = |command: &str| pillion(folder.path(), &[command, "web.yaml", "--settings", "settings.yaml"], "");
    let injected = run("inject");
    assert_eq!(injected.out, WEB.to_owned() + &set("agent", ""));
    let said = injected.err;
    assert!(said.contains("such a policy judges Pods after injection, and injects nothing"), "{said}");
    let explained = run("explain").out;
    let why = "agent  not injected: role: this policy judges Pods after injection, and injects nothing";
    assert!(explained.contains(why), "{explained}");
}
