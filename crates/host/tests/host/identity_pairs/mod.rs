//! The accounts as which each container can authenticate after admission, by the rules of the API server and the
//! kubelet, through the built module (SAP-8, IDP-7).

mod admission;
mod audiences;
mod bystanders;
mod table_a1;
mod twin;

use std::collections::BTreeSet;

use admission::{Admission, evaluate};
use pillion_identity::names;
use pillion_testkit::identity::{self, Expected, Pair, Scenario, pairs_with, scenario};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::Value;

/// Modes in which the app must not gain an identity.
const OURS: [&str; 3] = ["SidecarsOnly", "SidecarsOnly", "Isolate"];
const ALL: [&str; 3] = ["SidecarsOnly", "Isolate", "Pod"];

/// Returns the containers that must hold an account, each with the account.
fn owners(scenario: &Scenario, admission: &Admission) -> Vec<(String, String)> {
    let Expected::Admitted { identities, .. } = &admission.expected else { panic!("{:?}", admission.expected) };
    let sets = scenario.sets.iter().filter_map(|set| Some((set, identities.get(set.name)?)));
    sets.flat_map(|(set, account)| set.containers().into_iter().map(move |container| (container, account.clone())))
        .collect()
}

/// Returns the expected pairs of a Pod: the owners' accounts, and `others` for the other containers.
fn expected(owners: &[(String, String)], mut others: BTreeSet<Pair>) -> BTreeSet<Pair> {
    others.retain(|pair| owners.iter().all(|(container, _)| *container != pair.container));
    others.extend(owners.iter().map(|(container, account)| Pair::new(container, account)));
    others
}

/// Returns the pairs of a Pod. Further tokens of an owner's own account are not counted, whatever their audience.
fn held(stored: &Value, owners: &[(String, String)], scenario: &Scenario) -> BTreeSet<Pair> {
    let mut held = BTreeSet::new();
    for pair in pairs_with(stored, &scenario.accounts, &scenario.secrets()) {
        let is_owner = owners.iter().any(|(container, _)| *container == pair.container);
        held.insert(if is_owner { Pair::new(&pair.container, &pair.account) } else { pair });
    }
    held
}

/// Returns the pairs that the containers besides the owners must hold. These are their earlier pairs, with two
/// exceptions: the automounted `default` if the account was swapped only for the sidecars, and the automounted merged
/// account if the Pod named it (E6). In mode `Pod`, they get the pairs that a bare swap would give them.
fn others(scenario: &Scenario, admission: &Admission) -> BTreeSet<Pair> {
    let Expected::Admitted { runs_as, hides, .. } = &admission.expected else { panic!("{:?}", admission.expected) };
    let mut injected = admission.injected.clone();
    if let Some(account) = runs_as.as_ref().filter(|_| !hides) {
        injected["spec"]["serviceAccountName"] = account.as_str().into();
    }
    let stored = identity::admit(&injected, &scenario.accounts).unwrap();
    let mut held = pairs_with(&stored, &scenario.accounts, &scenario.secrets());
    if *hides {
        let is_hidden = |account: &str| account == "default" || names::is_merged(account);
        held.retain(|pair| !is_hidden(&pair.account) || !pair.audience.is_empty());
    }
    held
}

