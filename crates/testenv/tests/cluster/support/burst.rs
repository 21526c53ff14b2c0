//! Creates Pods without a pause, and collects the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use pillion_testenv::{Cluster, until};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{SOON, dry_run, names, pod};

/// The containers of a Pod, or the status code and the message.
pub type Answer = Result<Vec<String>, (u16, String)>;

/// Number of concurrent creations.
const WORKERS: usize = 4;
/// The number of answers after which earlier requests are certainly finished.
const ENOUGH: usize = 20;

/// Returns a client that reports refusals at once: the usual one retries a 503 for minutes.
pub async fn client(cluster: &Cluster) -> Client {
    let mut config = cluster.as_admin().config().await.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// Creates the Pod of the example with a dry run. Returns its containers, or the status code and the message.
pub async fn inject(client: &Client, namespace: &str) -> Answer {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pod = pod(&json!({"metadata": {"generateName": "p-", "labels": {"mode": "strip"}}}));
    match pods.create(&dry_run(), &serde_json::from_value(pod).unwrap()).await {
        Ok(stored) => Ok(names(&serde_json::to_value(stored).unwrap(), "/spec/containers")),
        Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(error) => Err((0, error.to_string())),
    }
}

/// The normal answer for the Pod of the example.
#[allow(clippy::unnecessary_wraps, reason = "answers are compared with it")]
pub fn injected() -> Answer {
    Ok(vec!["app".to_owned(), "log-agent".to_owned()])
}

/// Whether the API server refused because it could not call the webhook.
pub fn is_uncalled(refusal: &(u16, String)) -> bool {
    refusal.0 == 500 && refusal.1.contains("failed calling webhook \"pods.pillion.dev\"")
}

/// Checks that every Pod got its sidecar or an expected refusal, and that enough Pods were created.
pub fn is_sound(answers: &[Answer], is_expected: impl Fn(&(u16, String)) -> bool) {
    let is_wrong = |answer: &&Answer| match answer {
        Ok(_) => **answer != injected(),
        Err(refusal) => !is_expected(refusal),
    };
    let wrong: Vec<_> = answers.iter().filter(is_wrong).collect();
    assert!(wrong.is_empty(), "{} of {}: {wrong:?}", wrong.len(), answers.len());
    let created = answers.iter().filter(|answer| answer.is_ok()).count();
    assert!(created > ENOUGH, "{created} of {}", answers.len());
}

/// Creates Pods, some concurrently, until it is told to end.
pub struct Burst {
    workers: Vec<JoinHandle<Vec<Answer>>>,
    answered: Arc<AtomicUsize>,
    end: watch::Sender<bool>,
}

impl Burst {
    pub async fn start(cluster: &Cluster, namespace: &str) -> Self {
        let (end, ended) = watch::channel(false);
        let answered = Arc::new(AtomicUsize::new(0));
        let mut workers = Vec::new();
        for _ in 0..WORKERS {
            let (client, namespace, ended) = (client(cluster).await, namespace.to_owned(), ended.clone());
            let answered = Arc::clone(&answered);
            workers.push(tokio::spawn(async move {
                let mut answers = Vec::new();
                while !*ended.borrow() {
                    answers.push(inject(&client, &namespace).await);
                    answered.fetch_add(1, Ordering::Relaxed);
                    sleep(Duration::from_millis(20)).await;
                }
                answers
            }));
        }
        Self { workers, answered, end }
    }

    /// Waits for answers to Pods that have not been sent yet.
    pub async fn goes_on(&self) {
        let wanted = self.answered.load(Ordering::Relaxed) + WORKERS + ENOUGH;
        let enough = async || (self.answered.load(Ordering::Relaxed) >= wanted).then_some(());
        until("answers", SOON, enough).await.unwrap();
    }

    /// Ends the burst and returns all answers.
    pub async fn end(self) -> Vec<Answer> {
        self.end.send_replace(true);
        let mut answers = Vec::new();
        for worker in self.workers {
            answers.extend(worker.await.unwrap());
        }
        answers
    }
}
