//! Tests that explanations of identities are correct and agree with admission.

use std::sync::LazyLock;

use pillion_admission::audit;
use pillion_admission::settings::Settings;
use pillion_identity::rules::{OnAppAccount, Otherwise, Rules};
use pillion_identity::{merged, names};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{Answer, Failure, Lookup, ObjectRef};
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::gates::Gates;
use pillion_sidecarset::sidecar_set::origin::Origin;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select as one_of;
use rstest::rstest;
use serde_json::{Value, json};

use super::identity::{Given, Identity, Merging, PodIdentity, TokenSource, merging};
use super::*;

/// A cluster with every ServiceAccount except `gone`, and with the objects in `merged`. Reading `broken` fails.
#[derive(Debug, Default)]
struct Cluster {
    merged: Vec<Value>,
}

impl Lookup for Cluster {
    fn get(&self, object: &ObjectRef) -> Answer {
        let is_it = |made: &&Value| {
            json::text(made, &["kind"]) == object.kind && json::text(made, &["metadata", "name"]) == object.name
        };
        match (object.kind, object.name.as_str()) {
            (_, name) if names::is_merged(name) => Ok(self.merged.iter().find(is_it).cloned()),
            (_, "broken") => Err(Failure::Timeout),
            ("ServiceAccount", name) if name != "gone" => Ok(Some(json!({"metadata": {"name": name}}))),
            _ => Ok(None),
        }
    }
}

fn settings(rules: &Rules) -> Settings {
    let gates = Gates { service_account_injection: true, ..Gates::default() };
    Settings { gates, service_accounts: rules.clone(), ..Settings::default() }
}

fn context<'a>(settings: &'a Settings, sidecar_sets: &'a [SidecarSet], lookup: &'a dyn Lookup) -> Context<'a> {
    Context { settings, sidecar_sets, lookup, now: Timestamp(0) }
}

static RULES: LazyLock<Rules> = LazyLock::new(Rules::default);
/// A cluster without merged objects.
static CLUSTER: Cluster = Cluster { merged: Vec::new() };

/// Returns a set with one container of the same name. A mode and a behaviour may follow the account: `a Isolate`.
fn set(name: &str, account: &str) -> SidecarSet {
    let mut words = account.split(' ').filter(|word| !word.is_empty());
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "web"}},
        "containers": [{"name": name, "image": "i:1", "podInjectPolicy": "AfterAppContainer"}]
    });
    if let Some(account) = words.next() {
        spec["serviceAccountName"] = json!(account);
    }
    for word in words {
        let is_mode = matches!(word, "SidecarsOnly" | "Isolate" | "Pod");
        let field = if is_mode { "serviceAccountMode" } else { "behaviorWhenServiceAccountInjection" };
        spec[field] = json!(word);
    }
    SidecarSet::from_decoded(json!({"metadata": {"name": name}, "spec": spec})).with_origin(Origin::Settings)
}

/// Returns a set that asks for a token for this audience besides, unless it is empty.
fn with_token(mut set: SidecarSet, audience: &str) -> SidecarSet {
    if !audience.is_empty() {
        set.as_value_mut()["spec"]["serviceAccountTokens"] = json!([{"audience": audience, "path": "other"}]);
    }
    set
}

/// Returns a Pod as a webhook receives it, with its token mounted.
fn pod(account: &str) -> Value {
    let mount = json!({"name": "kube-api-access-abcde", "mountPath": names::MOUNT_PATH, "readOnly": true});
    json!({
        "metadata": {"name": "p", "labels": {"app": "web"}},
        "spec": {
            "serviceAccountName": account, "serviceAccount": account,
            "containers": [{"name": "main", "volumeMounts": [mount]}],
            "volumes": [{"name": "kube-api-access-abcde", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token"}}
            ]}}]
        }
    })
}

fn explained(pod: &Value, sets: &[SidecarSet], lookup: &Cluster, rules: &Rules) -> Explanation {
    explain(PodRequest { uid: "u", namespace: "shop", object: pod }, context(&settings(rules), sets, lookup))
}

