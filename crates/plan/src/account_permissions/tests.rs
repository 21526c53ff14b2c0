#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use pillion_kubernetes::rbac;
use rstest::rstest;
use serde_json::json;

use super::*;

const NOW: Timestamp = Timestamp(1_800_000_000);

fn role(namespace: &str, name: &str, rule: Value) -> Role {
    Role::from_object(&json!({"metadata": {"namespace": namespace, "name": name}, "rules": [rule]}))
}

fn rule(group: &str, resource: &str, verb: &str) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]})
}

/// A binding of the role `r`; cluster-wide without a namespace.
fn binding(namespace: &str, kind: &str, subject: Value) -> Option<Binding> {
    Binding::from_object(&json!({
        "metadata": {"namespace": namespace, "name": "b"}, "roleRef": {"kind": kind, "name": "r"}, "subjects": [subject],
    }))
}

fn agent() -> Value {
    json!({"kind": "ServiceAccount", "namespace": "shop", "name": "agent"})
}

fn account() -> Account {
    Account::new("shop", "agent")
}

/// What RBAC gives, and the question that it leads to.
#[rstest]
#[case::secrets("shop", "Role", rule("", "secrets", "get"), "shop", "get secrets of ")]
#[case::every_verb("shop", "Role", rule("", "secrets", "*"), "shop", "get secrets of ")]
#[case::every_resource("", "ClusterRole", rule("", "*", "list"), "", "list secrets of ")]
#[case::every_subresource("shop", "Role", rule("", "*/exec", "create"), "shop", "create pods/exec of ")]
#[case::escalation_of_one_kind(
    "",
    "ClusterRole",
    rule("rbac.authorization.k8s.io", "roles", "escalate"),
    "",
    "escalate roles of rbac.authorization.k8s.io"
)]
#[case::a_cluster_role_in_a_namespace(
    "shop",
    "ClusterRole",
    rule("", "serviceaccounts/token", "create"),
    "shop",
    "create serviceaccounts/token of "
)]
#[case::in_another_namespace("other", "Role", rule("", "secrets", "get"), "other", "get secrets of ")]
#[case::sidecar_sets(
    "",
    "ClusterRole",
    rule("apps.kruise.io", "sidecarsets", "patch"),
    "",
    "patch sidecarsets of apps.kruise.io"
)]
fn esc9_what_is_denied_is_found_in_the_rules_of_rbac(
    #[case] namespace: &str,
    #[case] kind: &str,
    #[case] rule: Value,
    #[case] within: &str,
    #[case] question: &str,
) {
    let role_in = if kind == "Role" { namespace } else { "" };
    let roles = [role(role_in, "r", rule)];
    let bindings = [binding(namespace, kind, agent()).unwrap()];
    let denied = ordered(&rbac::denied_by_default());
    let index = Index::new(&roles, &bindings, &denied);
    let given = index.given(&account()).unwrap();
    let Atom { group, resource, verb, .. } = &given.atom;
    assert_eq!((given.namespace.as_str(), format!("{verb} {resource} of {group}").as_str()), (within, question));
    assert_eq!(index.given(&Account::new("web", "agent")), None, "of another namespace");
    assert_eq!(index.given(&Account::new("shop", "other")), None);
}

#[rstest]
#[case::reading_pods("shop", "Role", rule("", "pods", "get"), agent())]
#[case::a_named_secret("shop", "Role", json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["own"]}), agent())]
#[case::a_url("", "ClusterRole", json!({"nonResourceURLs": ["*"], "verbs": ["*"]}), agent())]
#[case::a_user("shop", "Role", rule("", "secrets", "get"), json!({"kind": "User", "name": "agent"}))]
#[case::another_group("shop", "Role", rule("", "secrets", "get"), json!({"kind": "Group", "name": "system:serviceaccounts:web"}))]
#[case::a_role_of_another_namespace("web", "Role", rule("", "secrets", "get"), agent())]
fn esc9_other_rules_lead_to_no_question(
    #[case] role_in: &str,
    #[case] kind: &str,
    #[case] rule: Value,
    #[case] subject: Value,
) {
    let roles = [role(role_in, "r", rule)];
    let bindings: Vec<Binding> =
        binding(if role_in.is_empty() { "" } else { "shop" }, kind, subject).into_iter().collect();
    let denied = ordered(&rbac::denied_by_default());
    assert_eq!(Index::new(&roles, &bindings, &denied).given(&account()), None);
}

