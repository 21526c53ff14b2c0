//! Guards containers that hold an identity against other images, while their Pod runs (AFT-7).

use std::collections::BTreeMap;

use pillion_kubernetes::authorizer::Author;
use pillion_kubernetes::field::ERRORS_MAX;
use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::pod;
use serde_json::Value;

use super::Objections;
use crate::rules::Rules;
use crate::tokens::held::{running_containers, shown};
use crate::tokens::identity::identities;

/// Judges an UPDATE of a Pod. Whoever changes an image decides what runs under the identity of its container.
///
/// The holders are those of the stored Pod and of the new one. The API server lets no volume and no mount change, so
/// they are the same. A container that is gone counts as changed.
pub fn judge(object: &Value, old_object: &Value, author: &Author, rules: &Rules) -> Objections {
    let guards = &rules.guards;
    if !guards.images || guards.image_users.contains(&author.user) || guards.breaks_glass(author) {
        return Objections::default();
    }
    let (old, new) = (images(old_object), images(object));
    if old == new {
        return Objections::default();
    }
    let (was, is) = [old_object, object].map(|pod| identities(pod, &rules.trusted_csi_drivers)).into();
    let changed = |name: &&str| old.get(name) != new.get(name);
    let mut holders: Vec<&str> = was.keys().chain(is.keys()).copied().filter(|name| changed(name)).collect();
    holders.sort_unstable();
    holders.dedup();
    let reasons = holders.into_iter().take(ERRORS_MAX).map(|name| {
        Reason::forbidden(
            "spec",
            format!(
                "container {} holds the identity of a sidecar, and {} may not change its image",
                shown(name),
                shown(&author.user)
            ),
            "change the image in the SidecarSet, or be among serviceAccounts.guards.imageUsers",
        )
    });
    Objections { reasons: reasons.collect(), warnings: Vec::new() }
}

