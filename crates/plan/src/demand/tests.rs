use pillion_kubernetes::json::parse;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// Returns settings with these SidecarSets, each given as name, mode, behaviour and account, for Pods with the label
/// `app: web`.
fn settings(sets: &[(&str, &str, &str, &str)], service_accounts: &Value) -> Settings {
    let sets: Vec<Value> = sets
        .iter()
        .map(|(name, mode, behaviour, account)| {
            json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
                "spec": {
                    "selector": {"matchLabels": {"app": "web"}},
                    "containers": [{"name": name, "image": "i:1"}],
                    "serviceAccountName": account, "serviceAccountMode": mode,
                    "behaviorWhenServiceAccountInjection": behaviour
                }
            })
        })
        .collect();
    let gates = json!({"SidecarSetServiceAccountInjection": true});
    let settings = json!({"sidecarSets": sets, "featureGates": gates, "serviceAccounts": service_accounts});
    Settings::decode(settings).unwrap()
}

fn pod(account: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"serviceAccountName": account}})
}

fn shop() -> Value {
    json!({"metadata": {"name": "shop", "labels": {"team": "a"}}})
}

const MERGE: [(&str, &str, &str, &str); 2] =
    [("b", "SidecarsOnly", "Merge", "b-account"), ("a", "SidecarsOnly", "Merge", "a-account")];

fn demand_in(settings: &Settings, namespace: &Value, pod: &Value) -> Demand {
    Demands::new(&PreparedSets::from_sets(&settings.sidecar_sets), settings, namespace).for_pod(pod, &|_| true)
}

fn merged(names: &[&str]) -> Demand {
    Demand { merged: Some(names.iter().map(|name| (*name).to_owned()).collect()), isolated: BTreeMap::new() }
}

fn isolated(names: &[&str]) -> Demand {
    let isolated = names.iter().map(|name| (Credential::shared(name), Vec::new()));
    Demand { merged: None, isolated: isolated.collect() }
}

#[rstest]
#[case::nothing(&[], "", Demand::default())]
#[case::one(&[MERGE[0]], "default", Demand::default())]
#[case::two_of_one_account(&[MERGE[0], ("a", "SidecarsOnly", "Merge", "b-account")], "", Demand::default())]
#[case::two(&MERGE, "", merged(&["a", "b"]))]
#[case::one_refuses(&[MERGE[0], ("a", "SidecarsOnly", "Refuse", "a-account")], "", Demand::default())]
#[case::its_own_account(&MERGE, "own", Demand::default())]
#[case::already_merged(&MERGE, "sidecarset-merged-7e18f737311b2dc3", merged(&["a", "b"]))]
#[case::merged_for_others(&MERGE, "sidecarset-merged-0000000000000000", Demand::default())]
#[case::isolated(&[("a", "Isolate", "Refuse", "x"), ("b", "Isolate", "Refuse", "y")], "own", isolated(&["x", "y"]))]
#[case::isolated_beside_merged(
    &[MERGE[0], MERGE[1], ("c", "Isolate", "Refuse", "x")],
    "",
    Demand { isolated: isolated(&["x"]).isolated, ..merged(&["a", "b"]) }
)]
#[case::isolated_from_what_the_pod_runs_under(
    &[("a", "Isolate", "Refuse", "x"), ("b", "SidecarsOnly", "Refuse", "x")], "", Demand::default()
)]
#[case::pod_mode_is_refused(&[MERGE[0], ("a", "Pod", "Merge", "a-account")], "", Demand::default())]
fn mrg6_a_pod_needs_what_the_policy_will_ask_for(
    #[case] sets: &[(&str, &str, &str, &str)],
    #[case] account: &str,
    #[case] needed: Demand,
) {
    assert_eq!(demand_in(&settings(sets, &json!({})), &shop(), &pod(account)), needed);
}

#[test]
fn mrg6_what_matches_needs_and_nothing_else() {
    let settings = settings(&MERGE, &json!({}));
    let other = json!({"metadata": {"labels": {"app": "db"}}, "spec": {}});
    assert_eq!(demand_in(&settings, &shop(), &other), Demand::default());
    let mut closed = settings.clone();
    closed.gates.service_account_injection = false;
    assert_eq!(demand_in(&closed, &shop(), &pod("")), Demand::default());
    let protected = json!({"metadata": {"name": "kube-system"}});
    assert_eq!(demand_in(&settings, &protected, &pod("")), Demand::default());
    let mut selecting = settings;
    for set in &mut selecting.sidecar_sets {
        set.as_value_mut()["spec"]["namespaceSelector"] = json!({"matchLabels": {"team": "b"}});
    }
    assert_eq!(demand_in(&selecting, &shop(), &pod("")), Demand::default());
}

