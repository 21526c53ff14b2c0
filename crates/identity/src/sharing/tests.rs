#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// Returns a set that mounts the volume `v`, which has this definition, or none with null.
fn set(name: &str, volume: Value) -> SidecarSet {
    let volumes = volume.as_object().map(|source| {
        let mut volume = source.clone();
        volume.insert("name".to_owned(), json!("v"));
        volume
    });
    SidecarSet::from_decoded(json!({
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": name, "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": name}]}],
            "volumes": volumes.into_iter().collect::<Vec<_>>(),
        },
    }))
}

fn with_account() -> Declared {
    Declared { service_account: Some("agent".to_owned()), ..Declared::default() }
}

fn naming(declared: Declared, partner: &str) -> Declared {
    Declared { partners: vec![partner.to_owned()], ..declared }
}

fn empty() -> Value {
    json!({"emptyDir": {}})
}

/// Returns the errors of the set `b` beside the set `a`, which has an account. Each pair is a set's volume and its
/// fields.
fn errors((a, of_a): (Value, Declared), (b, of_b): (Value, Declared), origin: Origin) -> Vec<String> {
    let (a, b) = (set("a", a), set("b", b));
    let (used_a, used_b) = ([Used::from_sidecar_set(&a)], [Used::from_sidecar_set(&b)]);
    let compared = |set, declared, used| Compared::new(set, declared, origin, used);
    let mut errors = Vec::new();
    compared(&b, &of_b, &used_b).check(&compared(&a, &of_a, &used_a), &mut errors);
    let mut back = Vec::new();
    compared(&a, &of_a, &used_a).check(&compared(&b, &of_b, &used_b), &mut back);
    assert_eq!(errors.len(), back.len(), "both sides see the same");
    errors.iter().map(ToString::to_string).collect()
}

#[rstest]
#[case::the_same_folder(empty(), empty(), false)]
#[case::a_folder_that_the_other_only_mounts(empty(), json!(null), false)]
#[case::a_folder_of_the_other(json!(null), empty(), false)]
#[case::a_configuration_of_the_other(json!(null), json!({"configMap": {"name": "c"}}), false)]
#[case::another_configuration(json!({"configMap": {"name": "c"}}), json!({"configMap": {"name": "d"}}), false)]
#[case::a_folder_in_place_of_a_configuration(json!({"configMap": {"name": "c"}}), empty(), false)]
#[case::a_claim(json!({"persistentVolumeClaim": {"claimName": "c"}}), json!({"persistentVolumeClaim": {"claimName": "c"}}), false)]
#[case::a_folder_by_default(json!({}), json!({}), false)]
#[case::the_same_configuration(json!({"configMap": {"name": "c"}}), json!({"configMap": {"name": "c"}}), true)]
#[case::a_configuration_that_the_other_only_mounts(json!({"configMap": {"name": "c"}}), json!(null), true)]
#[case::a_volume_of_the_pod(json!(null), json!(null), true)]
fn idc11_a_volume_of_an_owner_is_its_own(#[case] owners: Value, #[case] others: Value, #[case] is_fine: bool) {
    let found = errors((owners, with_account()), (others, Declared::default()), Origin::Cluster);
    assert_eq!(found.is_empty(), is_fine, "{found:?}");
    for error in found {
        assert!(error.contains("SidecarSet \"a\" uses the volume \"v\""), "{error}");
        assert!(error.contains("\"b\" and \"a\" name each other in spec.serviceAccountPartners"), "{error}");
    }
}

#[rstest]
#[case::nobody(with_account(), Declared::default(), Origin::Cluster, false)]
#[case::the_owner_alone(naming(with_account(), "b"), Declared::default(), Origin::Cluster, false)]
#[case::the_other_alone(with_account(), naming(Declared::default(), "a"), Origin::Cluster, false)]
#[case::each_other(naming(with_account(), "b"), naming(Declared::default(), "a"), Origin::Cluster, true)]
#[case::two_owners_of_one_account(with_account(), with_account(), Origin::Cluster, false)]
#[case::two_owners_that_name_each_other(
    naming(with_account(), "b"),
    naming(with_account(), "a"),
    Origin::Cluster,
    true
)]
#[case::of_the_settings(with_account(), Declared::default(), Origin::Settings, true)]
#[case::without_accounts(Declared::default(), Declared::default(), Origin::Cluster, true)]
fn idc11_partners_share(#[case] a: Declared, #[case] b: Declared, #[case] origin: Origin, #[case] is_fine: bool) {
    assert_eq!(errors((empty(), a), (empty(), b), origin).is_empty(), is_fine);
}

