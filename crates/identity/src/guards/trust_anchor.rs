//! Guards what sidecars trust: the authority of the API server in the ConfigMap `kube-root-ca.crt`, and the name
//! `kubernetes` of its Service (E25).

use pillion_kubernetes::json;
use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::operation::Operation;
use pillion_kubernetes::outcome::Reason;
use serde_json::Value;

use super::{Change, Objections, goes_with_its_namespace, is_exempt, name};
use crate::names::ROOT_CA;
use crate::rules::Rules;

/// The name of the API server's Service. It is in the namespace [`HOME`] only.
pub const API_SERVER: &str = "kubernetes";
/// The namespace of the API server's Service.
pub const HOME: &str = "default";
/// The controller of kube-controller-manager that publishes the ConfigMap in each namespace.
pub const PUBLISHER: &str = "system:serviceaccount:kube-system:root-ca-cert-publisher";

/// Judges a CREATE, an UPDATE or a DELETE of a ConfigMap, or a CREATE or an UPDATE of a Service. Objects of other names
/// pass.
///
/// The name of a new object is `metadata.name`. `metadata.generateName` leads to neither name: a generated name ends in
/// five characters without vowels and dots.
pub fn judge(change: Change<'_>, rules: &Rules, lookup: &dyn Lookup) -> Objections {
    let stored = if change.operation == Operation::Create { change.object } else { change.old_object };
    let reason = match (change.kind, name(stored)) {
        ("ConfigMap", ROOT_CA) => authority(change, rules, lookup),
        ("Service", API_SERVER) => service(change),
        _ => None,
    };
    Objections { reasons: reason.into_iter().collect(), warnings: Vec::new() }
}

/// Returns why the user must not write or delete the ConfigMap.
fn authority(change: Change<'_>, rules: &Rules, lookup: &dyn Lookup) -> Option<Reason> {
    let user = &change.author.user;
    if is_exempt(change.author, rules) || user == PUBLISHER || rules.root_ca_publishers.contains(user) {
        return None;
    }
    let remedy = match change.operation {
        Operation::Update if keeps_contents(change.old_object, change.object) => return None,
        // No publisher makes it immutable, and the publisher cannot correct one that is: it has to go first.
        Operation::Delete if is_immutable(change.old_object) => return None,
        Operation::Update => "change only its labels and annotations",
        Operation::Delete => "leave it in place; its publisher corrects it",
        _ => "leave it to kube-controller-manager, which creates it in each namespace",
    };
    let problem = format!(
        "by the ConfigMap \"{ROOT_CA}\" the sidecars of namespace \"{}\" know the API server, and {user:?} is not its \
         publisher",
        change.namespace
    );
    let remedy = format!("{remedy}, or add the user to serviceAccounts.rootCaPublishers");
    let refused = Reason::forbidden("metadata.name", problem, &remedy);
    match change.operation {
        Operation::Delete => goes_with_its_namespace(change.namespace, lookup, refused),
        _ => Some(refused),
    }
}

/// Whether an update changes nothing but labels and annotations, or removes finalizers. A new finalizer would keep the
/// namespace from being deleted, and with a new owner the garbage collector would delete the ConfigMap.
fn keeps_contents(old: &Value, new: &Value) -> bool {
    let entries = |object, key| json::object(object, &[key]).filter(|entries| !entries.is_empty());
    let owners = |object| json::items(object, &["metadata", "ownerReferences"]);
    let finalizers = |object| json::texts(object, &["metadata", "finalizers"]).into_iter();
    // The rest of a list keeps its order. Sets of many finalizers would cost too much (E18).
    let mut stored = finalizers(old);
    let only_removes = finalizers(new).all(|kept| stored.any(|one| one == kept));
    ["data", "binaryData"].into_iter().all(|key| entries(old, key) == entries(new, key))
        && is_immutable(old) == is_immutable(new)
        && owners(old) == owners(new)
        && only_removes
}

fn is_immutable(config_map: &Value) -> bool {
    json::flag(config_map, &["immutable"])
}

/// Returns why a Service must not have the API server's name. The kubelet puts its address into the variables
/// `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT` of the namespace's Pods, and the cluster's DNS answers the
/// short name with it. An existing Service keeps its spec, and can be released and deleted.
fn service(change: Change<'_>) -> Option<Reason> {
    let spec = |object| json::at(object, &["spec"]);
    let remedy = match change.operation {
        _ if change.namespace == HOME => return None,
        Operation::Create => "choose another name",
        Operation::Update if spec(change.old_object) != spec(change.object) => "delete it, or leave its spec as it is",
        _ => return None,
    };
    let problem = format!(
        "in namespace \"{}\", a Service called \"{API_SERVER}\" takes the place of the API server: Pods send their \
         tokens to it",
        change.namespace
    );
    Some(Reason::forbidden("metadata.name", problem, remedy))
}

