use std::collections::BTreeMap;
use std::fmt::Write as _;

use pillion_kubernetes::lookup::{Answer, Failure, ObjectRef};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::audience::AudienceToken;
use crate::declared::Declared;
use crate::tokens::volumes::Given;

/// Objects by kind and name; everything else does not exist.
#[derive(Default)]
struct Cluster(BTreeMap<(String, String), Answer>);

impl Cluster {
    fn with(accounts: &[&str]) -> Self {
        let mut cluster = Self::default();
        for account in accounts {
            cluster.put("ServiceAccount", account, json!({"metadata": {"name": account}}));
        }
        cluster
    }

    fn put(&mut self, kind: &str, name: &str, object: Value) {
        self.answer(kind, name, Ok(Some(object)));
    }

    fn answer(&mut self, kind: &str, name: &str, answer: Answer) {
        self.0.insert((kind.to_owned(), name.to_owned()), answer);
    }
}

impl Lookup for Cluster {
    fn get(&self, object: &ObjectRef) -> Answer {
        assert_eq!(object.namespace.as_deref(), Some("web"), "accounts are those of the Pod's namespace (E16)");
        let key = (object.kind.to_owned(), object.name.clone());
        self.0.get(&key).cloned().unwrap_or(Ok(None))
    }
}

fn set(name: &str, account: &str, mode: Mode, on_conflict: OnConflict) -> Asking {
    let rule = serde_json::from_value(json!({"apiGroups": [""], "resources": [name], "verbs": ["get"]})).unwrap();
    Asking {
        sidecar_set: name.to_owned(),
        account: account.to_owned(),
        declared: Declared {
            service_account: Some(account.to_owned()),
            on_conflict,
            permissions: vec![rule],
            mode,
            tokens: Vec::new(),
            partners: Vec::new(),
        },
    }
}

fn refuse(name: &str, account: &str) -> Asking {
    set(name, account, Mode::SidecarsOnly, OnConflict::Refuse)
}

fn merge(name: &str, account: &str) -> Asking {
    set(name, account, Mode::SidecarsOnly, OnConflict::Merge)
}

fn isolate(name: &str, account: &str) -> Asking {
    set(name, account, Mode::Isolate, OnConflict::Refuse)
}

/// Returns the set with a token for each of these audiences.
fn reaching(mut set: Asking, audiences: &[&str]) -> Asking {
    let tokens = audiences.iter().map(|audience| AudienceToken {
        audience: (*audience).to_owned(),
        path: (*audience).to_owned(),
        expiration_seconds: 3600,
    });
    set.declared.tokens = tokens.collect();
    set
}

fn app(account: &str) -> App<'_> {
    App { account, automount: None, further_token: None }
}

/// Returns a container that mounts a token.
fn holder(container: &str) -> Holder<'_> {
    Holder { container: Some(container), volume: "t", given: Given::Token }
}

fn merged_objects(cluster: &mut Cluster) -> String {
    let name = names::merged(&["a", "b"]);
    let metadata = json!({"name": name, "annotations": {"pillion.dev/sidecarsets": "a,b"}});
    let rules = json!([{"apiGroups": [""], "resources": ["a", "b"], "verbs": ["get"]}]);
    cluster.put("ServiceAccount", &name, json!({"metadata": metadata}));
    cluster.put("Role", &name, json!({"metadata": metadata, "rules": rules}));
    let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": "web"});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
    cluster.put("RoleBinding", &name, json!({"metadata": metadata, "roleRef": role, "subjects": [subject]}));
    name
}

/// Formats a decision in one line, or the messages of a refusal with its lowest code.
fn shown(decided: Result<Decision, Vec<Reason>>) -> String {
    match decided {
        Ok(decision) => {
            let mut text = format!("runs as {}", decision.account.as_deref().unwrap_or("before"));
            if decision.hides_token {
                text.push_str(", hidden");
            }
            for grant in decision.grants {
                let _ = write!(text, "; {}: {} {:?}", grant.sidecar_set, grant.account, grant.token);
                for token in grant.audiences {
                    let _ = write!(text, " {}", token.audience);
                }
            }
            for name in decision.without_audiences {
                let _ = write!(text, "; {name} has no audiences");
            }
            for (name, why) in decision.skipped {
                let _ = write!(text, "; {name} skipped: {why}");
            }
            for (name, why) in decision.kept {
                let _ = write!(text, "; {name} goes without: {why}");
            }
            text
        }
        Err(reasons) => {
            let texts: Vec<String> =
                reasons.iter().map(|reason| format!("{} {reason}", reason.code.as_u16())).collect();
            texts.join(" | ")
        }
    }
}