/// Summarises the result: the account, the containers that lose their token, and the result for each set.
fn shown(pod: &Value, sets: &[SidecarSet], rules: &Rules) -> String {
    let explanation = explained(pod, sets, &CLUSTER, rules);
    let PodIdentity { original, account, losing, is_shared, .. } = explanation.identity.unwrap();
    let mut parts = vec![format!("{original} -> {}", account.as_deref().unwrap_or("refused"))];
    if !losing.is_empty() {
        parts.push(format!("lost by {}", losing.join(" ")));
    }
    if is_shared {
        parts.push("shared".to_owned());
    }
    for set in explanation.sets {
        let result = match set.identity.map(|identity| identity.result) {
            None => "-".to_owned(),
            Some(Given::Token(account, TokenSource { secret: None, .. })) => format!("{account} of the Pod"),
            Some(Given::Token(account, TokenSource { secret: Some(_), .. })) => format!("{account} of a Secret"),
            Some(Given::Skipped(why) | Given::Kept(why)) => why,
            Some(other) => other.name().to_owned(),
        };
        parts.push(format!("{}: {result}", set.name));
    }
    parts.join("; ")
}

#[rstest]
#[case::swapped("default", &["a"], "default -> a; lost by main; s: a of the Pod")]
#[case::beside_a_set_without("default", &["a", ""], "default -> a; lost by main t; s: a of the Pod; t: -")]
#[case::isolated("default", &["a Isolate"], "default -> default; s: a of a Secret")]
#[case::same_account("a", &["a"], "a -> a; s: Automounted")]
#[case::of_its_own(
    "b", &["a"], "b -> b; s: the Pod has the ServiceAccount \"b\" of its own; mode Isolate gives the sidecars theirs beside it"
)]
#[case::missing("default", &["gone", "a"], "default -> refused; s: Withheld; t: Withheld")]
#[case::conflict("default", &["a", "b"], "default -> refused; s: Withheld; t: Withheld")]
fn idp7_what_each_set_gets(#[case] account: &str, #[case] accounts: &[&str], #[case] expected: &str) {
    let sets: Vec<SidecarSet> = ["s", "t"].iter().zip(accounts).map(|(name, account)| set(name, account)).collect();
    assert_eq!(shown(&pod(account), &sets, &RULES), expected);
}

#[test]
fn idp7_what_the_settings_skip_is_told_with_the_reason() {
    let rules = Rules { on_missing: Otherwise::Skip, allow_pod_mode: true, ..Rules::default() };
    assert_eq!(
        shown(&pod("default"), &[set("s", "gone"), set("t", "b Pod")], &rules),
        "default -> b; shared; s: ServiceAccount \"gone\" does not exist in namespace \"shop\"; t: b of the Pod"
    );
}

#[test]
fn idv1_without_the_gate_sets_are_told_to_stay_without() {
    let sets = [set("s", "a")];
    let settings = Settings::default();
    let context = context(&settings, &sets, &CLUSTER);
    let explanation = explain(PodRequest { uid: "u", namespace: "shop", object: &pod("default") }, context);
    assert_eq!(explanation.identity, None);
    assert_eq!(explanation.sets[0].identity.as_ref().map(|identity| &identity.result), Some(&Given::GateOff));
}

#[test]
fn mrg5_a_merged_account_is_told_whether_it_is_ready_or_not() {
    let sets = [set("t", "b Merge"), set("s", "a Merge")];
    let pod = pod("default");
    let request = PodRequest { uid: "u", namespace: "shop", object: &pod };
    let explanation = explained(&pod, &sets, &CLUSTER, &RULES);
    let missing = explanation.identity.unwrap().merged.unwrap();
    assert_eq!(missing.sidecar_sets, ["s", "t"]);
    assert_eq!(missing.not_ready.as_ref(), explanation.pod.first(), "it is the reason to refuse");
    assert_eq!(missing.not_ready.unwrap().kind, Kind::MergedServiceAccount);

    let Merging { name, sets: wanted, .. } = merging(request, context(&settings(&RULES), &sets, &CLUSTER)).unwrap();
    assert_eq!(name, missing.name);
    let cluster = Cluster { merged: merged::objects(&wanted.iter().collect::<Vec<_>>(), "shop").to_vec() };
    let ready = explained(&pod, &sets, &cluster, &RULES);
    let PodIdentity { account, merged, .. } = ready.identity.unwrap();
    let merged = merged.unwrap();
    assert_eq!((account.as_ref(), &merged.name, merged.not_ready), (Some(&name), &name, None));
    assert_eq!(merged.sidecar_sets, ["s", "t"]);
    let given = ready.sets[0].identity.as_ref().map(|Identity { account, result, .. }| (account.as_str(), result));
    let source = TokenSource { volume: names::token_volume(&name), secret: None };
    assert_eq!(given, Some(("a", &Given::Token(name, source))));
}

