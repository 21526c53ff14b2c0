#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use std::cell::RefCell;
use std::time::Duration;

use pillion_kubernetes::authorizer::{Authorizer, Question};
use pillion_kubernetes::lookup::{Answer, Failure};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::testing::set;

/// The volume of the account `log-agent` of the SidecarSet `logs`.
const VOLUME: &str = "sidecarset-sa-b077d031c6eaa197";

/// A cluster with the Pod `web`, and users who may request the tokens of some accounts.
struct World {
    pod: Answer,
    /// `user/account`; no account means all of them.
    may: &'static [&'static str],
    answers: bool,
    asked: RefCell<Vec<String>>,
}

impl World {
    fn new(pod: Value, may: &'static [&'static str]) -> Self {
        Self { pod: Ok(Some(pod)), may, answers: true, asked: RefCell::default() }
    }
}

impl Lookup for World {
    fn get(&self, object: &ObjectRef) -> Answer {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        self.asked.borrow_mut().push(format!("{} {namespace}/{}", object.kind, object.name));
        if object.name == "web" { self.pod.clone() } else { Ok(None) }
    }
}

impl Authorizer for World {
    fn allows(&self, question: &Question) -> Result<bool, String> {
        let Question { user, namespace, atom, .. } = question;
        assert_eq!(
            (atom.verb.as_str(), atom.resource.as_str(), namespace.as_str()),
            ("create", "serviceaccounts/token", "shop")
        );
        let wanted = format!("{user}/{}", atom.name.as_deref().unwrap_or_default());
        self.asked.borrow_mut().push(wanted.clone());
        if !self.answers {
            return Err("try again".to_owned());
        }
        Ok(self.may.iter().any(|may| *may == wanted || *may == format!("{user}/")))
    }
}

fn container(name: &str, volume: &str) -> Value {
    json!({"name": name, "volumeMounts": [{"name": volume, "mountPath": names::MOUNT_PATH}]})
}

/// Returns a Pod with an isolated sidecar, and a volume of the app's own account.
fn isolated() -> Value {
    json!({"metadata": {"name": "web"}, "spec": {
        "serviceAccountName": "web",
        "containers": [container("app", "kube-api-access-x7k2p"), container("agent", VOLUME)],
        "volumes": [
            {"name": "kube-api-access-x7k2p", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
            {"name": VOLUME, "projected": {"sources": [{"secret": {"name": "sidecarset-token-b077d031c6eaa197"}}]}},
        ],
    }})
}

/// Returns a Pod that runs under the account of its sidecar, in mode `SidecarsOnly`.
fn sidecars_only(account: &str) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {
        "serviceAccountName": account,
        "containers": [{"name": "app"}, container("agent", VOLUME)],
        "volumes": [{"name": VOLUME, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
    }})
}

fn edited(mut pod: Value, edit: impl FnOnce(&mut Value)) -> Value {
    edit(&mut pod);
    pod
}

fn push(pod: &mut Value, list: &str, item: Value) {
    pod["spec"][list].as_array_mut().unwrap().push(item);
}

fn on() -> Rules {
    let mut rules = Rules::default();
    rules.guards.exec = true;
    rules
}

fn ann() -> Author {
    Author { user: "ann".to_owned(), groups: vec!["dev".to_owned(), "system:authenticated".to_owned()] }
}

/// A connection to the Pod `shop/web`; a forwarded port, if it has no options.
fn judged_by(author: &Author, options: Option<Value>, rules: &Rules, world: &World) -> Vec<String> {
    let sets = [set(|_| {})];
    let connection = Connection {
        is_to_container: options.is_some(),
        namespace: "shop",
        pod: "web",
        options: &options.unwrap_or_default(),
        author,
    };
    let mut inquiry = Inquiry::new(world, &Duration::default);
    let findings = judge(connection, rules, world, &mut inquiry, || Ok::<_, ()>(accounts_of(&sets))).unwrap();
    assert_eq!(findings.warnings, [""; 0]);
    findings.reasons.iter().map(|reason| format!("{} {reason}", reason.code.as_u16())).collect()
}

fn judged(options: Option<Value>, world: &World) -> Vec<String> {
    judged_by(&ann(), options, &on(), world)
}

fn options(container: &str) -> Value {
    json!({"kind": "PodExecOptions", "apiVersion": "v1", "container": container, "command": ["sh"], "stdin": true})
}

