//! The guards of running Pods on a real API server (AFT-2 to AFT-9): who opens a container, changes its image, or requests
//! a token, and which requests reach each guard in a busy cluster.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use pillion_testenv::{Cluster, Options, until};
use pillion_testkit::identity::Accounts;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::accounts::set_up;
use crate::support::{Installation, SOON, create, pod};

const MERGED: &str = "sidecarset-merged-7e18f737311b2dc3";
/// The webhooks of the guards.
const GUARDS: [&str; 3] = ["exec.pillion.dev", "images.pillion.dev", "token-requests.pillion.dev"];

/// Returns a SidecarSet for the Pods with the label `identity` of this name.
fn set(name: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"identity": name}},
            "serviceAccountName": format!("{name}-agent"), "serviceAccountMode": mode,
            "initContainers": [{"name": "setup", "image": "setup:1"}],
            "containers": [{"name": "agent", "image": "agent:1"}],
        },
    })
}

fn settings() -> Value {
    json!({
        "sidecarSets": [set("iso", "Isolate"), set("own", "SidecarsOnly"), set("pod", "Pod")],
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "serviceAccounts": {
            "allowPodMode": true,
            "controllerUser": "the-controller",
            "guards": {
                "exec": true, "execUsers": ["dora"],
                "tokenRequests": true, "tokenRequestAccounts": [{"namespaces": ["*"], "names": ["vault*"]}],
                "images": true,
                "breakGlassGroups": ["oncall"],
            },
        },
    })
}

async fn start(options: Options) -> (&'static Cluster, Installation<'static>) {
    let cluster: &'static Cluster = Box::leak(Box::new(Cluster::start(options).await.unwrap()));
    let installation = Installation::start(cluster, &settings(), &[], &[]).await;
    let admin = cluster.admin().await.unwrap();
    // What a team may do with its Pods. Only some of its members may also request tokens.
    let opens = json!({"apiGroups": [""], "resources": ["pods/exec", "pods/attach", "pods/portforward"], "verbs": ["get", "create"]});
    let writes = json!({"apiGroups": [""], "resources": ["pods", "pods/ephemeralcontainers"], "verbs": ["*"]});
    let tokens = |names: &[&str]| json!({"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"], "resourceNames": names});
    let all = json!({"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]});
    let roles = [
        ("ann", "User", json!([opens, writes])),
        ("bob", "User", json!([opens, writes, tokens(&["iso-agent", "own-agent"])])),
        ("cara", "User", json!([opens, writes, all])),
        ("dora", "User", json!([opens])),
        ("the-controller", "User", json!([all])),
        ("oncall", "Group", json!([opens, writes, all])),
        ("system:nodes", "Group", json!([all])),
    ];
    for (subject, kind, rules) in roles {
        let name = format!("test-{}", subject.replace(':', "-"));
        create(&Api::<ClusterRole>::all(admin.clone()), &json!({"metadata": {"name": name}, "rules": rules}))
            .await
            .unwrap();
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": kind, "name": subject, "apiGroup": "rbac.authorization.k8s.io"}],
        });
        create(&Api::<ClusterRoleBinding>::all(admin.clone()), &binding).await.unwrap();
    }
    // Validating webhooks take effect on their own.
    let namespace = cluster.namespace("ready").await.unwrap();
    let refused = async || {
        let error = request_token(&admin, &namespace, "vault").await.err()?;
        error.starts_with("admission webhook").then_some(())
    };
    create(&Api::<ServiceAccount>::namespaced(admin.clone(), &namespace), &json!({"metadata": {"name": "vault"}}))
        .await
        .unwrap();
    until("the guards being asked", SOON, refused).await.unwrap();
    (cluster, installation)
}

async fn shared() -> &'static (&'static Cluster, Installation<'static>) {
    static SHARED: OnceCell<(&'static Cluster, Installation<'static>)> = OnceCell::const_new();
    SHARED.get_or_init(async || start(Options::new()).await).await
}

/// Creates a namespace with the accounts of the SidecarSets.
async fn namespace(cluster: &Cluster) -> String {
    let namespace = cluster.namespace("shop").await.unwrap();
    let names = ["default", "web", "vault", "iso-agent", "own-agent", "pod-agent"];
    set_up(&cluster.admin().await.unwrap(), &namespace, &Accounts::named(&names)).await;
    namespace
}