fn decided(asking: &[Asking], account: &str) -> String {
    let mut cluster = Cluster::with(&["x", "y"]);
    merged_objects(&mut cluster);
    shown(decide(asking, app(account), "web", &Rules::default(), &cluster))
}

/// The rows of table IDP-7, in its order.
#[rstest]
#[case::row_1_nothing_asked(&[], "own", "runs as before")]
#[case::row_2_unset(&[refuse("a", "x")], "", "runs as x, hidden; a: x OfPod")]
#[case::row_2_default(&[refuse("a", "x")], "default", "runs as x, hidden; a: x OfPod")]
#[case::row_2_same_name_twice(
    &[refuse("a", "x"), merge("b", "x")], "default", "runs as x, hidden; a: x OfPod; b: x OfPod"
)]
#[case::row_3_same(&[refuse("a", "x")], "x", "runs as before")]
#[case::row_4_other(
    &[refuse("a", "x")], "own",
    "runs as before; a goes without: the Pod has the ServiceAccount \"own\" of its own; mode Isolate gives the sidecars theirs beside it"
)]
#[case::row_4_other_before_conflict(
    &[refuse("a", "x"), refuse("b", "y")], "own",
    "runs as before; a goes without: the Pod has the ServiceAccount \"own\" of its own; mode Isolate gives the sidecars theirs beside it; b goes without: the Pod has the \
     ServiceAccount \"own\" of its own; mode Isolate gives the sidecars theirs beside it"
)]
#[case::row_4_one_of_two_is_other(
    &[merge("a", "x"), merge("b", "y")], "x",
    "runs as before; a goes without: the Pod has the ServiceAccount \"x\" of its own; mode Isolate gives the sidecars theirs beside it; b goes without: the Pod has the \
     ServiceAccount \"x\" of its own; mode Isolate gives the sidecars theirs beside it"
)]
#[case::row_5_one_refuses(
    &[refuse("a", "x"), merge("b", "y")], "default",
    "403 SidecarSet \"a\": spec.serviceAccountName: wants ServiceAccount \"x\" (Refuse) for a Pod of namespace \
     \"web\", and other SidecarSets want another; give them one account, the behaviour Merge or the mode Isolate | \
     403 SidecarSet \"b\": spec.serviceAccountName: wants ServiceAccount \"y\" (Merge) for a Pod of namespace \
     \"web\", and other SidecarSets want another; give them one account, the behaviour Merge or the mode Isolate"
)]
#[case::row_6_all_merge(
    &[merge("b", "y"), merge("a", "x")], "default",
    "runs as sidecarset-merged-@AB@, hidden; b: sidecarset-merged-@AB@ OfPod; a: sidecarset-merged-@AB@ OfPod"
)]
// A Pod that the policy changed before stays as it is. If the app's author names the account, the app loses its token
// (E6).
#[case::row_7_merged_already(
    &[merge("a", "x"), merge("b", "y")], "sidecarset-merged-@AB@",
    "runs as before, hidden; a: sidecarset-merged-@AB@ OfPod; b: sidecarset-merged-@AB@ OfPod"
)]
#[case::row_8_merged_for_others(
    &[merge("a", "x"), merge("c", "y")], "sidecarset-merged-@AB@",
    "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-@AB@\" is merged for other SidecarSets than this \
     Pod's; name another ServiceAccount; merged ones are set by the policy alone"
)]
#[case::e6_merged_without_any_set(
    &[], "sidecarset-merged-0000000000000000",
    "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-0000000000000000\" is merged for other \
     SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone"
)]
#[case::g_isolate_never_conflicts(
    &[isolate("a", "x"), isolate("b", "y")], "own", "runs as before; a: x OfSecret; b: y OfSecret"
)]
#[case::g_isolate_beside_the_pods_account(
    &[isolate("a", "x"), refuse("b", "y")], "default", "runs as y, hidden; b: y OfPod; a: x OfSecret"
)]
#[case::g_isolate_of_the_pods_account(
    &[isolate("a", "x"), refuse("b", "x")], "default", "runs as x, hidden; b: x OfPod; a: x OfPod"
)]
fn idp7_decision_table(#[case] asking: &[Asking], #[case] account: &str, #[case] outcome: &str) {
    let merged = names::merged(&["a", "b"]);
    let hash = merged.trim_start_matches(names::MERGED_PREFIX);
    assert_eq!(decided(asking, &account.replace("@AB@", hash)), outcome.replace("@AB@", hash));
}

