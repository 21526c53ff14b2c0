use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use pillion_admission::settings::Settings;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::credential::Credential;
use pillion_simulation::Situation;
use serde_json::{Value, json};

use super::*;
use crate::registry;

fn set(name: &str, fields: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": name, "image": "i:1"}],
            "serviceAccountName": name
        }
    });
    for (key, value) in fields.as_object().expect("an object") {
        set["spec"][key] = value.clone();
    }
    set
}

fn merging(name: &str, resource: &str) -> Value {
    let permissions = json!([{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]);
    let partners: Vec<&str> = ["a", "b", "c", "d"].into_iter().filter(|partner| *partner != name).collect();
    set(
        name,
        &json!({
            "behaviorWhenServiceAccountInjection": "Merge", "serviceAccountPermissions": permissions,
            "serviceAccountPartners": partners
        }),
    )
}

fn isolated(name: &str) -> Value {
    let mut set = set(name, &json!({}));
    set["metadata"]["annotations"] = json!({"pillion.dev/service-account-mode": "Isolate"});
    set
}

fn deployment(namespace: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": namespace},
        "spec": {"template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}
        }}
    })
}

fn account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "shop"}})
}

fn settings(more: &Value) -> Arc<Settings> {
    let mut settings = json!({"featureGates": {"SidecarSetServiceAccountInjection": true}});
    for (key, value) in more.as_object().expect("an object") {
        settings[key] = value.clone();
    }
    Arc::new(Settings::decode(settings).expect("settings"))
}

fn situation(manifests: &[Value]) -> Situation {
    Situation { manifests: manifests.to_vec(), namespace: "default".to_owned(), ..Situation::default() }
}

const NOW: Timestamp = Timestamp(1_800_000_000);

/// Returns a cluster that has only these objects.
async fn simulated(situation: &Situation) -> Simulation {
    Simulation::new(situation, None, || NOW).await.expect("a simulation")
}

async fn wave_of(simulation: Simulation, settings: Arc<Settings>, names: &[Name]) -> Wave {
    let names: BTreeSet<Name> = names.iter().copied().collect();
    let (options, clock) = (Options::default(), Clock::new(|| NOW));
    let question =
        Question { names: &names, options, settings, clock, waves: 0, sidecar_set: None, bundle_is_kept: true };
    preview(simulation, question).await.expect("a preview").first
}

/// Returns the changes, one line each.
fn lines(preview: &Wave) -> Vec<String> {
    let line = |change: &Change| {
        let ObjectRef { kind, namespace, name, .. } = &change.object;
        format!("{} {kind} {}/{name}", change.verb.as_str(), namespace.as_deref().unwrap_or_default())
    };
    preview.changes.iter().map(line).collect()
}

fn texts(remarks: &[Remark]) -> Vec<&str> {
    remarks.iter().map(|remark| remark.text.as_str()).collect()
}

#[tokio::test]
async fn what_workloads_need_is_made() {
    let manifests =
        [merging("a", "pods"), merging("b", "nodes"), isolated("c"), deployment("shop"), account("c"), account("a")];
    let client = simulated(&situation(&manifests)).await;
    let preview = wave_of(client, settings(&json!({})), &[Name::MergedServiceAccounts, Name::SidecarTokens]).await;
    let merged = pillion_identity::names::merged(&["a", "b"]);
    let secret = pillion_identity::names::token_secret("c");
    let made = |kind: &str| format!("create {kind} shop/{merged}");
    assert_eq!(
        lines(&preview),
        [
            made("ServiceAccount"),
            made("Role"),
            made("RoleBinding"),
            format!("create Secret shop/{secret}"),
            format!("mint Secret shop/{secret}"),
        ]
    );
    let role = preview.changes[1].after.as_ref().expect("the Role");
    let rules = role["rules"].as_array().expect("rules");
    assert_eq!(rules.len(), 1, "the rules that are applied, not the empty Role that is made before: {role}");
    assert_eq!(preview.changes[1].why, "for the SidecarSets a, b");
    assert_eq!(preview.problems, []);
}