/// Creates the Pod `web` with the sidecar of a SidecarSet, and returns it as it is stored.
async fn web(cluster: &Cluster, namespace: &str, identity: &str) -> Value {
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await.unwrap(), namespace);
    let name = format!("web-{identity}");
    let stored =
        create(&pods, &pod(&json!({"metadata": {"name": name, "labels": {"identity": identity}}}))).await.unwrap();
    let names: Vec<&str> =
        stored["spec"]["containers"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names.len(), if identity == "none" { 1 } else { 2 }, "{stored}");
    stored
}

/// Sends a request without a body. Returns the message if it is refused.
async fn send(client: &Client, method: &str, path: &str) -> Result<String, String> {
    let request = http::Request::builder().method(method).uri(path).body(Vec::new()).unwrap();
    client.request_text(request).await.map_err(|error| match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    })
}

/// Opens a connection to a Pod. There is no node, so the API server refuses it in any case.
async fn connect(client: &Client, namespace: &str, path: &str) -> String {
    send(client, "POST", &format!("/api/v1/namespaces/{namespace}/pods/{path}")).await.unwrap_err()
}

async fn request_token(client: &Client, namespace: &str, account: &str) -> Result<(), String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let answer = accounts.create_token_request(account, &PostParams::default(), &TokenRequest::default()).await;
    answer.map(drop).map_err(|error| match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    })
}

fn is_denied(by: &str, message: &str) -> bool {
    message.starts_with(&format!("admission webhook \"{by}\" denied the request: "))
}

/// Returns how often the API server has called each guard. Fails if a match condition could not be evaluated.
async fn calls(client: &Client) -> BTreeMap<&'static str, u64> {
    let metrics = send(client, "GET", "/metrics").await.unwrap();
    let of = |metric: &str, name: &str| -> u64 {
        let lines = metrics
            .lines()
            .filter(|line| line.starts_with(&format!("{metric}{{")) && line.contains(&format!("name=\"{name}\"")));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    for name in GUARDS {
        assert_eq!(of("apiserver_admission_match_condition_evaluation_errors_total", name), 0, "{name}");
    }
    GUARDS.map(|name| (name, of("apiserver_admission_webhook_request_total", name))).into()
}

/// Returns how many calls there were since an earlier count.
async fn calls_since(client: &Client, before: &BTreeMap<&'static str, u64>) -> [u64; 3] {
    let now = calls(client).await;
    GUARDS.map(|name| now[name] - before[name])
}

#[tokio::test]
async fn aft2_who_may_not_request_the_token_opens_no_holder() {
    let (cluster, _) = shared().await;
    let namespace = &namespace(cluster).await;
    for identity in ["iso", "own", "pod", "none"] {
        web(cluster, namespace, identity).await;
    }
    let [ann, bob, dora] = [
        cluster.user("ann", None).await.unwrap(),
        cluster.user("bob", None).await.unwrap(),
        cluster.user("dora", None).await.unwrap(),
    ];
    let oncall = cluster.user("erin", Some("oncall")).await.unwrap();
    let admin = cluster.admin().await.unwrap();
    let annotate = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/default-container": "app"}}});
    let pods: Api<Pod> = Api::namespaced(admin.clone(), namespace);
    pods.patch("web-iso", &PatchParams::default(), &Patch::Merge(&annotate)).await.unwrap();

    for path in [
        "web-iso/exec?container=agent&command=sh",
        "web-iso/exec?container=setup&command=sh",
        "web-iso/exec?command=sh",
        "web-iso/exec?container=&command=sh",
        "web-iso/exec?container=other&command=sh",
        "web-iso/attach?container=agent&stdin=true",
        "web-iso/attach",
        "web-iso/portforward",
        "web-iso/portforward?ports=8080",
        "web-own/exec?container=agent&command=sh",
        "web-own/portforward",
        "web-pod/exec?container=agent&command=sh",
        // In mode Pod, the app has the account, too.
        "web-pod/exec?container=app&command=sh",
    ] {
        let message = connect(&ann, namespace, path).await;
        assert!(is_denied("exec.pillion.dev", &message), "{path}: {message}");
        let get = send(&ann, "GET", &format!("/api/v1/namespaces/{namespace}/pods/{path}")).await.unwrap_err();
        assert!(is_denied("exec.pillion.dev", &get), "{path}: {get}");
        for client in [&admin, &oncall, &dora] {
            let message = connect(client, namespace, path).await;
            assert!(!message.contains("admission webhook"), "{path}: {message}");
        }
    }
    for path in [
        "web-iso/exec?container=app&command=sh",
        "web-own/attach?container=app",
        "web-none/portforward",
        "web-none/exec?command=sh",
    ] {
        let message = connect(&ann, namespace, path).await;
        assert!(message.contains("does not have a host assigned"), "{path}: {message}");
    }
    for path in ["web-iso/exec?container=agent&command=sh", "web-own/portforward"] {
        let message = connect(&bob, namespace, path).await;
        assert!(message.contains("does not have a host assigned"), "{path}: {message}");
    }
    let message = connect(&bob, namespace, "web-pod/exec?container=agent&command=sh").await;
    assert!(is_denied("exec.pillion.dev", &message) && message.contains("\"pod-agent\""), "{message}");
    // AFT-2: the API server does not choose by the annotation.
    let message = connect(&admin, namespace, "web-iso/exec?command=sh").await;
    assert!(message.contains("a container name must be specified"), "{message}");
    let message = connect(&ann, namespace, "gone/exec?container=agent&command=sh").await;
    assert!(message.contains("\"gone\" not found"), "{message}");
}

