//! SidecarSets of the bundle that do not trust each other, or those of the settings (TRUST-2, TRUST-4).

use super::*;

#[test]
fn trust4_a_canary_of_the_cluster_does_not_replace_a_set_of_the_settings() {
    let canary = edited(
        set("canary", "canary:1"),
        "/metadata/annotations",
        json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "base"}),
    );
    // It was there when its base was one of the cluster.
    let mut world = World::new([set("base", "base:1"), canary]);
    world.settle();
    assert_eq!(world.images(), ["base:1", "canary:1"]);
    world.take("base");
    world.settings.sidecar_sets = vec![of_settings(set("base", "own"))];
    let plan = world.settle();
    let (place, why, message) = said(&plan, "canary");
    assert_eq!((place, why), (BundlePlace::Out, Why::InSettings));
    assert!(message.contains("its base \"base\" is a SidecarSet of the policy's settings"), "{message}");
    assert_eq!(world.images(), [""; 0]);
}

#[test]
fn trust2_a_set_that_no_longer_merges_stays_and_says_so() {
    let merging = |name: &str, account: &str| {
        let set = edited(set(name, name), "/spec/serviceAccountName", json!(account));
        edited(set, "/spec/behaviorWhenServiceAccountInjection", json!("Merge"))
    };
    let mut world = World::new([merging("a", "x"), merging("b", "y"), merging("c", "x")]);
    world.settings.gates.service_account_injection = true;
    // An earlier version took them all.
    world.settings.service_accounts.merge_cluster_sets = true;
    assert_eq!(said(&world.settle(), "a").2, "Pods are injected with this version");
    world.settings.service_accounts.merge_cluster_sets = false;
    let plan = world.settle();
    assert_eq!(world.images(), ["a", "b", "c"]);
    assert_eq!(
        said(&plan, "a").2,
        "Pods are injected with this version; Pods that SidecarSet \"b\" matches, too, are refused: the two do not trust each \
         other with a merged ServiceAccount; add \"a\" to spec.serviceAccountPartners of SidecarSet \"b\" and \"b\" to \
         spec.serviceAccountPartners of SidecarSet \"a\""
    );
    // A new version is judged.
    world.put(edited(merging("b", "y"), "/spec/containers/0/image", json!("b:2")));
    let plan = world.settle();
    let (place, why, message) = said(&plan, "b");
    assert_eq!((place, why), (BundlePlace::Kept, Why::Invalid));
    assert!(message.contains("do not trust each other with a merged one"), "{message}");
    assert_eq!(world.images(), ["a", "b", "c"]);
}
