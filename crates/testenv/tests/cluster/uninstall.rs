//! `pillion uninstall` on a real API server: SidecarSets stay readable without a server, and no field of them is lost.

use std::process::Command;

use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use pillion_install::rendering::crd::{self, Conversion};
use pillion_testenv::faults::Faults;
use pillion_testenv::{Cluster, Options, apply, until};
use serde_json::{Value, json};

use crate::support::{SOON, create, dynamic, program};

const NEW: &str = "apps.kruise.io/v1beta1";
const OLD: &str = "apps.kruise.io/v1alpha1";

fn sets(client: &Client, version: &str) -> Api<DynamicObject> {
    dynamic(client, version, "SidecarSet", "sidecarsets")
}

fn definitions(client: &Client) -> Api<DynamicObject> {
    dynamic(client, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions")
}

/// Returns the definition whose conversion webhook is that of a Service.
fn converted_by(name: &str, namespace: &str) -> Value {
    let client = json!({"service": {"name": name, "namespace": namespace, "path": "/convert", "port": 443}});
    crd::document("pillion", &Conversion::Webhook(client), &Value::Null).object
}

/// Runs the command as the user of a kubeconfig. Returns its exit code and its output.
fn uninstall(kubeconfig: &std::path::Path, flags: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(program());
    let output = command.arg("uninstall").args(flags).arg("--kubeconfig").arg(kubeconfig).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecar_sets_outlive_the_server_that_converted_them() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    // Without the retries of the usual client: the API server answers 429 and 503 while a conversion fails.
    let client = Faults::none().client(cluster.as_admin().config().await.unwrap()).unwrap();
    let admin = cluster.admin_kubeconfig_file();
    let (code, out, err) = uninstall(&admin, &[]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("not there") && out.contains("0 objects released"), "{out}");

    // A SidecarSet with fields of both versions, as admission stores them.
    let plain = crd::document("pillion", &Conversion::None, &Value::Null);
    apply(&client, &plain.to_yaml().unwrap(), "helm").await.unwrap();
    let set = json!({
        "apiVersion": NEW, "kind": "SidecarSet", "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}}, "containers": [{"name": "agent", "image": "agent:1"}],
            "namespace": "shop", "customVersion": "v1",
        },
    });
    let is_served = async || create(&sets(&client, NEW), &set).await.ok();
    until("SidecarSets being served", SOON, is_served).await.unwrap();
    let converted = converted_by("pillion", "pillion-system");
    let helm = PatchParams::apply("helm");
    definitions(&client).patch(crd::NAME, &helm, &Patch::Apply(&converted)).await.unwrap();
    // Until the API server has built the storage of the changed definition, it answers 429 without a conversion.
    let is_broken = async || {
        let error = sets(&client, OLD).list(&ListParams::default()).await.err()?;
        error.to_string().contains("conversion webhook").then_some(error)
    };
    until("the conversion that fails", SOON, is_broken).await.unwrap();

    let jane = cluster.folder().join("jane");
    std::fs::write(&jane, cluster.as_user("jane", None).unwrap().kubeconfig()).unwrap();
    let (code, _, err) = uninstall(&jane, &[]);
    assert!(code == 2 && err.contains("the verb \"get\" on customresourcedefinitions.apiextensions.k8s.io"), "{err}");
    assert!(err.contains("cannot list resource \"rolebindings\""), "{err}");

    let (code, out, err) = uninstall(&admin, &["--service-name", "other"]);
    assert!(
        code == 0 && out.contains("calls the Service pillion-system/pillion, not the Service pillion-system/other"),
        "{out}{err}"
    );
    let (code, out, err) = uninstall(&admin, &[]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("no longer calls the Service pillion-system/pillion"), "{out}");
    for version in [NEW, OLD] {
        let read = async || sets(&client, version).get("agent").await.ok();
        let found = until("a SidecarSet being readable", SOON, read).await.unwrap();
        for field in ["namespace", "customVersion"] {
            assert_eq!(found.data["spec"][field], set["spec"][field], "{version}");
        }
    }
    // A writer of the old version loses nothing either.
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    sets(&client, OLD).patch("agent", &PatchParams::default(), &label).await.unwrap();
    let found = sets(&client, NEW).get("agent").await.unwrap();
    assert_eq!(found.data["spec"]["customVersion"], "v1");
    let (code, out, _) = uninstall(&admin, &[]);
    assert!(code == 0 && out.contains("left as it is: it has no conversion webhook"), "{out}");

    // Installing again is no conflict, since the command owns no field.
    let definition = definitions(&client).get(crd::NAME).await.unwrap();
    let managers: Vec<_> =
        definition.metadata.managed_fields.unwrap().into_iter().filter_map(|entry| entry.manager).collect();
    assert!(managers.iter().all(|manager| manager != "pillion-uninstall"), "{managers:?}");
    let again = definitions(&client).patch(crd::NAME, &helm, &Patch::Apply(&converted)).await.unwrap();
    assert_eq!(again.data["spec"]["conversion"]["strategy"], "Webhook");
    let expected = &converted["spec"]["versions"];
    assert_eq!(&again.data["spec"]["versions"], expected, "the definition is as it was");
}
