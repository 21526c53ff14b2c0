//! A release of the chart: Helm, the server and the controllers as local processes with the rights of the release, and
//! what is in the cluster.

mod tests;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kube::api::{DynamicObject, ListParams};
use kube::discovery::verbs;
use kube::{Api, Client, Discovery};
use pillion_identity::names;
use pillion_install::rendering::crd;
use pillion_plan::merged::{LABEL, MANAGED_BY};
use pillion_testenv::{Cluster, apply, free_port, tool, until};
use pillion_testkit::module::workspace;
use serde_json::{Value, json};

use crate::support::{SOON, deployments, dynamic, program};

/// The namespace of the release.
pub const NAMESPACE: &str = "pillion-system";
/// The label of its objects.
const OURS: &str = "app.kubernetes.io/part-of=pillion";
/// What comes and goes by itself.
const UNSTEADY: [&str; 2] = ["Event ", "Lease kube-"];
/// What the controller manager puts into each namespace, at any time after the start of the cluster.
const IN_EACH_NAMESPACE: [(&str, &str); 2] = [("ConfigMap ", "/kube-root-ca.crt"), ("ServiceAccount ", "/default")];

/// Returns a copy of the chart as an older version: without hooks and tests, and with fewer rights.
pub fn older_chart(chart: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-r").arg(chart.join(".")).arg(copy.path()).status().unwrap();
    assert!(copied.success());
    for folder in ["templates/hooks", "templates/tests"] {
        fs::remove_dir_all(copy.path().join(folder)).unwrap();
    }
    let replace = |name: &str, old: &str, new: &str| {
        let file = copy.path().join(name);
        let text = fs::read_to_string(&file).unwrap();
        let edited = text.replace(old, new);
        assert_ne!(edited, text, "{name}");
        fs::write(file, edited).unwrap();
    };
    replace("Chart.yaml", "ersion: 0.1.0", "ersion: 0.0.9");
    replace("files/controllers.yaml", "      - watch\n", "");
    copy
}

/// Returns kind, namespace and name of every object that the API server has, except those of Kubernetes.
pub async fn everything(client: &Client) -> BTreeSet<String> {
    objects(client, &ListParams::default()).await.into_keys().collect()
}

/// Returns the objects of the release, as they were written.
pub async fn of_release(client: &Client) -> BTreeMap<String, Value> {
    let mut objects = objects(client, &ListParams::default().labels(OURS)).await;
    // What others make from them: Pods, the copies of Deployments, the objects of the processes.
    objects.retain(|_, object| {
        let metadata = &object["metadata"];
        metadata["annotations"]["meta.helm.sh/release-name"] == "pillion" && metadata["ownerReferences"].is_null()
    });
    for object in objects.values_mut() {
        object.as_object_mut().unwrap().remove("status");
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
        if let Some(annotations) = metadata.get_mut("annotations") {
            annotations.as_object_mut().unwrap().remove("deployment.kubernetes.io/revision");
        }
    }
    objects
}

/// Creates a merged ServiceAccount, Role and RoleBinding, as the controller makes them.
pub async fn create_merged(client: &Client, namespace: &str) {
    let sets = ["a", "b"];
    let name = names::merged(&sets);
    let object = |api_version: &str, kind: &str, rest: &Value| {
        let mut object = json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {
                "name": name, "namespace": namespace, "labels": {LABEL: MANAGED_BY},
                "annotations": {names::SIDECAR_SETS: names::merged_annotation(&sets)},
                "finalizers": ["sa.pillion.dev/a", "sa.pillion.dev/b"],
            },
        });
        json_patch::merge(&mut object, rest);
        object.to_string()
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
    let objects = [
        object("v1", "ServiceAccount", &json!({})),
        // More than the hook may do itself.
        object(rbac, "Role", &json!({"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]})),
        object(
            rbac,
            "RoleBinding",
            &json!({
                "roleRef": role_ref, "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
            }),
        ),
    ];
    apply(client, &objects.join("\n---\n"), "merged").await.unwrap();
}

async fn objects(client: &Client, selection: &ListParams) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    // The group of a definition that is just going is in the list, and not found.
    let discovered = async || Discovery::new(client.clone()).run().await.ok();
    let discovery = until("the kinds of the API server", SOON, discovered).await.unwrap();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            // A kind may just be going.
            let Ok(list) = api.list(selection).await else { continue };
            for mut object in list {
                object.types = Some(kube::api::TypeMeta {
                    api_version: resource.api_version.clone(),
                    kind: resource.kind.clone(),
                });
                let (namespace, name) =
                    (object.metadata.namespace.clone().unwrap_or_default(), object.metadata.name.clone().unwrap());
                let title = format!("{} {namespace}/{name}", resource.kind);
                if !is_of_kubernetes(&title) {
                    all.insert(title, serde_json::to_value(object).unwrap());
                }
            }
        }
    }
    all
}

fn is_of_kubernetes(title: &str) -> bool {
    UNSTEADY.iter().any(|start| title.starts_with(start))
        || IN_EACH_NAMESPACE.iter().any(|(start, end)| title.starts_with(start) && title.ends_with(end))
}

/// A local server of the release.
pub struct Server {
    pub url: String,
}

impl Server {
    /// Returns the CA that the server has written, in PEM.
    pub async fn authority(&self, client: &Client) -> String {
        let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(client.clone(), NAMESPACE);
        let secret = secrets.get("pillion-serve-tls").await.unwrap();
        String::from_utf8(secret.data.unwrap()["ca.crt"].0.clone()).unwrap()
    }
}

