#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]
#![allow(clippy::unnecessary_wraps, reason = "they are answers to look-ups")]

use std::cell::RefCell;
use std::sync::LazyLock;
use std::time::Duration;

use pillion_kubernetes::authorizer::{Authorizer, Question};
use pillion_kubernetes::lookup::{Answer, Failure, ObjectRef};
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::testing::set;

/// A cluster that records the questions: `may ann create pods in web`, `get ServiceAccount web/log-agent`.
struct Cluster {
    /// Whether the author has all permissions and the account none.
    is_fair: bool,
    account: Answer,
    asked: RefCell<Vec<String>>,
}

impl Cluster {
    fn new(account: Answer) -> Self {
        Self { is_fair: true, account, asked: RefCell::default() }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.borrow().clone()
    }
}

impl Lookup for Cluster {
    fn get(&self, object: &ObjectRef) -> Answer {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        self.asked.borrow_mut().push(format!("get {} {namespace}/{}", object.kind, object.name));
        self.account.clone()
    }
}

impl Authorizer for Cluster {
    fn allows(&self, question: &Question) -> Result<bool, String> {
        let Question { user, namespace, atom, .. } = question;
        let place = if namespace.is_empty() { "everywhere" } else { namespace };
        self.asked.borrow_mut().push(format!("may {user} {} {} in {place}", atom.verb, atom.resource));
        Ok(self.is_fair && user == "ann" && atom.verb != "*")
    }
}

fn there() -> Answer {
    Ok(Some(json!({"metadata": {"name": "log-agent"}})))
}

fn in_namespaces(names: &[String]) -> SidecarSet {
    set(|set| {
        let expression = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": names});
        set["spec"]["namespaceSelector"] = json!({"matchExpressions": [expression]});
    })
}

/// Returns rules with few denied permissions, so that the list of questions is short.
fn rules() -> Rules {
    let mut denied = Rules::default().denied().into_owned();
    denied.retain(|atom| atom.resource == "secrets");
    Rules {
        deny_permissions: Some(denied),
        allowed_audiences: "vault".parse().into_iter().collect(),
        ..Rules::default()
    }
}

static NO_SET: LazyLock<SidecarSet> = LazyLock::new(|| SidecarSet::from_decoded(Value::Null));

/// Returns the creation of a set that is valid otherwise, beside no other set, all of the cluster.
fn asked(author: &Author) -> Asked<'_> {
    Asked { set: &NO_SET, old: None, author, others: &[], stored: &|| Ok(None), is_fine: true }
}

/// Judges a set that is valid otherwise.
fn judged(
    set: &SidecarSet,
    old: Option<&SidecarSet>,
    others: &[SidecarSet],
    rules: &Rules,
    cluster: &Cluster,
) -> Findings {
    let author = Author { user: "ann".to_owned(), groups: Vec::new() };
    let elapsed = Duration::default;
    let world = World { lookup: cluster, authorizer: cluster, now: Timestamp(0), elapsed: &elapsed };
    judge(Asked { set, old, others, ..asked(&author) }, true, rules, world)
}

fn said(findings: &Findings) -> Vec<String> {
    let mut said: Vec<String> = findings.invalid.iter().map(ToString::to_string).collect();
    said.extend(findings.refused.iter().map(|reason| format!("{} {reason}", reason.code.as_u16())));
    said.extend(findings.warnings.iter().map(|warning| format!("warning: {warning}")));
    said
}

const NOTHING: [&str; 0] = [];

#[test]
fn esc1_e5_idv3_are_asked_in_this_order() {
    let cluster = Cluster::new(there());
    assert_eq!(said(&judged(&set(|_| {}), None, &[], &rules(), &cluster)), NOTHING);
    assert_eq!(
        cluster.asked(),
        [
            "may ann * * in everywhere",
            "may ann create serviceaccounts/token in web",
            "may system:serviceaccount:web:log-agent get secrets in web",
            "may system:serviceaccount:web:log-agent list secrets in web",
            "get ServiceAccount web/log-agent",
        ]
    );
}

#[test]
fn esc1_what_the_author_may_not_ends_it() {
    let cluster = Cluster { is_fair: false, ..Cluster::new(Ok(None)) };
    let other = set(|set| {
        set["metadata"]["name"] = json!("other");
        set["spec"]["serviceAccountName"] = json!("y");
    });
    let findings = judged(&set(|_| {}), None, &[other], &rules(), &cluster);
    assert_eq!(
        said(&findings),
        ["403 SidecarSet \"logs\": spec.serviceAccountName: \"ann\" may not use the ServiceAccount \"log-agent\" in \
             namespace \"web\"; the author needs \"create\" on pods, or on serviceaccounts/token of this name"]
    );
    assert!(cluster.asked().iter().all(|asked| asked.starts_with("may ann ")), "{:?}", cluster.asked());
}