#[rstest]
#[case::keep(
    OnAppAccount::Keep,
    "runs as before; a goes without: the Pod has the ServiceAccount \"own\" of its own; mode Isolate gives the sidecars theirs beside it"
)]
#[case::isolate(OnAppAccount::Isolate, "runs as before; a: x OfSecret")]
#[case::deny(
    OnAppAccount::Deny,
    "403 SidecarSet \"a\": spec.serviceAccountName: the Pod has the ServiceAccount \"own\" of its own; run the Pod \
     under \"default\", or give the SidecarSet the mode Isolate"
)]
fn idc3_a_pod_with_its_own_account(#[case] on_app_account: OnAppAccount, #[case] outcome: &str) {
    let rules = Rules { on_app_account, ..Rules::default() };
    let decided = decide(&[refuse("a", "x")], app("own"), "web", &rules, &Cluster::with(&["x"]));
    assert_eq!(shown(decided), outcome);
}

#[test]
fn tok0_a_further_token_counts_as_an_account_of_its_own() {
    let app = App { further_token: Some(holder("vault")), ..app("default") };
    let rules = Rules::default();
    let decided = decide(&[refuse("a", "x")], app, "web", &rules, &Cluster::with(&["x"]));
    assert_eq!(
        shown(decided),
        "runs as before; a goes without: container \"vault\" mounts a token of the Pod's ServiceAccount, which would become \
         another account's; mode Isolate gives the sidecars theirs beside it"
    );
    let decided = decide(&[isolate("a", "x")], app, "web", &rules, &Cluster::with(&["x"]));
    assert_eq!(shown(decided), "runs as before; a: x OfSecret");
}

#[rstest]
#[case::not_there(
    None,
    "403 SidecarSet \"a\": spec.serviceAccountName: ServiceAccount \"x\" does not exist in namespace \"web\"; create the ServiceAccount in the Pod's namespace, or set serviceAccounts.onMissing to Skip"
)]
#[case::sap11_terminating(
    Some(Ok(Some(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})))),
    "403 SidecarSet \"a\": spec.serviceAccountName: ServiceAccount \"x\" is being deleted in namespace \"web\"; create the ServiceAccount in the Pod's namespace, or set serviceAccounts.onMissing to Skip"
)]
#[case::could_not_ask(
    Some(Err(Failure::Timeout)),
    "503 SidecarSet \"a\": spec.serviceAccountName: ServiceAccount \"x\" could not be read in namespace \"web\": no answer in time; try again"
)]
fn idv3_the_account_must_exist(#[case] answer: Option<Answer>, #[case] outcome: &str) {
    for mode in [Mode::SidecarsOnly, Mode::Isolate] {
        let mut cluster = Cluster::default();
        if let Some(answer) = answer.clone() {
            cluster.answer("ServiceAccount", "x", answer);
        }
        let asking = [set("a", "x", mode, OnConflict::Refuse)];
        assert_eq!(shown(decide(&asking, app("default"), "web", &Rules::default(), &cluster)), outcome);
    }
}

