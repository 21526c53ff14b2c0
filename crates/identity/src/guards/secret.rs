//! Guards Secrets with legacy tokens, which do not expire (TKN-1, RUN-4).

use pillion_kubernetes::json;
use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::outcome::Reason;
use serde_json::Value;

use super::{Objections, name, reserved};
use crate::existence;
use crate::names;
use crate::rules::{Judgement, Rules};

/// The type of a Secret with a legacy token.
pub const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
/// Annotation of a Secret of [`TOKEN_TYPE`]: the name of the account.
pub const ACCOUNT: &str = "kubernetes.io/service-account.name";
/// Annotation of a Secret of [`TOKEN_TYPE`]: the UID of the account, which distinguishes it from a later account of the
/// same name.
pub const UID: &str = "kubernetes.io/service-account.uid";

/// Judges a token Secret. Updates are judged only if they change the account.
///
/// With any settings, a Secret is refused if its account is missing, is being deleted or has another UID than the
/// Secret names: the control plane would delete the token, or the token could belong to a later account of that name.
///
/// With any settings and for every user (E22), a Secret is refused if its account is merged, or if its name is reserved
/// for the Secrets of isolated sidecars: the control plane would fill it with a token that does not expire.
pub fn judge(object: &Value, old_object: &Value, namespace: &str, rules: &Rules, lookup: &dyn Lookup) -> Objections {
    let mut findings = Objections::default();
    let annotation = |object, key| json::text(object, &["metadata", "annotations", key]);
    let of = |object| (annotation(object, ACCOUNT), annotation(object, UID));
    if json::text(object, &["type"]) != TOKEN_TYPE || (!old_object.is_null() && of(object) == of(old_object)) {
        return findings;
    }
    let (account, uid) = of(object);
    let field = format!("metadata.annotations[{ACCOUNT}]");
    if names::is_merged(account) {
        let problem = format!("a Secret would hold a token of the merged ServiceAccount \"{account}\"");
        let remedy = "name another ServiceAccount; the Pods of a merged one get their tokens from the kubelet";
        findings.reasons.push(Reason::forbidden(&field, problem, remedy));
        return findings;
    }
    if let Some((field, name)) = reserved(object, names::TOKEN_SECRET_PREFIX) {
        let problem = format!("isolated sidecars mount the Secret \"{name}\", which Pillion's controller makes");
        findings.reasons.push(Reason::forbidden(field, problem, "choose another name"));
        return findings;
    }
    if let Err(reason) = check_account(&field, NamedAccount { name: account, uid }, namespace, lookup) {
        findings.reasons.push(reason);
        return findings;
    }
    // A Secret with `generateName` has no name yet, so no exemption matches it.
    if !rules.exempts(namespace, name(object)) {
        let problem = format!("a Secret of the type \"{TOKEN_TYPE}\" holds a token that does not expire");
        match rules.legacy_token_secrets {
            Judgement::Allow => {}
            Judgement::Warn => findings.warnings.push(problem),
            Judgement::Deny => findings.reasons.push(Reason::forbidden(
                "type",
                problem,
                "request a token with `kubectl create token`, or add the Secret to serviceAccounts.legacyTokenExempt",
            )),
        }
    }
    findings
}

/// The ServiceAccount that a token Secret names in its annotations.
#[derive(Clone, Copy)]
struct NamedAccount<'a> {
    name: &'a str,
    /// Empty if the Secret names none.
    uid: &'a str,
}