/// ESC-1: an update causes questions if it changes a field that requires a check of the author.
#[rstest]
#[case::container(|set: &mut Value| set["spec"]["containers"][0]["image"] = json!("i:2"), true)]
#[case::wider_selector(|set: &mut Value| set["spec"]["selector"] = json!({"matchLabels": {}}), true)]
#[case::annotation(|set: &mut Value| set["metadata"]["annotations"] = json!({"pillion.dev/service-account-mode": "sidecarsonly"}), true)]
#[case::aud5_tokens(|set: &mut Value| set["spec"]["serviceAccountTokens"] = json!([{"audience": "vault", "path": "vault"}]), true)]
#[case::aud5_tokens_as_an_annotation(|set: &mut Value| set["metadata"]["annotations"] = json!({"pillion.dev/service-account-tokens": "[{\"audience\": \"vault\", \"path\": \"vault\"}]"}), true)]
#[case::strategy(|set: &mut Value| set["spec"]["updateStrategy"] = json!({"type": "NotUpdate", "partition": 1}), false)]
#[case::history(|set: &mut Value| set["spec"]["revisionHistoryLimit"] = json!(3), false)]
#[case::label(|set: &mut Value| set["metadata"]["labels"] = json!({"team": "a"}), false)]
#[case::nothing(|_: &mut Value| {}, false)]
fn esc1_updates_are_asked_about_where_they_matter(#[case] edit: fn(&mut Value), #[case] is_asked: bool) {
    // The old object is defaulted before the comparison; the new one is defaulted already.
    let old = set(|_| {});
    let mut object = prepared(&old).into_value();
    edit(&mut object);
    let cluster = Cluster::new(there());
    judged(&SidecarSet::from_decoded(object), Some(&old), &[], &rules(), &cluster);
    assert_eq!(!cluster.asked().is_empty(), is_asked, "{:?}", cluster.asked());
}

#[test]
fn esc1_giving_the_account_up_needs_no_rights() {
    let old = set(|_| {});
    let mut object = prepared(&old).into_value();
    object["spec"]["serviceAccountName"] = Value::Null;
    let cluster = Cluster { is_fair: false, ..Cluster::new(Ok(None)) };
    let findings = judged(&SidecarSet::from_decoded(object), Some(&old), &[], &rules(), &cluster);
    assert_eq!((said(&findings), cluster.asked()), (vec![], vec![]));
}

/// A set that is invalid anyway causes no questions.
#[rstest]
#[case::elsewhere(|_: &mut Value| {}, false)]
#[case::invalid(|set: &mut Value| set["spec"]["serviceAccountName"] = json!("default"), true)]
#[case::denied(|set: &mut Value| set["spec"]["serviceAccountMode"] = json!("Pod"), true)]
#[case::aud5_not_allowed(|set: &mut Value| set["spec"]["serviceAccountTokens"] = json!([{"audience": "sts", "path": "sts"}]), true)]
fn idv1_esc1_nothing_is_asked_when_something_else_is_wrong(#[case] edit: fn(&mut Value), #[case] is_fine: bool) {
    let cluster = Cluster::new(there());
    let author = Author { user: "ann".to_owned(), groups: Vec::new() };
    let elapsed = Duration::default;
    let world = World { lookup: &cluster, authorizer: &cluster, now: Timestamp(0), elapsed: &elapsed };
    judge(Asked { set: &set(edit), is_fine, ..asked(&author) }, true, &rules(), world);
    assert_eq!(cluster.asked(), NOTHING);
}

