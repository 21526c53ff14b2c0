//! Secrets that hold tokens of the old kind, which do not expire (C2, C4).

use serde_json::Value;

use super::{Findings, forbidden, name, unreadable};
use crate::json;
use crate::lookup::{Answer, Lookup};
use crate::service_account::existence;
use crate::service_account::rules::{Judgement, Rules};

/// The type of such a Secret.
pub const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
/// The account that the token is of.
pub const ACCOUNT: &str = "kubernetes.io/service-account.name";
/// Its UID, which tells it from a later one of the same name.
pub const UID: &str = "kubernetes.io/service-account.uid";

/// Judges a token Secret; updates only where they change which account it is of.
///
/// An account that is missing, on its way out or another one than the Secret says is refused whatever the settings
/// say about such Secrets: its token would be deleted, or would be one of an account that comes later.
pub fn judge(object: &Value, old_object: &Value, namespace: &str, rules: &Rules, lookup: &dyn Lookup) -> Findings {
    let mut findings = Findings::default();
    let annotation = |object, key| json::text(object, &["metadata", "annotations", key]);
    let of = |object| (annotation(object, ACCOUNT), annotation(object, UID));
    if json::text(object, &["type"]) != TOKEN_TYPE || (!old_object.is_null() && of(object) == of(old_object)) {
        return findings;
    }
    let (account, uid) = of(object);
    let field = format!("metadata.annotations[{ACCOUNT}]");
    let called = format!("ServiceAccount \"{account}\"");
    let remedy = "create the ServiceAccount first, or request a token with `kubectl create token`";
    let mut refuse = |problem: String, remedy: &str| findings.reasons.push(forbidden(&field, problem, remedy));
    match lookup.get(&existence::account(account, namespace)) {
        Answer::Failed(failure) => {
            findings.reasons.push(unreadable(&field, &called, failure, "v1", "ServiceAccount"));
        }
        Answer::NotFound => refuse(format!("{called} does not exist in namespace \"{namespace}\""), remedy),
        Answer::Found(found) if json::is_terminating(&found) => refuse(format!("{called} is being deleted"), remedy),
        Answer::Found(found) if !uid.is_empty() && uid != json::text(&found, &["metadata", "uid"]) => {
            let remedy = "leave the annotation with the UID out: it is filled in";
            refuse(format!("{called} has another UID than \"{uid}\""), remedy);
        }
        Answer::Found(_) => {}
    }
    // A Secret with a generated name has none yet: no exemption can name it.
    if findings.reasons.is_empty() && !rules.exempts(namespace, name(object)) {
        let problem = format!("a Secret of the type \"{TOKEN_TYPE}\" holds a token that does not expire");
        match rules.legacy_token_secrets {
            Judgement::Allow => {}
            Judgement::Warn => findings.warnings.push(problem),
            Judgement::Deny => findings.reasons.push(forbidden(
                "type",
                problem,
                "request a token with `kubectl create token`, or add the Secret to serviceAccounts.legacyTokenExempt",
            )),
        }
    }
    findings
}