#[test]
fn set7_missing_may_be_skipped_and_unknown_may_not() {
    let rules = Rules { on_missing: Otherwise::Skip, ..Rules::default() };
    let mut cluster = Cluster::with(&["y"]);
    let asking = [refuse("a", "x"), refuse("b", "y")];
    assert_eq!(
        shown(decide(&asking, app("default"), "web", &rules, &cluster)),
        "runs as y, hidden; b: y OfPod; a skipped: ServiceAccount \"x\" does not exist in namespace \"web\""
    );
    cluster.answer("ServiceAccount", "x", Err(Failure::Unavailable));
    assert!(shown(decide(&asking, app("default"), "web", &rules, &cluster)).starts_with("503 "));
}

/// A Pod with the merged account of the sets that were not skipped does not change on a second admission.
#[test]
fn idp6_a_merged_account_without_the_skipped_set_stays() {
    let rules = Rules { on_missing: Otherwise::Skip, ..Rules::default() };
    let mut cluster = Cluster::with(&["x", "y"]);
    let name = merged_objects(&mut cluster);
    let asking = [merge("a", "x"), merge("b", "y"), merge("c", "gone")];
    let first = shown(decide(&asking, app("default"), "web", &rules, &cluster));
    assert!(first.starts_with(&format!("runs as {name}, hidden")), "{first}");
    let again = shown(decide(&asking, App { automount: Some(false), ..app(&name) }, "web", &rules, &cluster));
    assert_eq!(again, first.replace(&format!("runs as {name}, hidden"), "runs as before, hidden"));
}

/// A Pod with the account of the only set that was not skipped does not change on a second admission.
#[test]
fn idp6_the_account_without_the_skipped_set_stays() {
    let rules = Rules { on_missing: Otherwise::Skip, on_app_account: OnAppAccount::Deny, ..Rules::default() };
    let cluster = Cluster::with(&["x"]);
    let asking = [refuse("a", "x"), refuse("b", "gone")];
    let first = shown(decide(&asking, app("default"), "web", &rules, &cluster));
    assert!(first.starts_with("runs as x, hidden; a: x OfPod; b skipped: "), "{first}");
    let again = shown(decide(&asking, App { automount: Some(false), ..app("x") }, "web", &rules, &cluster));
    assert_eq!(again, first.replace("runs as x, hidden", "runs as before"));
    // If the lookup of the other account fails, it is unknown whether the other set is skipped.
    let mut cluster = cluster;
    cluster.answer("ServiceAccount", "gone", Err(Failure::Timeout));
    assert!(shown(decide(&asking, app("x"), "web", &rules, &cluster)).starts_with("503 SidecarSet \"b\": "));
    // If the other set is not skipped, the account counts as the app's own.
    let text = shown(decide(&asking, app("x"), "web", &Rules::default(), &cluster));
    assert!(
        text.starts_with("runs as before; a goes without: the Pod has the ServiceAccount \"x\" of its own"),
        "{text}"
    );
}

/// In mode `Pod`, the first and the second admission of a Pod differ only in the account.
#[test]
fn idp6_in_mode_pod_the_sidecars_keep_their_own_mount() {
    let rules = Rules { allow_pod_mode: true, ..Rules::default() };
    let asking = [set("a", "x", Mode::Pod, OnConflict::Refuse), refuse("b", "x")];
    let cluster = Cluster::with(&["x"]);
    let decided = |account| shown(decide(&asking, app(account), "web", &rules, &cluster));
    assert_eq!(decided("default"), "runs as x; a: x OfPod; b: x OfPod");
    assert_eq!(decided("x"), "runs as before; a: x OfPod; b: x OfPod");
}

#[test]
fn set7_idc2_conflicts_may_be_skipped() {
    let rules = Rules { on_conflict: Otherwise::Skip, ..Rules::default() };
    let decided =
        decide(&[refuse("a", "x"), merge("b", "y")], app("default"), "web", &rules, &Cluster::with(&["x", "y"]));
    let decision = decided.unwrap();
    assert_eq!((decision.account, decision.grants.len(), decision.skipped.len()), (None, 0, 2));
}