#[test]
fn match8_a_canary_takes_the_place_of_its_base_and_a_paused_set_none() {
    let with = |edit: fn(&mut Value)| {
        let mut settings = settings(&[MERGE[0], MERGE[1], ("c", "SidecarsOnly", "Merge", "c-account")], &json!({}));
        edit(settings.sidecar_sets[2].as_value_mut());
        demand_in(&settings, &shop(), &pod(""))
    };
    let canary = with(|set| {
        set["metadata"]["annotations"] =
            json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "a"});
    });
    assert_eq!(canary, merged(&["b", "c"]));
    assert_eq!(with(|set| set["spec"]["injectionStrategy"] = json!({"paused": true})), merged(&["a", "b"]));
    // The policy refuses the Pods of a set whose fields are invalid.
    assert_eq!(with(|set| set["spec"]["serviceAccountMode"] = json!("Whole")), Demand::default());
    assert_eq!(
        with(|set| set["spec"]["selector"] = json!({"matchExpressions": [{"operator": "?"}]})),
        Demand::default()
    );
}

#[test]
fn idc3_an_own_account_isolates_where_the_settings_say_so() {
    let settings = settings(&MERGE, &json!({"onAppServiceAccount": "Isolate"}));
    assert_eq!(demand_in(&settings, &shop(), &pod("own")), isolated(&["a-account", "b-account"]));
    // TOK-0: another token counts as an account of the Pod's own.
    let token = parse(
        br#"{"metadata": {"labels": {"app": "web"}}, "spec": {
            "containers": [{"name": "app", "volumeMounts": [{"name": "vault", "mountPath": "/vault"}]}],
            "volumes": [{"name": "vault", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]
        }}"#,
    )
    .unwrap();
    assert_eq!(demand_in(&settings, &shop(), &token), isolated(&["a-account", "b-account"]));
}

#[test]
fn idv3_accounts_are_asked_for_where_a_missing_one_is_skipped() {
    let sets = [MERGE[0], MERGE[1], ("c", "SidecarsOnly", "Merge", "c-account")];
    for (on_missing, needed) in [("Skip", &["a", "b"][..]), ("Deny", &["a", "b", "c"])] {
        let settings = settings(&sets, &json!({"onMissing": on_missing}));
        let namespace = shop();
        let prepared = PreparedSets::from_sets(&settings.sidecar_sets);
        let demands = Demands::new(&prepared, &settings, &namespace);
        assert_eq!(demands.for_pod(&pod(""), &|account| account != "c-account"), merged(needed), "{on_missing}");
    }
}

#[test]
fn mrg6_a_prepared_namespace_has_every_combination_of_up_to_four() {
    let sets = [
        ("a", "SidecarsOnly", "Merge", "x"),
        ("b", "SidecarsOnly", "Merge", "x"),
        ("c", "SidecarsOnly", "Merge", "z"),
        ("i", "Isolate", "Merge", "i"),
        ("r", "SidecarsOnly", "Refuse", "r"),
    ];
    let combinations = |settings: &Settings| {
        let namespace = shop();
        let (combinations, merging) =
            Demands::new(&PreparedSets::from_sets(&settings.sidecar_sets), settings, &namespace).combinations();
        (combinations.iter().map(|sets| sets.join("")).collect::<Vec<_>>(), merging)
    };
    let settings_of = |sets: &[(&str, &str, &str, &str)]| settings(sets, &json!({}));
    assert_eq!(combinations(&settings_of(&sets)), (vec!["ac".to_owned(), "bc".to_owned(), "abc".to_owned()], 3));
    let many = ["a", "b", "c", "d", "e"].map(|name| (name, "SidecarsOnly", "Merge", name));
    let (found, merging) = combinations(&settings_of(&many));
    assert_eq!((found.len(), merging), (11, 5));
    assert!(found.iter().all(|sets| !sets.contains('e')));
    let mut canary = settings_of(&sets);
    canary.sidecar_sets[2].as_value_mut()["metadata"]["annotations"] =
        json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "a"});
    assert_eq!(combinations(&canary).0, ["bc"]);
}