#[rstest]
#[case::the_sidecar(isolated(), Some(options("agent")))]
#[case::a_forwarded_port(isolated(), None)]
#[case::without_a_name_of_several(isolated(), Some(options("")))]
#[case::without_the_field(isolated(), Some(json!({"kind": "PodAttachOptions"})))]
#[case::with_a_null(isolated(), Some(json!({"container": null})))]
#[case::with_a_list(isolated(), Some(json!({"container": ["app"]})))]
#[case::without_a_name_and_a_default_elsewhere(edited(isolated(), |pod| {
    pod["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/default-container": "app"});
}), Some(options("")))]
#[case::without_a_name_of_the_only_one(edited(isolated(), |pod| {
    pod["spec"]["containers"] = json!([container("agent", VOLUME)]);
}), Some(options("")))]
#[case::a_container_that_is_about_to_be_added(isolated(), Some(options("debugger")))]
#[case::a_name_in_other_letters(isolated(), Some(options("Agent")))]
#[case::a_name_with_a_space(isolated(), Some(options("agent ")))]
#[case::an_init_container(edited(isolated(), |pod| pod["spec"]["initContainers"] = json!([container("setup", VOLUME)])), Some(options("setup")))]
#[case::an_ephemeral_container(edited(isolated(), |pod| {
    pod["spec"]["ephemeralContainers"] = json!([container("debugger", VOLUME)]);
}), Some(options("debugger")))]
#[case::one_that_shares_the_sidecars_processes(edited(isolated(), |pod| {
    pod["spec"]["ephemeralContainers"] = json!([{"name": "debugger", "targetContainerName": "agent"}]);
}), Some(options("debugger")))]
#[case::the_other_of_a_hot_upgrade(edited(isolated(), |pod| {
    pod["spec"]["containers"] = json!([{"name": "app"}, container("agent-1", VOLUME), container("agent-2", VOLUME)]);
}), Some(options("agent-2")))]
#[case::forged_annotations(edited(isolated(), |pod| {
    pod["metadata"]["annotations"] = json!({
        "pillion.dev/service-account-injected": r#"{"injected":"nobody"}"#, "kruise.io/sidecarset-injected-list": "",
    });
}), Some(options("agent")))]
#[case::the_secret_through_a_volume_of_another_name(edited(isolated(), |pod| {
    pod["spec"]["containers"][0] = container("app", "mine");
    pod["spec"]["volumes"][0] = json!({"name": "mine", "secret": {"secretName": "sidecarset-token-b077d031c6eaa197"}});
}), Some(options("app")))]
#[case::a_finished_pod(edited(isolated(), |pod| pod["status"] = json!({"phase": "Succeeded"})), Some(options("agent")))]
#[case::sidecars_only(sidecars_only("log-agent"), Some(options("agent")))]
#[case::sidecars_only_and_a_token_that_came_later(edited(sidecars_only("log-agent"), |pod| {
    pod["spec"]["containers"][0] = container("app", "late");
    push(pod, "volumes", json!({"name": "late", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}));
}), Some(options("app")))]
#[case::mode_pod(edited(sidecars_only("log-agent"), |pod| {
    pod["spec"]["containers"][0] = container("app", "kube-api-access-x7k2p");
    push(pod, "volumes", json!({
        "name": "kube-api-access-x7k2p", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]},
    }));
}), Some(options("app")))]
fn aft2_who_may_not_request_the_token_does_not_get_in(#[case] pod: Value, #[case] options: Option<Value>) {
    let world = World::new(pod.clone(), &["ann/web", "bob/log-agent"]);
    let [reason] = judged(options.clone(), &world).try_into().unwrap();
    assert!(
        reason.starts_with("403 ")
            && reason.contains("ServiceAccount \"log-agent\", and \"ann\" may not request its tokens"),
        "{reason}"
    );
    // Whoever may, gets in.
    let world = World::new(pod, &["ann/log-agent"]);
    assert_eq!(judged(options, &world), [""; 0]);
}

#[test]
fn aft2_messages_say_which_container_and_what_to_do() {
    let world = World::new(isolated(), &[]);
    assert_eq!(
        judged(Some(options("agent")), &world),
        ["403 container: container \"agent\" of Pod \"web\" holds the identity of ServiceAccount \"log-agent\", and \
          \"ann\" may not request its tokens; use another container, or be granted \"create\" on serviceaccounts/token of \
          this name, or be among serviceAccounts.guards.execUsers"]
    );
    assert_eq!(*world.asked.borrow(), ["Pod shop/web", "ann/log-agent"]);
}

