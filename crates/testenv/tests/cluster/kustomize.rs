//! `kustomize build` of deploy/kustomize gives the objects of `pillion manifest`, and a real API server accepts them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use kustomizations::{Build, FOLDER, builds, folders, identity};
use pillion_documents::manifest::{Source, parse};
use pillion_testenv::{Cluster, Options, apply, stand_in, tool};
use pillion_testkit::module::workspace;
use serde_json::{Value, json};

#[path = "../../../install/tests/install/kustomize/content.rs"]
mod kustomizations;

/// The kinds of other projects.
const FOREIGN: [(&str, &str); 3] = [
    ("policies.kubewarden.io/v1", "ClusterAdmissionPolicy"),
    ("cert-manager.io/v1", "Issuer"),
    ("cert-manager.io/v1", "Certificate"),
];

/// Returns what `kustomize build` prints for a user's kustomization, which stands beside a copy of the folders.
fn built(build: &Build) -> Vec<Value> {
    let copy = tempfile::tempdir().unwrap();
    for folder in folders() {
        fs::create_dir_all(copy.path().join(&folder.path)).unwrap();
        for name in folder.files.keys() {
            let file = Path::new(&folder.path).join(name);
            fs::copy(workspace().join(FOLDER).join(&file), copy.path().join(file)).unwrap();
        }
    }
    let own = copy.path().join("own");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("kustomization.yaml"), build.kustomization()).unwrap();
    let output = Command::new(tool("kustomize").unwrap()).arg("build").arg(&own).output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && err.is_empty(), "{}: {err}", build.name());
    let source = Arc::new(Source::new(build.name(), out));
    parse(&source).unwrap().into_iter().map(|manifest| manifest.value).collect()
}

fn by_identity(objects: &[Value]) -> BTreeMap<[String; 3], &Value> {
    objects.iter().map(|object| (identity(object), object)).collect()
}

#[test]
fn a_build_is_what_is_rendered() {
    for build in builds() {
        let built = built(&build);
        let (built, rendered) = (by_identity(&built), by_identity(&build.objects));
        assert!(built.keys().eq(rendered.keys()), "{}: {:?}", build.name(), built.keys());
        for (identity, object) in rendered {
            assert_eq!(built[&identity], object, "{}: {identity:?}", build.name());
        }
    }
}

/// Defines a kind of another project.
async fn define(client: &Client, (api_version, kind): (&str, &str)) {
    let scope = if kind.starts_with("Cluster") { "Cluster" } else { "Namespaced" };
    let definition = stand_in(api_version, kind, scope);
    apply(client, &definition.to_string(), "test").await.unwrap();
}

/// Every object is new, so that a dry run finds each mistake of a manifest; the namespace alone has to exist.
#[tokio::test]
async fn the_api_server_accepts_every_object() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    for kind in FOREIGN {
        define(&client, kind).await;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "pillion-system"}});
    apply(&client, &namespace.to_string(), "test").await.unwrap();
    let mut seen = 0;
    let params = PatchParams {
        dry_run: true,
        field_validation: Some(kube::api::ValidationDirective::Strict),
        ..PatchParams::apply("test")
    };
    let discovery = kube::Discovery::new(client.clone()).run().await.unwrap();
    for build in builds() {
        for object in built(&build) {
            let types: kube::api::TypeMeta = serde_json::from_value(object.clone()).unwrap();
            let kind = kube::core::GroupVersionKind::try_from(types).unwrap();
            let (resource, capabilities) = discovery.resolve_gvk(&kind).unwrap_or_else(|| panic!("{kind:?}"));
            let [_, namespace, name] = identity(&object);
            let api: Api<kube::api::DynamicObject> = match capabilities.scope {
                kube::discovery::Scope::Cluster => Api::all_with(client.clone(), &resource),
                kube::discovery::Scope::Namespaced => Api::namespaced_with(client.clone(), &namespace, &resource),
            };
            let accepted = api.patch(&name, &params, &Patch::Apply(&object)).await;
            if let Err(error) = accepted {
                panic!("{}: {} {name}: {error}", build.name(), kind.kind);
            }
            seen += 1;
        }
    }
    assert!(seen > 150, "{seen}");
}