/// Checks that the account of a token Secret exists, is not being deleted, and has the UID that the Secret names, if
/// any.
fn check_account(
    field: &str,
    NamedAccount { name: account, uid }: NamedAccount<'_>,
    namespace: &str,
    lookup: &dyn Lookup,
) -> Result<(), Reason> {
    let called = format!("ServiceAccount \"{account}\"");
    let refused = |problem, remedy| Reason::forbidden(field, problem, remedy);
    let remedy = "create the ServiceAccount first, or request a token with `kubectl create token`";
    let found = lookup
        .get(&existence::account(account, namespace))
        .map_err(|failure| Reason::unreadable(field, &called, &failure, ("v1", "ServiceAccount")))?
        .ok_or_else(|| refused(format!("{called} does not exist in namespace \"{namespace}\""), remedy))?;
    if json::is_terminating(&found) {
        return Err(refused(format!("{called} is being deleted"), remedy));
    }
    if !uid.is_empty() && uid != json::text(&found, &["metadata", "uid"]) {
        let remedy = "leave the annotation with the UID out: it is filled in";
        return Err(refused(format!("{called} has another UID than \"{uid}\""), remedy));
    }
    Ok(())
}

/// RUN-3: returns a new token Secret with the UID of its account added, so that it cannot become a token of a later
/// account of the same name. `None` if there is nothing to add.
pub fn with_uid(object: &Value, old_object: &Value, namespace: &str, lookup: &dyn Lookup) -> Option<Value> {
    let annotation = |key| json::text(object, &["metadata", "annotations", key]);
    if json::text(object, &["type"]) != TOKEN_TYPE || !old_object.is_null() || !annotation(UID).is_empty() {
        return None;
    }
    let account = lookup.get(&existence::account(annotation(ACCOUNT), namespace)).ok()??;
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
    use pillion_kubernetes::lookup::{Answer, Failure};
    use pillion_samples::lookups::FakeObjects;

    fn account(answer: Answer) -> FakeObjects {
        FakeObjects::new().with("ServiceAccount web/a", answer)
    }

    fn there() -> FakeObjects {
        account(Ok(Some(json!({"metadata": {"name": "a", "uid": "1"}}))))
    }

    fn token(uid: &str) -> Value {
        let annotations = json!({ACCOUNT: "a", UID: uid});
        json!({"type": TOKEN_TYPE, "metadata": {"name": "a-token", "annotations": annotations}})
    }

    fn with(legacy_token_secrets: Judgement) -> Rules {
        Rules { legacy_token_secrets, ..Rules::default() }
    }

    fn messages(findings: &Objections) -> Vec<String> {
        findings.reasons.iter().map(|reason| format!("{} {reason}", reason.code.as_u16())).collect()
    }

    #[rstest]
    #[case::missing(
        Ok(None),
        "403 metadata.annotations[kubernetes.io/service-account.name]: ServiceAccount \"a\" does not exist in namespace \"web\"; create the ServiceAccount first, or request a token with `kubectl create token`"
    )]
    #[case::terminating(Ok(Some(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "uid": "1"}}))), "403 metadata.annotations[kubernetes.io/service-account.name]: ServiceAccount \"a\" is being deleted; create the ServiceAccount first, or request a token with `kubectl create token`")]
    #[case::other_uid(Ok(Some(json!({"metadata": {"uid": "2"}}))), "403 metadata.annotations[kubernetes.io/service-account.name]: ServiceAccount \"a\" has another UID than \"1\"; leave the annotation with the UID out: it is filled in")]
    #[case::could_not_ask(
        Err(Failure::Unavailable),
        "503 metadata.annotations[kubernetes.io/service-account.name]: ServiceAccount \"a\" could not be read: no usable answer; try again"
    )]
    fn run3_tokens_are_of_an_account_that_is_there(#[case] answer: Answer, #[case] message: &str) {
        let findings = judge(&token("1"), &Value::Null, "web", &with(Judgement::Allow), &account(answer));
        assert_eq!(messages(&findings), [message]);
    }

    #[test]
    fn run4_new_tokens_of_the_old_kind_are_a_setting() {
        let judged = |judgement| judge(&token(""), &Value::Null, "web", &with(judgement), &there());
        assert_eq!(judged(Judgement::Allow), Objections::default());
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
    fn run4_exempt_secrets_are_let_through_where_their_account_is_there() {
        let rules = Rules { legacy_token_exempt: vec!["web/*-token".parse().unwrap()], ..with(Judgement::Deny) };
        assert_eq!(judge(&token("1"), &Value::Null, "web", &rules, &there()), Objections::default());
        assert_eq!(judge(&token("2"), &Value::Null, "web", &rules, &there()).reasons.len(), 1);
    }

    #[test]
    fn run4_updates_are_judged_where_the_account_changes() {
        let rules = with(Judgement::Deny);
        assert_eq!(judge(&token("1"), &token("1"), "web", &rules, &account(Ok(None))), Objections::default());
        assert_eq!(judge(&token("2"), &token("1"), "web", &rules, &there()).reasons.len(), 1);
    }

    fn token_of(account: &str) -> Value {
        json!({"type": TOKEN_TYPE, "metadata": {"name": "t", "annotations": {ACCOUNT: account}}})
    }

    #[rstest]
    #[case::on_creation(Value::Null)]
    #[case::of_another_account_before(token_of("a"))]
    #[case::of_another_merged_account_before(token_of("sidecarset-merged-0000000000000000"))]
    #[case::of_none_before(json!({"type": TOKEN_TYPE, "metadata": {"name": "t"}}))]
    fn e22_no_secret_holds_a_token_of_a_merged_account(#[case] old: Value) {
        let new = token_of("sidecarset-merged-0123456789abcdef");
        for judgement in [Judgement::Allow, Judgement::Warn, Judgement::Deny] {
            let rules =
                Rules { legacy_token_exempt: vec!["*".parse().unwrap(), "web/t".parse().unwrap()], ..with(judgement) };
            assert_eq!(
                messages(&judge(&new, &old, "web", &rules, &FakeObjects::new())),
                [
                    "403 metadata.annotations[kubernetes.io/service-account.name]: a Secret would hold a token of the merged ServiceAccount \"sidecarset-merged-0123456789abcdef\"; name another ServiceAccount; the Pods of a merged one get their tokens from the kubelet"
                ]
            );
        }
    }

    #[test]
    fn e22_a_secret_of_a_merged_account_that_is_there_can_be_given_another_one_and_keeps_its_finalizers() {
        let old = token_of("sidecarset-merged-0123456789abcdef");
        let mut released = old.clone();
        released["metadata"]["finalizers"] = json!([]);
        assert_eq!(judge(&released, &old, "web", &with(Judgement::Deny), &FakeObjects::new()), Objections::default());
        assert_eq!(judge(&token_of("a"), &old, "web", &with(Judgement::Allow), &there()), Objections::default());
    }

    /// The token controller writes the UID together with the token.
    #[test]
    fn e22_a_secret_of_a_merged_account_that_is_there_is_not_filled() {
        let old = token_of("sidecarset-merged-0123456789abcdef");
        let mut filled = old.clone();
        filled["metadata"]["annotations"][UID] = json!("1");
        assert_eq!(judge(&filled, &old, "web", &with(Judgement::Allow), &FakeObjects::new()).reasons.len(), 1);
    }

    #[rstest]
    #[case::a_name("name", "sidecarset-token-0123456789abcdef", "metadata.name")]
    #[case::a_generated_name("generateName", "sidecarset-token-0123456789a", "metadata.generateName")]
    fn e22_a_token_secret_does_not_take_the_place_of_that_of_isolated_sidecars(
        #[case] field: &str,
        #[case] name: &str,
        #[case] path: &str,
    ) {
        let forged = json!({"type": TOKEN_TYPE, "metadata": {field: name, "annotations": {ACCOUNT: "a"}}});
        let findings = judge(&forged, &Value::Null, "web", &with(Judgement::Allow), &FakeObjects::new());
        assert_eq!(
            messages(&findings),
            [format!(
                "403 {path}: isolated sidecars mount the Secret \"{name}\", which Pillion's controller makes; choose another name"
            )]
        );
    }

    #[test]
    fn run4_other_secrets_are_none_of_our_business() {
        let opaque = json!({"type": "Opaque", "metadata": {"annotations": {ACCOUNT: "a"}}});
        assert_eq!(
            judge(&opaque, &Value::Null, "web", &with(Judgement::Deny), &account(Ok(None))),
            Objections::default()
        );
    }
}