#[cfg(test)]
mod tests {
    use pillion_kubernetes::authorizer::Author;
    use pillion_samples::lookups::FakeObjects;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::testing::in_phase;

    const ANN: &str = "ann";

    fn authority() -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": ROOT_CA, "namespace": "web", "annotations": {"kubernetes.io/description": "d"}},
            "data": {"ca.crt": "true"},
        })
    }

    fn with(pointer: &str, value: Value) -> Value {
        let mut object = authority();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[key] = value;
        object
    }

    fn judged(
        kind: &str,
        (operation, object, old): (Operation, &Value, &Value),
        (namespace, user): (&str, &str),
        phase: &'static str,
    ) -> Vec<String> {
        let author = Author { user: user.to_owned(), groups: vec![PUBLISHER.to_owned()] };
        let change = Change { kind, operation, namespace, object, old_object: old, author: &author };
        let rules = Rules { root_ca_publishers: vec!["trust-manager".to_owned()], ..Rules::default() };
        let findings = judge(change, &rules, &if phase == "unasked" { FakeObjects::new() } else { in_phase(phase) });
        assert_eq!(findings.warnings, [""; 0]);
        findings.reasons.iter().map(|reason| format!("{} {reason}", reason.code.as_u16())).collect()
    }

    fn of_authority(operation: Operation, object: &Value, old: &Value, user: &str) -> Vec<String> {
        judged("ConfigMap", (operation, object, old), ("web", user), "Active")
    }

    #[rstest]
    #[case::its_publisher(PUBLISHER)]
    #[case::pillions_controller("system:serviceaccount:pillion-system:pillion-controller")]
    #[case::one_of_the_settings("trust-manager")]
    #[case::the_namespace_controller("system:serviceaccount:kube-system:namespace-controller")]
    #[case::the_garbage_collector("system:serviceaccount:kube-system:generic-garbage-collector")]
    #[case::one_user_for_all_controllers("system:kube-controller-manager")]
    fn e25_tok12_publishers_write_and_delete_the_authority(#[case] user: &str) {
        let forged = with("/data/ca.crt", json!("new"));
        for (operation, object, old) in [
            (Operation::Create, &authority(), &Value::Null),
            (Operation::Update, &forged, &authority()),
            (Operation::Delete, &Value::Null, &authority()),
        ] {
            let result = judged("ConfigMap", (operation, object, old), ("web", user), "unasked");
            assert_eq!(result, [""; 0], "{operation:?}");
        }
    }

    #[rstest]
    #[case::created(Operation::Create, "leave it to kube-controller-manager, which creates it in each namespace")]
    #[case::changed(Operation::Update, "change only its labels and annotations")]
    #[case::deleted(Operation::Delete, "leave it in place; its publisher corrects it")]
    fn e25_nobody_else_does(#[case] operation: Operation, #[case] remedy: &str) {
        let forged = with("/data/ca.crt", json!("forged"));
        let (object, old) = match operation {
            Operation::Create => (forged, Value::Null),
            Operation::Delete => (Value::Null, authority()),
            _ => (forged, authority()),
        };
        for user in [ANN, "", "system:serviceaccount:web:root-ca-cert-publisher", "root-ca-cert-publisher"] {
            assert_eq!(
                of_authority(operation, &object, &old, user),
                [format!(
                    "403 metadata.name: by the ConfigMap \"kube-root-ca.crt\" the sidecars of namespace \"web\" know the \
                     API server, and {user:?} is not its publisher; {remedy}, or add the user to \
                     serviceAccounts.rootCaPublishers"
                )]
            );
        }
    }

    #[rstest]
    #[case::another_certificate("/data/ca.crt", json!("forged"), false)]
    #[case::another_key("/data/more.crt", json!("forged"), false)]
    #[case::no_data("/data", json!(null), false)]
    #[case::bytes("/binaryData", json!({"ca.crt": "Zm9yZ2Vk"}), false)]
    #[case::frozen("/immutable", json!(true), false)]
    #[case::with_an_owner("/metadata/ownerReferences", json!([{"kind": "ConfigMap", "name": "mine", "uid": "1"}]), false)]
    #[case::that_never_goes("/metadata/finalizers", json!(["example.com/mine"]), false)]
    #[case::a_label("/metadata/labels", json!({"team": "web"}), true)]
    #[case::an_annotation("/metadata/annotations", json!({"argocd.argoproj.io/tracking-id": "web"}), true)]
    #[case::not_frozen("/immutable", json!(false), true)]
    #[case::no_bytes("/binaryData", json!({}), true)]
    #[case::no_owners("/metadata/ownerReferences", json!([]), true)]
    #[case::nothing("/metadata/resourceVersion", json!("2"), true)]
    fn e25_others_change_labels_and_annotations_alone(#[case] at: &str, #[case] value: Value, #[case] passes: bool) {
        let found = of_authority(Operation::Update, &with(at, value), &authority(), ANN);
        assert_eq!(found.is_empty(), passes, "{found:?}");
    }

    #[test]
    fn e25_finalizers_can_be_removed() {
        let held = with("/metadata/finalizers", json!(["example.com/mine", "example.com/other"]));
        for left in [json!(["example.com/other"]), json!(["example.com/mine"]), json!([]), json!(null)] {
            let released = with("/metadata/finalizers", left);
            assert_eq!(of_authority(Operation::Update, &released, &held, ANN), [""; 0]);
            assert_eq!(of_authority(Operation::Update, &held, &released, ANN).len(), 1);
        }
        let replaced = with("/metadata/finalizers", json!(["example.com/mine", "example.com/new"]));
        assert_eq!(of_authority(Operation::Update, &replaced, &held, ANN).len(), 1);
    }

    /// Somebody may have written an immutable ConfigMap before Pillion was installed. Its publisher cannot update it.
    #[test]
    fn e25_an_immutable_authority_can_be_deleted() {
        let frozen = with("/immutable", json!(true));
        let result = judged("ConfigMap", (Operation::Delete, &Value::Null, &frozen), ("web", ANN), "unasked");
        assert_eq!(result, [""; 0]);
        assert_eq!(of_authority(Operation::Update, &authority(), &frozen, ANN).len(), 1);
    }

    #[test]
    fn e25_set8_the_authority_goes_with_its_namespace() {
        let deleted = |phase| judged("ConfigMap", (Operation::Delete, &Value::Null, &authority()), ("web", ANN), phase);
        assert_eq!(deleted("Terminating"), [""; 0]);
        assert_eq!(
            deleted(""),
            ["503 metadata.namespace: Namespace \"web\" could not be read: no answer in time; try again"]
        );
        let forged = with("/data/ca.crt", json!("forged"));
        let changed = judged("ConfigMap", (Operation::Update, &forged, &authority()), ("web", ANN), "Terminating");
        assert_eq!(changed.len(), 1, "only deletions are exempt");
    }

    fn service(metadata: &Value, spec: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    }

    #[test]
    fn e25_tok13_no_other_service_has_the_name_of_the_api_servers() {
        let forged = service(&json!({"name": "kubernetes"}), &json!({"ports": [{"port": 443}]}));
        let moved = service(&json!({"name": "kubernetes"}), &json!({"type": "ExternalName"}));
        let problem = "403 metadata.name: in namespace \"web\", a Service called \"kubernetes\" takes the place of the API \
                       server: Pods send their tokens to it; ";
        let told = |operation, object: &Value, old: &Value, namespace| {
            judged("Service", (operation, object, old), (namespace, PUBLISHER), "unasked")
        };
        assert_eq!(told(Operation::Create, &forged, &Value::Null, "web"), [format!("{problem}choose another name")]);
        assert_eq!(
            told(Operation::Update, &moved, &forged, "web"),
            [format!("{problem}delete it, or leave its spec as it is")]
        );
        assert_eq!(told(Operation::Delete, &Value::Null, &forged, "web"), [""; 0]);
        let held = service(&json!({"name": "kubernetes", "finalizers": ["a/b"]}), &json!({"ports": [{"port": 443}]}));
        assert_eq!(told(Operation::Update, &forged, &held, "web"), [""; 0], "released");
        assert_eq!(told(Operation::Create, &forged, &Value::Null, "default"), [""; 0]);
        assert_eq!(told(Operation::Update, &moved, &forged, "default"), [""; 0]);
    }

    #[rstest]
    #[case::another_config_map("ConfigMap", json!({"name": "settings"}))]
    #[case::nearly_its_name("ConfigMap", json!({"name": "kube-root-ca.crt.old"}))]
    #[case::a_generated_name("ConfigMap", json!({"generateName": "kube-root-ca.crt"}))]
    #[case::a_config_map_called_like_the_service("ConfigMap", json!({"name": "kubernetes"}))]
    #[case::another_service("Service", json!({"name": "kubernetes-dashboard"}))]
    #[case::a_service_with_a_generated_name("Service", json!({"generateName": "kubernetes"}))]
    #[case::no_name("Service", json!({}))]
    fn e25_other_objects_are_written_as_ever(#[case] kind: &str, #[case] metadata: Value) {
        let object = json!({"metadata": metadata, "data": {"a": "b"}, "spec": {"a": "b"}});
        let old = json!({"metadata": metadata});
        for (operation, object, old) in [
            (Operation::Create, &object, &Value::Null),
            (Operation::Update, &object, &old),
            (Operation::Delete, &Value::Null, &old),
        ] {
            assert_eq!(judged(kind, (operation, object, old), ("web", ANN), "unasked"), [""; 0], "{operation:?}");
        }
    }
}