#[tokio::test]
async fn what_keeps_something_away_is_a_problem() {
    let forbidden = set(
        "a",
        &json!({
            "behaviorWhenServiceAccountInjection": "Merge",
            "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}],
            "serviceAccountPartners": ["b"]
        }),
    );
    let manifests = [forbidden, merging("b", "pods"), isolated("c"), deployment("shop")];
    let client = simulated(&situation(&manifests)).await;
    let preview = wave_of(client, settings(&json!({})), &[Name::MergedServiceAccounts, Name::SidecarTokens]).await;
    assert_eq!(lines(&preview), [""; 0]);
    let problems = texts(&preview.problems);
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("SidecarSet \"a\": spec.serviceAccountPermissions"), "{problems:?}");
    assert!(problems[1].contains("there is no such ServiceAccount"), "{problems:?}");
    assert_eq!(preview.problems[1].namespace.as_deref(), Some("shop"));
}

#[tokio::test]
async fn tok5_a_secret_of_somebody_else_is_left_alone() {
    let name = pillion_identity::names::token_secret("c");
    let foreign = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "shop"}});
    let client = simulated(&situation(&[isolated("c"), deployment("shop"), account("c"), foreign])).await;
    let preview = wave_of(client, settings(&json!({})), &[Name::SidecarTokens]).await;
    assert_eq!(lines(&preview), [""; 0]);
    assert!(texts(&preview.problems)[0].contains("Pillion did not create the Secret"), "{preview:?}");
}

#[tokio::test]
async fn tok5_a_secret_that_nobody_needs_goes_later() {
    let secret = |since: Option<&str>| {
        let mut secret = pillion_plan::sidecar_tokens::seed("shop", &Credential::shared("c"));
        if let Some(since) = since {
            secret["metadata"]["annotations"]["pillion.dev/unneeded-since"] = json!(since);
        }
        situation(&[isolated("c"), account("c"), secret])
    };
    // The clock shows 08:00.
    for (since, expected, later) in [
        (None, &["change"][..], 0),
        (Some("2027-01-15T07:55:00Z"), &[], 1),
        (Some("2027-01-15T07:45:00Z"), &["delete"], 0),
    ] {
        let client = simulated(&secret(since)).await;
        let preview = wave_of(client, settings(&json!({})), &[Name::SidecarTokens]).await;
        let verbs: Vec<&str> = preview.changes.iter().map(|change| change.verb.as_str()).collect();
        assert_eq!(verbs, expected, "{since:?}");
        assert_eq!(preview.later.len(), later, "{preview:?}");
    }
}

#[tokio::test]
async fn mrg10_what_nobody_needs_is_told_of() {
    let with_workload = situation(&[merging("a", "pods"), merging("b", "nodes"), deployment("shop")]);
    let there = simulated(&with_workload).await;
    let made = wave_of(there, settings(&json!({})), &[Name::MergedServiceAccounts]).await;
    let mut manifests: Vec<Value> =
        made.changes.into_iter().filter_map(|change| change.after).map(|object| Value::clone(&object)).collect();
    manifests.extend([merging("a", "pods"), merging("b", "nodes")]);
    let without = simulated(&situation(&manifests)).await;
    let preview = wave_of(without, settings(&json!({})), &[Name::MergedServiceAccounts]).await;
    assert_eq!(lines(&preview), [""; 0]);
    let later = texts(&preview.later);
    assert!(later.len() == 1 && later[0].contains("is not needed"), "{later:?}");
}

