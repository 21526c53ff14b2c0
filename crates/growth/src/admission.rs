//! How long the change of a SidecarSet takes to reach admission: through the controllers' bundle to `pillion serve`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use kube::Client;
use pillion_server::client::Client as ServerClient;
use pillion_stress::server::{Authority, Server as Started, Start};
use pillion_stress::usage::Usage;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::measured::Admission;
use crate::objects;
use crate::plan::{Plan, Sidecars, Workload};
use crate::requests::{MERGE, patch};

const LOOK: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_mins(2);
/// The version of the image to which the SidecarSet changes.
const CHANGED: usize = 3;

/// How to start `pillion serve`.
#[derive(Clone, Copy, Debug)]
pub struct Server<'a> {
    /// The program `pillion`.
    pub program: &'a Path,
    /// The cluster.
    pub kubeconfig: &'a Path,
}

/// Changes a SidecarSet, and waits until admission injects the new version into a Pod that it selects.
///
/// # Errors
/// The server cannot be started, or the change does not reach it.
pub async fn measure(server: Server<'_>, client: &Client, plan: Plan, set: usize) -> anyhow::Result<Admission> {
    let authority = Authority::new()?;
    let start = Start {
        args: ["--cluster", "live"].map(str::to_owned).into(),
        environment: BTreeMap::from([("KUBECONFIG", server.kubeconfig.to_owned())]),
        ..Start::new(server.program, &authority, objects::settings())
    };
    let server = Started::start(start).await?;
    let mut connection = server.connections(1).await?.pop().context("a connection")?;
    let namespace = plan.namespaces_of_log(set).next().unwrap_or_default();
    let new = Workload { number: 0, namespace, replicas: 1, sidecars: Sidecars::Log(set) };
    let review = review(&objects::pod(&new));
    let name = objects::log(set);
    let (known, changed) = (objects::image(&name, 1), objects::image(&name, CHANGED));
    await_image(&mut connection, &review, &known).await?;
    let started = Instant::now();
    let containers = &plan.log_set(set, CHANGED)["spec"]["containers"];
    patch(client, &objects::set_path(&name), MERGE, &json!({"spec": {"containers": containers}})).await?;
    await_image(&mut connection, &review, &changed).await?;
    let time = started.elapsed();
    let usage = Usage::read(server.process()).context("the memory of the server")?;
    Ok(Admission { time, peak: usage.memory.peak })
}

/// Waits until an answer injects a container with this image.
async fn await_image(connection: &mut ServerClient, review: &str, image: &str) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let answer = connection.post("/mutate?timeout=30s", review.to_owned()).await?;
        let answer: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let patch = answer["response"]["patch"].as_str().unwrap_or_default();
        let patch = BASE64_STANDARD.decode(patch).unwrap_or_default();
        if String::from_utf8_lossy(&patch).contains(&format!("\"{image}\"")) {
            return Ok(());
        }
        if started.elapsed() > PATIENCE {
            bail!("admission does not inject {image}: {}", answer["response"]);
        }
        sleep(LOOK).await;
    }
}

/// Returns the review of a Pod's creation, as an API server sends it.
fn review(pod: &Value) -> String {
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": kind, "resource": resource,
            "requestKind": kind, "requestResource": resource, "namespace": pod["metadata"]["namespace"],
            "operation": "CREATE", "dryRun": false, "object": pod, "oldObject": null,
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller", "groups": ["system:authenticated"]},
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"}
        }
    })
    .to_string()
}
