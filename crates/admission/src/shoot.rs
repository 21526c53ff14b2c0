//! Admission of Gardener's Shoots, and of the other kinds that contain a `serviceAccountConfig`. They are judged but
//! never changed.

use pillion_gardener as shoot;
use pillion_gardener::settings::ShootSettings;
use pillion_kubernetes::field::{FieldErrors, FieldPath};
use pillion_kubernetes::json;
use pillion_kubernetes::operation::Operation;
use pillion_kubernetes::outcome::{Code, Outcome, Refusal, Verdict};

use super::sidecar_set::add_reasons;
use crate::request::Request;

/// Answers the creation or the update of an object. Accepts an object that is being deleted: it starts nothing new, and
/// Gardener must be able to remove its finalizers.
pub fn admit(request: &Request, settings: &ShootSettings) -> Outcome {
    let old = (request.operation == Operation::Update).then_some(&request.old_object);
    if !settings.enabled || old.is_some_and(json::is_terminating) {
        return Verdict::Unchanged.into();
    }
    let mut judgement = shoot::Judgement::default();
    if !request.object.is_object() {
        judgement.undecodable.required(&FieldPath::new("object"), "what is to be stored");
    }
    if old.is_some_and(|old| !old.is_object()) {
        judgement.undecodable.required(&FieldPath::new("oldObject"), "an update carries the object before it");
    }
    if judgement.undecodable.is_empty() {
        judgement = shoot::judge(&request.object, old, request.kind.kind == "Shoot", settings);
    }
    let mut reasons = Vec::new();
    add_reasons(&mut reasons, "", judgement.undecodable, Code::Undecodable);
    add_reasons(&mut reasons, "", judgement.invalid, Code::Invalid);
    add_reasons(&mut reasons, "", judgement.forbidden, Code::Forbidden);
    let verdict = match Refusal::from_reasons(reasons) {
        Some(refusal) => Verdict::Refused(refusal),
        None => Verdict::Unchanged,
    };
    Outcome { warnings: judgement.warnings, ..verdict.into() }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn shoot(issuer: &str) -> Value {
        let config = json!({"issuer": issuer, "acceptedIssuers": ["https://a"], "maxTokenExpiration": "720h"});
        json!({"metadata": {"name": "s"}, "spec": {"kubernetes": {"kubeAPIServer": {"serviceAccountConfig": config}}}})
    }

    fn request(operation: &str, object: &Value, old_object: &Value) -> Request {
        Request::decode(json!({
            "uid": "u", "operation": operation, "object": object, "oldObject": old_object,
            "kind": {"group": "core.gardener.cloud", "version": "v1beta1", "kind": "Shoot"}
        }))
        .unwrap()
    }

    fn asked(operation: &str, object: &Value, old_object: &Value) -> Outcome {
        let settings = ShootSettings { enabled: true, ..ShootSettings::default() };
        admit(&request(operation, object, old_object), &settings)
    }

    fn refused(outcome: Outcome) -> (Code, String) {
        match outcome.verdict {
            Verdict::Refused(refusal) => (refusal.code(), refusal.message()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn set11_where_the_rules_are_off_everything_is_accepted() {
        for object in [shoot("foo"), Value::Null, json!([])] {
            let outcome = admit(&request("UPDATE", &object, &Value::Null), &ShootSettings::default());
            assert_eq!(outcome, Verdict::Unchanged.into());
        }
    }

    #[test]
    fn a_sound_shoot_is_accepted_as_it_is_with_its_warnings() {
        let outcome = asked("CREATE", &shoot("https://b"), &Value::Null);
        assert_eq!((outcome.verdict, outcome.warnings.len()), (Verdict::Unchanged, 1));
        assert!(outcome.audit.is_empty());
    }

    #[test]
    fn a_refusal_names_every_field_and_still_warns() {
        let outcome = asked("CREATE", &shoot("foo"), &Value::Null);
        assert_eq!(outcome.warnings.len(), 1);
        assert_eq!(outcome.audit.get("refused-because").map(String::as_str), Some("invalid"));
        assert_eq!(
            refused(outcome),
            (
                Code::Invalid,
                "spec.kubernetes.kubeAPIServer.serviceAccountConfig.issuer: Invalid value: \"foo\": must be a valid URL and have https scheme; \
                 spec.kubernetes.kubeAPIServer.serviceAccountConfig.issuer: Invalid value: \"foo\": must have https scheme"
                    .to_owned()
            )
        );
    }

    #[test]
    fn what_the_policy_forbids_is_403_and_says_what_to_do() {
        let mut old = shoot("https://a");
        old["spec"]["kubernetes"]["kubeAPIServer"]["serviceAccountConfig"]["acceptedIssuers"] = json!(["https://c"]);
        let (code, message) = refused(asked("UPDATE", &shoot("https://b"), &old));
        assert_eq!(code, Code::Forbidden);
        assert_eq!(
            message,
            "spec.kubernetes.kubeAPIServer.serviceAccountConfig.acceptedIssuers: Forbidden: \"https://c\" is removed while the issuer changes; change the issuer first, and remove it once its tokens have been replaced"
        );
    }

    #[rstest]
    #[case::no_object("CREATE", Value::Null, Value::Null, "object: Required value: what is to be stored")]
    #[case::no_old_object(
        "UPDATE",
        shoot("https://b"),
        Value::Null,
        "oldObject: Required value: an update carries the object before it"
    )]
    #[case::neither(
        "UPDATE", json!("x"), json!([]),
        "object: Required value: what is to be stored; oldObject: Required value: an update carries the object before it"
    )]
    fn a_request_without_its_objects_is_undecodable(
        #[case] operation: &str,
        #[case] object: Value,
        #[case] old_object: Value,
        #[case] message: &str,
    ) {
        assert_eq!(refused(asked(operation, &object, &old_object)), (Code::Undecodable, message.to_owned()));
    }

    #[test]
    fn a_shoot_that_is_being_deleted_is_left_alone() {
        let mut old = shoot("foo");
        old["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
        assert_eq!(asked("UPDATE", &shoot("foo"), &old), Verdict::Unchanged.into());
        // The new object's own deletion timestamp does not count: its author could set it.
        let mut new = shoot("foo");
        new["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
        assert_eq!(refused(asked("UPDATE", &new, &shoot("https://b"))).0, Code::Invalid);
        assert_eq!(refused(asked("CREATE", &new, &Value::Null)).0, Code::Invalid);
    }
}
