//! The tokens of isolated sidecars on a real API server (`serviceaccounts.md` B5 to B7).
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Config};
use pillion_controller::tokens::{self, Options as TokenOptions};
use pillion_controller::watch::Wanted;
use pillion_controller::{Clock, Context};
use pillion_core::plan::tokens::{CHECKSUM, UNNEEDED_SINCE};
use pillion_core::service_account::names::token_secret;
use pillion_core::settings::Settings;
use pillion_testenv::faults::{Fault, Faults};
use pillion_testenv::{Cluster, Options, apply, until};
use rstest::rstest;
use serde_json::{Value, json};
use support::clock::Ahead;
use support::{Installation, SOON, create, dynamic, pod};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

/// An API server keeps the answer about a token for some seconds.
const REVOKED: Duration = Duration::from_mins(2);
/// How long a change takes at most that does not come, where it should not.
const QUIET: Duration = Duration::from_secs(4);

/// An API server, and nobody who does what kube-controller-manager does: namespaces stay Terminating.
async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    CLUSTER.get_or_init(async || Cluster::start(Options::new()).await.unwrap()).await
}

/// A SidecarSet for the Pods of one namespace that are labelled `app: web`.
fn sidecar_set(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "containers": [{"name": format!("{name}-agent"), "image": "agent:1"}],
            "updateStrategy": {"type": "NotUpdate"},
            "serviceAccountName": "logs", "serviceAccountMode": "Isolate",
        },
    })
}

fn settings(sets: &[Value]) -> Value {
    json!({"sidecarSets": sets, "featureGates": {"SidecarSetServiceAccountInjection": true}})
}

fn decoded(settings: Value) -> Arc<Settings> {
    Arc::new(Settings::decode(settings).unwrap())
}

/// A controller that is at work until it is dropped.
struct Controller {
    task: JoinHandle<()>,
    ahead: Ahead,
    faults: Faults,
    settings: tokio::sync::watch::Sender<Arc<Settings>>,
}

