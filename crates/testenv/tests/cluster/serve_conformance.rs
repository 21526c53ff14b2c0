//! A real API server accepts the results of OpenKruise's recorded admissions, and a second admission changes nothing.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use pillion_testenv::{Cluster, Options};
use pillion_testkit::conformance::{self, Case};
use pillion_testkit::module;
use serde_json::{Value, json};

use crate::support::{as_new, dry_run};

/// Why a case is not checked against the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Skip {
    Input,
    SidecarSets,
    Clash,
    Refused,
}

impl Skip {
    fn reason(self) -> &'static str {
        match self {
            Self::Input => "whose input the API server refuses",
            Self::SidecarSets => "with SidecarSets that are not valid",
            Self::Clash => "with SidecarSets that clash",
            Self::Refused => "that Pillion refuses and OpenKruise does not",
        }
    }
}

/// The cluster, and one namespace for all cases.
struct Server {
    pods: Api<Pod>,
    namespace: String,
}

impl Server {
    /// Returns the Pod that the API server would store, or the reason for a refusal.
    async fn admit(&self, pod: &Value) -> Result<Value, String> {
        let mut pod = as_new(pod);
        pod["metadata"]["namespace"] = self.namespace.as_str().into();
        let pod = serde_json::from_value(pod).map_err(|error| error.to_string())?;
        let admitted = self.pods.create(&dry_run(), &pod).await.map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(admitted).unwrap())
    }
}

/// Returns the request that creates a SidecarSet.
fn create_request(set: &Value) -> Value {
    let (group, version) = set["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let kind = json!({"group": group, "version": version, "kind": "SidecarSet"});
    let resource = json!({"group": group, "version": version, "resource": "sidecarsets"});
    json!({
        "uid": "u", "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
        "operation": "CREATE", "name": set["metadata"]["name"], "object": set,
        "userInfo": {"username": "admin", "groups": ["system:masters"]},
    })
}

/// Returns the settings of a case with a whitelist, which recorded Pod admissions lack but validation requires.
fn with_whitelist(case: &Case) -> Value {
    let mut settings = case.settings();
    settings["patchPodMetadataWhitelist"] = json!({"rules": [{"allowedAnnotationKeyExprs": [".*"]}]});
    settings
}

/// Whether a SidecarSet is valid on its own, or as the canary of another one.
fn is_valid(case: &Case, set: &Value) -> bool {
    let mut settings = with_whitelist(case);
    let base = &set["metadata"]["annotations"]["apps.kruise.io/sidecarset-base"];
    settings["sidecarSets"].as_array_mut().unwrap().retain(|other| other["metadata"]["name"] == *base);
    module().validate(&create_request(set), &settings, Arc::new(conformance::cluster(case))).unwrap().accepted
}

/// Checks one case. `Err` if the result is wrong.
async fn check(server: &Server, case: &Case) -> Result<Option<Skip>, String> {
    // A Pod that is being deleted cannot be created: the API server removes the deletion timestamp.
    if case.object()["metadata"].get("deletionTimestamp").is_some() || server.admit(case.object()).await.is_err() {
        return Ok(Some(Skip::Input));
    }
    if !case.of_kind("SidecarSet").all(|set| is_valid(case, set)) {
        return Ok(Some(Skip::SidecarSets));
    }
    if !module().validate_settings(&with_whitelist(case)).unwrap().valid {
        return Ok(Some(Skip::Clash));
    }
    let answer = conformance::run(case, module()).map_err(|error| error.to_string())?;
    if !answer.accepted {
        return Ok(Some(Skip::Refused));
    }
    let injected = answer.mutated_object.unwrap_or_else(|| case.object().clone());
    let mut stored = server.admit(&injected).await.map_err(|refusal| format!("{refusal}\n{}", injected["spec"]))?;
    stored["metadata"]["namespace"] = case.object()["metadata"]["namespace"].clone();

    let mut request = case.request().clone();
    request["object"] = stored.clone();
    let again = module().validate(&request, &case.settings(), Arc::new(conformance::cluster(case))).unwrap();
    if !again.accepted {
        return Err(format!("admitted again: {:?}", again.message));
    }
    let changes = json_patch::diff(&stored, again.mutated_object.as_ref().unwrap_or(&stored));
    if changes.0.is_empty() { Ok(None) } else { Err(format!("admitted again: {changes}")) }
}

#[tokio::test]
async fn what_is_injected_is_accepted_and_stays() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let namespace = cluster.namespace("conformance").await.unwrap();
    let server = Server { pods: Api::namespaced(cluster.admin().await.unwrap(), &namespace), namespace };

    let (mut checked, mut skipped, mut wrong) = (0_usize, BTreeMap::<Skip, usize>::new(), Vec::new());
    for case in
        conformance::cases(&conformance::file()).iter().filter(|case| !case.is_sidecar_set() && case.is_allowed())
    {
        match check(&server, case).await {
            Ok(None) => checked += 1,
            Ok(Some(skip)) => *skipped.entry(skip).or_default() += 1,
            Err(problem) => wrong.push(format!("{} {:?}: {problem}", case.id(), case.tags())),
        }
    }

    let skipped: Vec<String> = skipped.iter().map(|(skip, count)| format!("{count} {}", skip.reason())).collect();
    say(&format!("conformance on the API server: {checked} accepted; left out: {}", skipped.join(", ")));
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), wrong.len() + checked, wrong.join("\n"));
    assert!(checked > 20, "hardly any case is left");
}

/// Writes to stdout directly, because the test runner hides captured output of tests that pass.
fn say(line: &str) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}