#[tokio::test]
async fn mrg2_merged_objects_without_the_label_are_looked_at() {
    let manifests = [merging("a", "pods"), merging("b", "nodes"), deployment("shop")];
    let there = simulated(&situation(&manifests)).await;
    let made = wave_of(there, settings(&json!({})), &[Name::MergedServiceAccounts]).await;
    let bodies: Vec<Value> =
        made.changes.into_iter().filter_map(|change| change.after).map(|object| Value::clone(&object)).collect();
    let with = |change: fn(&mut Value)| {
        let mut all = manifests.to_vec();
        all.extend(bodies.iter().cloned());
        for object in &mut all {
            if object["kind"] == "Role" {
                object["metadata"]["labels"] = json!({});
                change(object);
            }
        }
        situation(&all)
    };
    let ours = simulated(&with(|_| {})).await;
    let ours = wave_of(ours, settings(&json!({})), &[Name::MergedServiceAccounts]).await;
    assert_eq!(ours.changes.len(), 1, "{ours:?}");
    assert_eq!((ours.changes[0].verb, ours.changes[0].object.kind), (Verb::Change, "Role"));
    let foreign = with(|role| role["metadata"]["annotations"] = json!({}));
    let foreign = simulated(&foreign).await;
    let foreign = wave_of(foreign, settings(&json!({})), &[Name::MergedServiceAccounts]).await;
    assert_eq!(lines(&foreign), [""; 0]);
    assert!(texts(&foreign.problems)[0].contains("is not what Pillion made"), "{foreign:?}");
}

#[tokio::test]
async fn mrg13_an_account_that_pods_still_run_under_is_not_made_anew() {
    let name = pillion_identity::names::merged(&["a", "b"]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"serviceAccountName": name, "containers": [{"name": "web", "image": "web:1"}]}, "status": {"phase": "Running"}
    });
    let manifests = [merging("a", "pods"), merging("b", "nodes"), pod];
    let client = simulated(&situation(&manifests)).await;
    let preview = wave_of(client, settings(&json!({})), &[Name::MergedServiceAccounts]).await;
    assert_eq!(lines(&preview), [""; 0]);
    assert!(texts(&preview.problems)[0].contains("was deleted while Pods run under it"), "{preview:?}");
}

/// Of accounts that hold what no sidecar may, a preview knows what RBAC gives them.
#[tokio::test]
async fn esc9_a_permission_that_no_sidecar_may_have_is_a_problem() {
    let rbac = "rbac.authorization.k8s.io/v1";
    let role = json!({
        "apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    });
    let binding = json!({
        "apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "b", "namespace": "shop"},
        "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "shop", "name": "a"}]
    });
    let names = [Name::AccountPermissions];
    let manifests = [set("a", &json!({})), set("b", &json!({})), account("a"), account("b"), role];
    let without = wave_of(simulated(&situation(&manifests)).await, settings(&json!({})), &names).await;
    assert_eq!((lines(&without), texts(&without.problems)), (vec![], vec![]));
    let manifests = [&manifests[..], &[binding]].concat();
    let preview = wave_of(simulated(&situation(&manifests)).await, settings(&json!({})), &names).await;
    let problem = "SidecarSet \"a\": ServiceAccount \"shop/a\" may get secrets in namespace \"shop\" (RoleBinding \"shop/b\"); no \
                   sidecar may have that: take the permission away, or change serviceAccounts.denyPermissions";
    assert_eq!(texts(&preview.problems), [problem]);
    assert_eq!(preview.events.iter().map(|event| event.reason.as_str()).collect::<Vec<_>>(), ["DeniedPermissionHeld"]);
    let after = preview.changes.first().and_then(|change| change.after.clone()).expect("a status");
    let condition = &after["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("DeniedPermissionHeld"), &json!("True")));
}

#[tokio::test]
async fn nothing_is_done_where_everything_is_as_it_should_be() {
    let mut manifests = vec![merging("a", "pods"), merging("b", "nodes"), deployment("shop")];
    let names = [Name::MergedServiceAccounts, Name::Bundle];
    let settings = settings(&json!({"bundleRef": {"namespace": "pillion-system", "name": "sets"}}));
    let there = simulated(&situation(&manifests)).await;
    let made = wave_of(there, Arc::clone(&settings), &names).await;
    assert_eq!(lines(&made).first().map(String::as_str), Some("create ConfigMap pillion-system/sets"));
    let bundle = made.changes.first().expect("the bundle");
    assert!(bundle.why.starts_with("2 SidecarSets in "), "{}", bundle.why);
    assert!(bundle.after.as_ref().is_some_and(|after| after["data"]["bundle"].is_string()), "{bundle:?}");
    manifests.extend(made.changes.into_iter().filter_map(|change| change.after).map(|object| Value::clone(&object)));
    let all = simulated(&situation(&manifests)).await;
    assert_eq!(wave_of(all, settings, &names).await, Wave::default());
}

#[tokio::test]
async fn the_bundle_leaves_out_what_is_not_valid_and_says_so() {
    let mut broken = merging("b", "pods");
    broken["spec"]["containers"][0]["image"] = json!("");
    let client = simulated(&situation(&[merging("a", "pods"), broken])).await;
    let settings = settings(&json!({"bundleRef": {"namespace": "pillion-system", "name": "sets"}}));
    let preview = wave_of(client, settings, &[Name::Bundle]).await;
    assert!(preview.changes[0].why.starts_with("1 SidecarSets in "), "{preview:?}");
    let problems = texts(&preview.problems);
    assert!(problems.len() == 1 && problems[0].starts_with("SidecarSet \"b\" is left out: "), "{problems:?}");
}

#[tokio::test]
async fn what_is_not_in_the_bundle_needs_nothing() {
    let mut broken = merging("b", "pods");
    broken["spec"]["containers"][0]["image"] = json!("");
    let manifests = [merging("a", "pods"), merging("c", "nodes"), broken, deployment("shop")];
    let client = simulated(&situation(&manifests)).await;
    let settings = settings(&json!({"bundleRef": {"namespace": "pillion-system", "name": "sets"}}));
    let preview = wave_of(client, settings, &[Name::Bundle, Name::MergedServiceAccounts]).await;
    let merged = pillion_identity::names::merged(&["a", "c"]);
    let accounts = preview.changes.iter().filter(|change| change.object.kind == "ServiceAccount");
    assert_eq!(accounts.map(|change| change.object.name.as_str()).collect::<Vec<_>>(), [merged], "{preview:?}");
    assert_eq!(preview.problems.len(), 1, "it is told once why: {preview:?}");
}

#[tokio::test]
async fn the_loops_of_kube_controller_manager_are_seen_too() {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "old", "namespace": "shop", "annotations": {"kubernetes.io/service-account.name": "gone"}}
    });
    let client = simulated(&situation(&[secret])).await;
    let preview = wave_of(client, settings(&json!({})), registry::ALL).await;
    assert_eq!(lines(&preview), ["create ServiceAccount shop/default", "delete Secret shop/old"]);
}

