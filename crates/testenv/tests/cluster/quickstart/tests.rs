//! The quick starts (docs/quickstart.md, docs/quickstart-standalone.md): their own blocks, from the installation of the
//! chart to the way back, and the proof that needs no kubelet. The guide docs/guides/own-identity.md in the same way. The
//! blocks for a kubelet run on kind, in the workflow `quickstart.yml`.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::Api;
use kube::api::{ListParams, PostParams};
use pillion_identity::names::token_secret;
use pillion_testenv::{Cluster, Options, until};
use serde_json::{Value, json};

use super::{NAMESPACE, Page, WAY_BACK, kubewarden, processes};
use crate::support::accounts::{bound_to, name_of};
use crate::support::{SOON, dynamic};

const AGENT: &str = "system:serviceaccount:shop:log-agent";

async fn cluster() -> Cluster {
    Cluster::start(Options::new().nodes(1).controller_manager()).await.unwrap()
}

/// Returns the Pod of the app.
async fn web(cluster: &Cluster) -> Value {
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await.unwrap(), "shop");
    let mut found = pods.list(&ListParams::default().labels("app=web")).await.unwrap().items;
    assert_eq!(found.len(), 1, "{found:#?}");
    serde_json::to_value(found.remove(0)).unwrap()
}

fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    containers.iter().find(|container| container["name"] == name).unwrap()
}

/// Returns the volume behind the only mount of a container.
fn mounted<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let mounts = container(pod, name)["volumeMounts"].as_array().unwrap();
    assert_eq!(mounts.len(), 1, "{pod:#}");
    assert_eq!(mounts[0]["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    volumes.iter().find(|volume| volume["name"] == mounts[0]["name"]).unwrap()
}

#[tokio::test]
async fn the_quick_start_with_kubewarden_isolates_the_token_and_leaves_nothing_behind() {
    let cluster = cluster().await;
    kubewarden::install(&cluster).await;
    let page = Page::new(&cluster, "quickstart.md");
    let stand_in = async {
        processes::wait_for_helm(&cluster).await;
        processes::start_controller(&cluster).await;
        kubewarden::serve(&cluster).await;
    };
    let printed = page.run(&["--until", WAY_BACK], stand_in).await;
    // Kubewarden, both ways to a cluster, and the two commands of the proof.
    assert!(printed.contains(" blocks ran, 5 were skipped"), "{printed}");

    // The app is what its author wrote.
    let client = cluster.admin().await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "shop");
    let deployment = serde_json::to_value(deployments.get("web").await.unwrap()).unwrap();
    let pod = web(&cluster).await;
    assert_eq!(container(&pod, "web"), &deployment["spec"]["template"]["spec"]["containers"][0]);
    assert_eq!(pod["spec"]["serviceAccountName"], "default");
    // The log agent mounts the Secret that the controller made, and its token is the log agent's.
    let sources = mounted(&pod, "log-agent")["projected"]["sources"].clone();
    assert_eq!(sources[0]["secret"]["name"], token_secret("log-agent"));
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "shop");
    let token = async || {
        let data = secrets.get_opt(&token_secret("log-agent")).await.unwrap()?.data?;
        String::from_utf8(data.get("token")?.0.clone()).ok()
    };
    let token = until("the token of the log agent", SOON, token).await.unwrap();
    assert_eq!(name_of(&cluster, &token).await.unwrap(), AGENT);

    page.run(&["--from", WAY_BACK], processes::stop_with_the_chart(&cluster, &["controller"])).await;
    assert_nothing_is_left(&cluster).await;
    let policies = kubewarden::policies(&client).list(&ListParams::default()).await.unwrap().items;
    assert!(policies.is_empty(), "{policies:#?}");
}

#[tokio::test]
async fn the_quick_start_without_kubewarden_takes_the_token_from_the_app_and_leaves_nothing_behind() {
    let cluster = cluster().await;
    let page = Page::new(&cluster, "quickstart-standalone.md");
    let stand_in = async {
        processes::wait_for_helm(&cluster).await;
        processes::start_both(&cluster).await;
    };
    let printed = page.run(&["--until", WAY_BACK], stand_in).await;
    // Both ways to a cluster, and the two commands of the proof.
    assert!(printed.contains(" blocks ran, 4 were skipped"), "{printed}");

    let pod = web(&cluster).await;
    assert_eq!(container(&pod, "web").get("volumeMounts"), None, "{pod:#}");
    assert_eq!(pod["spec"]["automountServiceAccountToken"], json!(false));
    let sources = &mounted(&pod, "log-agent")["projected"]["sources"];
    assert!(sources[0]["serviceAccountToken"].is_object(), "{sources:#}");
    let token = cluster.token("shop", "log-agent", &bound_to("Pod", &pod)).await.unwrap();
    assert_eq!(name_of(&cluster, &token).await.unwrap(), AGENT);

    page.run(&["--from", WAY_BACK], processes::stop_with_the_chart(&cluster, &["server", "controller"])).await;
    assert_nothing_is_left(&cluster).await;
}

/// The guide begins where the quick start has installed Pillion, and ends in the mode `Isolate`.
#[tokio::test]
async fn the_guide_gives_the_agent_an_identity_of_its_own_in_both_modes() {
    let cluster = cluster().await;
    let namespaces: Api<Namespace> = Api::all(cluster.admin().await.unwrap());
    let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    namespaces.create(&PostParams::default(), &shop).await.unwrap();
    let page = Page::new(&cluster, "quickstart-standalone.md");
    let stand_in = async {
        processes::wait_for_helm(&cluster).await;
        processes::start_both(&cluster).await;
    };
    let with_tokens =
        ["--replace", "--wait --timeout 5m", "--set controller.tokenNamespaces={shop} --wait --timeout 5m"];
    page.run(&[&["--until", "3. A log agent"], &with_tokens[..]].concat(), stand_in).await;

    let printed = Page::new(&cluster, "guides/own-identity.md").run(&[], async {}).await;
    // Both changes of the installation, and three commands of the proof.
    assert!(printed.contains(" blocks ran, 5 were skipped"), "{printed}");
    let pod = web(&cluster).await;
    assert_eq!(pod["spec"]["serviceAccountName"], "web");
    assert!(container(&pod, "web")["volumeMounts"][0]["name"].as_str().unwrap().starts_with("kube-api-access-"));
    let sources = &mounted(&pod, "log-agent")["projected"]["sources"];
    assert_eq!(sources[0]["secret"]["name"], token_secret("log-agent"));
}

/// Kinds of objects outside the namespaces of the quick start that the chart may create.
const KINDS: [(&str, &str, &str); 9] = [
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings"),
    ("rbac.authorization.k8s.io/v1", "Role", "roles"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
];

async fn assert_nothing_is_left(cluster: &Cluster) {
    let client = cluster.admin().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for name in ["shop", NAMESPACE] {
        assert_eq!(namespaces.get_opt(name).await.unwrap(), None, "{name}");
    }
    for (version, kind, plural) in KINDS {
        let ours = ListParams::default().labels("app.kubernetes.io/instance=pillion");
        let left = dynamic(&client, version, kind, plural).list(&ours).await.unwrap().items;
        let names: Vec<_> = left.into_iter().filter_map(|object| object.metadata.name).collect();
        assert_eq!(names, [""; 0], "{kind}");
    }
}