#[rstest]
#[case::by_its_user_name(json!({"kind": "User", "name": "system:serviceaccount:shop:agent"}))]
#[case::by_its_namespace(json!({"kind": "Group", "name": "system:serviceaccounts:shop"}))]
#[case::as_any_account(json!({"kind": "Group", "name": "system:serviceaccounts"}))]
#[case::as_anybody(json!({"kind": "Group", "name": "system:authenticated"}))]
fn esc9_an_account_has_many_names(#[case] subject: Value) {
    let (roles, bindings) =
        ([role("shop", "r", rule("", "secrets", "get"))], [binding("shop", "Role", subject).unwrap()]);
    let denied = ordered(&rbac::denied_by_default());
    let given = Index::new(&roles, &bindings, &denied).given(&account()).unwrap();
    assert_eq!(given.binding, "RoleBinding \"shop/b\"");
}

fn set(name: &str, spec: Value) -> SidecarSet {
    let mut object = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "c", "image": "i"}]},
    });
    object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    SidecarSet::from_decoded(object)
}

fn namespace(name: &str, team: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"team": team, "kubernetes.io/metadata.name": name}}})
}

/// E5 asks in the namespaces of a closed list; here an open selector counts, too.
#[test]
fn esc9_accounts_are_those_that_pods_can_get() {
    let sets = [
        set("open", json!({"serviceAccountName": "agent"})),
        set("team", json!({"serviceAccountName": "agent", "namespaceSelector": {"matchLabels": {"team": "a"}}})),
        set("other", json!({"serviceAccountName": "missing"})),
        set("none", json!({})),
    ];
    let namespaces =
        [namespace("shop", "a"), namespace("web", "b"), namespace("bare", "a"), namespace("kube-system", "a")];
    let merged = json!({"metadata": {
        "name": "sidecarset-merged-1", "namespace": "shop", "annotations": {"pillion.dev/sidecarsets": "m,n"}
    }});
    let is_there = |account: &Account| account.name == "agent" && account.namespace != "bare";
    let found = accounts(&sets, &Rules::default(), &namespaces, [&merged], &is_there);
    let lines: Vec<String> = found
        .iter()
        .map(|(account, sets)| {
            format!(
                "{}/{}: {}",
                account.namespace,
                account.name,
                sets.iter().map(String::as_str).collect::<Vec<_>>().join(",")
            )
        })
        .collect();
    assert_eq!(lines, ["shop/agent: open,team", "shop/sidecarset-merged-1: m,n", "web/agent: open"]);
}

/// A cluster with one account, and what is remembered about it.
struct World {
    accounts: Accounts,
    roles: Vec<Role>,
    bindings: Vec<Binding>,
    denied: Vec<Atom>,
    memory: Memory,
    now: i64,
    most: usize,
}

impl World {
    fn new(names: &[&str]) -> Self {
        let accounts = names.iter().map(|name| (Account::new("shop", name), BTreeSet::from(["logs".to_owned()])));
        Self {
            accounts: accounts.collect(),
            roles: vec![role("shop", "r", rule("", "secrets", "get"))],
            bindings: Vec::new(),
            denied: ordered(&rbac::denied_by_default()),
            memory: Memory::default(),
            now: NOW.0,
            most: 300,
        }
    }

    fn round(&mut self) -> Round {
        let index = Index::new(&self.roles, &self.bindings, &self.denied);
        self.memory.round(&Input {
            accounts: &self.accounts,
            index: &index,
            denied: &self.denied,
            now: Timestamp(self.now),
            limits: Limits { interval: 600, questions: self.most },
        })
    }

    /// Runs a round in which the API server says yes to what RBAC gives, and to `more`. Returns the number of questions.
    fn pass(&mut self, more: &[&str]) -> usize {
        let round = self.round();
        let count = round.questions.len();
        for question in round.questions {
            let asked = format!("{} {}", question.atom.verb, question.atom.resource);
            let is_held = question.binding.is_some() || more.contains(&asked.as_str());
            self.memory.answered(question, is_held, Timestamp(self.now));
        }
        count
    }

    fn problem(&self) -> Option<String> {
        self.memory.problems(&self.accounts).remove("logs")
    }
}

#[test]
fn esc9_a_new_binding_is_found_at_once_and_its_end_too() {
    let mut world = World::new(&["agent"]);
    assert!(world.pass(&[]) > 30, "the first time, every question is asked");
    assert_eq!(world.problem(), None);
    world.now += 5;
    assert_eq!(world.pass(&[]), 0, "nothing has changed");
    world.bindings.extend(binding("shop", "Role", agent()));
    assert_eq!(world.pass(&[]), 1, "one question, about what RBAC gives");
    assert_eq!(
        world.problem().unwrap(),
        "ServiceAccount \"shop/agent\" may get secrets in namespace \"shop\" (RoleBinding \"shop/b\"); no sidecar may have that: \
         take the permission away, or change serviceAccounts.denyPermissions"
    );
    world.now += 5;
    assert_eq!(world.pass(&[]), 0, "it was answered just now");
    world.bindings.clear();
    world.pass(&[]);
    assert_eq!(world.problem(), None);
}