#[test]
fn idv1_without_the_gate_fields_are_refused_and_nobody_is_asked() {
    let cluster = Cluster::new(there());
    let author = Author { user: "ann".to_owned(), groups: Vec::new() };
    let elapsed = Duration::default;
    let world = World { lookup: &cluster, authorizer: &cluster, now: Timestamp(0), elapsed: &elapsed };
    let with_account = set(|_| {});
    let create = Asked { set: &with_account, ..asked(&author) };
    assert_eq!(judge(create, false, &rules(), world).invalid.len(), 1);
    assert_eq!(cluster.asked(), NOTHING);
    // An old value may stay if no other injected field changes (E23).
    let with_account = prepared(&with_account);
    let update = |old| Asked { set: &with_account, old: Some(old), ..asked(&author) };
    let same = set(|set| set["spec"]["revisionHistoryLimit"] = json!(3));
    assert_eq!(judge(update(&same), false, &rules(), world), Findings::default());
    let other = set(|set| set["spec"]["containers"][0]["image"] = json!("i:0"));
    let errors = judge(update(&other), false, &rules(), world).invalid;
    assert_eq!(
        errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["spec.containers: Forbidden: the SidecarSet names a ServiceAccount, and the feature gate \
             SidecarSetServiceAccountInjection is off: this would take effect under the account, unasked, once the gate is \
             on; turn it on in featureGates first, or remove spec.serviceAccountName"]
    );
    assert_eq!(cluster.asked(), NOTHING);
}

/// IDV-3, IDC-1: a missing account is a warning, or with `strictExistence` a refusal.
#[rstest]
#[case::there(there(), &[], &[])]
#[case::missing(
    Ok(None),
    &["warning: ServiceAccount \"log-agent\" does not exist in namespace \"web\""],
    &["403 SidecarSet \"logs\": spec.serviceAccountName: ServiceAccount \"log-agent\" does not exist in namespace \"web\"; create it first"]
)]
#[case::sap11_terminating(
    Ok(Some(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))),
    &["warning: ServiceAccount \"log-agent\" is being deleted in namespace \"web\""],
    &["403 SidecarSet \"logs\": spec.serviceAccountName: ServiceAccount \"log-agent\" is being deleted in namespace \"web\"; create it first"]
)]
#[case::could_not_ask(
    Err(Failure::Timeout),
    &["warning: ServiceAccount \"log-agent\" could not be read in namespace \"web\": no answer in time"],
    &["503 SidecarSet \"logs\": spec.serviceAccountName: ServiceAccount \"log-agent\" could not be read in namespace \"web\": no answer in time; try again"]
)]
fn idv3_existence(#[case] account: Answer, #[case] warned: &[&str], #[case] strict: &[&str]) {
    let cluster = Cluster::new(account);
    assert_eq!(said(&judged(&set(|_| {}), None, &[], &rules(), &cluster)), warned);
    let rules = Rules { strict_existence: true, ..rules() };
    assert_eq!(said(&judged(&set(|_| {}), None, &[], &rules, &cluster)), strict);
}

#[test]
fn idc1_existence_is_checked_in_eight_namespaces() {
    let looked_up = |count: usize| {
        let names: Vec<String> = (0..count).map(|index| format!("n{index}")).collect();
        let cluster = Cluster::new(there());
        let findings = judged(&in_namespaces(&names), None, &[], &rules(), &cluster);
        let asked = cluster.asked().iter().filter(|asked| asked.starts_with("get ")).count();
        (asked, said(&findings))
    };
    assert_eq!(looked_up(8), (8, vec![]));
    assert_eq!(
        looked_up(9),
        (
            8,
            vec![
                "warning: whether ServiceAccount \"log-agent\" exists was checked in the first 8 namespaces only"
                    .to_owned()
            ]
        )
    );
}

#[test]
fn idc1_without_a_closed_list_each_pod_shows() {
    let open = set(|set| set["spec"]["namespaceSelector"] = json!({"matchLabels": {"env": "prod"}}));
    let cluster = Cluster::new(Ok(None));
    let rules = Rules { protected_namespaces: Vec::new(), strict_existence: true, ..rules() };
    assert_eq!(
        said(&judged(&open, None, &[], &rules, &cluster)),
        [
            "warning: whether ServiceAccount \"log-agent\" exists is checked for each Pod, as the namespaces are not named"
        ]
    );
    assert_eq!(cluster.asked(), ["may ann * * in everywhere", "may ann create serviceaccounts/token in everywhere"]);
}

#[test]
fn idv4_other_sets_are_compared_with() {
    let other = |name: &str, account: &str| {
        set(|set| {
            set["metadata"]["name"] = json!(name);
            set["spec"]["serviceAccountName"] = json!(account);
        })
    };
    let unreadable = set(|set| set["spec"]["serviceAccountName"] = json!(7));
    let others = [other("b", "y"), other("c", "log-agent"), unreadable, other("d", "z")];
    let findings = judged(&set(|_| {}), None, &others, &rules(), &Cluster::new(there()));
    let texts = said(&findings);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].contains("SidecarSet \"b\" wants") && texts[1].contains("SidecarSet \"d\" wants"), "{texts:?}");
}