#[test]
fn e1_idv5_e3_are_asked_before_anything_is_looked_up() {
    let protected = Rules { protected_namespaces: vec!["web".to_owned()], ..Rules::default() };
    let nothing = Cluster::default();
    let text = shown(decide(&[isolate("a", "x")], app("default"), "web", &protected, &nothing));
    assert!(
        text.starts_with(
            "403 SidecarSet \"a\": spec.serviceAccountName: no sidecar gets a ServiceAccount in the protected"
        ),
        "{text}"
    );

    let other = vec![super::super::rules::Allowed {
        namespaces: vec!["*".parse().unwrap()],
        names: vec!["y".parse().unwrap()],
    }];
    let restricted = Rules { allowed: other, ..Rules::default() };
    let text = shown(decide(&[refuse("a", "x")], app("default"), "web", &restricted, &nothing));
    assert!(text.contains("ServiceAccount \"x\" is not allowed in namespace \"web\""), "{text}");

    let asking = [set("a", "x", Mode::Pod, OnConflict::Refuse)];
    let text = shown(decide(&asking, app("default"), "web", &Rules::default(), &nothing));
    assert!(text.contains("mode Pod would give the app the permissions of \"x\""), "{text}");
    let allowed = Rules { allow_pod_mode: true, ..Rules::default() };
    let text = shown(decide(&asking, app("default"), "web", &allowed, &Cluster::with(&["x"])));
    assert_eq!(text, "runs as x; a: x OfPod");
}

#[test]
fn idp9_one_set_in_mode_pod_makes_it_the_whole_pods() {
    let rules = Rules { allow_pod_mode: true, ..Rules::default() };
    let asking = [refuse("a", "x"), set("b", "x", Mode::Pod, OnConflict::Refuse)];
    let decision = decide(&asking, app("default"), "web", &rules, &Cluster::with(&["x"])).unwrap();
    assert!(!decision.hides_token);
}

/// The account stays, but if automounting is off, the sidecar still gets its mount.
#[rstest]
#[case::on(None, None, "runs as before")]
#[case::pod_off(Some(false), None, "runs as before; a: x OfPod")]
#[case::account_off(None, Some(false), "runs as before; a: x OfPod")]
#[case::pod_wins(Some(true), Some(false), "runs as before")]
fn idp7_row_same_mounts_where_automount_is_off(
    #[case] pod: Option<bool>,
    #[case] account: Option<bool>,
    #[case] outcome: &str,
) {
    let mut cluster = Cluster::default();
    cluster.put("ServiceAccount", "x", json!({"automountServiceAccountToken": account}));
    let app = App { automount: pod, ..app("x") };
    assert_eq!(shown(decide(&[refuse("a", "x")], app, "web", &Rules::default(), &cluster)), outcome);
}

/// Each of the three objects, with each reason not to be ready.
#[rstest]
#[case::missing(|_: &mut Value| true, 503, "is not there yet")]
#[case::terminating(|object: &mut Value| { object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"); false }, 503, "is being deleted")]
#[case::mrg11_collected(|object: &mut Value| { object["metadata"]["annotations"]["pillion.dev/gc-pending"] = json!("2026-01-01T00:00:00Z"); false }, 503, "is about to be collected")]
#[case::mrg2_forged(|object: &mut Value| { object["metadata"]["annotations"]["pillion.dev/sidecarsets"] = json!("a"); false }, 403, "has the annotation pillion.dev/sidecarsets \"a\" where \"a,b\" belongs")]
#[case::mrg2_bare(|object: &mut Value| { object["metadata"] = json!({}); false }, 403, "has the annotation pillion.dev/sidecarsets \"\" where \"a,b\" belongs")]
fn mrg5_merged_objects_must_be_ready(#[case] spoil: fn(&mut Value) -> bool, #[case] code: u16, #[case] says: &str) {
    for kind in ["ServiceAccount", "Role", "RoleBinding"] {
        let mut cluster = Cluster::with(&["x", "y"]);
        let name = merged_objects(&mut cluster);
        let Some(Ok(Some(object))) = cluster.0.get_mut(&(kind.to_owned(), name.clone())) else { panic!("{kind}") };
        if spoil(object) {
            cluster.answer(kind, &name, Ok(None));
        }
        let asking = [merge("a", "x"), merge("b", "y")];
        let text = shown(decide(&asking, app("default"), "web", &Rules::default(), &cluster));
        assert!(text.starts_with(&format!("{code} ")) && text.contains(says) && text.contains(kind), "{text}");
    }
}

