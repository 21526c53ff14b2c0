//! `pillion controller` in the Pods of its rendered Deployments.

use std::collections::BTreeSet;
use std::path::Path;

use pillion_install::rendering::controller;
use pillion_install::rendering::document::to_yaml;
use pillion_install::rendering::options::Controller;
use pillion_testenv::{Cluster, Image, Node, apply};
use serde_json::{Value, json};

use crate::processes::{Process, below, keeper_of, name};
use crate::support::node::with_libraries;
use crate::support::{options, program};

/// The image of the controllers.
const IMAGE: &str = "pillion.test/pillion:1";
const PROGRAM: &str = "/bin/pillion";

/// Returns an image with this build's `pillion`.
pub fn image() -> Image {
    with_libraries(Image::busybox(IMAGE), PROGRAM, &program())
}

/// Applies the manifests for these settings and flags of `pillion manifest controller`. The Pods run on this node.
pub async fn install(cluster: &Cluster, node: &Node<'_>, settings: &Value, flags: &[&str]) {
    let options: Controller = options(&[&["--no-namespace", "--replicas=1", "--image", IMAGE], flags].concat());
    let mut documents = controller::render(settings, &options).unwrap().documents;
    for document in documents.iter_mut().filter(|document| document.object["kind"] == "Deployment") {
        let pod = &mut document.object["spec"]["template"]["spec"];
        pod["nodeSelector"] = json!({"kubernetes.io/hostname": node.name()});
        // The released image has it as its entrypoint.
        pod["containers"][0]["command"] = json!([PROGRAM]);
    }
    apply(&cluster.admin().await.unwrap(), &to_yaml(&documents).unwrap(), "manifests").await.unwrap();
}

/// Returns the processes of all controllers.
pub fn processes(cluster: &Cluster) -> BTreeSet<Process> {
    let all = below(keeper_of(cluster).0).into_iter();
    all.filter(|(process, _)| name(*process) == Path::new(PROGRAM).file_name().unwrap().to_string_lossy()).collect()
}