impl Controller {
    fn start(config: Config, faults: Faults, settings: Value, namespaces: Option<&[&str]>, ahead: i64) -> Self {
        let client = faults.client(config).unwrap();
        let (ahead, clock) = Ahead::by(ahead);
        let (sender, settings) = tokio::sync::watch::channel(decoded(settings));
        let context = Context { clock, ..Context::new(client, Wanted::ALL, settings) };
        let namespaces = namespaces.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>());
        let task = tokio::spawn(tokens::run(context, TokenOptions { lifetime: 600, namespaces }));
        Self { task, ahead, faults, settings: sender }
    }

    /// From now on its clock is so many seconds ahead.
    fn set_ahead(&self, seconds: i64) {
        self.ahead.set(seconds);
    }

    /// Ends it where it is.
    async fn kill(mut self) {
        self.task.abort();
        assert!((&mut self.task).await.unwrap_err().is_cancelled());
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A namespace of its own, and what is done in it.
struct Place {
    name: String,
    client: Client,
}

impl Place {
    async fn new() -> Self {
        Self::of(cluster().await).await
    }

    async fn of(cluster: &Cluster) -> Self {
        let name = cluster.namespace("tokens").await.unwrap();
        Self { name, client: cluster.admin().await.unwrap() }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// A controller for this namespace alone, with one SidecarSet.
    async fn controller(&self, faults: Faults) -> Controller {
        let config = cluster().await.as_admin().config().await.unwrap();
        let settings = settings(&[sidecar_set("logs", &self.name)]);
        Controller::start(config, faults, settings, Some(&[&self.name]), 0)
    }

    async fn account(&self) -> Value {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "logs"}});
        create(&self.api::<ServiceAccount>(), &account).await.unwrap()
    }

    /// A workload whose Pods need the account.
    async fn deployment(&self) {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "app", "image": "app:1"}]},
                },
            },
        });
        create(&self.api::<Deployment>(), &deployment).await.unwrap();
    }

    async fn delete_deployment(&self) {
        self.api::<Deployment>().delete("web", &DeleteParams::background()).await.unwrap();
    }

    /// A Pod that mounts the Secret, as the policy would have made it.
    async fn mounting_pod(&self, name: &str) {
        let source = json!({"secret": {"name": token_secret("logs"), "items": [{"key": "token", "path": "token"}]}});
        let pod = pod(&json!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"volumes": [{"name": "identity", "projected": {"sources": [source]}}]},
        }));
        create(&self.api::<Pod>(), &pod).await.unwrap();
    }

    async fn secret(&self) -> Option<Value> {
        let secret = self.api::<Secret>().get_opt(&token_secret("logs")).await.unwrap()?;
        Some(serde_json::to_value(secret).unwrap())
    }

    /// Waits until the Secret is so.
    async fn secret_that(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        until(what, SOON, async || self.secret().await.filter(&is)).await.unwrap()
    }

    async fn filled(&self) -> Value {
        self.secret_that("a token being in the Secret", |secret| !token(secret).is_empty()).await
    }

    /// Something changes in the namespace that does not matter: whoever works there looks at it again.
    async fn poke(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let now = Clock::system().now().0;
        let patch = json!({"metadata": {"annotations": {"poke": format!("{now}-{:?}", std::time::Instant::now())}}});
        namespaces.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Pokes until something is so.
    async fn poke_until<T, F: Future<Output = Option<T>>>(&self, what: &str, mut ask: impl FnMut() -> F) -> T {
        for _ in 0..30 {
            self.poke().await;
            if let Ok(answer) = until(what, Duration::from_secs(2), &mut ask).await {
                return answer;
            }
        }
        panic!("{what} did not happen");
    }

    /// Whom the API server takes the bearer of the Secret's token for.
    async fn bearer(&self, cluster: &Cluster, secret: &Value) -> Result<String, kube::Error> {
        name_of(cluster, &token(secret)).await
    }

    fn username(&self) -> String {
        format!("system:serviceaccount:{}:logs", self.name)
    }

    async fn events(&self) -> Vec<(String, String, String)> {
        let events = self.api::<Event>().list(&ListParams::default()).await.unwrap();
        let told = |event: Event| {
            (event.regarding.unwrap().kind.unwrap(), event.reason.unwrap_or_default(), event.note.unwrap_or_default())
        };
        events.items.into_iter().map(told).collect()
    }

    async fn told(&self, kind: &str, reason: &str) -> String {
        let found = async || {
            let events = self.events().await;
            events.into_iter().find(|event| event.0 == kind && event.1 == reason).map(|event| event.2)
        };
        until(&format!("the event {reason} on a {kind}"), SOON, found).await.unwrap()
    }
}