#[tokio::test]
async fn manifests_count_as_if_they_were_applied() {
    let old = [merging("a", "pods"), deployment("shop"), account("here")];
    let cluster = simulated(&situation(&old)).await;
    let mut newer = account("here");
    newer["metadata"]["labels"] = json!({"new": "yes"});
    let over = situation(&[merging("b", "nodes"), newer, account("new")]);
    let simulation = Simulation::new(&over, Some(cluster.client()), || NOW).await.expect("both");
    let client = simulation.client();

    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "shop");
    let mut names: Vec<String> = Vec::new();
    for account in accounts.list(&ListParams::default()).await.expect("a list") {
        names.push(account.name_any());
        if account.name_any() == "here" {
            assert_eq!(account.labels()["new"], "yes");
            assert_eq!(account.uid().as_deref(), Some("serviceaccounts/shop/here"), "it is the same object");
        }
    }
    names.sort();
    assert_eq!(names, ["here", "new"]);
    let preview = wave_of(simulation, settings(&json!({})), &[Name::MergedServiceAccounts]).await;
    assert_eq!(preview.changes.len(), 3, "both SidecarSets are there: {preview:?}");
}

#[test]
fn accounts_that_sidecar_sets_name_can_be_assumed() {
    let situation = situation(&[isolated("c")]);
    let settings = settings(&json!({"sidecarSets": [isolated("d")]}));
    assert_eq!(named(&situation, &settings).into_iter().collect::<Vec<_>>(), ["c", "d"]);
}

