//! Table SAP-8: the effect on tokens of a policy that changes the account of a Pod, and Pillion's result.

use pillion_testkit::identity::table::{self, accounts, manual, pulling, rows};
use pillion_testkit::identity::{self, Accounts, Scenario, Set, TOKEN_PATH};
use rstest::rstest;
use serde_json::{Value, json};

use super::admission::{Admission, evaluate};

const NONE: fn(&mut Value) = table::unchanged;

/// Returns a Pod with one container, as its author wrote it.
fn web(edit: fn(&mut Value)) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "labels": {"app": "web"}, "annotations": {}},
        "spec": {"containers": [{"name": "app", "image": "app:1"}], "volumes": [{"name": "own", "emptyDir": {}}]},
    });
    edit(&mut pod);
    pod
}

/// Returns the pairs of a Pod and its pull secrets, or the reasons why the Pod is invalid.
fn shown(pod: &Value, accounts: &Accounts) -> String {
    let errors = identity::invalid(pod);
    if errors.is_empty() { table::shown(pod, accounts) } else { errors.join(", ") }
}

fn push(list: &mut Value, item: Value) {
    if list.is_null() {
        *list = json!([]);
    }
    list.as_array_mut().unwrap().push(item);
}

/// Imitates a policy that only swaps the account: it adds a container `agent` and names `x`.
fn swapped(pod: &mut Value) {
    pod["spec"]["serviceAccountName"] = json!("x");
    pod["spec"]["serviceAccount"] = json!("x");
    push(&mut pod["spec"]["containers"], json!({"name": "agent"}));
}

fn unmounted(pod: &mut Value) {
    swapped(pod);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([]);
    pod["spec"]["volumes"] = json!([]);
}

fn unmounted_for_good(pod: &mut Value) {
    unmounted(pod);
    pod["spec"]["automountServiceAccountToken"] = json!(false);
}

fn with_mount(pod: &mut Value, volume: &str, path: &str) {
    swapped(pod);
    push(&mut pod["spec"]["containers"][1]["volumeMounts"], json!({"name": volume, "mountPath": path}));
}

/// The measured rows: the model behaves like the API server.
#[rstest]
#[case::a_sidecar_without_mount(NONE, accounts(), swapped, "agent:x app:x")]
#[case::b_missing(
    NONE,
    Accounts::named(&["default"]),
    swapped,
    "error looking up service account default/x: serviceaccount \"x\" not found"
)]
#[case::c_app_keeps_its_mount(NONE, manual("x"), swapped, "app:x")]
#[case::d_volume_is_added_to_the_app(NONE, manual("default"), swapped, "agent:x app:x")]
#[case::e_nothing_anywhere(|pod: &mut Value| pod["spec"]["automountServiceAccountToken"] = json!(false), accounts(), swapped, "")]
#[case::f_removed_mounts_come_back(NONE, accounts(), unmounted, "agent:x app:x")]
#[case::g_they_stay_away(NONE, accounts(), unmounted_for_good, "")]
#[case::h_pull_secrets_are_kept(
    NONE,
    pulling(&["default", "x"]),
    swapped,
    "agent:x app:x pulls of-default"
)]
#[case::h_pull_secrets_are_added(NONE, pulling(&["x"]), swapped, "agent:x app:x pulls of-x")]
#[case::i_own_volume_at_the_path(NONE, accounts(), |pod: &mut Value| with_mount(pod, "own", TOKEN_PATH), "app:x")]
#[case::j_slash_is_not_recognised(
    NONE,
    accounts(),
    |pod: &mut Value| with_mount(pod, "own", &format!("{TOKEN_PATH}/")),
    "agent:x app:x"
)]
#[case::k_volume_is_adopted(
    NONE,
    manual("default"),
    |pod: &mut Value| {
        swapped(pod);
        let volumes = pod["spec"]["volumes"].as_array_mut().unwrap();
        volumes.insert(0, json!({"name": "kube-api-access-own", "emptyDir": {}}));
    },
    ""
)]
#[case::l_two_mounts_at_one_path(
    NONE,
    accounts(),
    |pod: &mut Value| {
        with_mount(pod, "own", TOKEN_PATH);
        push(&mut pod["spec"]["containers"][1]["volumeMounts"], json!({"name": "own", "mountPath": TOKEN_PATH}));
    },
    "agent: mountPath: Invalid value: /var/run/secrets/kubernetes.io/serviceaccount: must be unique"
)]
fn sap8_table_as_measured(
    #[case] pod: fn(&mut Value),
    #[case] accounts: Accounts,
    #[case] policy: fn(&mut Value),
    #[case] result: &str,
) {
    let mut seen = identity::admit(&web(pod), &accounts).unwrap();
    policy(&mut seen);
    let after = identity::admit(&seen, &accounts).map_or_else(|error| error, |stored| shown(&stored, &accounts));
    assert_eq!(after, result);
}

