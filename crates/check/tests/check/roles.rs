//! Policies that identities need: the injecting policy, the guards, and the asserting twin.

use rstest::rstest;
use serde_json::{Value, json};

use super::support::{found, json_set};

pub const PODS: [&str; 3] = ["", "pods", "CREATE"];
const SETS: [&str; 3] = ["apps.kruise.io", "sidecarsets", "CREATE UPDATE"];
pub const EPHEMERAL: [&str; 3] = ["", "pods/ephemeralcontainers", "UPDATE"];
pub const SECRETS: [&str; 3] = ["", "secrets", "CREATE UPDATE"];
const ACCOUNTS: [&str; 3] = ["", "serviceaccounts", "CREATE UPDATE DELETE"];
const RBAC: [&str; 3] = ["rbac.authorization.k8s.io", "roles rolebindings", "CREATE UPDATE DELETE"];
pub const AUTHORITIES: [&str; 3] = ["", "configmaps", "CREATE UPDATE DELETE"];
pub const SERVICES: [&str; 3] = ["", "services", "CREATE UPDATE"];
const APPS: [&str; 3] = ["apps", "deployments statefulsets daemonsets replicasets", "CREATE UPDATE"];
const BATCH: [&str; 3] = ["batch", "jobs cronjobs", "CREATE UPDATE"];
const CORE: [&str; 3] = ["", "replicationcontrollers podtemplates", "CREATE UPDATE"];
const KRUISE: [&str; 3] = [
    "apps.kruise.io",
    "clonesets statefulsets daemonsets broadcastjobs advancedcronjobs uniteddeployments",
    "CREATE UPDATE",
];

/// Returns a policy of this name with these `rules` that may read everything.
pub fn policy(name: &str, rules: &[[&str; 3]], settings: &Value) -> Value {
    let words = |text: &str| text.split(' ').map(Value::from).collect::<Value>();
    let rules: Vec<Value> = rules
        .iter()
        .map(|[group, resources, operations]| {
            json!({"apiGroups": [group], "apiVersions": ["*"], "resources": words(resources), "operations": words(operations)})
        })
        .collect();
    let readable = [
        "v1 Namespace",
        "v1 ConfigMap",
        "v1 ServiceAccount",
        "apps/v1 ControllerRevision",
        "rbac.authorization.k8s.io/v1 Role",
        "rbac.authorization.k8s.io/v1 RoleBinding",
    ];
    let readable: Vec<Value> = readable
        .iter()
        .map(|resource| resource.split_once(' ').map(|(api, kind)| json!({"apiVersion": api, "kind": kind})).unwrap())
        .collect();
    json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "module": "registry://registry.example.com/pillion:v1", "mutating": true, "timeoutEvalSeconds": 10,
            "rules": rules, "contextAwareResources": readable, "settings": settings,
        },
    })
}

pub fn with(mut policy: Value, field: &str, value: Value) -> Value {
    policy["spec"][field] = value;
    policy
}

/// Returns settings with the gate on and a SidecarSet for each account.
fn settings(accounts: &[(&str, Value)]) -> Value {
    let sets: Vec<Value> = accounts
        .iter()
        .map(|(account, spec)| {
            let mut set = json_set(account, spec);
            set["spec"]["serviceAccountName"] = (*account).into();
            set
        })
        .collect();
    json!({
        "sidecarSets": sets, "featureGates": {"SidecarSetServiceAccountInjection": true},
        "serviceAccounts": {"protectedNamespaces": []},
    })
}

pub fn of_logs() -> Value {
    settings(&[("logs", json!({}))])
}

