//! Clusters whose containers run, and what happens in them.

pub mod shell;
pub mod view;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use pillion_testenv::{Image, tool, until};
use serde_json::Value;

use super::is_ready;

/// How long containers may take to start on a busy machine.
pub const STARTED: Duration = Duration::from_mins(2);
/// The image of apps.
pub const APP: &str = "pillion.test/app:1";

/// Returns an image of busybox with kubectl, for containers that show who they are. It has its own name in `/version`.
pub fn agent(name: &str) -> Image {
    Image::busybox(name).program("bin/kubectl", tool("kubectl").unwrap()).file("version", name)
}

/// Adds a program of this machine and the libraries that it is linked with to an image.
pub fn with_libraries(image: Image, path: &str, program: &Path) -> Image {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    // As in "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)", and "/lib64/ld-linux-x86-64.so.2 (0x00007f)".
    let libraries = listed.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    libraries.fold(image.program(path, program), |image, library| image.program(library, library))
}

/// Returns the image of apps.
pub fn app() -> Image {
    agent(APP)
}

/// Waits until a Pod is Ready, and returns it.
pub async fn ready(client: &Client, namespace: &str, name: &str) -> Value {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let ready = async || {
        let pod = serde_json::to_value(pods.get_opt(name).await.unwrap()?).unwrap();
        is_ready(&pod).then_some(pod)
    };
    match until(&format!("Pod {namespace}/{name} becoming ready"), STARTED, ready).await {
        Ok(pod) => pod,
        Err(error) => {
            let pod = serde_json::to_value(pods.get_opt(name).await.unwrap()).unwrap();
            panic!("{error}: {:#}", pod["status"])
        }
    }
}

/// Returns the status of a container, a native sidecar's too.
pub fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let lists = ["containerStatuses", "initContainerStatuses"].map(|list| pod["status"][list].as_array());
    let mut all = lists.into_iter().flatten().flatten();
    all.find(|status| status["name"] == name).unwrap_or(&Value::Null)
}