#[tokio::test]
async fn aft6_only_nodes_and_the_controller_request_tokens_of_sidecars() {
    let (cluster, _) = shared().await;
    let namespace = &namespace(cluster).await;
    let controller = cluster.user("the-controller", None).await.unwrap();
    let admin = cluster.admin().await.unwrap();
    // Only the controller may make a merged account.
    let maker = cluster.user("the-controller", Some("system:masters")).await.unwrap();
    create(&Api::<ServiceAccount>::namespaced(maker, namespace), &json!({"metadata": {"name": MERGED}})).await.unwrap();
    let cara = cluster.user("cara", None).await.unwrap();
    for account in [MERGED, "vault"] {
        for client in [&cara, &admin] {
            let message = request_token(client, namespace, account).await.unwrap_err();
            assert!(is_denied("token-requests.pillion.dev", &message), "{account}: {message}");
        }
        let grouped = cluster.user("cara", Some("system:nodes")).await.unwrap();
        let message = request_token(&grouped, namespace, account).await.unwrap_err();
        assert!(is_denied("token-requests.pillion.dev", &message), "{account}: {message}");
        let node = cluster.user("system:node:n1", Some("system:nodes")).await.unwrap();
        let oncall = cluster.user("erin", Some("oncall")).await.unwrap();
        for client in [&node, &oncall, &controller] {
            request_token(client, namespace, account).await.unwrap();
        }
    }
    for account in ["web", "iso-agent"] {
        request_token(&cara, namespace, account).await.unwrap();
    }
}

#[tokio::test]
async fn aft7_nobody_else_changes_the_image_of_a_running_holder() {
    let (cluster, _) = shared().await;
    let namespace = &namespace(cluster).await;
    let ann = cluster.user("ann", None).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(ann, namespace);
    let merge = PatchParams::default();
    let image = |list: &str, name: &str, image: &str| json!({"spec": {list: [{"name": name, "image": image}]}});
    for identity in ["iso", "own", "pod"] {
        let stored = web(cluster, namespace, identity).await;
        let name = &format!("web-{identity}");
        let denied = |what: &str, answer: Result<Pod, kube::Error>| {
            let kube::Error::Api(status) = answer.unwrap_err() else { panic!("{what}") };
            assert!(is_denied("images.pillion.dev", &status.message), "{what}: {}", status.message);
        };
        let changed = image("containers", "agent", "evil.example/agent:1");
        denied("a patch", pods.patch(name, &merge, &Patch::Strategic(&changed)).await);
        let changed = image("initContainers", "setup", "evil.example/setup:1");
        denied("an init container", pods.patch(name, &merge, &Patch::Strategic(&changed)).await);
        let both = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
            {"name": "agent", "image": "agent:2"}, {"name": "app", "image": "app:2"},
        ]}});
        denied("among other changes", pods.patch(name, &merge, &Patch::Strategic(&both)).await);
        let applied =
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "agent", "image": "agent:2"}]}});
        denied(
            "server-side apply",
            pods.patch(name, &PatchParams::apply("ann").force(), &Patch::Apply(&applied)).await,
        );
        let mut replaced = stored.clone();
        let containers = replaced["spec"]["containers"].as_array_mut().unwrap();
        containers.iter_mut().find(|it| it["name"] == "agent").unwrap()["image"] = json!("agent:2");
        replaced["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        let replaced: Pod = serde_json::from_value(replaced).unwrap();
        denied("a replacement", pods.replace(name, &PostParams::default(), &replaced).await);
        let of_app = image("containers", "app", "app:2");
        let answer = pods.patch(name, &merge, &Patch::Strategic(&of_app)).await;
        if identity == "pod" { denied("the app in mode Pod", answer) } else { drop(answer.unwrap()) }
    }
    // Those who may, and nobody asks Pillion.
    let admin = cluster.admin().await.unwrap();
    let before = calls(&admin).await;
    let manager = "system:serviceaccount:kruise-system:kruise-manager";
    let manager = cluster.user(manager, Some("system:masters")).await.unwrap();
    let changed = image("containers", "agent", "agent:3");
    Api::<Pod>::namespaced(manager, namespace).patch("web-iso", &merge, &Patch::Strategic(&changed)).await.unwrap();
    let oncall = cluster.user("erin", Some("oncall")).await.unwrap();
    Api::<Pod>::namespaced(oncall, namespace).patch("web-own", &merge, &Patch::Strategic(&changed)).await.unwrap();
    assert_eq!(calls(&admin).await["images.pillion.dev"], before["images.pillion.dev"]);
}

