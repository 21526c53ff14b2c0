//! Tokens for other audiences (docs/spec/audiences.md).

use super::*;
use crate::audience::AudienceToken;

/// Returns a grant with tokens for these audiences, in files of the same names.
fn reaching(set: &str, account: &str, token: Token, audiences: &[&str]) -> Grant {
    let audiences = audiences.iter().map(|audience| AudienceToken {
        audience: (*audience).to_owned(),
        path: (*audience).to_owned(),
        expiration_seconds: 7200,
    });
    Grant { sidecar_set: set.to_owned(), account: account.to_owned(), token, audiences: audiences.collect() }
}

/// Returns the volume of a set with tokens for other audiences.
fn own_volume(pod: &Value, set: &str, account: &str) -> Value {
    let name = names::token_volume(&names::credential(account, Some(set)));
    let mut volumes = json::items(pod, &["spec", "volumes"]).iter();
    volumes.find(|volume| pod::name(volume) == name).cloned().unwrap_or_default()
}

#[test]
fn aud3_the_kubelet_requests_each_token() {
    let decision = Decision { grants: vec![reaching("logs", "x", Token::OfPod, &["vault", "sts"])], ..swap() };
    let settled = settle(&pod(), &decision, &agent()).unwrap().pod;
    assert_eq!(
        own_volume(&settled, "logs", "x")["projected"],
        json!({"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"serviceAccountToken": {"audience": "vault", "expirationSeconds": 7200, "path": "vault"}},
            {"serviceAccountToken": {"audience": "sts", "expirationSeconds": 7200, "path": "sts"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
            ]}},
        ]})
    );
    assert_eq!(identities(&settled, true), pairs(&[("agent", "x")]));
}

/// The sources that follow the Secret win over keys of the same name in it.
#[test]
fn aud3_an_isolated_set_projects_its_secret_before_the_files_that_every_pod_has() {
    let decision = Decision { grants: vec![reaching("logs", "x", Token::OfSecret, &["vault"])], ..Decision::default() };
    let settled = settle(&pod(), &decision, &agent()).unwrap().pod;
    let secret = names::token_secret("x\nlogs");
    assert_eq!(
        own_volume(&settled, "logs", "x")["projected"],
        json!({"defaultMode": 420, "sources": [
            {"secret": {"name": secret, "items": [{"key": "token", "path": "token"}], "optional": false}},
            {"secret": {"name": secret, "optional": false}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
            ]}},
        ]})
    );
}

/// The list can change while Pods run: a Pod that was copied from one of them is the same Pod.
#[test]
fn aud8_the_volume_of_an_isolated_set_does_not_depend_on_its_list() {
    let settled = |audiences: &[&str]| {
        let grants = vec![reaching("logs", "x", Token::OfSecret, audiences)];
        settle(&pod(), &Decision { grants, ..Decision::default() }, &agent()).unwrap().pod
    };
    assert_eq!(settled(&["vault"]), settled(&["sts", "mesh"]));
    assert_ne!(settled(&["vault"]), settled(&[]));
}

#[rstest]
#[case::swap(Decision { grants: vec![reaching("logs", "x", Token::OfPod, &["vault"])], ..swap() })]
#[case::isolate(Decision { grants: vec![reaching("logs", "x", Token::OfSecret, &["vault"])], ..Decision::default() })]
fn aud3_idp6_carrying_it_out_again_changes_nothing(#[case] decision: Decision) {
    let once = settle(&pod(), &decision, &agent()).unwrap().pod;
    let again = Decision { account: None, hides_token: false, ..decision };
    assert_eq!(settle(&once, &again, &agent()).unwrap().pod, once);
    assert_eq!(judged(&once, &again, &agent()), [""; 0]);
}

