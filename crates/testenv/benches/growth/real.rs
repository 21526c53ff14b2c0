//! Measures beside a real API server.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use http::header::{HeaderValue, USER_AGENT};
use kube::Client;
use pillion_growth::measured::Point;
use pillion_growth::objects::{NAMESPACE, created};
use pillion_growth::plan::{Plan, Size};
use pillion_growth::program::Installation;
use pillion_growth::progress::tell;
use pillion_growth::scene::{self, Surroundings, Times};
use pillion_install::rendering::crd;
use pillion_testenv::{Cluster, Options, apply};
use serde_json::{Value, json};

use crate::populate::{create_all, path, write_statuses};

/// The ServiceAccount of the controllers and of `pillion serve`.
const ACCOUNT: &str = "pillion";

/// Measures this program in a real cluster of a size.
pub async fn measure(program: &Path, size: Size, times: Times) -> anyhow::Result<Point> {
    // The plugin would wait for accounts of Pods, which are created here with everything that it adds.
    let options = Options::new().api_server_flag("--disable-admission-plugins=ServiceAccount");
    let (cluster, plan) = (Cluster::start(options).await?, Plan { size });
    fill(&cluster, plan).await?;
    let kubeconfig = account(&cluster).await?;
    let around = Surroundings {
        client: cluster.admin().await?,
        counts: None,
        installation: Installation::new(program.to_owned(), cluster.folder(), kubeconfig.clone(), plan),
        server_kubeconfig: kubeconfig,
    };
    scene::measure(size, &around, times).await
}

/// Creates the objects of a plan, and writes their statuses.
async fn fill(cluster: &Cluster, plan: Plan) -> anyhow::Result<()> {
    let started = Instant::now();
    let definition = crd::document("pillion", &crd::Conversion::None, &Value::Null);
    apply(&cluster.admin().await?, &definition.to_yaml().context("the definition")?, "test").await?;
    // The managed fields of the objects name these programs, as in a real cluster.
    let controllers = client(cluster, "kube-controller-manager/v1.34").await?;
    let kubelets = client(cluster, "kubelet/v1.34").await?;
    let is_namespace = |object: &Value| object["kind"] == "Namespace";
    let new = |object| created(object).0;
    let mut count = create_all(&controllers, plan.objects()?.filter(is_namespace).map(new)).await;
    count += create_all(&controllers, plan.objects()?.filter(|object| !is_namespace(object)).map(new)).await;
    let statuses = |is_of: fn(&Value) -> bool| {
        anyhow::Ok(plan.objects()?.filter(is_of).filter_map(|object| {
            let name = object["metadata"]["name"].as_str()?.to_owned();
            Some((format!("{}/{name}", path(&object)), json!({"status": created(object).1?})))
        }))
    };
    write_statuses(&controllers, statuses(|object| object["kind"] != "Pod")?).await;
    write_statuses(&kubelets, statuses(|object| object["kind"] == "Pod")?).await;
    tell(&format!("a real cluster has {count} objects after {:.0} s", started.elapsed().as_secs_f64()));
    Ok(())
}

/// Returns a client of an administrator who calls himself this.
async fn client(cluster: &Cluster, agent: &'static str) -> anyhow::Result<Client> {
    let mut config = cluster.as_admin().config().await?;
    config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
    Ok(Client::try_from(config)?)
}

/// Returns the kubeconfig of a ServiceAccount with all rights. Its requests get no precedence, unlike those of an
/// administrator.
async fn account(cluster: &Cluster) -> anyhow::Result<PathBuf> {
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]
    });
    create_all(&cluster.admin().await?, [account, binding]).await;
    let identity = cluster.as_service_account(NAMESPACE, ACCOUNT).await?;
    let file = cluster.folder().join("pillion.kubeconfig");
    fs::write(&file, identity.kubeconfig())?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    Ok(file)
}