/// Checks all properties of a scenario.
fn check(scenario: &Scenario) -> Result<(), TestCaseError> {
    // The API server refuses a Pod with a missing account before any webhook.
    let Ok(admission) = Admission::admit(scenario) else { return Ok(()) };
    let answer = &admission.answer;
    let (runs_as, skips) = match &admission.expected {
        Expected::Refused(code) => {
            prop_assert!(!answer.accepted, "should be refused with {code}");
            prop_assert_eq!(answer.code, Some(*code), "{:?}", answer.message);
            return Ok(());
        }
        Expected::Admitted { runs_as, skips, .. } => (runs_as, *skips),
    };
    prop_assert!(answer.accepted, "{:?}", answer.message);
    let accounts = &scenario.accounts;
    let patched = admission.patched();
    let stored = identity::admit(&patched, accounts).unwrap();
    prop_assert_eq!(identity::invalid(&stored), identity::invalid(&admission.seen));

    // The pairs.
    let owners = owners(scenario, &admission);
    let wanted = expected(&owners, others(scenario, &admission));
    prop_assert_eq!(held(&stored, &owners, scenario), wanted, "{}", stored);
    audiences::check(&stored, &admission, scenario)?;

    // The rest of the Pod.
    let rest = bystanders::without_additions(&patched, &admission.seen, scenario);
    let wanted = bystanders::wanted(&admission);
    prop_assert_eq!(rest, wanted);
    let annotations = &patched["metadata"]["annotations"];
    prop_assert_eq!(annotations.get("pillion.dev/service-account-injected").is_some(), runs_as.is_some());
    prop_assert_eq!(annotations.get("pillion.dev/service-account-skipped").is_some(), skips);

    // A second admission with another uid.
    let again = evaluate(&stored, "22222222-0000-4000-8000-000000000002", &scenario.settings(), scenario);
    prop_assert!(again.accepted, "again: {:?}", again.message);
    let changes = json_patch::diff(&stored, again.mutated_object.as_ref().unwrap_or(&stored));
    prop_assert!(changes.0.is_empty(), "again: {changes}");

    // The twin.
    let judged = evaluate(&stored, "u", &scenario.settings_of_twin(), scenario);
    prop_assert!(judged.accepted && judged.mutated_object.is_none(), "twin: {:?}\n{}", judged.message, stored);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 400, ..ProptestConfig::default() })]

    /// Owners hold their account, and no other container gains anything.
    #[test]
    fn owners_hold_their_account_and_nobody_else_gains_anything(scenario in scenario(&OURS)) {
        check(&scenario)?;
    }

    /// With mode `Pod` among the modes, the app gains exactly the intended account.
    #[test]
    fn e3_in_mode_pod_the_app_gains_the_account_of_the_pod_alone(scenario in scenario(&ALL)) {
        check(&scenario)?;
    }
}

/// A policy that refuses everything would have the properties, too. Therefore most scenarios must be admitted, and
/// every way to an identity must occur.
#[test]
fn the_properties_are_about_something() {
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeMap::<&str, usize>::new();
    for _ in 0..1200 {
        let scenario = scenario(&ALL).new_tree(&mut runner).unwrap().current();
        let Ok(admission) = Admission::admit(&scenario) else { continue };
        let mut count = |what| *seen.entry(what).or_default() += 1;
        match &admission.expected {
            Expected::Refused(503) => count("to be tried again"),
            Expected::Refused(_) => count("refused"),
            Expected::Admitted { runs_as, hides, identities, skips } => {
                let merged = runs_as.as_deref().is_some_and(|name| name.starts_with("sidecarset-merged-"));
                let has_tokens = |name: &&str| {
                    let set = scenario.sets.iter().find(|set| set.name == *name).unwrap();
                    set.mode != "Isolate" && !set.tokens.is_empty()
                };
                let distinct: BTreeSet<&String> = identities.values().collect();
                for (what, is_so) in [
                    ("admitted", true),
                    ("swapped for the sidecars", *hides),
                    ("swapped for everybody", runs_as.is_some() && !hides),
                    ("merged", merged),
                    ("left alone", runs_as.is_none()),
                    ("two identities", distinct.len() > 1),
                    ("no identity", identities.is_empty()),
                    ("skipped", *skips),
                    ("tokens for other audiences", !audiences::given(&admission, &scenario).is_empty()),
                    ("tokens that a merged account does not get", merged && identities.keys().any(has_tokens)),
                ] {
                    if is_so {
                        count(what);
                    }
                }
            }
        }
    }
    let rare: Vec<_> = [
        "to be tried again",
        "refused",
        "admitted",
        "swapped for the sidecars",
        "swapped for everybody",
        "merged",
        "left alone",
        "two identities",
        "no identity",
        "skipped",
        "tokens for other audiences",
        "tokens that a merged account does not get",
    ]
    .into_iter()
    .filter(|what| seen.get(what).copied().unwrap_or_default() < 8)
    .collect();
    assert!(rare.is_empty() && seen["admitted"] > 100, "{rare:?} of {seen:?}");
}
