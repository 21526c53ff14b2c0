//! Nodes that kwok simulates, and what simulated and real ones have in common.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use crate::Error;
use crate::servers::KWOK;
use crate::until;

/// How kwok changes nodes and Pods.
pub(crate) const STAGES: &str = include_str!("../../../testenv/kwok/stages.yaml");

const READY: Duration = Duration::from_mins(2);

/// Creates the nodes, and waits until all of them accept Pods. `log` returns the end of the log of kwok.
pub(crate) async fn join(client: Client, count: u8, log: impl Fn() -> String) -> Result<(), Error> {
    let nodes: Api<Node> = Api::all(client);
    for number in 1..=count {
        let name = format!("node-{number}");
        let labels = [("kubernetes.io/hostname", name.as_str()), ("kubernetes.io/os", "linux")];
        let labels: BTreeMap<String, String> =
            labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let metadata = ObjectMeta { name: Some(name.clone()), labels: Some(labels), ..ObjectMeta::default() };
        nodes
            .create(&PostParams::default(), &Node { metadata, ..Node::default() })
            .await
            .map_err(Error::api(format!("node \"{name}\"")))?;
    }
    for number in 1..=count {
        wait_for(&nodes.clone().into_client(), KWOK, &format!("node-{number}"), &log).await?;
    }
    Ok(())
}

/// Waits until a node accepts Pods. `server` is the program that looks after the node, and `log` returns the end of its log.
pub(crate) async fn wait_for(client: &Client, server: &str, name: &str, log: impl Fn() -> String) -> Result<(), Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let ready = async || nodes.get(name).await.ok().filter(takes_pods);
    until(&format!("node \"{name}\" becoming ready"), READY, ready).await.map(drop).map_err(|error| {
        let (server, reason) = (server.to_owned(), error.to_string());
        Error::NotReady { server, after: READY, reason, log: log() }
    })
}

/// Whether the node is Ready and without the taints that every node has until a controller finds it ready.
fn takes_pods(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let tainted = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).next().is_some();
    !tainted && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