#[test]
fn sap6_accounts_are_those_of_the_request_s_namespace() {
    let mut elsewhere = pod("default");
    elsewhere["metadata"]["namespace"] = json!("other");
    let explanation = explained(&elsewhere, &[set("s", "gone")], &CLUSTER, &RULES);
    let Decision::Refused(findings) = &explanation.sets[0].decision else { panic!("{explanation:?}") };
    assert_eq!(findings[0].problem, "ServiceAccount \"gone\" does not exist in namespace \"shop\"");
    let sets = [set("s", "a Merge"), set("t", "b Merge")];
    let request = PodRequest { uid: "u", namespace: "shop", object: &elsewhere };
    assert_eq!(merging(request, context(&settings(&RULES), &sets, &CLUSTER)).unwrap().namespace, "shop");
    let merged = explained(&elsewhere, &sets, &CLUSTER, &RULES).identity.unwrap().merged.unwrap();
    assert!(merged.not_ready.unwrap().problem.contains("in namespace \"shop\""));
}

#[rstest]
#[case::missing(&["gone"], "Identity", "IDP-7")]
#[case::unreadable(&["broken"], "ServiceAccountUnreadable", "IDV-3")]
#[case::unknown_mode(&["a Sometimes"], "Identity", "IDP-7")]
fn refusals_for_an_identity_have_their_own_kinds(#[case] accounts: &[&str], #[case] kind: &str, #[case] rule: &str) {
    let sets: Vec<SidecarSet> = accounts.iter().map(|account| set("s", account)).collect();
    let explanation = explained(&pod("default"), &sets, &CLUSTER, &RULES);
    let Decision::Refused(findings) = &explanation.sets[0].decision else { panic!("{explanation:?}") };
    assert_eq!((findings[0].kind.name(), findings[0].kind.rule()), (kind, rule));
}