#[rstest]
#[case::the_app(isolated(), Some(options("app")))]
#[case::without_a_name_of_the_only_one(edited(isolated(), |pod| {
    pod["spec"]["initContainers"] = json!([container("agent", VOLUME)]);
    pod["spec"]["containers"] = json!([{"name": "app"}]);
}), Some(options("")))]
#[case::a_pod_without_identities(json!({"spec": {"containers": [{"name": "app"}, {"name": "agent"}]}}), None)]
#[case::a_pod_under_an_account_of_its_own(edited(isolated(), |pod| {
    pod["spec"]["containers"][1] = json!({"name": "agent"});
}), Some(options("app")))]
fn aft2_other_containers_are_open_to_all(#[case] pod: Value, #[case] options: Option<Value>) {
    let world = World::new(pod, &[]);
    assert_eq!(judged(options, &world), [""; 0]);
    assert_eq!(*world.asked.borrow(), ["Pod shop/web"]);
}

/// Every identity of the Pod can be reached through a port.
#[test]
fn aft2_a_forwarded_port_is_one_of_every_holder() {
    let merged = "sidecarset-merged-7e18f737311b2dc3";
    let pod = edited(sidecars_only(merged), |pod| {
        push(pod, "containers", container("other", "sidecarset-sa-0"));
        let mut volume = isolated()["spec"]["volumes"][1].clone();
        volume["name"] = json!("sidecarset-sa-0");
        push(pod, "volumes", volume);
    });
    let some = World::new(pod.clone(), &["ann/log-agent"]);
    let [reason] = judged(None, &some).try_into().unwrap();
    assert!(reason.contains(merged), "{reason}");
    assert_eq!(judged(None, &World::new(pod.clone(), &[])).len(), 2);
    assert_eq!(judged(None, &World::new(pod, &["ann/log-agent", "ann/sidecarset-merged-7e18f737311b2dc3"])), [""; 0]);
}

/// AFT-4: an account that no SidecarSet names could be any.
#[rstest]
#[case::of_a_set_that_is_gone("sidecarset-token-0123456789abcdef")]
#[case::of_no_name("sidecarset-token-")]
fn aft4_an_unknown_account_counts_as_all_of_them(#[case] secret: &str) {
    let pod = edited(isolated(), |pod| {
        pod["spec"]["volumes"][1]["projected"]["sources"][0]["secret"]["name"] = json!(secret);
    });
    let world = World::new(pod.clone(), &["ann/log-agent"]);
    assert_eq!(
        judged(Some(options("agent")), &world),
        [
            "403 container: container \"agent\" of Pod \"web\" holds the identity of a ServiceAccount that no SidecarSet names \
          any more, and \"ann\" may not request the tokens of every ServiceAccount of namespace \"shop\"; restart the Pod, \
          or be granted \"create\" on serviceaccounts/token, or be among serviceAccounts.guards.execUsers"
        ]
    );
    assert_eq!(judged(Some(options("agent")), &World::new(pod, &["ann/"])), [""; 0]);
}

/// A set with tokens for other audiences has a Secret of its own (AUD-4).
#[test]
fn aft4_aud4_the_account_of_a_secret_for_one_set_is_known() {
    let secret = names::token_secret(&names::credential("log-agent", Some("logs")));
    let pod = edited(isolated(), |pod| {
        pod["spec"]["volumes"][1]["projected"]["sources"][0]["secret"]["name"] = json!(secret);
    });
    assert_eq!(judged(Some(options("agent")), &World::new(pod, &["ann/log-agent"])), [""; 0]);
}

#[rstest]
#[case::not_allowed(Failure::Forbidden, "not allowed")]
#[case::too_late(Failure::Timeout, "no answer in time")]
#[case::broken(Failure::Unavailable, "no usable answer")]
fn aft5_a_pod_that_cannot_be_read_is_503(#[case] failure: Failure, #[case] says: &str) {
    let world = World { pod: Err(failure), ..World::new(Value::Null, &["ann/"]) };
    let [reason] = judged(Some(options("app")), &world).try_into().unwrap();
    assert!(reason.starts_with(&format!("503 request.name: Pod \"web\" could not be read: {says}; ")), "{reason}");
}

#[test]
fn aft5_a_pod_that_is_not_there_is_the_api_servers() {
    let world = World { pod: Ok(None), ..World::new(Value::Null, &[]) };
    assert_eq!(judged(Some(options("agent")), &world), [""; 0]);
}