/// AFT-9: what controllers, the scheduler, nodes, users and tools of a busy cluster do with Pods and tokens reaches no
/// guard. AFT-8: while no server answers, all of that goes on, and emergencies pass.
#[tokio::test]
async fn aft8_aft9_a_busy_cluster_asks_no_guard() {
    let (cluster, installation) = start(Options::new().nodes(1)).await;
    let namespace = &namespace(cluster).await;
    let admin = cluster.admin().await.unwrap();
    let before = calls(&admin).await;
    busy(cluster, namespace, "first").await;
    assert_eq!(calls_since(&admin, &before).await, [0, 0, 0]);

    // Each guard is there, and is called for what it judges.
    let pods: Api<Pod> = Api::namespaced(admin.clone(), namespace);
    let running = pods.list(&ListParams::default().labels("identity=iso")).await.unwrap();
    let name = running.items.first().unwrap().metadata.name.clone().unwrap();
    let changed = json!({"spec": {"containers": [{"name": "agent", "image": "agent:2"}]}});
    let change = Patch::Strategic(&changed);
    pods.patch(&name, &PatchParams::default(), &change).await.unwrap_err();
    let cara = cluster.user("cara", None).await.unwrap();
    request_token(&cara, namespace, "vault").await.unwrap_err();
    let ann = cluster.user("ann", None).await.unwrap();
    connect(&ann, namespace, &format!("{name}/exec?container=agent&command=sh")).await;
    assert_eq!(calls_since(&admin, &before).await, [1, 1, 1]);

    // New Pods need the server; what runs goes on without it.
    installation.stop_server().await;
    let called = |name: &str, message: &str| message.contains(&format!("failed calling webhook \"{name}\""));
    keep_running(cluster, namespace).await;
    let message = pods.patch(&name, &PatchParams::default(), &change).await.unwrap_err().to_string();
    assert!(called("images.pillion.dev", &message), "{message}");
    let message = connect(&ann, namespace, &format!("{name}/exec?container=app&command=sh")).await;
    assert!(called("exec.pillion.dev", &message), "{message}");
    let message = request_token(&cara, namespace, "vault").await.unwrap_err();
    assert!(called("token-requests.pillion.dev", &message), "{message}");
    // Accounts that nobody listed, nodes, and emergencies.
    request_token(&cara, namespace, "web").await.unwrap();
    let oncall = cluster.user("erin", Some("oncall")).await.unwrap();
    request_token(&oncall, namespace, "vault").await.unwrap();
    Api::<Pod>::namespaced(oncall.clone(), namespace).patch(&name, &PatchParams::default(), &change).await.unwrap();
    // The namespaces of the system never wait.
    let kube_system = connect(&ann, "kube-system", "gone/exec?command=sh").await;
    assert!(kube_system.contains("\"gone\" not found"), "{kube_system}");
    // A Pod that is not there: the node would answer a connection to one that is.
    let message = connect(&oncall, namespace, "gone/exec?command=sh").await;
    assert!(message.contains("\"gone\" not found"), "{message}");
}