/// The release `pillion`, in front of a cluster.
pub struct Release<'a> {
    cluster: &'a Cluster,
    home: PathBuf,
}

impl<'a> Release<'a> {
    pub fn new(cluster: &'a Cluster) -> Self {
        Self { cluster, home: cluster.folder().join("helm") }
    }

    /// Runs Helm as the administrator, and returns what it says.
    pub fn helm(&self, arguments: &[&str]) -> String {
        let output = Command::new(tool("helm").unwrap())
            .args(arguments)
            .args(["--namespace", NAMESPACE])
            .envs(["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"].map(|name| (name, &self.home)))
            .env("KUBECONFIG", self.cluster.admin_kubeconfig_file())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(output.stdout), text(output.stderr));
        assert!(output.status.success(), "helm {arguments:?}: {err}{out}");
        format!("{out}{err}")
    }

    fn template(&self, more: &[&str]) -> Vec<Value> {
        let chart = workspace().join("charts/pillion");
        let text = self.helm(&[&["template", "pillion", chart.to_str().unwrap()][..], more].concat());
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        objects.into_iter().filter(Value::is_object).collect()
    }

    /// Returns kind, namespace and name of the chart's objects, without hooks.
    pub fn rendered(&self, more: &[&str]) -> BTreeSet<String> {
        let objects = self.template(&[&["--no-hooks"], more].concat());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        objects
            .iter()
            .map(|object| {
                let metadata = &object["metadata"];
                format!("{} {}/{}", text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
            })
            .collect()
    }

    /// Starts the server, and waits until it is ready.
    pub async fn start_server(&self, scheme: &str) -> Server {
        let (port, health) = (free_port().unwrap(), free_port().unwrap());
        let own = [
            format!("--listen=127.0.0.1:{port}"),
            format!("--health-listen=127.0.0.1:{health}"),
            "--drain-delay=0s".to_owned(),
            "--tls-name=127.0.0.1".to_owned(),
        ];
        deployments::start(self.cluster, &program(), (NAMESPACE, "pillion"), "pillion", &own).await;
        deployments::ready(self.cluster, "pillion", health).await;
        Server { url: format!("{scheme}://127.0.0.1:{port}") }
    }

    /// Starts the controllers, and waits until they work.
    pub async fn start_controller(&self) {
        let health = free_port().unwrap();
        let (name, own) = ("pillion-controller", format!("--health-listen=127.0.0.1:{health}"));
        deployments::start(self.cluster, &program(), (NAMESPACE, name), name, &[own]).await;
        deployments::ready(self.cluster, name, health).await;
    }

    /// Stops server and controllers.
    pub async fn stop(&self) {
        for name in ["pillion-controller", "pillion"] {
            self.cluster.stop_program(name, 20).await.unwrap();
        }
    }

    /// Runs the command of a hook's Job with exactly the rights of the hook, since no Pod runs anything here. Returns
    /// what it says.
    pub async fn run_hook_beside(&self, template: &str, account: &str) -> String {
        let client = self.cluster.admin().await.unwrap();
        let mut objects = self.template(&["--show-only", template]);
        objects.sort_by_key(|object| object["kind"] != "Namespace");
        let job = objects.iter().position(|object| object["kind"] == "Job").unwrap();
        let job = objects.remove(job);
        let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
        let applied = async || apply(&client, &texts.join("\n---\n"), "hook").await.ok();
        until("the hook's objects", SOON, applied).await.unwrap();
        assert_eq!(job["spec"]["template"]["spec"]["serviceAccountName"], account);
        let arguments = job["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
        let kubeconfig = deployments::kubeconfig(self.cluster, NAMESPACE, account).await;
        let mut command = Command::new(program());
        command.args(arguments.iter().map(|argument| argument.as_str().unwrap())).env("KUBECONFIG", kubeconfig);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success(), "{err}{out}");
        for object in objects.iter().rev() {
            let types: kube::api::TypeMeta = serde_json::from_value(object.clone()).unwrap();
            let kind = kube::core::GroupVersionKind::try_from(types).unwrap();
            let (resource, _) = kube::discovery::pinned_kind(&client, &kind).await.unwrap();
            let name = object["metadata"]["name"].as_str().unwrap();
            let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                None => Api::all_with(client.clone(), &resource),
            };
            api.delete(name, &kube::api::DeleteParams::background()).await.unwrap();
        }
        if let Some(namespace) = objects.iter().find(|object| object["kind"] == "Namespace") {
            let name = namespace["metadata"]["name"].as_str().unwrap();
            let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
            let is_gone = async || namespaces.get_opt(name).await.unwrap().is_none().then_some(());
            until("the hook's namespace being gone", SOON, is_gone).await.unwrap();
        }
        out
    }

    /// Lets the conversion call the Service again, as the chart says.
    pub async fn restore_conversion(&self, client: &Client) {
        let objects = self.template(&["--show-only", "templates/crd.yaml"]);
        let api = dynamic(client, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions");
        let mut definition = serde_json::to_value(api.get(crd::NAME).await.unwrap()).unwrap();
        definition["spec"]["conversion"] = objects[0]["spec"]["conversion"].clone();
        definition["metadata"].as_object_mut().unwrap().remove("managedFields");
        let definition = serde_json::from_value(definition).unwrap();
        api.replace(crd::NAME, &kube::api::PostParams::default(), &definition).await.unwrap();
    }
}