fn token(secret: &Value) -> String {
    let secret: Secret = serde_json::from_value(secret.clone()).unwrap();
    let token = secret.data.unwrap_or_default().remove("token").unwrap_or_default();
    String::from_utf8(token.0).unwrap()
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

async fn name_of(cluster: &Cluster, token: &str) -> Result<String, kube::Error> {
    let client = cluster.as_bearer(token).client().await.unwrap();
    let reviews: Api<SelfSubjectReview> = Api::all(client);
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await?;
    Ok(review.status.unwrap().user_info.unwrap().username.unwrap())
}

/// User story 1: from `kubectl apply` of SidecarSet and Deployment to a token of the sidecar's ServiceAccount, with the
/// policy, kube-controller-manager, and a controller for the whole cluster.
#[tokio::test]
async fn b5_what_is_applied_ends_in_a_token_of_the_right_account() {
    let cluster = Cluster::start(Options::new().controller_manager()).await.unwrap();
    let [of_settings, of_resource] = [Place::of(&cluster).await, Place::of(&cluster).await];
    let settings = settings(&[sidecar_set("of-settings", &of_settings.name)]);
    let _installation = Installation::start(&cluster, &settings, &[], &["--cache-max-staleness=0s"]).await;
    let config = cluster.as_admin().config().await.unwrap();
    let _controller = Controller::start(config, Faults::none(), settings, None, 0);

    let sets = dynamic(&of_resource.client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets");
    create(&sets, &sidecar_set("of-resource", &of_resource.name)).await.unwrap();
    for place in [&of_settings, &of_resource] {
        place.account().await;
        place.deployment().await;
        let secret = place.filled().await;
        assert_eq!(place.bearer(&cluster, &secret).await.unwrap(), place.username());
    }

    // The Pod that kube-controller-manager makes gets the token into the sidecar, and nowhere else.
    let pods: Api<Pod> = of_settings.api();
    let first = async || pods.list(&ListParams::default()).await.unwrap().items.pop();
    let pod = serde_json::to_value(until("the Pod of the Deployment", SOON, first).await.unwrap()).unwrap();
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume.to_string().contains(&token_secret("logs"))).unwrap();
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let mounting = containers.iter().filter(|container| {
        let mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
        mounts.iter().any(|mount| mount["name"] == volume["name"])
    });
    assert_eq!(mounting.map(|container| container["name"].clone()).collect::<Vec<_>>(), ["of-settings-agent"]);
    assert_eq!(pod["spec"]["serviceAccountName"], "default");
}

#[tokio::test]
async fn b6_a_deleted_secret_ends_its_token_and_there_is_a_new_one() {
    let (cluster, place) = (cluster().await, Place::new().await);
    place.account().await;
    place.deployment().await;
    let _controller = place.controller(Faults::none()).await;
    let first = place.filled().await;

    place.api::<Secret>().delete(&token_secret("logs"), &DeleteParams::default()).await.unwrap();

    let second = place
        .secret_that("a token in a new Secret", |secret| uid(secret) != uid(&first) && !token(secret).is_empty())
        .await;
    assert_eq!(place.bearer(cluster, &second).await.unwrap(), place.username());
    let revoked = async || place.bearer(cluster, &first).await.err();
    until("the old token being refused", REVOKED, revoked).await.unwrap();
}

#[tokio::test]
async fn b7_a_recreated_account_gets_a_token_at_once() {
    let (cluster, place) = (cluster().await, Place::new().await);
    place.account().await;
    place.deployment().await;
    let _controller = place.controller(Faults::none()).await;
    let first = place.filled().await;

    place.api::<ServiceAccount>().delete("logs", &DeleteParams::default()).await.unwrap();
    place.told("Deployment", "ServiceAccountMissing").await;
    place.account().await;

    let second = place.secret_that("another token", |secret| token(secret) != token(&first)).await;
    assert_eq!(uid(&second), uid(&first));
    assert_eq!(place.bearer(cluster, &second).await.unwrap(), place.username());
    let revoked = async || place.bearer(cluster, &first).await.err();
    until("the token of the old account being refused", REVOKED, revoked).await.unwrap();
}

#[tokio::test]
async fn a1_11_without_its_account_there_is_no_token_until_there_is_one() {
    let (cluster, place) = (cluster().await, Place::new().await);
    place.deployment().await;
    let _controller = place.controller(Faults::none()).await;

    let note = place.told("Deployment", "ServiceAccountMissing").await;

    assert!(note.contains("\"logs\""), "{note}");
    assert_eq!(place.secret().await, None);
    place.account().await;
    let secret = place.filled().await;
    assert_eq!(place.bearer(cluster, &secret).await.unwrap(), place.username());
    let told = place.events().await.len();
    place.poke().await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(place.events().await.len(), told, "{:?}", place.events().await);
}

/// Steady state: nothing is sent. A rotation is one TokenRequest and one write, and both tokens are valid then.
#[tokio::test]
async fn b7_a_rotation_is_two_requests_and_nothing_else_is_sent() {
    let (cluster, place) = (cluster().await, Place::new().await);
    place.account().await;
    place.deployment().await;
    let controller = place.controller(Faults::none()).await;
    let first = place.filled().await;
    for _ in 0..4 {
        place.poke().await;
        tokio::time::sleep(QUIET / 4).await;
    }
    assert_eq!(controller.faults.count(), 3, "{:?}", controller.faults.requests());

    controller.set_ahead(419);
    place.poke().await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(controller.faults.count(), 3, "{:?}", controller.faults.requests());
    controller.set_ahead(481);
    let other = async || place.secret().await.filter(|secret| token(secret) != token(&first));
    let second = place.poke_until("another token", other).await;
    place.poke().await;
    tokio::time::sleep(QUIET).await;

    assert_eq!(controller.faults.count(), 5, "{:?}", controller.faults.requests());
    assert_eq!(uid(&first), uid(&second));
    for secret in [&first, &second] {
        assert_eq!(place.bearer(cluster, secret).await.unwrap(), place.username());
    }
}

#[rstest]
#[case::emptied(json!({"data": {"token": null}}))]
#[case::another_token(json!({"data": {"token": "b3RoZXI="}}))]
#[case::annotations_taken_away(json!({"metadata": {"annotations": {CHECKSUM: null}}}))]
#[tokio::test]
async fn b5_what_somebody_edited_is_repaired(#[case] edit: Value) {
    let (cluster, place) = (cluster().await, Place::new().await);
    place.account().await;
    place.deployment().await;
    let _controller = place.controller(Faults::none()).await;
    let first = place.filled().await;

    place.api::<Secret>().patch(&token_secret("logs"), &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();

    let repaired = place
        .secret_that("another token", |secret| {
            let edited = ["", &token(&first), "other"];
            !edited.contains(&token(secret).as_str()) && secret["metadata"]["annotations"][CHECKSUM].is_string()
        })
        .await;
    assert_eq!(place.bearer(cluster, &repaired).await.unwrap(), place.username());
}

/// The whole life of a Secret, with six requests: created, token, filled; marked, Pods listed, deleted.
async fn life(place: &Place, controller: &Controller) {
    place.account().await;
    place.deployment().await;
    let secret = place.filled().await;
    assert_eq!(place.bearer(cluster().await, &secret).await.unwrap(), place.username());
    place.delete_deployment().await;
    let marked = |secret: &Value| secret["metadata"]["annotations"][UNNEEDED_SINCE].is_string();
    place.secret_that("the Secret being marked", marked).await;
    controller.set_ahead(601);
    place.poke_until("the Secret being deleted", async || place.secret().await.is_none().then_some(())).await;
}

const LIFE: usize = 6;

#[tokio::test]
async fn the_life_of_a_secret_takes_six_requests() {
    let place = Place::new().await;
    let controller = place.controller(Faults::none()).await;

    life(&place, &controller).await;

    let requests = controller.faults.requests();
    assert_eq!(requests.len(), LIFE, "{requests:#?}");
}

/// Whatever request fails once, the end is the same; a Pod that is there meanwhile gets its token.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn each_request_may_fail_once(
    #[values(Fault::Refused(500), Fault::Refused(409), Fault::Refused(429), Fault::AnswerLost)] fault: Fault,
) {
    let lives = (1..=LIFE).map(|number| async move {
        let place = Place::new().await;
        let controller = place.controller(Faults::at(number, fault)).await;
        life(&place, &controller).await;
        let requests = controller.faults.requests();
        assert!(requests.len() <= LIFE + 4, "request {number}: {requests:#?}");
    });
    futures_util::future::join_all(lives).await;
}

/// A controller that is killed before or after any request leaves what the next one completes.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn each_request_may_be_the_last(#[values(Fault::StopBefore, Fault::StopAfter)] fault: Fault) {
    let lives = (1..=LIFE).map(|number| async move {
        let place = Place::new().await;
        let first = place.controller(Faults::at(number, fault)).await;
        let faults = first.faults.clone();
        place.account().await;
        place.deployment().await;
        if number > 3 {
            place.filled().await;
            place.delete_deployment().await;
            if number > 4 {
                let marked = |secret: &Value| secret["metadata"]["annotations"][UNNEEDED_SINCE].is_string();
                place.secret_that("the Secret being marked", marked).await;
                first.set_ahead(601);
                place.poke_until("the request", async || (faults.count() >= number).then_some(())).await;
            }
        }
        faults.stopped().await;
        first.kill().await;

        let second = place.controller(Faults::none()).await;
        if number <= 3 {
            let secret = place.filled().await;
            assert_eq!(place.bearer(cluster().await, &secret).await.unwrap(), place.username());
            place.delete_deployment().await;
        }
        let marked = async || match place.secret().await {
            Some(secret) if !secret["metadata"]["annotations"][UNNEEDED_SINCE].is_string() => None,
            _ => Some(()),
        };
        until("the Secret being marked", SOON, marked).await.unwrap();
        second.set_ahead(3000);
        place.poke_until("the Secret being deleted", async || place.secret().await.is_none().then_some(())).await;
        let secrets = place.api::<Secret>().list(&ListParams::default()).await.unwrap();
        assert_eq!(secrets.items, []);
    });
    futures_util::future::join_all(lives).await;
}

