//! Times admissions through the module, a fresh instance each: `bench <module>`.
//!
//! Three rows in one run, so that the machine is the same: empty settings, 200 SidecarSets of which none matches, and
//! 200 of which 30 do, each for a Pod with 50 containers. A policy server allows a second.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pillion_host::{Module, NoCluster};
use serde_json::{Value, json};

const ROUNDS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: bench <module>")?;
    let bytes = std::fs::read(path)?;
    let started = Instant::now();
    let module = Module::load(&bytes)?;
    println!("{} bytes, loaded in {:.1?}", bytes.len(), started.elapsed());
    let request = json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": "CREATE", "namespace": "default",
        "kind": {"group": "", "version": "v1", "kind": "Pod"}, "object": pod(50),
    });
    for (name, settings, injected) in [
        ("empty settings", json!({}), 0),
        ("200 SidecarSets, none matches", json!({"sidecarSets": sets(200, 0)}), 0),
        ("200 SidecarSets, 30 match", json!({"sidecarSets": sets(200, 30)}), 30),
    ] {
        let mut times = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let started = Instant::now();
            let answer = module.validate(&request, &settings, Arc::new(NoCluster))?;
            times.push(started.elapsed());
            let containers = answer.mutated_object.as_ref().and_then(|pod| pod.pointer("/spec/containers"));
            let added = containers.and_then(Value::as_array).map_or(0, |containers| containers.len() - 50);
            if !answer.accepted || added != injected {
                return Err(format!("{name}: not the expected answer: {:?}, {added} injected", answer.message).into());
            }
        }
        times.sort();
        let millis = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1000.0);
        println!(
            "{name}: median {:.2} ms, slowest {:.2} ms of {ROUNDS}",
            millis(times.get(ROUNDS / 2)),
            millis(times.last())
        );
    }
    Ok(())
}

fn pod(containers: usize) -> Value {
    let containers: Vec<Value> = (0..containers)
        .map(|index| {
            json!({
                "name": format!("app-{index}"), "image": "nginx:1.25",
                "env": [{"name": "A", "value": "1"}, {"name": "LOG_LEVEL", "value": "info"}],
                "resources": {"limits": {"cpu": "200m", "memory": "100Mi"}, "requests": {"cpu": "100m"}},
                "volumeMounts": [
                    {"name": "data", "mountPath": format!("/data/{index}")},
                    {"name": "kube-api-access-abcde", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
                ],
            })
        })
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "big", "namespace": "default", "labels": {"app": "yes"}},
        "spec": {"containers": containers, "volumes": [{"name": "data", "emptyDir": {}}]},
    })
}

fn sets(all: usize, matching: usize) -> Vec<Value> {
    (0..all)
        .map(|index| {
            let app = if index < matching { "yes" } else { "no" };
            json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
                "metadata": {"name": format!("set-{index:03}")},
                "spec": {
                    "selector": {"matchLabels": {"app": app}},
                    "containers": [{
                        "name": format!("sidecar-{index:03}"), "image": "agent:1.0",
                        "shareVolumePolicy": {"type": "enabled"},
                        "transferEnv": [{"sourceContainerName": "app-0", "envName": "LOG_LEVEL"}],
                        "env": [{"name": "MODE", "value": "sidecar"}],
                        "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}},
                        "volumeMounts": [{"name": format!("own-{index:03}"), "mountPath": "/own"}],
                    }],
                    "volumes": [{"name": format!("own-{index:03}"), "emptyDir": {}}],
                },
            })
        })
        .collect()
}