#[test]
fn aft5_a_question_without_an_answer_is_503() {
    let world = World { answers: false, ..World::new(isolated(), &["ann/"]) };
    assert_eq!(
        judged(Some(options("agent")), &world),
        [
            "503 container: container \"agent\" of Pod \"web\" holds the identity of a ServiceAccount, and whether \"ann\" may \
          request its tokens is not known: the API server gave no answer; try again"
        ]
    );
    let connection =
        Connection { is_to_container: false, namespace: "shop", pod: "web", options: &Value::Null, author: &ann() };
    let mut late = Inquiry::new(&world, &|| Duration::from_secs(5));
    let findings = judge(connection, &on(), &world, &mut late, || Ok::<_, ()>(Accounts::new())).unwrap();
    let [reason] = findings.reasons.try_into().unwrap();
    assert!(reason.code == Code::Unavailable && reason.problem.ends_with("did not answer in time"), "{reason}");
}

/// AFT-5: if the SidecarSets cannot be had, nobody knows whose the Secret is.
#[test]
fn aft5_the_failure_of_the_bundle_is_passed_on() {
    let world = World::new(isolated(), &["ann/"]);
    let connection =
        Connection { is_to_container: false, namespace: "shop", pod: "web", options: &Value::Null, author: &ann() };
    let mut inquiry = Inquiry::new(&world, &Duration::default);
    assert_eq!(judge(connection, &on(), &world, &mut inquiry, || Err("no bundle")), Err("no bundle"));
}

#[rstest]
#[case::no_pod("", "shop", Some("400 request.name: "))]
#[case::no_namespace("web", "", Some("400 request.namespace: "))]
#[case::another_path("../secrets/web", "shop", None)]
#[case::the_folder_above("..", "shop", None)]
#[case::an_encoded_slash("web%2Flog", "shop", None)]
#[case::in_a_namespace_with_a_slash("web", "shop/../kube-system", None)]
fn aft5_odd_names_are_not_looked_up(#[case] pod: &str, #[case] namespace: &str, #[case] expected: Option<&str>) {
    let world = World::new(isolated(), &[]);
    let connection = Connection { is_to_container: true, namespace, pod, options: &Value::Null, author: &ann() };
    let mut inquiry = Inquiry::new(&world, &Duration::default);
    let findings = judge(connection, &on(), &world, &mut inquiry, || Ok::<_, ()>(Accounts::new())).unwrap();
    let found: Vec<String> =
        findings.reasons.iter().map(|reason| format!("{} {reason}", reason.code.as_u16())).collect();
    assert!(
        found.len() == expected.iter().count()
            && found.iter().zip(expected).all(|(found, begins)| found.starts_with(begins)),
        "{found:?}"
    );
    assert_eq!(*world.asked.borrow(), [""; 0]);
}

#[rstest]
#[case::off(Rules::default(), &[])]
#[case::a_listed_user({ let mut rules = on(); rules.guards.exec_users = vec!["ann".to_owned()]; rules }, &[])]
#[case::in_an_emergency({ let mut rules = on(); rules.guards.break_glass_groups = vec!["dev".to_owned()]; rules }, &[])]
#[case::another_user({ let mut rules = on(); rules.guards.exec_users = vec!["an".to_owned(), "Ann".to_owned()]; rules }, &["Pod shop/web", "ann/log-agent"])]
#[case::a_group_as_a_user({ let mut rules = on(); rules.guards.exec_users = vec!["dev".to_owned()]; rules }, &["Pod shop/web", "ann/log-agent"])]
#[case::a_user_as_a_group({ let mut rules = on(); rules.guards.break_glass_groups = vec!["ann".to_owned()]; rules }, &["Pod shop/web", "ann/log-agent"])]
// Neither the controller nor the users of another guard open containers.
#[case::of_another_guard({ let mut rules = on(); rules.guards.image_users = vec!["ann".to_owned()]; rules.controller_user = "ann".to_owned(); rules }, &["Pod shop/web", "ann/log-agent"])]
fn aft2_aft8_the_lists_of_the_settings_are_let_through_unasked(#[case] rules: Rules, #[case] asked: &[&str]) {
    let world = World::new(isolated(), &[]);
    assert_eq!(judged_by(&ann(), Some(options("agent")), &rules, &world).is_empty(), asked.is_empty());
    assert_eq!(*world.asked.borrow(), asked);
}

/// A user may be in a thousand groups. The question must not grow without a limit (E18).
#[test]
fn e18_aft5_a_question_with_too_many_groups_is_503() {
    let world = World::new(isolated(), &["ann/"]);
    let author = Author { groups: vec!["g".repeat(1 << 20); 9], ..ann() };
    let [reason] = judged_by(&author, Some(options("agent")), &on(), &world).try_into().unwrap();
    assert!(reason.starts_with("503 container: ") && reason.contains("too large"), "{reason}");
}