#[rstest]
#[case::every_namespace(&Value::Null, true)]
#[case::by_name(&json!({"matchLabels": {"kubernetes.io/metadata.name": "shop"}}), true)]
#[case::by_another_name(&json!({"matchLabels": {"kubernetes.io/metadata.name": "bank"}}), false)]
#[case::one_of_some_names(&named_in(&["bank", "shop", "shop"]), true)]
#[case::none_of_some_names(&named_in(&["bank", "gym"]), false)]
#[case::by_name_and_label(
    &json!({"matchLabels": {"kubernetes.io/metadata.name": "shop", "team": "b"}}), false
)]
#[case::by_label(&json!({"matchLabels": {"team": "a"}}), true)]
#[case::by_another_label(&json!({"matchLabels": {"team": "b"}}), false)]
fn mrg6_a_set_merges_in_the_namespaces_that_it_selects(#[case] selector: &Value, #[case] merges: bool) {
    let mut settings = settings(&MERGE, &json!({}));
    for set in settings.sidecar_sets.iter_mut().filter(|_| !selector.is_null()) {
        set.as_value_mut()["spec"]["namespaceSelector"] = selector.clone();
    }
    let (namespace, prepared) = (shop(), PreparedSets::from_sets(&settings.sidecar_sets));
    let demands = Demands::new(&prepared, &settings, &namespace);

    let both = vec![vec!["a".to_owned(), "b".to_owned()]];
    assert_eq!(demands.combinations(), if merges { (both, 2) } else { (Vec::new(), 0) });
    assert_eq!(demands.merging("a").is_some(), merges);
}

fn named_in(namespaces: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}]})
}

/// AUD-3: a set with tokens for other audiences has a Secret for itself. AUD-5: without the right to its audiences it
/// has none, since the policy refuses its Pods.
#[rstest]
#[case::allowed(&["vault", "sts.*"], 3600, Some(2))]
#[case::one_is_not_allowed(&["vault"], 3600, None)]
#[case::too_long(&["vault", "sts.*"], 3601, None)]
fn aud3_a_set_with_audiences_has_a_secret_for_itself(
    #[case] allowed: &[&str],
    #[case] lifetime: u64,
    #[case] tokens: Option<usize>,
) {
    let sets = [("a", "Isolate", "Refuse", "x"), ("b", "Isolate", "Refuse", "x")];
    let mut settings = settings(&sets, &json!({"allowedAudiences": allowed}));
    settings.service_accounts.max_token_expiration_seconds = Some(3600);
    let list = json!([
        {"audience": "vault", "path": "vault", "expirationSeconds": lifetime},
        {"audience": "sts.amazonaws.com", "path": "aws"}
    ]);
    settings.sidecar_sets[1].as_value_mut()["spec"]["serviceAccountTokens"] = list;

    let demand = demand_in(&settings, &shop(), &pod("own"));

    let seen: BTreeMap<_, _> = demand.isolated.iter().map(|(credential, tokens)| (credential, tokens.len())).collect();
    let (shared, own) = (Credential::shared("x"), Credential::own("x", "b"));
    let expected = tokens.map(|count| BTreeMap::from([(&shared, 0), (&own, count)])).unwrap_or_default();
    assert_eq!(seen, expected);
    assert_eq!(demand.isolated.get(&own).map(|tokens| tokens[0].audience.as_str()), tokens.map(|_| "vault"));
}

#[test]
fn aud8_a_set_still_asks_for_its_list_where_no_pod_needs_it() {
    let mut settings = settings(&[("a", "Isolate", "Refuse", "x")], &json!({}));
    settings.sidecar_sets[0].as_value_mut()["spec"]["serviceAccountTokens"] =
        json!([{"audience": "vault", "path": "vault"}]);
    let prepared = PreparedSets::from_sets(&settings.sidecar_sets);
    let asked = |credential| prepared.iter().find_map(|set| set.audiences(&credential)).map(<[AudienceToken]>::len);

    assert_eq!(asked(Credential::own("x", "a")), Some(1));
    assert_eq!(asked(Credential::own("y", "a")), None, "another account");
    assert_eq!(asked(Credential::own("x", "b")), None, "another set");
    assert_eq!(asked(Credential::shared("x")), None, "not its own");
}