#[tokio::test]
async fn the_state_of_the_cluster_is_shown_as_it_will_be() {
    let settings = settings(&json!({"bundleRef": {"namespace": "pillion-system", "name": "sets"}}));
    let preview = wave_of(simulated(&situation(&[merging("a", "pods")])).await, settings, &[Name::Bundle]).await;
    assert_eq!(lines(&preview), ["create ConfigMap pillion-system/sets", "change SidecarSet /a"]);
    let after = preview.changes[1].after.as_ref().expect("the SidecarSet");
    assert_eq!(after["status"]["conditions"][0]["type"], "InBundle");
    assert_eq!(after["spec"]["serviceAccountName"], "a", "it is the whole object");
}

#[tokio::test]
async fn what_follows_is_shown_if_somebody_asks() {
    // Nobody needs the Secret. It is marked, and deleted some time later.
    let manifests = [isolated("c"), account("c"), pillion_plan::sidecar_tokens::seed("shop", &Credential::shared("c"))];
    let later = std::sync::atomic::AtomicI64::new(NOW.0);
    let hours = move || Timestamp(later.fetch_add(3600, std::sync::atomic::Ordering::SeqCst));
    let names = BTreeSet::from([Name::SidecarTokens]);
    let question = Question {
        names: &names,
        options: Options::default(),
        settings: settings(&json!({})),
        clock: Clock::new(hours),
        waves: 5,
        sidecar_set: None,
        bundle_is_kept: false,
    };
    let preview = preview(simulated(&situation(&manifests)).await, question).await.expect("a preview");
    let secret = pillion_identity::names::token_secret("c");
    assert_eq!(lines(&preview.first), [format!("change Secret shop/{secret}")], "{preview:?}");
    let waves: Vec<Vec<String>> = preview.waves.iter().map(lines).collect();
    assert_eq!(waves, [[format!("delete Secret shop/{secret}")]], "{preview:?}");
}

#[tokio::test]
async fn no_token_is_shown() {
    let manifests = [isolated("c"), deployment("shop"), account("c")];
    let preview = wave_of(simulated(&situation(&manifests)).await, settings(&json!({})), &[Name::SidecarTokens]).await;
    let minted = preview.changes.last().expect("a change");
    assert_eq!(minted.verb, Verb::Mint);
    let token = minted.after.as_ref().expect("the Secret")["data"]["token"].as_str().expect("a token").to_owned();
    assert!(token.ends_with(" characters)"), "{token}");
}

/// AUD-7: a preview shows the files that a set with tokens for other audiences gets, without a token.
#[tokio::test]
async fn aud7_the_secret_of_a_set_is_shown_with_its_keys() {
    let mut set = isolated("c");
    set["spec"]["serviceAccountTokens"] = json!([{"audience": "vault", "path": "vault-token"}]);
    let manifests = [set, isolated("d"), deployment("shop"), account("c"), account("d")];
    let rules = json!({"serviceAccounts": {"allowedAudiences": ["vault"]}});

    let preview = wave_of(simulated(&situation(&manifests)).await, settings(&rules), &[Name::SidecarTokens]).await;

    let own = Credential::own("c", "c");
    let of_set: Vec<&Change> = preview.changes.iter().filter(|change| change.object.name == own.secret()).collect();
    let changes: Vec<(Verb, &str)> = of_set.iter().map(|change| (change.verb, change.why.as_str())).collect();
    assert_eq!(
        changes,
        [
            (Verb::Create, "the token of ServiceAccount \"c\" for SidecarSet \"c\""),
            (Verb::Mint, "a first token of ServiceAccount \"c\" for SidecarSet \"c\""),
        ]
    );
    let secret = of_set[1].after.as_ref().expect("the Secret");
    let data = secret["data"].as_object().expect("data");
    assert_eq!(data.keys().collect::<BTreeSet<_>>(), BTreeSet::from([&"token".to_owned(), &"vault-token".to_owned()]));
    let is_hidden = |value: &Value| value.as_str().is_some_and(|text| text.ends_with(" characters)"));
    assert!(data.values().all(is_hidden), "{secret}");
    let shared = Credential::shared("d").secret();
    assert!(preview.changes.iter().any(|change| change.object.name == shared), "{preview:?}");
    assert_eq!(preview.problems, []);
}
