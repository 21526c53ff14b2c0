//! `pillion controller` in the Pods of its rendered Deployments.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use clap::FromArgMatches as _;
use pillion::rendering::document::to_yaml;
use pillion::rendering::{controller, options};
use pillion_testenv::{Cluster, Image, Node, apply};
use serde_json::{Value, json};

use crate::processes::{Process, below, keeper_of, name};
use crate::support::program;

/// The image of the controllers.
const IMAGE: &str = "pillion.test/pillion:1";
const PROGRAM: &str = "/bin/pillion";

/// Returns an image with this build's `pillion` and the libraries that it is linked with.
pub fn image() -> Image {
    let listed = Command::new("ldd").arg(program()).output().unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    let libraries = text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    libraries.fold(Image::busybox(IMAGE).program(PROGRAM, program()), |image, library| image.program(library, library))
}

/// Applies the manifests for these settings and flags of `pillion manifest controller`. The Pods run on this node.
pub async fn install(cluster: &Cluster, node: &Node<'_>, settings: &Value, flags: &[&str]) {
    let flags =
        ["pillion", "--no-namespace", "--replicas=1", "--image", IMAGE].into_iter().chain(flags.iter().copied());
    let command = <options::Controller as clap::Args>::augment_args(clap::Command::new("pillion"));
    let options = options::Controller::from_arg_matches(&command.try_get_matches_from(flags).unwrap()).unwrap();
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