#[tokio::test]
async fn two_controllers_at_once_do_no_harm() {
    let (cluster, place) = (cluster().await, Place::new().await);
    let controllers = [place.controller(Faults::none()).await, place.controller(Faults::none()).await];
    place.account().await;
    place.deployment().await;
    place.filled().await;
    tokio::time::sleep(QUIET).await;
    let secret = place.filled().await;
    let sent = controllers.each_ref().map(|controller| controller.faults.count());
    place.poke().await;
    tokio::time::sleep(QUIET).await;

    assert_eq!(controllers.each_ref().map(|controller| controller.faults.count()), sent);
    assert_eq!(place.bearer(cluster, &secret).await.unwrap(), place.username());
    place.delete_deployment().await;
    place.secret_that("the mark", |secret| secret["metadata"]["annotations"][UNNEEDED_SINCE].is_string()).await;
    for controller in &controllers {
        controller.set_ahead(601);
    }
    place.poke_until("the Secret being deleted", async || place.secret().await.is_none().then_some(())).await;
}

/// What a Pod mounts stays, and its token is renewed, though no SidecarSet asks for it any more.
#[tokio::test]
async fn g10_what_a_living_pod_mounts_is_kept_until_it_is_gone() {
    let (cluster, place) = (cluster().await, Place::new().await);
    place.account().await;
    place.mounting_pod("web").await;
    let controller = place.controller(Faults::none()).await;
    let first = place.filled().await;

    controller.settings.send_replace(decoded(settings(&[])));
    controller.set_ahead(1000);
    let other = async || place.secret().await.filter(|secret| token(secret) != token(&first));
    let second = place.poke_until("another token", other).await;

    assert_eq!(place.bearer(cluster, &second).await.unwrap(), place.username());
    assert!(!second["metadata"]["annotations"][UNNEEDED_SINCE].is_string());
    place.api::<Pod>().delete("web", &DeleteParams::default().grace_period(0)).await.unwrap();
    place.secret_that("the mark", |secret| secret["metadata"]["annotations"][UNNEEDED_SINCE].is_string()).await;
    controller.set_ahead(1601);
    place.poke_until("the Secret being deleted", async || place.secret().await.is_none().then_some(())).await;
}

