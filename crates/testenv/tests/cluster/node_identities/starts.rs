//! Figures for docs/benchmarks.md: how long a Pod takes from its creation until it is ready, with and without an identity
//! of its sidecar.

use std::time::Instant;

use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::{AGENT, StoryNamespace, World};
use crate::support::node::APP;

/// The number of Pods of each kind.
const PODS: usize = 7;
/// Namespaces in which no Pod was before.
const FRESH: [&str; 3] = ["modes", "audiences", "boundaries"];

/// A kind of Pod: what the row says, the label `story`, and fields of the spec.
struct Kind {
    name: &'static str,
    story: &'static str,
    spec: Value,
}

impl Kind {
    fn new(name: &'static str, story: &'static str, spec: Value) -> Self {
        Self { name, story, spec }
    }
}

/// Creates a Pod. Returns the seconds until it is ready.
async fn seconds(place: &StoryNamespace<'_>, name: &str, kind: &Kind) -> f64 {
    let started = Instant::now();
    place.pod(name, kind.story, &kind.spec).await;
    place.ready(name).await;
    let seconds = started.elapsed().as_secs_f64();
    place.pods().delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    seconds
}

fn row(name: &str, mut seconds: Vec<f64>) -> String {
    seconds.sort_by(f64::total_cmp);
    let (least, median, most) = (seconds[0], seconds[seconds.len() / 2], seconds[seconds.len() - 1]);
    format!("| {name} | {} | {least:.1} | {median:.1} | {most:.1} |", seconds.len())
}

/// Returns the figures as a table.
pub async fn table(world: &World) -> String {
    let isolated = Kind::new("the app and a sidecar in mode `Isolate`", "life", json!({}));
    let mut lines = vec!["| Pod | Pods | least | median | most |\n| --- | ---: | ---: | ---: | ---: |".to_owned()];
    let mut first = Vec::new();
    for namespace in FRESH {
        first.push(seconds(&world.place(namespace).await, "first", &isolated).await);
    }
    lines.push(row("the first such Pod of a namespace", first));
    let both = json!({"containers": [{"name": "app", "image": APP}, {"name": "logs", "image": AGENT}]});
    let kinds = [
        Kind::new("the app alone", "none", json!({})),
        Kind::new("the app and a container of its author", "none", both),
        Kind::new("the app and a sidecar in mode `SidecarsOnly`", "boundaries", json!({})),
        isolated,
    ];
    let place = world.place("modes").await;
    for kind in &kinds {
        let mut all = Vec::new();
        for number in 0..PODS {
            all.push(seconds(&place, &format!("pod-{number}"), kind).await);
        }
        lines.push(row(kind.name, all));
    }
    lines.join("\n")
}