#[test]
fn e4_a_container_that_reaches_for_a_token_has_a_kind() {
    let mut thief = pod("default");
    let volume = json!({"name": "x", "secret": {"secretName": "sidecarset-token-0123456789abcdef"}});
    thief["spec"]["volumes"].as_array_mut().unwrap().push(volume);
    let mount = json!({"name": "x", "mountPath": "/x"});
    thief["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap().push(mount);
    let explanation = explained(&thief, &[set("s", "")], &CLUSTER, &RULES);
    assert_eq!(explanation.pod[0].kind, Kind::Token, "{explanation:?}");
}

#[test]
fn sap9_a_mirror_pod_is_told_to_be_one() {
    let mut mirror = pod("default");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let explanation = explained(&mirror, &[set("s", "a")], &CLUSTER, &RULES);
    assert_eq!(explanation.pod[0].kind, Kind::MirrorPod);
    assert_eq!(explanation.identity, None);
    assert!(matches!(explanation.sets[0].decision, Decision::NotInjected(_)), "{explanation:?}");
}

#[test]
fn tok10_a_policy_that_asserts_is_not_said_to_inject() {
    let sets = [set("s", "a")];
    let settings = Settings { role: Role::Assert, ..settings(&RULES) };
    let context = context(&settings, &sets, &CLUSTER);
    let (bare, request) = (pod("default"), PodRequest { uid: "u", namespace: "shop", object: &Value::Null });
    let explanation = explain(PodRequest { object: &bare, ..request }, context);
    let Decision::NotInjected(findings) = &explanation.sets[0].decision else { panic!("{explanation:?}") };
    assert_eq!(findings[0].kind, Kind::Asserting);
    assert_eq!((&explanation.identity, &explanation.sets[0].identity), (&None, &None));

    let injecting = Settings { role: Role::Inject, ..settings.clone() };
    let inject = Context { settings: &injecting, ..context };
    let Verdict::Mutated(injected) = admission::admit(PodRequest { object: &bare, ..request }, inject).verdict else {
        panic!()
    };
    let explanation = explain(PodRequest { object: &injected, ..request }, context);
    assert!(matches!(explanation.sets[0].decision, Decision::Injected(_)), "{explanation:?}");
    assert_eq!(explanation.identity.and_then(|identity| identity.account).as_deref(), Some("a"));
}

fn rules() -> impl Strategy<Value = Rules> {
    let otherwise = || one_of(vec![Otherwise::Deny, Otherwise::Skip]);
    let app = one_of(vec![OnAppAccount::Keep, OnAppAccount::Deny, OnAppAccount::Isolate]);
    (otherwise(), otherwise(), app).prop_map(|(on_missing, on_conflict, on_app_account)| Rules {
        on_missing,
        on_conflict,
        on_app_account,
        allow_pod_mode: true,
        allowed_audiences: vec!["vault".parse().unwrap()],
        ..Rules::default()
    })
}

fn sets() -> impl Strategy<Value = Vec<SidecarSet>> {
    let account = one_of(vec!["a", "a", "b", "gone", "broken"]);
    let mode = one_of(vec!["", "", "Isolate", "Pod"]);
    let behaviour = one_of(vec!["", "Merge", "Merge"]);
    let audience = one_of(vec!["", "", "vault", "cloud"]);
    let wish = option::weighted(0.8, (account, mode, behaviour, audience));
    vec(wish, 0..4).prop_map(|wishes| {
        let named = |(name, wish): (&&str, Option<(&str, &str, &str, &str)>)| {
            let (account, mode, behaviour, audience) = wish.unwrap_or_default();
            with_token(set(name, &format!("{account} {mode} {behaviour}")), audience)
        };
        ["s", "t", "u"].iter().zip(wishes).map(named).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_said_of_identities_is_what_admission_does(
        sets in sets(), rules in rules(), account in one_of(vec!["default", "default", "a", "own"]),
        automount in option::of(any::<bool>()), is_ready in any::<bool>()
    ) {
        let mut pod = pod(account);
        if let Some(automount) = automount {
            pod["spec"]["automountServiceAccountToken"] = json!(automount);
        }
        let request = PodRequest { uid: "u", namespace: "shop", object: &pod };
        let mut cluster = Cluster::default();
        let settings = settings(&rules);
        if is_ready && let Some(Merging { sets, .. }) = merging(request, context(&settings, &sets, &cluster)) {
            cluster.merged = merged::objects(&sets.iter().collect::<Vec<_>>(), "shop").to_vec();
        }
        let explanation = explain(request, context(&settings, &sets, &cluster));
        let outcome = admission::admit(request, context(&settings, &sets, &cluster));
        prop_assert_eq!(&explanation.outcome, &outcome);

        let (mut given, mut left_out) = (Vec::new(), Vec::new());
        for set in &explanation.sets {
            match set.identity.as_ref().map(|identity| &identity.result) {
                Some(Given::Token(account, _)) => given.push(format!("{}/{account}", set.name)),
                Some(Given::Skipped(_) | Given::Kept(_)) => left_out.push(set.name.clone()),
                Some(Given::Withheld) => prop_assert!(matches!(outcome.verdict, Verdict::Refused(_))),
                Some(Given::Automounted) | None => {}
                Some(Given::GateOff) => prop_assert!(false, "the gate is on"),
            }
        }
        let recorded = |key: &str| {
            let text = outcome.audit.get(key).cloned().unwrap_or_default();
            let mut items: Vec<String> = text.split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect();
            items.sort();
            items
        };
        prop_assert_eq!(given, recorded(audit::INJECTED_SERVICE_ACCOUNTS));
        prop_assert_eq!(left_out, recorded(audit::SKIPPED_SERVICE_ACCOUNTS));

        let after = match &outcome.verdict {
            Verdict::Refused(_) => None,
            Verdict::Unchanged => Some(&pod),
            Verdict::Mutated(after) => Some(after),
        };
        let has_volume = |name: &str| {
            after.is_some_and(|pod| json::items(pod, &["spec", "volumes"]).iter().any(|volume| volume["name"] == name))
        };
        for set in &explanation.sets {
            let Some(Identity { account, result, logins, .. }) = &set.identity else { continue };
            if let Given::Token(_, source) = result {
                prop_assert!(has_volume(&source.volume), "{:?}", set);
            }
            let own = names::credential(account, Some(&set.name));
            let has_own = [own.clone(), format!("{own}\n")].iter().any(|id| has_volume(&names::token_volume(id)));
            for login in logins {
                prop_assert_eq!(login.not_given.is_none(), has_own, "{:?}", login);
                prop_assert!(login.audience == "vault" || login.not_given.is_some(), "{:?}", login);
            }
        }
        if let Some(identity) = &explanation.identity {
            let runs_as = after.map(|pod| json::text(pod, &["spec", "serviceAccountName"]));
            prop_assert_eq!(identity.account.as_deref(), runs_as);
            let is_merged = runs_as.is_some_and(names::is_merged);
            prop_assert_eq!(identity.merged.as_ref().is_some_and(|merged| merged.not_ready.is_none()), is_merged);
        }
    }
}
