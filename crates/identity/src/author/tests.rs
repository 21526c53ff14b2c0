#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use std::cell::{Cell, RefCell};

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// A cluster whose permissions apply to all users, by namespace; `""` grants everywhere. It answers as the API server
/// does [V]: only a grant for a wildcard covers a question about a wildcard, and a grant for one name does not cover a
/// question about all names.
struct Cluster {
    grants: Vec<(String, Atom)>,
    asked: RefCell<Vec<Question>>,
    broken: bool,
}

impl Cluster {
    fn with(grants: &[(&str, Value)]) -> Self {
        let grants = grants.iter().flat_map(|(namespace, rule)| {
            let rule = serde_json::from_value(rule.clone()).unwrap();
            rbac::atoms([&rule]).into_iter().map(|atom| ((*namespace).to_owned(), atom))
        });
        Self { grants: grants.collect(), asked: RefCell::default(), broken: false }
    }

    fn asked(&self) -> Vec<String> {
        self.asked
            .borrow()
            .iter()
            .map(|asked| format!("{} {}", shown(asked.atom.as_permission()), place(&asked.namespace)))
            .collect()
    }
}

impl Authorizer for Cluster {
    fn allows(&self, question: &Question) -> Result<bool, String> {
        self.asked.borrow_mut().push(question.clone());
        if self.broken {
            return Err("try again".to_owned());
        }
        let here = |namespace: &str| namespace.is_empty() || namespace == question.namespace;
        Ok(self.grants.iter().any(|(namespace, atom)| here(namespace) && atom.covers(&question.atom)))
    }
}

fn rule(groups: Value, resources: Value, verbs: Value) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

fn pods() -> Value {
    rule(json!([""]), json!(["pods"]), json!(["get", "list", "create"]))
}

/// Returns a set that merges these rules in these namespaces; in all namespaces if the list is empty.
fn set(rules: Value, namespaces: &[&str]) -> SidecarSet {
    let mut object = json!({"metadata": {"name": "logs"}, "spec": {
        "serviceAccountName": "log-agent",
        "behaviorWhenServiceAccountInjection": "Merge",
        "serviceAccountPermissions": rules
    }});
    if !namespaces.is_empty() {
        let expression = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces});
        object["spec"]["namespaceSelector"] = json!({"matchExpressions": [expression]});
    }
    SidecarSet::from_decoded(object)
}

fn asked_as(set: &SidecarSet, cluster: &Cluster, rules: &Rules, elapsed: &dyn Fn() -> Duration) -> Vec<String> {
    let author = Author { user: "ann".to_owned(), groups: vec!["dev".to_owned()] };
    let declared = Declared::from_sidecar_set(set).unwrap();
    let mut inquiry = Inquiry::new(cluster, elapsed);
    let reasons = check(set, &declared, &author, rules, &mut inquiry);
    reasons.iter().map(|reason| format!("{} {reason}", reason.code.as_u16())).collect()
}

fn checked(set: &SidecarSet, cluster: &Cluster) -> Vec<String> {
    asked_as(set, cluster, &Rules::default(), &|| Duration::ZERO)
}

const NONE: [&str; 0] = [];

#[test]
fn esc1_whoever_holds_it_may_grant_it() {
    let cluster = Cluster::with(&[("web", pods())]);
    let wanted = json!([rule(json!([""]), json!(["pods"]), json!(["get", "list"]))]);
    assert_eq!(checked(&set(wanted, &["web"]), &cluster), NONE);
}

#[test]
fn esc1_every_permission_that_is_not_held_is_named() {
    let cluster = Cluster::with(&[("web", pods())]);
    let wanted = json!([
        rule(json!([""]), json!(["pods", "pods/log"]), json!(["get"])),
        {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["a"], "verbs": ["patch"]}
    ]);
    assert_eq!(
        checked(&set(wanted, &["web"]), &cluster),
        [
            "403 SidecarSet \"logs\": spec.serviceAccountPermissions: \"ann\" may not grant get pods/log in namespace \
             \"web\"; write permissions that you hold, or ask a holder to write it",
            "403 SidecarSet \"logs\": spec.serviceAccountPermissions: \"ann\" may not grant patch deployments.apps \
             \"a\" in namespace \"web\"; write permissions that you hold, or ask a holder to write it",
        ]
    );
}

/// An attacker's list: `get, list, create` on Pods covers none of these.
#[rstest]
#[case::every_verb(rule(json!([""]), json!(["pods"]), json!(["*"])))]
#[case::every_resource(rule(json!([""]), json!(["*"]), json!(["get"])))]
#[case::every_group(rule(json!(["*"]), json!(["pods"]), json!(["get"])))]
#[case::subresource(rule(json!([""]), json!(["pods/status"]), json!(["get"])))]
#[case::subresource_of_everything(rule(json!([""]), json!(["*/status"]), json!(["get"])))]
#[case::hidden_among_others(rule(json!([""]), json!(["pods", "nodes"]), json!(["get"])))]
#[case::another_group(rule(json!(["", "metrics.k8s.io"]), json!(["pods"]), json!(["get"])))]
#[case::case_matters(rule(json!([""]), json!(["Pods"]), json!(["get"])))]
#[case::padded(rule(json!([""]), json!(["pods "]), json!(["get"])))]
#[case::double_subresource(rule(json!([""]), json!(["pods/log/x"]), json!(["get"])))]
fn e2_esc1_attackers_are_refused(#[case] wanted: Value) {
    let cluster = Cluster::with(&[("web", pods())]);
    let refused = checked(&set(json!([wanted]), &["web"]), &cluster);
    assert!(!refused.is_empty() && refused.iter().all(|text| text.contains("may not grant")), "{refused:?}");
}