#[test]
fn idc11_a_canary_never_meets_its_base() {
    let base = set("a", empty());
    let mut canary = set("b", empty()).into_value();
    canary["metadata"]["annotations"] =
        json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "a"});
    let canary = SidecarSet::from_decoded(canary);
    let declared = with_account();
    let (used, of_base) = ([Used::from_sidecar_set(&canary)], [Used::from_sidecar_set(&base)]);
    let compared = |set, used| Compared::new(set, &declared, Origin::Cluster, used);
    let mut errors = Vec::new();
    compared(&canary, &used).check(&compared(&base, &of_base), &mut errors);
    assert_eq!(errors, []);
}

#[test]
fn idc11_a_stored_version_counts() {
    let stored = json!({
        "metadata": {"name": "b-1"},
        "data": {"spec": {
            "initContainers": [{"name": "b", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        }},
    });
    let stored = pillion_sidecarset::controller_revision::ControllerRevision::from_decoded(stored);
    let present = SidecarSet::from_decoded(json!({
        "metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "b"}]},
    }));
    let other = present.clone().with_revision(&stored);
    let owner = set("a", empty());
    let (account, none) = (with_account(), Declared::default());
    let used_of_owner = [Used::from_sidecar_set(&owner)];
    for (other, count) in [(&present, 0), (&other, 1)] {
        let versions = Versions::bundled(other);
        let used = versions.used();
        let other = Compared::new(other, &none, Origin::Cluster, &used);
        let owner = Compared::new(&owner, &account, Origin::Cluster, &used_of_owner);
        let mut errors = Vec::new();
        other.check(&owner, &mut errors);
        assert_eq!(errors.len(), count, "{errors:?}");
    }
}

fn shown(reasons: &[Reason]) -> Vec<String> {
    reasons.iter().map(|reason| format!("{} {reason}", reason.code.as_u16())).collect()
}

#[test]
fn idc11_in_a_pod_the_set_without_an_identity_is_blamed() {
    let sets = [set("a", empty()), set("b", empty()), set("c", empty())];
    let used: Vec<Used<'_>> = sets.iter().map(Used::from_sidecar_set).collect();
    let declared = [naming(with_account(), "c"), Declared::default(), naming(Declared::default(), "a")];
    let party = |index: usize| Party {
        side: Side { name: sets[index].name(), declared: &declared[index], origin: Origin::Cluster },
        used: &used[index],
        is_owner: index == 0,
    };
    assert_eq!(
        shown(&in_pod(&[party(0), party(1), party(2)])),
        [
            "403 SidecarSet \"b\": spec.volumes[0]: SidecarSet \"a\" uses the volume \"v\" in the same Pods, and what is in a \
          volume of \"a\" decides what runs under its ServiceAccount; rename the volume, or let \"b\" and \"a\" name each \
          other in spec.serviceAccountPartners"
        ]
    );
    assert_eq!(in_pod(&[party(1), party(2)]), []);
}

#[test]
fn e18_a_hundred_pairs_are_told() {
    let sets: Vec<SidecarSet> = (0..300).map(|index| set(&format!("s{index}"), empty())).collect();
    let used: Vec<Used<'_>> = sets.iter().map(Used::from_sidecar_set).collect();
    let declared = with_account();
    let parties: Vec<Party<'_>> = sets
        .iter()
        .zip(&used)
        .map(|(set, used)| Party {
            side: Side { name: set.name(), declared: &declared, origin: Origin::Cluster },
            used,
            is_owner: true,
        })
        .collect();
    assert_eq!(in_pod(&parties).len(), PAIRS_MAX);
}