/// Three sets name one account: two lists, and none.
#[rstest]
#[case::of_secrets(Token::OfSecret, Decision::default())]
#[case::of_the_pod(Token::OfPod, swap())]
fn aud4_sets_with_one_account_do_not_share_what_they_hold(#[case] token: Token, #[case] decision: Decision) {
    let mut before = pod();
    for name in ["mesh", "plain"] {
        before["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": name}));
    }
    let grants = vec![
        reaching("logs", "x", token, &["vault"]),
        reaching("mesh", "x", token, &["sts"]),
        reaching("plain", "x", token, &[]),
    ];
    let owners = owners(&[("logs", &["agent"]), ("mesh", &["mesh"]), ("plain", &["plain"])]);
    let settled = settle(&before, &Decision { grants: grants.clone(), ..decision.clone() }, &owners).unwrap().pod;
    let mounted = |name: &str| {
        let container = containers(&settled).find(|container| pod::name(container) == name).unwrap();
        mounts(container).iter().map(pod::name).collect::<Vec<_>>()
    };
    let named = |set| names::token_volume(&names::credential("x", set));
    assert_eq!(mounted("agent"), [named(Some("logs"))]);
    assert_eq!(mounted("mesh"), [named(Some("mesh"))]);
    assert_eq!(mounted("plain"), [named(None)]);
    // A webhook that runs later gives the set without tokens the volume of another set.
    let again = Decision { grants, account: None, hides_token: false, ..decision };
    assert_eq!(judged(&settled, &again, &owners), [""; 0]);
    for (thief, volume) in [("plain", named(Some("logs"))), ("agent", named(Some("mesh"))), ("agent", named(None))] {
        let mut stolen = settled.clone();
        let containers = stolen["spec"]["containers"].as_array_mut().unwrap();
        let container = containers.iter_mut().find(|container| container["name"] == thief).unwrap();
        container["volumeMounts"].as_array_mut().unwrap().push(json!({"name": volume, "mountPath": "/stolen"}));
        let told = judged(&stolen, &again, &owners);
        let expected = format!("container \"{thief}\" mounts the volume \"{volume}\", which belongs to a sidecar");
        assert!(told.iter().any(|told| told.contains(&expected)), "{told:?}");
    }
}

#[test]
fn aud4_no_account_has_the_names_of_a_set() {
    assert_eq!(names::credential("x", None), "x");
    assert_eq!(names::credential("x", Some("logs")), "x\nlogs");
    assert!(crate::declared::name_error("x\nlogs").is_some());
    let secrets = BTreeSet::from(["x", "x\nlogs", "x\nmesh", "xlogs", "y\nlogs"].map(names::token_secret));
    assert_eq!(secrets.len(), 5);
    assert!(secrets.iter().all(|name| name.starts_with(names::TOKEN_SECRET_PREFIX)));
}

#[test]
fn aud6_a_warning_tells_of_the_tokens_that_a_merged_account_does_not_have() {
    let decision = Decision { without_audiences: vec!["logs".to_owned()], ..swap() };
    assert_eq!(
        settle(&pod(), &decision, &agent()).unwrap().warnings,
        [
            "SidecarSet \"logs\" is injected without its tokens for other audiences: the Pod runs under a merged ServiceAccount"
        ]
    );
}

/// E11: the policy gives the Pod's account to the sidecars alone, and a later webhook turns automounting on again. The
/// Pod must not pass for one that ran under the account before.
#[test]
fn aud4_tok10_a_private_account_does_not_become_the_apps_own() {
    let grants = vec![reaching("logs", "x", Token::OfPod, &["vault"])];
    let private = Decision { grants: grants.clone(), ..swap() };
    let mut pod = settle(&pod(), &private, &agent()).unwrap().pod;
    let shared = Decision { grants, ..Decision::default() };
    assert_eq!(judged(&pod, &Decision { account: None, hides_token: false, ..private }, &agent()), [""; 0]);
    pod["spec"]["automountServiceAccountToken"] = json!(true);
    let told = judged(&pod, &shared, &agent());
    assert!(told.iter().any(|told| told.contains("sidecar \"agent\" lacks the token of \"x\"")), "{told:?}");
}

#[test]
fn aud4_only_the_kubelets_tokens_for_other_audiences_have_a_volume_of_another_name_beside_the_app() {
    let name = |private: bool, token, audiences: &[&str]| {
        let private = private.then(|| "x".to_owned());
        Decision { private, ..Decision::default() }.volume_of(&reaching("logs", "x", token, audiences))
    };
    assert_eq!(name(true, Token::OfPod, &["vault"]), names::token_volume("x\nlogs"));
    assert_eq!(name(false, Token::OfPod, &["vault"]), names::token_volume("x\nlogs\n"));
    for private in [true, false] {
        assert_eq!(name(private, Token::OfSecret, &["vault"]), names::token_volume("x\nlogs"));
        assert_eq!(name(private, Token::OfPod, &[]), names::token_volume("x"));
    }
}

/// The hashes in the names of the volumes have another order.
#[test]
fn tok1_volumes_come_in_the_order_of_their_accounts() {
    let accounts = ["mesh", "logs", "audit", "vault"];
    let grants: Vec<Grant> = accounts.iter().map(|name| reaching(name, name, Token::OfSecret, &[])).collect();
    let owners: Owners = accounts.iter().map(|name| ((*name).to_owned(), vec![format!("c-{name}")])).collect();
    let decision = Decision { grants, ..Decision::default() };

    let settled = settle(&pod(), &decision, &owners).unwrap().pod;

    let volumes = json::items(&settled, &["spec", "volumes"]).iter().map(pod::name);
    let ours: Vec<&str> = volumes.filter(|name| volumes::is_called_like_ours(name)).collect();
    assert_eq!(ours, ["audit", "logs", "mesh", "vault"].map(names::token_volume));
}