/// Runs workloads: a Deployment with each identity is created, scaled, changed and deleted, and a Job completes.
async fn busy(cluster: &Cluster, namespace: &str, version: &str) {
    let admin = cluster.admin().await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(admin.clone(), namespace);
    let manager = PatchParams::apply("argocd").force();
    let template = |labels: Value, version: &str| {
        json!({
            "metadata": {"labels": labels, "annotations": {"version": version}},
            "spec": {"containers": [{"name": "app", "image": format!("app:{version}")}]},
        })
    };
    let deployment = |name: &str, version: &str, replicas: u8| {
        let labels = json!({"app": name, "identity": name});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(labels, version),
            },
        })
    };
    for name in ["iso", "own", "pod", "none"] {
        deployments.patch(name, &manager, &Patch::Apply(&deployment(name, version, 2))).await.unwrap();
    }
    for name in ["iso", "own", "pod", "none"] {
        available(&deployments, name, 2).await;
    }
    keep_running(cluster, namespace).await;
    for name in ["iso", "own"] {
        deployments.patch(name, &manager, &Patch::Apply(&deployment(name, "next", 3))).await.unwrap();
        available(&deployments, name, 3).await;
        deployments.patch(name, &manager, &Patch::Apply(&deployment(name, "next", 1))).await.unwrap();
    }
    deployments.delete("pod", &DeleteParams::default()).await.unwrap();
    let jobs: Api<Job> = Api::namespaced(admin.clone(), namespace);
    let mut of_job = template(json!({"identity": "iso"}), version);
    of_job["spec"]["restartPolicy"] = json!("Never");
    create(&jobs, &json!({"metadata": {"name": "job"}, "spec": {"template": of_job}})).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(admin, namespace);
    let gone = async || {
        let all = pods.list(&ListParams::default().labels("app=pod")).await.unwrap();
        all.items.is_empty().then_some(())
    };
    until("the Pods of the Deployment being gone", SOON, gone).await.unwrap();
}

async fn available(deployments: &Api<Deployment>, name: &str, replicas: i32) {
    let there = async || {
        let status = deployments.get(name).await.ok()?.status?;
        let is_done = status.available_replicas == Some(replicas) && status.updated_replicas == Some(replicas);
        (is_done && status.replicas == Some(replicas)).then_some(())
    };
    until(&format!("{name} being available"), SOON, there).await.unwrap();
}

/// What goes on with running Pods, with and without a server: users write labels, annotations, finalizers and images of the
/// app, kubelets request tokens and write status, and Pods are deleted.
async fn keep_running(cluster: &Cluster, namespace: &str) {
    let admin = cluster.admin().await.unwrap();
    let pods: Api<Pod> = Api::namespaced(admin.clone(), namespace);
    let nodes: Api<Node> = Api::all(admin.clone());
    let node = nodes.list(&ListParams::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
    let kubelet = cluster.user(&format!("system:node:{node}"), Some("system:nodes")).await.unwrap();
    let merge = PatchParams::default();
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        let name = pod.metadata.name.clone().unwrap();
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let touched = json!({"metadata": {
            "labels": {"seen": "true"}, "annotations": {"example.com/note": "x"}, "finalizers": ["example.com/hold"],
        }});
        pods.patch(&name, &merge, &Patch::Merge(&touched)).await.unwrap();
        let released = json!({"metadata": {"finalizers": null}});
        pods.patch(&name, &merge, &Patch::Merge(&released)).await.unwrap();
        let mut tolerations = pod.spec.clone().unwrap().tolerations.unwrap_or_default();
        tolerations.push(serde_json::from_value(json!({"key": "x", "operator": "Exists"})).unwrap());
        pods.patch(&name, &merge, &Patch::Merge(&json!({"spec": {"tolerations": tolerations}}))).await.unwrap();
        if labels.get("identity").is_some_and(|identity| identity != "pod") {
            let image = json!({"spec": {"containers": [{"name": "app", "image": "app:patched"}]}});
            pods.patch(&name, &merge, &Patch::Strategic(&image)).await.unwrap();
        }
        let account = pod.spec.and_then(|spec| spec.service_account_name).unwrap();
        for account in [account.as_str(), "vault"] {
            request_token(&kubelet, namespace, account).await.unwrap();
        }
    }
}