#[test]
fn esc1_a_grant_for_one_name_is_not_one_for_all() {
    let one = json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get"]});
    let cluster = Cluster::with(&[("web", pods()), ("web", one.clone())]);
    assert_eq!(checked(&set(json!([one]), &["web"]), &cluster), NONE);
    let all = rule(json!([""]), json!(["configmaps"]), json!(["get"]));
    assert_eq!(checked(&set(json!([all]), &["web"]), &cluster).len(), 1);
}

#[test]
fn esc1_an_open_selector_is_asked_for_every_namespace() {
    let cluster = Cluster::with(&[("web", pods())]);
    let refused = checked(&set(json!([pods()]), &[]), &cluster);
    assert!(refused[0].contains("in every namespace"), "{refused:?}");
    assert_eq!(checked(&set(json!([pods()]), &[]), &Cluster::with(&[("", pods())])), NONE);
}

#[test]
fn esc1_each_namespace_of_a_closed_list_is_asked_for() {
    let cluster = Cluster::with(&[("a", pods())]);
    let refused = checked(&set(json!([rule(json!([""]), json!(["pods"]), json!(["get"]))]), &["a", "b"]), &cluster);
    assert_eq!(refused.len(), 2, "the permission and the account: {refused:?}");
    assert!(refused.iter().all(|text| text.contains("in namespace \"b\"")), "{refused:?}");
}

#[test]
fn esc3_an_admin_is_asked_once() {
    let cluster = Cluster::with(&[("", rule(json!(["*"]), json!(["*"]), json!(["*"])))]);
    assert_eq!(checked(&set(json!([pods()]), &["a", "b"]), &cluster), NONE);
    assert_eq!(cluster.asked(), ["* *.* in every namespace"]);
}

#[test]
fn esc3_each_question_is_asked_once() {
    let cluster = Cluster::with(&[("web", pods())]);
    let repeated = json!([pods(), pods(), rule(json!(["", ""]), json!(["pods"]), json!(["get", "get"]))]);
    checked(&set(repeated, &["web", "web"]), &cluster);
    let asked = cluster.asked();
    let mut once = asked.clone();
    once.sort();
    once.dedup();
    assert_eq!(asked.len(), once.len(), "{asked:?}");
}

#[rstest]
#[case::many_permissions(257, 1)]
#[case::times_namespaces(65, 4)]
#[case::as_many_as_rules_may_stand_for(4_096, 1)]
fn esc3_more_than_can_be_asked_is_refused_unasked(#[case] resources: usize, #[case] namespaces: usize) {
    let cluster = Cluster::with(&[]);
    let names: Vec<String> = (0..resources).map(|index| format!("r{index}")).collect();
    let namespaces: Vec<String> = (0..namespaces).map(|index| format!("n{index}")).collect();
    let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
    let set = set(json!([rule(json!([""]), json!(names), json!(["get"]))]), &namespaces);
    assert_eq!(
        checked(&set, &cluster),
        [
            "403 SidecarSet \"logs\": spec.serviceAccountPermissions: more than 256 permissions and namespaces to verify in \
          one request; split the SidecarSet, or name fewer permissions or namespaces"
        ]
    );
    assert_eq!(cluster.asked(), NONE);
}

#[test]
fn e18_more_than_can_be_asked_in_bytes_is_refused() {
    let cluster = Cluster::with(&[("web", pods())]);
    let author = Author { user: "ann".to_owned(), groups: vec!["g".repeat(QUESTION_BYTES_MAX / 3)] };
    let set = set(json!([pods()]), &["web"]);
    let mut inquiry = Inquiry::new(&cluster, &|| Duration::ZERO);
    let reasons = check(&set, &Declared::from_sidecar_set(&set).unwrap(), &author, &Rules::default(), &mut inquiry);
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].problem.contains("the questions to the API server are too large"), "{}", reasons[0]);
    assert_eq!(cluster.asked().len(), 2);
}

#[test]
fn esc3_time_runs_out() {
    let cluster = Cluster::with(&[("web", pods())]);
    let clock = Cell::new(0);
    let elapsed = || {
        clock.set(clock.get() + 1500);
        Duration::from_millis(clock.get())
    };
    let text = asked_as(&set(json!([pods()]), &["web"]), &cluster, &Rules::default(), &elapsed);
    assert_eq!(
        text,
        [
            "503 SidecarSet \"logs\": spec.serviceAccountPermissions: the author's permissions could not be verified: the API \
          server did not answer all questions in 4 s; try again; if it stays like this, split them over several \
          SidecarSets"
        ]
    );
    assert_eq!(cluster.asked().len(), 2);
}

