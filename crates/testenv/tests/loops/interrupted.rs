//! Requests that fail, and controllers that are killed between any two requests: the result is always the same.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use pillion_controller::Clock;
use pillion_controller::default_account::DefaultAccounts;
use pillion_controller::queue::run;
use pillion_controller::root_ca::{self, RootCaPublisher};
use pillion_controller::token_controller::TokenController;
use pillion_testenv::faults::{Fault, Faults};
use pillion_testenv::until;
use rstest::rstest;

use super::{Fixture, Running, SOON, authority, context, fixture, token_options, value};

/// Creates a namespace in which every controller has something to do.
async fn begin(fixture: &Fixture, name: &str) -> String {
    let namespace = fixture.namespace(name).await;
    fixture.account(&namespace, "bot", &["bot-token-x2b4z", "config", "s"]).await;
    fixture.secret(&namespace, "s", "bot").await;
    fixture.secret(&namespace, "orphan", "missing").await;
    namespace
}

/// Waits until everything is correct, and checks that nothing exists twice.
async fn end(fixture: &Fixture, namespace: &str) {
    let right = async || {
        let secrets = fixture.secrets(namespace).list(&ListParams::default()).await.ok()?.items;
        let [secret] = secrets.as_slice() else { return None };
        let named = fixture.named(namespace, "bot").await;
        let accounts = fixture.accounts(namespace).list(&ListParams::default()).await.ok()?.items.len();
        let root = fixture.maps(namespace).get_opt("kube-root-ca.crt").await.ok()??.data?;
        let is_right = named == ["config", "s"]
            && accounts == 2
            && root["ca.crt"] == fixture.cluster.authority_certificate()
            && value(secret, "ca.crt").is_some()
            && value(secret, "namespace").as_deref() == Some(namespace);
        value(secret, "token").filter(|_| is_right)
    };
    let token = until(&format!("everything in {namespace} being right"), SOON, right).await.unwrap();
    let name = format!("system:serviceaccount:{namespace}:bot");
    assert_eq!(fixture.bearer(&token).await.as_deref(), Some(name.as_str()));
}

/// Returns the number of requests of a start with work to do.
async fn requests(fixture: &Fixture) -> usize {
    let mut count = 0;
    // The first round also finishes work left by other tests.
    for _ in 0..2 {
        let namespace = begin(fixture, "count").await;
        let faults = Faults::none();
        let running = fixture.start(&faults).await;
        end(fixture, &namespace).await;
        running.kill().await;
        forget(fixture, &namespace).await;
        count = faults.count();
        assert!(count >= 8, "{:?}", faults.requests());
    }
    count
}

/// Removes all work from a namespace.
async fn forget(fixture: &Fixture, namespace: &str) {
    fixture.secrets(namespace).delete("s", &DeleteParams::default()).await.unwrap();
    let namespaces = Api::<Namespace>::all(fixture.client.clone());
    namespaces.delete(namespace, &DeleteParams::default()).await.unwrap();
}

/// A namespace with a single thing to do, so that no other event wakes a controller that fails to retry.
#[derive(Clone, Copy)]
enum Only {
    Account,
    Root,
    Fill,
    Orphan,
    Name,
}

impl Only {
    async fn begin(self, fixture: &Fixture) -> String {
        let namespace = fixture.namespace("only").await;
        match self {
            Self::Account | Self::Root => {}
            Self::Fill => {
                fixture.account(&namespace, "bot", &[]).await;
                fixture.secret(&namespace, "s", "bot").await;
            }
            Self::Orphan => drop(fixture.secret(&namespace, "s", "missing").await),
            Self::Name => drop(fixture.account(&namespace, "bot", &["bot-token-x2b4z"]).await),
        }
        namespace
    }

    async fn start(self, fixture: &Fixture, faults: &Faults) -> Running {
        let context = context(fixture.config().await, faults, Clock::system());
        let (roots, tokens) = (authority(fixture.cluster), token_options(fixture.cluster));
        Running(tokio::spawn(async move {
            match self {
                Self::Account => run::<DefaultAccounts>(context, ()).await,
                Self::Root => run::<RootCaPublisher>(context, root_ca::Options { authority: Some(roots) }).await,
                Self::Fill | Self::Orphan | Self::Name => run::<TokenController>(context, tokens).await,
            }
        }))
    }

    async fn end(self, fixture: &Fixture, namespace: &str) {
        let secrets = fixture.secrets(namespace);
        let right = async || {
            let is_right = match self {
                Self::Account => fixture.accounts(namespace).get_opt("default").await.ok()?.is_some(),
                Self::Root => fixture.maps(namespace).get_opt("kube-root-ca.crt").await.ok()?.is_some(),
                Self::Fill => value(&secrets.get("s").await.ok()?, "token").is_some(),
                Self::Orphan => secrets.get_opt("s").await.ok()?.is_none(),
                Self::Name => fixture.named(namespace, "bot").await.is_empty(),
            };
            is_right.then_some(())
        };
        until(&format!("the only thing to do in {namespace}"), SOON, right).await.unwrap();
    }
}

#[rstest]
#[case::account(Only::Account)]
#[case::root(Only::Root)]
#[case::fill(Only::Fill)]
#[case::orphan(Only::Orphan)]
#[case::name(Only::Name)]
#[tokio::test(flavor = "multi_thread")]
async fn tkn8_any_request_may_fail_once(#[case] only: Only) {
    let fixture = fixture().await;
    // The first round finishes work left by other tests.
    for fault in [None, Some(Fault::Refused(500)), Some(Fault::AnswerLost)] {
        for number in 1.. {
            let namespace = only.begin(&fixture).await;
            let faults = fault.map_or_else(Faults::none, |fault| Faults::at(number, fault));
            let running = only.start(&fixture, &faults).await;
            only.end(&fixture, &namespace).await;
            running.kill().await;
            let namespaces = Api::<Namespace>::all(fixture.client.clone());
            namespaces.delete(&namespace, &DeleteParams::default()).await.unwrap();
            if fault.is_none() || faults.count() < number {
                break;
            }
        }
    }
}

#[rstest]
#[case::before(Fault::StopBefore)]
#[case::after(Fault::StopAfter)]
#[tokio::test(flavor = "multi_thread")]
async fn tkn9_controllers_may_be_killed_at_any_request(#[case] fault: Fault) {
    let fixture = fixture().await;
    for number in 1..=requests(&fixture).await {
        let namespace = begin(&fixture, "kill").await;
        let faults = Faults::at(number, fault);
        let running = fixture.start(&faults).await;
        // If it makes fewer requests this time, it finishes without stopping.
        let stopped = async { faults.stopped().await };
        tokio::select! { () = stopped => {} () = end(&fixture, &namespace) => {} }
        running.kill().await;
        let running = fixture.start(&Faults::none()).await;
        end(&fixture, &namespace).await;
        running.kill().await;
        forget(&fixture, &namespace).await;
    }
}