#[rstest]
#[case::wider_role("Role", json!({"rules": [{"apiGroups": [""], "resources": ["*"], "verbs": ["get"]}]}))]
#[case::narrower_role("Role", json!({"rules": []}))]
#[case::other_role("RoleBinding", json!({"roleRef": {"kind": "Role", "name": "admin"}}))]
#[case::cluster_role("RoleBinding", json!({"roleRef": {"kind": "ClusterRole", "name": "@NAME@"}}))]
#[case::nobody("RoleBinding", json!({"subjects": []}))]
#[case::one_more("RoleBinding", json!({"subjects": [
    {"kind": "ServiceAccount", "name": "@NAME@", "namespace": "web"}, {"kind": "User", "name": "mallory"}
]}))]
#[case::other_namespace("RoleBinding", json!({"subjects": [
    {"kind": "ServiceAccount", "name": "@NAME@", "namespace": "other"}
]}))]
fn mrg5_roles_and_bindings_say_what_the_sets_say(#[case] kind: &str, #[case] change: Value) {
    let mut cluster = Cluster::with(&["x", "y"]);
    let name = merged_objects(&mut cluster);
    let Some(Ok(Some(object))) = cluster.0.get_mut(&(kind.to_owned(), name.clone())) else { panic!("{kind}") };
    let change: Value = serde_json::from_str(&change.to_string().replace("@NAME@", &name)).unwrap();
    for (key, value) in change.as_object().unwrap() {
        object[key] = value.clone();
    }
    let asking = [merge("a", "x"), merge("b", "y")];
    let text = shown(decide(&asking, app("default"), "web", &Rules::default(), &cluster));
    assert!(text.starts_with("503 ") && text.contains("does not say yet"), "{text}");
}

/// The tokens for other audiences in each mode, and with each account of the Pod.
#[rstest]
#[case::sidecars_only(&[reaching(refuse("a", "x"), &["vault"])], "default", "runs as x, hidden; a: x OfPod vault")]
#[case::pod(
    &[reaching(set("a", "x", Mode::Pod, OnConflict::Refuse), &["vault"])], "default", "runs as x; a: x OfPod vault"
)]
#[case::isolate(&[reaching(isolate("a", "x"), &["vault", "sts"])], "own", "runs as before; a: x OfSecret vault sts")]
#[case::the_pods_own_account(&[reaching(refuse("a", "x"), &["vault"])], "x", "runs as before; a: x OfPod vault")]
#[case::isolate_of_the_pods_account(
    &[reaching(isolate("a", "x"), &["vault"]), refuse("b", "x")], "default",
    "runs as x, hidden; b: x OfPod; a: x OfPod vault"
)]
#[case::of_one_of_two_sets_with_an_account(
    &[reaching(refuse("a", "x"), &["vault"]), refuse("b", "x")], "x", "runs as before; a: x OfPod vault"
)]
#[case::other_lists_of_one_account(
    &[reaching(isolate("a", "x"), &["vault"]), reaching(isolate("b", "x"), &["sts"]), isolate("c", "x")], "own",
    "runs as before; a: x OfSecret vault; b: x OfSecret sts; c: x OfSecret"
)]
#[case::merging_sets_with_one_account(
    &[reaching(merge("a", "x"), &["vault"]), merge("b", "x")], "default",
    "runs as x, hidden; a: x OfPod vault; b: x OfPod"
)]
#[case::not_with_another_account(
    &[reaching(refuse("a", "x"), &["vault"])], "own",
    "runs as before; a goes without: the Pod has the ServiceAccount \"own\" of its own; mode Isolate gives the sidecars theirs beside it"
)]
fn aud3_a_set_with_tokens_always_mounts_its_own(
    #[case] asking: &[Asking],
    #[case] account: &str,
    #[case] outcome: &str,
) {
    let rules = Rules { allowed_audiences: vec!["*".parse().unwrap()], allow_pod_mode: true, ..Rules::default() };
    assert_eq!(shown(decide(asking, app(account), "web", &rules, &Cluster::with(&["x", "y"]))), outcome);
}