#[test]
fn esc3_who_cannot_be_asked_has_not_agreed() {
    let cluster = Cluster { broken: true, ..Cluster::with(&[]) };
    assert_eq!(
        checked(&set(json!([]), &["web"]), &cluster),
        [
            "403 SidecarSet \"logs\": spec.serviceAccountPermissions: the author's permissions could not be verified; try \
          again"
        ]
    );
}

#[rstest]
#[case::creates_pods(rule(json!([""]), json!(["pods"]), json!(["create"])), true)]
#[case::mints_its_tokens(
    json!({"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["log-agent"], "verbs": ["create"]}),
    true
)]
#[case::mints_others_tokens(
    json!({"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["other"], "verbs": ["create"]}),
    false
)]
#[case::reads_pods(rule(json!([""]), json!(["pods"]), json!(["get"])), false)]
fn esc5_the_author_could_use_the_account_anyway(#[case] held: Value, #[case] may: bool) {
    let cluster = Cluster::with(&[("web", held)]);
    let refused = checked(&set(json!([]), &["web"]), &cluster);
    assert_eq!(refused.is_empty(), may, "{refused:?}");
    if !may {
        assert!(refused[0].contains("\"ann\" may not use the ServiceAccount \"log-agent\" in namespace \"web\""));
    }
}

#[test]
fn esc5_the_author_may_have_to_be_able_to_create_pods() {
    let rules = Rules { require_create_pods: true, ..Rules::default() };
    let bare = SidecarSet::from_decoded(json!({"metadata": {"name": "logs"}, "spec": {}}));
    let refused = asked_as(&bare, &Cluster::with(&[("web", pods())]), &rules, &|| Duration::ZERO);
    assert!(refused.len() == 1 && refused[0].contains("\"ann\" may not create Pods in every namespace"), "{refused:?}");
    assert_eq!(asked_as(&bare, &Cluster::with(&[("", pods())]), &rules, &|| Duration::ZERO), NONE);
    let cluster = Cluster::with(&[]);
    assert_eq!(checked(&bare, &cluster), NONE, "without the setting nobody is asked");
    assert_eq!(cluster.asked(), NONE);
}

#[test]
fn esc4_each_rule_that_reaches_the_list_is_named() {
    let permissions = json!([
        pods(),
        rule(json!(["*"]), json!(["*"]), json!(["get"])),
        rule(json!([""]), json!(["pods/exec"]), json!(["create"]))
    ]);
    let declared = Declared::from_sidecar_set(&set(permissions, &[])).unwrap();
    let texts: Vec<String> = denied("logs", &declared, &Rules::default()).iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "SidecarSet \"logs\": spec.serviceAccountPermissions[1]: grants get *.*, which reaches * secrets; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions",
            "SidecarSet \"logs\": spec.serviceAccountPermissions[2]: grants create pods/exec, which reaches * pods/exec; \
             no sidecar may get that; grant less, or change serviceAccounts.denyPermissions",
        ]
    );
    let allowed = Rules { deny_permissions: Some(Vec::new()), ..Rules::default() };
    assert!(denied("logs", &declared, &allowed).is_empty());
}

#[test]
fn e5_a_privileged_account_is_refused() {
    let cluster = Cluster::with(&[("web", rule(json!([""]), json!(["secrets"]), json!(["get"])))]);
    let namespaces = ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "web"];
    let set = set(json!([]), &namespaces);
    let elapsed = || Duration::ZERO;
    let mut inquiry = Inquiry::new(&cluster, &elapsed);
    let texts: Vec<String> =
        privileged(&set, "admin", &Rules::default(), &mut inquiry).iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "SidecarSet \"logs\": spec.serviceAccountName: ServiceAccount \"admin\" may get secrets in namespace \"web\"; name \
          an account with fewer permissions, or change serviceAccounts.denyPermissions"
        ]
    );
    let asked = cluster.asked.borrow();
    assert!(asked.iter().all(|question| question.user.ends_with(":admin") && question.groups.len() == 3));
}

#[rstest]
#[case::label(json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "a"}}}), Some(vec!["a"]))]
#[case::in_list(
    json!({"namespaceSelector": {"matchExpressions": [
        {"key": "team", "operator": "Exists"},
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}
    ]}}),
    Some(vec!["a", "b"])
)]
#[case::not_in(
    json!({"namespaceSelector": {"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["a"]}
    ]}}),
    None
)]
#[case::other_label(json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}), None)]
#[case::none(json!({}), None)]
fn set4_closed_lists(#[case] spec: Value, #[case] list: Option<Vec<&str>>) {
    let set = SidecarSet::from_decoded(json!({ "spec": spec }));
    assert_eq!(closed_list(&set), list);
}