/// The same rows with Pillion instead of that policy: only in mode `Pod`, which must be allowed, the app holds the
/// token of `x`.
#[rstest]
fn sap8_table_with_pillion(#[values("SidecarsOnly", "Isolate", "Pod")] mode: &'static str) {
    for row in rows() {
        let set = Set::new("a", Some("x"), mode);
        let scenario =
            Scenario { allow_pod_mode: true, ..Scenario::new(web(row.edit), vec![set], row.accounts.clone()) };
        assert_eq!(admitted(&scenario), row.result(mode).0, "{}", row.name);
    }
}

/// Row b: the policy refuses with a remedy, instead of the API server's 403 after the webhooks.
#[rstest]
fn sap8b_a_missing_account_is_refused(#[values("SidecarsOnly", "Isolate", "Pod")] mode: &'static str) {
    let set = Set::new("a", Some("x"), mode);
    let scenario =
        Scenario { allow_pod_mode: true, ..Scenario::new(web(NONE), vec![set], Accounts::named(&["default"])) };
    assert_eq!(
        admitted(&scenario),
        "SidecarSet \"a\": spec.serviceAccountName: ServiceAccount \"x\" does not exist in namespace \"default\"; \
         create the ServiceAccount in the Pod's namespace, or set serviceAccounts.onMissing to Skip"
    );
}

/// Rows i, j and l for the sidecar: a volume in the place of its token is refused, whatever the spelling of the path,
/// and the policy writes no second mount, which the API server would answer with 422.
#[rstest]
#[case::i_l_plain(TOKEN_PATH)]
#[case::j_slash("/var/run/secrets/kubernetes.io/serviceaccount/")]
fn sap8i_sap8j_sap8l_a_sidecar_with_something_else_in_the_place_of_its_token_is_refused(
    #[case] path: &'static str,
    #[values("SidecarsOnly", "Isolate")] mode: &'static str,
) {
    let set = Set { token: Some(("mesh", path)), ..Set::new("a", Some("x"), mode) };
    let scenario = Scenario::new(web(NONE), vec![set], accounts());
    let answer = evaluate(&web(NONE), "u", &scenario.settings(), &scenario);
    assert_eq!(answer.code, Some(403));
    assert_eq!(
        answer.message.unwrap(),
        "SidecarSet \"a\": spec.containers[0].volumeMounts[1].mountPath: the sidecar's token is mounted here; remove the \
         mount, or spec.serviceAccountName; correct the SidecarSet; SidecarSet \"a\": spec.volumes[1].projected: the token \
         would be that of the Pod's ServiceAccount; remove it, spec.serviceAccountName brings one; correct the SidecarSet"
    );
}

/// SAP-9: a mirror Pod must not have an account, and only shows what already runs.
#[rstest]
fn sap9_mirror_pods_stay_as_they_are(#[values("SidecarsOnly", "Isolate")] mode: &'static str) {
    let pod = web(|pod: &mut Value| pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] = json!("hash"));
    let scenario = Scenario::new(pod.clone(), vec![Set::new("a", Some("x"), mode)], Accounts::default());
    let answer = evaluate(&pod, "u", &scenario.settings(), &scenario);
    assert!(answer.accepted && answer.mutated_object.is_none() && answer.warnings.is_none(), "{answer:?}");
}

/// SAP-3: an alias alone counts as the account, and both are set if it changes.
#[rstest]
#[case::default("default", "a-main:x", "x")]
#[case::same("x", "a-main:x app:x", "x")]
#[case::own("own", "a-main:own app:own", "own")]
fn sap3_the_alias_is_the_account(#[case] name: &str, #[case] result: &str, #[case] account: &str) {
    // An API server would have set both; a request may come from another source.
    let mut pod = web(NONE);
    pod["spec"]["serviceAccount"] = json!(name);
    let accounts = Accounts::named(&["default", "x", "own"]);
    let scenario = Scenario::new(pod.clone(), vec![Set::new("a", Some("x"), "SidecarsOnly")], accounts.clone());
    let answer = evaluate(&pod, "u", &scenario.settings(), &scenario);
    let stored = identity::admit(&answer.mutated_object.unwrap(), &accounts).unwrap();
    assert_eq!(shown(&stored, &accounts), result);
    assert_eq!(
        (&stored["spec"]["serviceAccountName"], &stored["spec"]["serviceAccount"]),
        (&json!(account), &json!(account))
    );
}

/// Sends the Pod of a scenario through everything. Returns the resulting pairs, or the refusal.
fn admitted(scenario: &Scenario) -> String {
    let admission = Admission::admit(scenario).unwrap();
    if let Some(message) = &admission.answer.message {
        return message.clone();
    }
    let stored = identity::admit(&admission.patched(), &scenario.accounts).unwrap();
    shown(&stored, &scenario.accounts)
}