/// The last question before a deletion is asked of the API server: a Pod that came a moment ago keeps its Secret.
#[tokio::test]
async fn g10_a_pod_that_comes_at_the_last_moment_keeps_the_secret() {
    let place = Place::new().await;
    place.account().await;
    place.deployment().await;
    let controller = place.controller(Faults::at(5, Fault::StopBefore)).await;
    let first = place.filled().await;
    place.delete_deployment().await;
    place.secret_that("the mark", |secret| secret["metadata"]["annotations"][UNNEEDED_SINCE].is_string()).await;
    controller.set_ahead(601);
    place.poke_until("the list of Pods", async || (controller.faults.count() == 5).then_some(())).await;
    controller.faults.stopped().await;

    place.mounting_pod("late").await;
    controller.faults.resume();

    let kept = |secret: &Value| !secret["metadata"]["annotations"][UNNEEDED_SINCE].is_string();
    let secret = place.secret_that("the mark being gone", kept).await;
    assert_eq!(uid(&secret), uid(&first));
    assert!(controller.faults.requests().iter().all(|request| !request.starts_with("DELETE")));
}

#[tokio::test]
async fn g2_a_foreign_secret_is_left_alone_and_told_of() {
    let place = Place::new().await;
    place.account().await;
    let foreign = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": token_secret("logs")}, "data": {"token": "bWluZQ=="},
    });
    let foreign = create(&place.api::<Secret>(), &foreign).await.unwrap();
    let controller = place.controller(Faults::none()).await;

    place.deployment().await;

    let note = place.told("Deployment", "TokenSecretNotOurs").await;
    assert!(note.contains(&token_secret("logs")) && !note.contains("bWluZQ"), "{note}");
    let sent = controller.faults.count();
    place.poke().await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(controller.faults.count(), sent, "{:?}", controller.faults.requests());
    assert_eq!(place.secret().await, Some(foreign));
}