/// What RBAC gives is told with its binding, also if the same question would have its turn.
#[test]
fn esc9_a_finding_names_its_binding() {
    let mut world = World::new(&["agent", "other"]);
    world.bindings.extend(binding("shop", "Role", agent()));
    world.pass(&["get secrets", "list secrets"]);
    let problem = world.problem().unwrap();
    assert!(
        problem.starts_with(
            "ServiceAccount \"shop/agent\" may get secrets in namespace \"shop\" (RoleBinding \"shop/b\"); "
        ),
        "{problem}"
    );
    assert!(problem.contains("ServiceAccount \"shop/other\" may "), "{problem}");
}

/// Another authorizer than RBAC may refuse what RBAC allows: only an answer counts.
#[test]
fn esc9_what_rbac_gives_is_no_finding_without_an_answer() {
    let mut world = World::new(&["agent"]);
    world.bindings.extend(binding("shop", "Role", agent()));
    let round = world.round();
    for question in round.questions {
        world.memory.answered(question, false, Timestamp(world.now));
    }
    assert_eq!(world.problem(), None);
}

/// Another authorizer than RBAC may allow what RBAC does not.
#[test]
fn esc9_other_authorizers_are_asked_in_turn() {
    let mut world = World::new(&["agent"]);
    world.pass(&["get nodes/proxy"]);
    let problem = world.problem().unwrap();
    assert!(
        problem.starts_with("ServiceAccount \"shop/agent\" may get nodes/proxy in namespace \"shop\"; no sidecar"),
        "{problem}"
    );
    world.now += 300;
    assert_eq!(world.pass(&[]), 0);
    assert!(world.problem().is_some(), "nobody has said otherwise");
    world.now += 300;
    assert!(world.pass(&[]) > 0);
    assert_eq!(world.problem(), None, "it was asked again");
}

/// In a large cluster, a pass asks a bounded number of questions, and each question has its turn.
#[test]
fn esc9_e18_questions_are_bounded_and_spread() {
    let names: Vec<String> = (0..200).map(|index| format!("a{index:03}")).collect();
    let mut world = World::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    world.most = 50;
    let mut asked = BTreeSet::new();
    let per_account = world.denied.iter().flat_map(author::questions).count();
    let all = per_account * 200;
    for _ in 0..all.div_ceil(50) {
        let round = world.round();
        assert!(round.questions.len() <= 50 && round.is_complete);
        asked.extend(round.questions.iter().map(|of| (of.account.clone(), of.atom.clone())));
        world.now += 600;
    }
    assert_eq!(asked.len(), all);
}

/// More findings than questions: the rest is asked next, and a pass that is not complete takes nothing back.
#[test]
fn esc9_many_findings_take_several_passes() {
    let mut world = World::new(&["a", "b", "c", "d", "e"]);
    world.bindings.extend(binding("shop", "Role", json!({"kind": "Group", "name": "system:serviceaccounts"})));
    world.most = 3;
    assert!(!world.round().is_complete);
    world.pass(&[]);
    world.pass(&[]);
    assert!(world.round().is_complete);
    let problem = world.problem().unwrap();
    assert!(
        problem.contains("\"shop/c\" may") && problem.contains("; and so may 2 more of its ServiceAccounts hold one"),
        "{problem}"
    );
}

#[test]
fn esc9_an_account_that_goes_takes_its_problem_with_it() {
    let mut world = World::new(&["agent"]);
    world.bindings.extend(binding("shop", "Role", agent()));
    world.pass(&[]);
    assert!(world.problem().is_some());
    let accounts = std::mem::take(&mut world.accounts);
    world.pass(&[]);
    world.accounts = accounts;
    assert_eq!(world.problem(), None);
}

#[rstest]
#[case::nothing_yet(&[], 600)]
#[case::just_asked(&[0], 600)]
#[case::soon(&[590], 10)]
#[case::overdue(&[5_000], 1)]
fn esc9_it_looks_again_within_the_interval(#[case] ago: &[i64], #[case] expected: i64) {
    let memory = Memory { turned: ago.first().map(|ago| Timestamp(NOW.0 - ago)), ..Memory::default() };
    assert_eq!(memory.look_again(NOW, Limits::default()), expected);
}

/// An administrator's account is found by its first denied permission.
#[test]
fn esc9_everything_is_denied_too() {
    let roles = [role("", "r", rule("*", "*", "*"))];
    let bindings = [binding("", "ClusterRole", agent()).unwrap()];
    let denied = ordered(&rbac::denied_by_default());
    let given = Index::new(&roles, &bindings, &denied).given(&account()).unwrap();
    assert_eq!((given.namespace.as_str(), given.binding.as_str()), ("", "ClusterRoleBinding \"b\""));
    assert!(denied.iter().any(|entry| entry.verb == given.atom.verb || entry.verb == "*"), "{given:?}");
}
