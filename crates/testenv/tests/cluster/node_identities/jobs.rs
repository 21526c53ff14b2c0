//! A Job whose Pod has a sidecar: it completes, and the sidecar keeps its identity until then.

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use pillion_testenv::until;
use serde_json::{Value, json};

use super::{World, pod};
use crate::support::node::{self, APP};
use crate::support::{SOON, create};

/// The app works until the test has seen the sidecar.
const WORK: &str = "until [ -e /tmp/done ]; do sleep 0.1; done";

/// The sidecar is a native one, holds its account's token, and ends with the app.
pub async fn a_job_with_a_sidecar_completes(world: &World) {
    let place = world.place("modes").await;
    let app = json!([{"name": "app", "image": APP, "command": ["sh", "-c", WORK]}]);
    let spec = json!({"restartPolicy": "Never", "serviceAccountName": "web", "containers": app});
    let mut template = pod("job", "job", &spec);
    template["metadata"].as_object_mut().unwrap().remove("name");
    let template = json!({"metadata": template["metadata"], "spec": template["spec"]});
    let jobs: Api<Job> = Api::namespaced(place.client.clone(), place.namespace);
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"},
        "spec": {"template": template, "backoffLimit": 0},
    });
    create(&jobs, &job).await.unwrap();
    let name = place.pod_of("job").await;

    let running = place.ready(&name).await;

    let natives: Vec<_> = running["spec"]["initContainers"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(natives, ["logs"]);
    let seen = [("logs", "logs lists pods, reads token:logs"), ("app", "web lists services, reads token:web")];
    place.sees(&name, seen).await;
    place.shell(&name, "app").run("touch /tmp/done").await;
    let is_complete = async || {
        let status = jobs.get_status("job").await.unwrap().status?;
        status.conditions?.into_iter().find(|condition| condition.type_ == "Complete" && condition.status == "True")
    };
    until("the Job is complete", SOON, is_complete).await.unwrap();
    let ended: Value = json!(place.pods().get(&name).await.unwrap());
    assert!(node::container(&ended, "logs")["state"]["terminated"].is_object(), "{ended}");
}