/// Returns the image of each container. The API server compares them as texts, too: a tag and its digest differ.
fn images(pod: &Value) -> BTreeMap<&str, &str> {
    running_containers(pod).map(|container| (pod::name(container), json::text(container, &["image"]))).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::running::Guards;

    const VOLUME: &str = "sidecarset-sa-b077d031c6eaa197";

    fn rules() -> Rules {
        let guards = Guards { images: true, break_glass_groups: vec!["oncall".to_owned()], ..Guards::default() };
        Rules { guards, ..Rules::default() }
    }

    fn author(user: &str) -> Author {
        Author { user: user.to_owned(), groups: vec!["dev".to_owned()] }
    }

    fn holder(name: &str, image: &str) -> Value {
        json!({"name": name, "image": image, "volumeMounts": [{"name": VOLUME, "mountPath": "/t"}]})
    }

    /// A running Pod with a holder in each list, a hot-upgrade pair among them.
    fn pod() -> Value {
        json!({
            "metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": {
                "serviceAccountName": "web",
                "initContainers": [holder("setup", "setup:1"), {"name": "init", "image": "init:1"}],
                "containers": [
                    {"name": "app", "image": "app:1"}, holder("agent", "agent:1"), holder("hot-1", "hot:1"),
                    holder("hot-2", "empty:1"),
                ],
                "ephemeralContainers": [holder("debugger", "debug:1")],
                "volumes": [{"name": VOLUME, "projected": {"sources": [{"secret": {"name": "sidecarset-token-b077d031c6eaa197"}}]}}],
            },
        })
    }

    fn judged(edit: impl FnOnce(&mut Value), user: &Author, rules: &Rules) -> Vec<String> {
        let old = pod();
        let mut new = old.clone();
        edit(&mut new);
        let findings = judge(&new, &old, user, rules);
        assert_eq!(findings.warnings, [""; 0]);
        findings.reasons.iter().map(|reason| format!("{} {reason}", reason.code.as_u16())).collect()
    }

    fn put(pointer: &'static str, value: Value) -> impl Fn(&mut Value) {
        move |pod| *pod.pointer_mut(pointer).unwrap() = value.clone()
    }

    #[rstest]
    #[case::a_tag("/spec/containers/1/image", json!("agent:2"), "agent")]
    #[case::the_digest_of_a_tag("/spec/containers/1/image", json!("agent:1@sha256:0000000000000000000000000000000000000000000000000000000000000000"), "agent")]
    #[case::another_registry("/spec/containers/1/image", json!("evil.example/agent:1"), "agent")]
    #[case::the_same_in_other_letters("/spec/containers/1/image", json!("Agent:1"), "agent")]
    #[case::with_a_space("/spec/containers/1/image", json!(" agent:1"), "agent")]
    #[case::no_image("/spec/containers/1/image", Value::Null, "agent")]
    #[case::an_image_that_is_no_text("/spec/containers/1/image", json!(["agent:1"]), "agent")]
    #[case::an_init_container("/spec/initContainers/0/image", json!("setup:2"), "setup")]
    #[case::an_ephemeral_container("/spec/ephemeralContainers/0/image", json!("debug:2"), "debugger")]
    #[case::the_working_one_of_a_pair("/spec/containers/2/image", json!("hot:2"), "hot-1")]
    #[case::the_empty_one_of_a_pair("/spec/containers/3/image", json!("hot:1"), "hot-2")]
    // The API server refuses these; so does the guard, should it not.
    #[case::another_name("/spec/containers/1/name", json!("agent-x"), "agent")]
    fn aft7_nobody_else_changes_the_image_of_a_holder(
        #[case] pointer: &'static str,
        #[case] value: Value,
        #[case] container: &str,
    ) {
        let refused = judged(put(pointer, value.clone()), &author("ann"), &rules());
        let expected = format!(
            "403 spec: container \"{container}\" holds the identity of a sidecar, and \"ann\" may not change its image; change \
             the image in the SidecarSet, or be among serviceAccounts.guards.imageUsers"
        );
        assert!(refused.contains(&expected), "{refused:?}");
        assert_eq!(judged(put(pointer, value), &author("ann"), &Rules::default()), [""; 0], "the guard is off");
    }

    #[rstest]
    #[case::nothing("/metadata/labels/app", json!("web"))]
    #[case::a_label("/metadata/labels/app", json!("other"))]
    #[case::the_image_of_the_app("/spec/containers/0/image", json!("app:2"))]
    #[case::that_of_another_init_container("/spec/initContainers/1/image", json!("init:2"))]
    fn aft7_the_rest_of_a_pod_may_change(#[case] pointer: &'static str, #[case] value: Value) {
        assert_eq!(judged(put(pointer, value), &author("ann"), &rules()), [""; 0]);
    }

    #[test]
    fn aft7_the_order_of_containers_does_not_matter() {
        let reversed = |pod: &mut Value| pod["spec"]["containers"].as_array_mut().unwrap().reverse();
        assert_eq!(judged(reversed, &author("ann"), &rules()), [""; 0]);
    }

    #[test]
    fn aft7_two_holders_do_not_swap_their_images() {
        let swapped = |pod: &mut Value| {
            pod["spec"]["containers"][2]["image"] = json!("empty:1");
            pod["spec"]["containers"][3]["image"] = json!("hot:1");
        };
        assert_eq!(judged(swapped, &author("ann"), &rules()).len(), 2);
    }

    #[rstest]
    #[case::a_holder_that_is_gone(|pod: &mut Value| { pod["spec"]["containers"].as_array_mut().unwrap().remove(1); })]
    #[case::a_holder_that_moves(|pod: &mut Value| {
        let moved = pod["spec"]["containers"].as_array_mut().unwrap().remove(1);
        pod["spec"]["initContainers"].as_array_mut().unwrap().push(moved);
        pod["spec"]["initContainers"][2]["image"] = json!("agent:2");
    })]
    #[case::a_new_holder(|pod: &mut Value| pod["spec"]["containers"].as_array_mut().unwrap().push(holder("late", "late:1")))]
    #[case::an_ephemeral_one(|pod: &mut Value| {
        pod["spec"]["ephemeralContainers"].as_array_mut().unwrap().push(holder("late", "late:1"));
    })]
    #[case::a_mount_that_goes_with_the_image(|pod: &mut Value| {
        pod["spec"]["containers"][1] = json!({"name": "agent", "image": "agent:2"});
    })]
    #[case::a_mount_that_comes_with_the_image(|pod: &mut Value| pod["spec"]["containers"][0] = holder("app", "app:2"))]
    fn aft7_holders_of_either_version_count(#[case] edit: fn(&mut Value)) {
        assert_eq!(judged(edit, &author("ann"), &rules()).len(), 1);
    }

    #[rstest]
    #[case::the_rollout_controller("system:serviceaccount:pillion-system:pillion-controller-rollout", true)]
    #[case::openkruises_manager("system:serviceaccount:kruise-system:kruise-manager", true)]
    #[case::the_other_controller("system:serviceaccount:pillion-system:pillion-controller", false)]
    #[case::a_manager_of_another_namespace("system:serviceaccount:shop:kruise-manager", false)]
    #[case::a_node("system:node:n1", false)]
    fn aft7_only_listed_users_change_images(#[case] user: &str, #[case] passes: bool) {
        let change = put("/spec/containers/1/image", json!("agent:2"));
        assert_eq!(judged(&change, &author(user), &rules()).is_empty(), passes);
        let mut listed = rules();
        listed.guards.image_users = vec![user.to_owned()];
        assert_eq!(judged(&change, &author(user), &listed), [""; 0]);
        listed.guards.image_users.clear();
        assert_eq!(judged(&change, &author(user), &listed).len(), 1, "the list replaces the default");
    }

    #[test]
    fn aft8_an_emergency_is_let_through() {
        let change = put("/spec/containers/1/image", json!("agent:2"));
        let oncall = Author { groups: vec!["oncall".to_owned()], ..author("ann") };
        assert_eq!(judged(&change, &oncall, &rules()), [""; 0]);
        assert_eq!(judged(&change, &author("oncall"), &rules()).len(), 1);
    }

    /// In mode `Pod`, and under a merged account, the app has the identity, too.
    #[test]
    fn aft7_the_app_holds_what_the_pod_gives_it() {
        let mut old = pod();
        old["spec"]["volumes"] = json!([{"name": "kube-api-access-x", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]);
        old["spec"]["containers"] = json!([{"name": "app", "image": "app:1", "volumeMounts": [{"name": "kube-api-access-x", "mountPath": "/t"}]}]);
        let judged = |old: &Value| {
            let mut new = old.clone();
            new["spec"]["containers"][0]["image"] = json!("app:2");
            judge(&new, old, &author("ann"), &rules()).reasons.len()
        };
        assert_eq!(judged(&old), 0, "the Pod's account is its own");
        old["spec"]["serviceAccountName"] = json!("sidecarset-merged-7e18f737311b2dc3");
        assert_eq!(judged(&old), 1);
    }

    #[rstest]
    #[case::null(Value::Null, Value::Null)]
    #[case::lists(json!([]), json!([]))]
    #[case::odd(json!({"spec": {"containers": "x"}}), json!({"spec": {"containers": [null, 1, {"name": []}]}}))]
    fn aft7_any_object_is_judged(#[case] old: Value, #[case] new: Value) {
        assert_eq!(judge(&new, &old, &author("ann"), &rules()), Objections::default());
    }
}