#[tokio::test]
async fn g9_a_namespace_that_is_being_deleted_gets_nothing() {
    let place = Place::new().await;
    place.account().await;
    // Nobody finishes the deletion here, so it stays as it is.
    let namespaces: Api<Namespace> = Api::all(place.client.clone());
    place.deployment().await;
    namespaces.delete(&place.name, &DeleteParams::default()).await.unwrap();
    let controller = place.controller(Faults::none()).await;

    tokio::time::sleep(QUIET).await;

    assert_eq!(controller.faults.count(), 0, "{:?}", controller.faults.requests());
    assert_eq!(place.secret().await, None);
}

/// Where the controller may read Secrets only in the namespaces that it is given, a Role in each is enough; where a right
/// is missing, the Event says which, and other namespaces get their tokens.
#[tokio::test]
async fn p6_a_role_in_each_namespace_is_enough_and_a_missing_right_is_told() {
    let cluster = cluster().await;
    let [allowed, restricted] = [Place::new().await, Place::new().await];
    let user = format!("controller-of-{}", allowed.name);
    let role = |namespace: &str, rules: &str| {
        format!(
            "
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: tokens, namespace: {namespace}}}
rules:
{rules}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: tokens, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: tokens}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {user}}}]
"
        )
    };
    let secrets = "- {apiGroups: [''], resources: [secrets], verbs: [get, list, watch, create, patch, delete]}";
    let tokens = "- {apiGroups: [''], resources: [serviceaccounts/token], verbs: [create]}";
    let manifest = format!(
        "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {user}}}
rules:
- {{apiGroups: [''], resources: [namespaces, pods, serviceaccounts], verbs: [list, watch]}}
- {{apiGroups: [apps], resources: [deployments, statefulsets, daemonsets, replicasets], verbs: [list, watch]}}
- {{apiGroups: [batch], resources: [jobs, cronjobs], verbs: [list, watch]}}
- {{apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {user}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {user}}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {user}}}]
{}{}",
        role(&allowed.name, &format!("{secrets}\n{tokens}")),
        role(&restricted.name, secrets),
    );
    apply(&allowed.client, &manifest, "test").await.unwrap();
    for place in [&allowed, &restricted] {
        place.account().await;
        place.deployment().await;
    }
    let config = cluster.as_user(&user, None).unwrap().config().await.unwrap();
    let sets = [sidecar_set("one", &allowed.name), sidecar_set("other", &restricted.name)];
    let given = [allowed.name.as_str(), restricted.name.as_str()];
    let _controller = Controller::start(config, Faults::none(), settings(&sets), Some(&given), 0);

    let note = restricted.told("Deployment", "TokenForbidden").await;

    assert!(note.contains("resources: [\"serviceaccounts/token\"], verbs: [\"create\"]"), "{note}");
    let secret = allowed.filled().await;
    assert_eq!(allowed.bearer(cluster, &secret).await.unwrap(), allowed.username());
    apply(&allowed.client, &role(&restricted.name, &format!("{secrets}\n{tokens}")), "test").await.unwrap();
    let secret = restricted.filled().await;
    assert_eq!(restricted.bearer(cluster, &secret).await.unwrap(), restricted.username());
}

#[tokio::test]
async fn p6_a_namespace_that_is_not_given_is_told() {
    let (place, other) = (Place::new().await, Place::new().await);
    place.account().await;
    place.deployment().await;
    let config = cluster().await.as_admin().config().await.unwrap();
    let settings = settings(&[sidecar_set("logs", &place.name)]);
    let controller = Controller::start(config, Faults::none(), settings, Some(&[&other.name]), 0);

    place.told("Deployment", "TokenNamespaceNotGiven").await;

    assert_eq!(place.secret().await, None);
    assert!(controller.faults.requests().iter().all(|request| request.contains("/events")));
}