#[test]
fn aud3_the_setting_that_isolates_gives_the_tokens_from_a_secret() {
    let rules = Rules {
        allowed_audiences: vec!["vault".parse().unwrap()],
        on_app_account: OnAppAccount::Isolate,
        ..Rules::default()
    };
    let asking = [reaching(refuse("a", "x"), &["vault"])];
    let decided = decide(&asking, app("own"), "web", &rules, &Cluster::with(&["x"]));
    assert_eq!(shown(decided), "runs as before; a: x OfSecret vault");
}

#[test]
fn aud6_a_merged_account_has_no_tokens_for_other_audiences() {
    let rules = Rules { allowed_audiences: vec!["*".parse().unwrap()], ..Rules::default() };
    let mut cluster = Cluster::with(&["x", "y", "z"]);
    let name = merged_objects(&mut cluster);
    let asking = [
        reaching(merge("a", "x"), &["vault"]),
        merge("b", "y"),
        // A set in mode `Isolate` has its own account in any case.
        reaching(isolate("c", "z"), &["sts"]),
    ];
    let outcome = |is_new: bool| {
        let runs_as = if is_new { &name } else { "before" };
        format!("runs as {runs_as}, hidden; a: {name} OfPod; b: {name} OfPod; c: z OfSecret sts; a has no audiences")
    };
    assert_eq!(shown(decide(&asking, app("default"), "web", &rules, &cluster)), outcome(true));
    assert_eq!(shown(decide(&asking, app(&name), "web", &rules, &cluster)), outcome(false), "IDP-6");
}

#[rstest]
#[case::allowed("vault", 7200, None)]
#[case::by_a_glob("https://sts.example.com", 3600, None)]
#[case::not_allowed(
    "vault2",
    3600,
    Some("the audience \"vault2\" is not allowed; add it to serviceAccounts.allowedAudiences")
)]
#[case::in_another_case(
    "Vault",
    3600,
    Some("the audience \"Vault\" is not allowed; add it to serviceAccounts.allowedAudiences")
)]
#[case::of_the_api_server(
    "https://kubernetes.default.svc.cluster.local",
    3600,
    Some(
        "the audience \"https://kubernetes.default.svc.cluster.local\" is one of the API server; remove the entry and use the file \"token\", or correct serviceAccounts.apiServerAudiences"
    )
)]
#[case::too_long_a_life(
    "vault",
    7201,
    Some(
        "the token for \"vault\" would live 7201 seconds, and 7200 are allowed; lower expirationSeconds, or raise serviceAccounts.maxTokenExpirationSeconds"
    )
)]
fn aud5_the_policy_checks_each_token_before_anything_is_looked_up(
    #[case] audience: &str,
    #[case] expiration_seconds: u64,
    #[case] refusal: Option<&str>,
) {
    let globs = ["vault", "https://*"].iter().map(|glob| glob.parse().unwrap());
    let rules =
        Rules { allowed_audiences: globs.collect(), max_token_expiration_seconds: Some(7200), ..Rules::default() };
    for set in [refuse("a", "x"), isolate("a", "x")] {
        let mut asking = [reaching(set, &["vault", audience])];
        asking[0].declared.tokens[1].expiration_seconds = expiration_seconds;
        let cluster = if refusal.is_some() { Cluster::default() } else { Cluster::with(&["x"]) };
        let decided = shown(decide(&asking, app("default"), "web", &rules, &cluster));
        match refusal {
            None => assert!(decided.ends_with(&format!(" vault {audience}")), "{decided}"),
            Some(why) => assert_eq!(decided, format!("403 SidecarSet \"a\": spec.serviceAccountName: {why}")),
        }
    }
}

#[test]
fn aud5_no_audience_is_allowed_by_default() {
    let asking = [reaching(refuse("a", "x"), &["vault"])];
    let text = shown(decide(&asking, app("default"), "web", &Rules::default(), &Cluster::default()));
    assert!(text.contains("the audience \"vault\" is not allowed"), "{text}");
}