/// C4: a new token Secret with the UID of its account, where it does not say one: it shall not become a token of a
/// later account of the same name. `None` where there is nothing to add.
pub fn with_uid(object: &Value, old_object: &Value, namespace: &str, lookup: &dyn Lookup) -> Option<Value> {
    let annotation = |key| json::text(object, &["metadata", "annotations", key]);
    if json::text(object, &["type"]) != TOKEN_TYPE || !old_object.is_null() || !annotation(UID).is_empty() {
        return None;
    }
    let Answer::Found(account) = lookup.get(&existence::account(annotation(ACCOUNT), namespace)) else { return None };
    let uid = Some(json::text(&account, &["metadata", "uid"])).filter(|uid| !uid.is_empty())?;
    let mut changed = object.clone();
    let metadata = changed.as_object_mut().and_then(|object| json::object_mut(object, "metadata"))?;
    json::object_mut(metadata, "annotations")?.insert(UID.to_owned(), uid.into());
    Some(changed)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::lookup::{Failure, ObjectRef};

    struct Account(Answer);

    impl Lookup for Account {
        fn get(&self, object: &ObjectRef) -> Answer {
            assert_eq!(
                (object.kind, object.namespace.as_deref(), object.name.as_str()),
                ("ServiceAccount", Some("web"), "a")
            );
            self.0.clone()
        }
    }

    fn there() -> Account {
        Account(Answer::Found(json!({"metadata": {"name": "a", "uid": "1"}})))
    }

    fn token(uid: &str) -> Value {
        let annotations = json!({ACCOUNT: "a", UID: uid});
        json!({"type": TOKEN_TYPE, "metadata": {"name": "a-token", "annotations": annotations}})
    }

    fn with(legacy_token_secrets: Judgement) -> Rules {
        Rules { legacy_token_secrets, ..Rules::default() }
    }

    fn messages(findings: &Findings) -> Vec<String> {
        findings.reasons.iter().map(|reason| format!("{} {reason}", reason.code.as_u16())).collect()
    }

    #[rstest]
    #[case::missing(
        Answer::NotFound,
        "403 metadata.annotations[kubernetes.io/service-account.name]: ServiceAccount \"a\" does not exist in namespace \"web\"; create the ServiceAccount first, or request a token with `kubectl create token`"
    )]
    #[case::terminating(Answer::Found(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "uid": "1"}})), "403 metadata.annotations[kubernetes.io/service-account.name]: ServiceAccount \"a\" is being deleted; create the ServiceAccount first, or request a token with `kubectl create token`")]
    #[case::other_uid(Answer::Found(json!({"metadata": {"uid": "2"}})), "403 metadata.annotations[kubernetes.io/service-account.name]: ServiceAccount \"a\" has another UID than \"1\"; leave the annotation with the UID out: it is filled in")]
    #[case::could_not_ask(
        Answer::Failed(Failure::Unavailable),
        "503 metadata.annotations[kubernetes.io/service-account.name]: ServiceAccount \"a\" could not be read: no usable answer; try again"
    )]
    fn c4_tokens_are_of_an_account_that_is_there(#[case] answer: Answer, #[case] message: &str) {
        let findings = judge(&token("1"), &Value::Null, "web", &with(Judgement::Allow), &Account(answer));
        assert_eq!(messages(&findings), [message]);
    }

    #[test]
    fn c4_new_tokens_of_the_old_kind_are_a_setting() {
        let judged = |judgement| judge(&token(""), &Value::Null, "web", &with(judgement), &there());
        assert_eq!(judged(Judgement::Allow), Findings::default());
        assert_eq!(
            judged(Judgement::Warn).warnings,
            ["a Secret of the type \"kubernetes.io/service-account-token\" holds a token that does not expire"]
        );
        assert_eq!(
            messages(&judged(Judgement::Deny)),
            [
                "403 type: a Secret of the type \"kubernetes.io/service-account-token\" holds a token that does not expire; \
              request a token with `kubectl create token`, or add the Secret to serviceAccounts.legacyTokenExempt"
            ]
        );
    }

    #[test]
    fn c4_exempt_secrets_are_let_through_where_their_account_is_there() {
        let rules = Rules { legacy_token_exempt: vec!["web/*-token".to_owned()], ..with(Judgement::Deny) };
        assert_eq!(judge(&token("1"), &Value::Null, "web", &rules, &there()), Findings::default());
        assert_eq!(judge(&token("2"), &Value::Null, "web", &rules, &there()).reasons.len(), 1);
    }

    #[test]
    fn c4_updates_are_judged_where_the_account_changes() {
        let rules = with(Judgement::Deny);
        assert_eq!(judge(&token("1"), &token("1"), "web", &rules, &Account(Answer::NotFound)), Findings::default());
        assert_eq!(judge(&token("2"), &token("1"), "web", &rules, &there()).reasons.len(), 1);
    }

    #[test]
    fn c4_other_secrets_are_none_of_our_business() {
        let opaque = json!({"type": "Opaque", "metadata": {"annotations": {ACCOUNT: "a"}}});
        assert_eq!(
            judge(&opaque, &Value::Null, "web", &with(Judgement::Deny), &Account(Answer::NotFound)),
            Findings::default()
        );
    }
}