fn merging() -> Value {
    let merge = json!({
        "behaviorWhenServiceAccountInjection": "Merge",
        "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    });
    settings(&[("logs", merge.clone()), ("mesh", merge)])
}

pub fn twin(settings: &Value) -> Value {
    let mut settings = settings.clone();
    settings["role"] = json!("Assert");
    with(policy("twin", &[PODS], &settings), "mutating", json!(false))
}

/// Returns the findings without severities and places: `path: message -> remedy`.
pub fn said(policies: &[Value]) -> Vec<String> {
    let text: Vec<String> = policies.iter().map(|policy| format!("---\n{policy}\n")).collect();
    let found = found(&text.concat());
    assert!(found.iter().all(|line| line.starts_with("warning ")), "{found:#?}");
    found.iter().map(|line| line.splitn(3, ' ').nth(2).unwrap().to_owned()).collect()
}

/// Returns all policies that identities need, one for each purpose.
pub fn complete(settings: &Value) -> [Value; 4] {
    [
        policy("pods", &[PODS], settings),
        policy("sets", &[SETS], settings),
        policy(
            "guards",
            &[EPHEMERAL, SECRETS, ACCOUNTS, RBAC, AUTHORITIES, SERVICES, CORE, APPS, BATCH, KRUISE],
            settings,
        ),
        twin(settings),
    ]
}

#[rstest]
#[case::one_account(of_logs())]
#[case::merged(merging())]
fn policies_that_have_everything_are_silent(#[case] settings: Value) {
    assert_eq!(said(&complete(&settings)), [""; 0]);
}

#[test]
fn what_an_injecting_policy_lacks_is_said() {
    insta::assert_snapshot!(said(&[policy("pods", &[PODS], &of_logs())]).join("\n"), @r#"
spec.rules: no policy here is asked about CREATE and UPDATE of secrets: tokens that do not expire may be made for the accounts of sidecars -> add the rule to a policy with these settings, or check that policy together with this one
spec.rules: no policy here is asked about CREATE and UPDATE of services: a Service called "kubernetes" may take the place of the API server in a namespace -> add the rule to a policy with these settings, or check that policy together with this one
spec.rules: no policy here is asked about CREATE, UPDATE and DELETE of configmaps: others may replace kube-root-ca.crt, by which sidecars know the API server -> add the rule to a policy with these settings, or check that policy together with this one
spec.rules: no policy here is asked about UPDATE of pods/ephemeralcontainers: ephemeral containers may mount the tokens of sidecars -> add the rule to a policy with these settings, or check that policy together with this one
spec.settings.role: no policy here looks at Pods after other webhooks have changed them: one may copy a token that only some containers get, or take it away -> add a policy with these settings, role: Assert and mutating: false, or check it together with this one
"#);
    insta::assert_snapshot!(said(&[policy("pods", &[PODS], &merging()), twin(&merging())]).join("\n"), @r#"
spec.rules: no policy here is asked about CREATE and UPDATE of deployments, statefulsets, daemonsets, replicasets, replicationcontrollers, podtemplates, jobs, cronjobs, clonesets, statefulsets.apps.kruise.io, daemonsets.apps.kruise.io, broadcastjobs, advancedcronjobs, uniteddeployments: workloads may name a merged ServiceAccount, and only their Pods are refused -> add the rule to a policy with these settings, or check that policy together with this one
spec.rules: no policy here is asked about CREATE and UPDATE of secrets: tokens that do not expire may be made for the accounts of sidecars -> add the rule to a policy with these settings, or check that policy together with this one
spec.rules: no policy here is asked about CREATE and UPDATE of services: a Service called "kubernetes" may take the place of the API server in a namespace -> add the rule to a policy with these settings, or check that policy together with this one
spec.rules: no policy here is asked about CREATE, UPDATE and DELETE of configmaps: others may replace kube-root-ca.crt, by which sidecars know the API server -> add the rule to a policy with these settings, or check that policy together with this one
spec.rules: no policy here is asked about CREATE, UPDATE and DELETE of serviceaccounts, roles, rolebindings: others than the controller may make, change and delete what is merged -> add the rule to a policy with these settings, or check that policy together with this one
spec.rules: no policy here is asked about UPDATE of pods/ephemeralcontainers: ephemeral containers may mount the tokens of sidecars -> add the rule to a policy with these settings, or check that policy together with this one
"#);
}

#[test]
fn what_guards_is_not_asked_for_where_nobody_has_an_identity() {
    assert_eq!(said(&[policy("pods", &[PODS], &settings(&[]))]), [""; 0]);
    let mut off = of_logs();
    off["featureGates"] = json!({});
    off["sidecarSets"] = json!([json_set("logs", &json!({}))]);
    assert_eq!(said(&[policy("pods", &[PODS], &off)]), [""; 0]);
}

#[rstest]
#[case::protect_default("protectDefault", true)]
#[case::protect_in_use("protectInUse", true)]
#[case::another_setting("strictExistence", false)]
fn settings_that_nobody_is_asked_for_protect_nothing(#[case] setting: &str, #[case] needs_a_rule: bool) {
    let mut settings = of_logs();
    settings["serviceAccounts"][setting] = json!(true);
    let with_rules = |more: &[[&str; 3]]| {
        let rules: Vec<[&str; 3]> =
            [PODS, EPHEMERAL, SECRETS, AUTHORITIES, SERVICES].iter().chain(more).copied().collect();
        said(&[policy("pods", &rules, &settings), twin(&settings)])
    };
    let expected = format!(
        "spec.rules: no policy here is asked about DELETE of serviceaccounts: serviceAccounts.{setting} protects nothing -> \
         add the rule to a policy with these settings, or check that policy together with this one"
    );
    assert_eq!(with_rules(&[]), Vec::from_iter(Some(expected).filter(|_| needs_a_rule)));
    assert_eq!(with_rules(&[["", "serviceaccounts", "DELETE"]]), [""; 0]);
    // A policy with the right rules but other settings protects nothing either.
    let deaf = policy("guards", &[["", "serviceaccounts", "DELETE"]], &of_logs());
    let injecting = policy("pods", &[PODS, EPHEMERAL, SECRETS, AUTHORITIES, SERVICES], &settings);
    assert_eq!(!said(&[injecting, deaf, twin(&settings)]).is_empty(), needs_a_rule);
}

/// Returns the kinds that a policy with these rules would have to read.
fn unreadable(rules: &[[&str; 3]], settings: &Value) -> Vec<String> {
    let all = said(&[with(policy("p", rules, settings), "contextAwareResources", json!([]))]);
    all.into_iter()
        .filter_map(|line| {
            let line = line.strip_prefix("spec.contextAwareResources: ")?;
            Some(line.split_once(" -> ").unwrap().0.to_owned())
        })
        .collect()
}

#[test]
fn accounts_are_read_for_pods() {
    assert_eq!(
        unreadable(&[PODS], &of_logs()),
        [
            "SidecarSet \"logs\" names a ServiceAccount, but the policy may not read v1 ServiceAccount; such requests are \
          refused with 503"
        ]
    );
}

#[test]
fn mrg5_merged_accounts_are_read_with_their_roles() {
    let why = "SidecarSets \"logs\" and \"mesh\" merge their ServiceAccounts, but the policy may not read \
               rbac.authorization.k8s.io/v1";
    let mut found = unreadable(&[PODS], &merging());
    found.sort();
    assert_eq!(found.len(), 3, "{found:#?}");
    assert_eq!(
        found[1..],
        ["Role", "RoleBinding"].map(|kind| format!("{why} {kind}; such requests are refused with 503"))
    );
    // A SidecarSet that would merge but shares no Pods with another merges nothing.
    let mut apart = merging();
    apart["sidecarSets"][1]["spec"]["selector"] = json!({"matchLabels": {"logs": "none"}});
    assert_eq!(unreadable(&[PODS], &apart).len(), 1);
}

#[test]
fn idv3_accounts_are_read_for_sidecar_sets() {
    let mut settings = settings(&[]);
    let of_accounts = |settings: &Value| {
        let mut found = unreadable(&[SETS], settings);
        found.retain(|line| line.contains("ServiceAccount;"));
        found
    };
    let why = "SidecarSets that are written may name a ServiceAccount, but the policy may not read v1 ServiceAccount;";
    assert_eq!(of_accounts(&settings), [format!("{why} whether it exists is not checked")]);
    settings["serviceAccounts"]["strictExistence"] = json!(true);
    assert_eq!(of_accounts(&settings), [format!("{why} such requests are refused with 503")]);
}

#[test]
fn guards_read_accounts_and_namespaces() {
    assert_eq!(
        unreadable(&[SECRETS, ACCOUNTS], &settings(&[])),
        [
            "token Secrets are held against their ServiceAccounts, but the policy may not read v1 ServiceAccount; such \
             requests are refused with 503",
            "what is guarded may be deleted with its namespace, but the policy may not read v1 Namespace; such requests \
             are refused with 503",
        ]
    );
    assert_eq!(unreadable(&[EPHEMERAL, APPS], &settings(&[])), [""; 0]);
}

/// AFT-1: a guard of running Pods that is on needs a policy with its rule.
#[rstest]
#[case::exec("exec", &[["", "pods/exec", "CONNECT"], ["", "pods/attach", "CONNECT"], ["", "pods/portforward", "CONNECT"]],
    "CONNECT of pods/exec, pods/attach, pods/portforward")]
#[case::images("images", &[["", "pods", "UPDATE"]], "UPDATE of pods")]
#[case::requested_tokens("tokenRequests", &[["", "serviceaccounts/token", "CREATE"]], "CREATE of serviceaccounts/token")]
fn aft1_a_guard_without_its_rule_guards_nothing(
    #[case] guard: &str,
    #[case] rules: &[[&str; 3]],
    #[case] requests: &str,
) {
    let plain = settings(&[]);
    let mut guarded = plain.clone();
    guarded["serviceAccounts"]["guards"] = json!({guard: true});
    let all = |guard: &Value| {
        let mut all = Vec::from(complete(&guarded));
        all.push(policy("running", rules, guard));
        said(&all)
    };
    let missing = format!(
        "spec.rules: no policy here is asked about {requests}: serviceAccounts.guards.{guard} guards nothing -> add the rule \
         to a policy with these settings, or check that policy together with this one"
    );
    assert!(said(&complete(&guarded)).contains(&missing), "{:#?}", said(&complete(&guarded)));
    assert!(all(&plain).contains(&missing), "another policy without the setting guards nothing");
    assert!(!all(&guarded).contains(&missing), "{:#?}", all(&guarded));
}

#[test]
fn aft5_who_opens_a_container_is_judged_by_the_pod() {
    let rule = [["", "pods/exec", "CONNECT"]];
    assert_eq!(unreadable(&rule, &settings(&[])), [""; 0]);
    let mut guarded = settings(&[]);
    guarded["serviceAccounts"]["guards"] = json!({"exec": true});
    assert_eq!(
        unreadable(&rule, &guarded),
        [
            "the Pod says whose identity is in a container that is opened, but the policy may not read v1 Pod; such requests \
          are refused with 503"
        ]
    );
}

#[rstest]
#[case::not_set(json!(null), Some("by default ends within 2 seconds"))]
#[case::too_short(json!(5), Some("here ends within 5"))]
#[case::enough(json!(10), None)]
#[case::more(json!(30), None)]
fn esc3_questions_about_authors_take_time(#[case] seconds: Value, #[case] limit: Option<&str>) {
    let expected: Vec<String> = limit
        .map(|limit| {
            format!(
                "spec.timeoutEvalSeconds: what the author of a SidecarSet may do is asked in up to 256 questions, which \
                 count as evaluation, and that {limit} -> set it to 10"
            )
        })
        .into_iter()
        .collect();
    let with_time = |settings: &Value| {
        let policy = with(policy("sets", &[SETS], settings), "timeoutEvalSeconds", seconds.clone());
        with(policy, "timeoutSeconds", json!(30))
    };
    assert_eq!(said(&[with_time(&settings(&[]))]), expected);
    // Without the gate, the policy asks about authors if the settings require it.
    let create_pods = json!({"sidecarSets": [], "serviceAccounts": {"requireCreatePods": true}});
    assert_eq!(said(&[with_time(&create_pods)]), expected);
}

#[rstest]
#[case::pods(
    PODS,
    "the policy only monitors: nothing is injected, no sidecar gets an identity, nothing is refused",
    "Pods start without their sidecars and identities",
    Some("every Pod that would get a sidecar is refused")
)]
#[case::sets(
    SETS,
    "the policy only monitors: nothing is refused",
    "SidecarSets are stored without a check of their permissions and authors",
    Some("every SidecarSet without its defaults and hash is refused")
)]
#[case::secrets(
    SECRETS,
    "the policy only monitors: nothing is refused",
    "nothing guards ServiceAccounts and their tokens",
    Some("every token Secret without the UID of its account is refused")
)]
#[case::ephemeral(
    EPHEMERAL,
    "the policy only monitors: nothing is refused",
    "nothing guards ServiceAccounts and their tokens",
    None
)]
#[case::shoots(
    ["core.gardener.cloud", "shoots", "*"],
    "the policy only monitors: nothing is refused",
    "Shoots are stored unchecked",
    None
)]
fn e12_policies_have_to_answer_and_to_refuse(
    #[case] rule: [&str; 3],
    #[case] monitors: &str,
    #[case] without: &str,
    #[case] refused: Option<&str>,
) {
    let judged = |mode: &str, failure: &str, expected: &[String]| {
        let mut policy = policy("p", &[rule], &settings(&[]));
        policy["spec"]["mode"] = json!(mode);
        policy["spec"]["failurePolicy"] = json!(failure);
        policy["spec"]["mutating"] = json!(false);
        let mutation = "spec.mutating: the policy may not mutate: ";
        let expected: Vec<String> =
            expected.iter().cloned().chain(refused.map(|it| format!("{mutation}{it} -> set it to true"))).collect();
        let mut said = said(&[policy]);
        said.sort();
        assert_eq!(said, expected, "{mode} {failure}");
    };
    let monitors = format!("spec.mode: {monitors} -> set it to protect when its log says what you expect");
    let refuses = "spec.failurePolicy: the policy only monitors, but every request is refused while the policy server does \
                   not answer -> set it to Ignore until the mode is protect";
    let opens = format!(
        "spec.failurePolicy: while the policy server does not answer, {without} -> use Fail, and leave out the \
         namespaces that must start without it"
    );
    judged("protect", "Fail", &[]);
    judged("protect", "Ignore", &[opens]);
    judged("monitor", "Ignore", std::slice::from_ref(&monitors));
    judged("monitor", "Fail", &[refuses.to_owned(), monitors]);
}

#[test]
fn sidecar_sets_are_in_no_namespace() {
    let mut policy = policy("sets", &[SETS], &json!({"sidecarSets": []}));
    policy["kind"] = json!("AdmissionPolicy");
    policy["spec"].as_object_mut().unwrap().remove("contextAwareResources");
    assert_eq!(
        said(&[policy]),
        ["spec.rules: SidecarSets are in no namespace: an AdmissionPolicy is never asked about them -> use a \
          ClusterAdmissionPolicy"]
    );
}

/// Rules match resources as in the API server's own matcher.
#[rstest]
#[case::star("*", false)]
#[case::everything("*/*", true)]
#[case::subresources("pods/*", true)]
#[case::of_everything("*/ephemeralcontainers", true)]
#[case::itself("pods/ephemeralcontainers", true)]
#[case::another("pods/exec", false)]
fn rules_name_resources_and_subresources(#[case] resources: &str, #[case] is_asked: bool) {
    let policies =
        [policy("pods", &[PODS, SECRETS, AUTHORITIES, SERVICES, ["", resources, "*"]], &of_logs()), twin(&of_logs())];
    assert_eq!(said(&policies).is_empty(), is_asked);
}
