//! Nodes on which containers run: containerd and kubelet, which the program `testenv/node` keeps in namespaces of their
//! own.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use crate::image::{PAUSE, write_archive};
use crate::servers::API_SERVICE;
use crate::{Cluster, Error, Image, nodes, until};

/// The program of a node. It comes from `testenv/build`, like the programs below.
pub(crate) const NODE: &str = "node";
pub(crate) const PAUSE_PROGRAM: &str = "pause";

/// The archive of the images that every node gets.
const IMAGES: &str = "images.tar";
/// The group of kubelets.
const GROUP: &str = "system:nodes";
/// How long a node may take to perform a request. Importing large images on a busy machine takes longest.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long the programs of a node may take to start.
const STARTED: Duration = Duration::from_mins(2);
/// The pause between two looks at a node that starts.
const LOOK: Duration = Duration::from_millis(200);
/// The ports of Pods that this machine reaches: those of Pillion, and those of tests.
const PORTS: &str = "8080,8081,8443,9443";

/// A program of a real node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeProgram {
    /// The container runtime. Containers go on without it.
    Containerd,
    /// The node's agent. Without it, containers go on, but none is started, restarted or reported.
    Kubelet,
}

impl NodeProgram {
    fn name(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
        }
    }
}

/// A real node of a cluster.
///
/// Its containers have a network namespace with only a loopback device. There, the address of the Service `kubernetes`
/// reaches the API server, so in-cluster configuration works. Ports 8080, 8081, 8443 and 9443 of a Pod can be reached
/// from this machine at the Pod's address.
pub struct Node<'a> {
    cluster: &'a Cluster,
    number: u8,
}

impl Cluster {
    /// Starts a cluster with real nodes: see [`Options::real_nodes`](crate::Options::real_nodes).
    ///
    /// # Errors
    ///
    /// The same as [`Cluster::start`]. On a machine that cannot have nodes, the error names what is missing and the
    /// remedy.
    pub async fn with_nodes(nodes: u8) -> Result<Self, Error> {
        Self::start(crate::Options::new().real_nodes(nodes)).await
    }

    /// Returns the real nodes.
    pub fn real_nodes(&self) -> impl Iterator<Item = Node<'_>> {
        (1..=self.options().real_nodes).map(|number| Node { cluster: self, number })
    }

    /// Starts all real nodes, and waits until they take Pods.
    pub(crate) async fn start_real_nodes(&self) -> Result<(), Error> {
        let pause = Image::empty(PAUSE).program("pause", self.binaries().tool(PAUSE_PROGRAM)?).command(["/pause"]);
        let images: Vec<Image> = [pause.user("65535:65535")].into_iter().chain(self.options().images.clone()).collect();
        let archive = self.folder().join(IMAGES);
        write_archive(&images, &archive)?;
        for node in self.real_nodes() {
            let identity = self.as_user(&format!("system:node:{}", node.name()), Some(GROUP))?;
            self.write_file(&node.kubeconfig(), &identity.kubeconfig())?;
            node.power_on().await?;
        }
        for node in self.real_nodes() {
            node.ready().await?;
        }
        Ok(())
    }
}

impl Node<'_> {
    /// Returns the node's name, which is its address. No other cluster of this machine uses it.
    pub fn name(&self) -> String {
        // The port of the API server is that of one cluster. Pods have their addresses from 127.64.0.0 on.
        let [high, low] = (self.cluster.port() % 0x4000).to_be_bytes();
        format!("127.{}.{low}.{}", high.min(62) + 1, self.number)
    }

    /// Returns the name of the node's process, which [`Cluster::log`] and [`Cluster::still_runs`] take.
    pub fn process(&self) -> String {
        format!("node-{}", self.number)
    }

    fn folder(&self) -> PathBuf {
        self.cluster.folder().join(self.process())
    }

    fn logs(&self) -> PathBuf {
        self.cluster.folder().join("logs").join(self.process())
    }

    /// Returns the socket at which the node answers requests, from when all its programs are started.
    fn socket(&self) -> PathBuf {
        self.folder().join("control.sock")
    }

    fn kubeconfig(&self) -> String {
        format!("{}.kubeconfig", self.process())
    }

    /// Returns the end of the logs of the node and of its kubelet.
    pub fn log(&self) -> String {
        let name = self.process();
        format!("{}\n{}", self.cluster.log(&name), self.cluster.log(&format!("{name}/kubelet")))
    }

    /// Turns the node off, as a loss of power does: all its containers end at once. Its disk remains.
    ///
    /// # Errors
    ///
    /// If the cluster's keeper has ended.
    pub async fn power_off(&self) -> Result<(), Error> {
        self.cluster.stop_program(&self.process(), 0).await
    }

    /// Turns the node on. Returns before the node is ready.
    ///
    /// # Errors
    ///
    /// If it is running, or its programs are missing.
    pub async fn power_on(&self) -> Result<(), Error> {
        let (cluster, name) = (self.cluster, self.process());
        let path = |path: PathBuf| path.display().to_string();
        let mut flags = vec![
            format!("--folder={}", path(self.folder())),
            format!("--logs={}", path(self.logs())),
            format!("--name={}", self.name()),
            // The keeper removes the cgroup that has the names of its folder and of the server.
            format!("--cgroup={}.{name}", path(cluster.folder().file_name().unwrap_or_default().into())),
            format!("--kubelet={}", path(cluster.binaries().kubelet()?)),
            format!("--kubeconfig={}", path(cluster.folder().join(self.kubeconfig()))),
            format!("--api={}", cluster.url().trim_start_matches("https://")),
            format!("--service={API_SERVICE}"),
            format!("--ports={PORTS}"),
            format!("--images={}", path(cluster.folder().join(IMAGES))),
        ];
        flags.extend(cluster.options().feature_gates().map(|gates| format!("--gates={gates}")));
        cluster.start_program(&name, &cluster.binaries().tool(NODE)?, &flags).await
    }

    /// Waits until the programs of the node are started, and the node takes Pods. For a while, the API server goes on saying
    /// that a node takes Pods which does not any more.
    ///
    /// # Errors
    ///
    /// If it does not within some minutes. The error has the end of its log.
    pub async fn ready(&self) -> Result<(), Error> {
        let (client, process, name) = (self.cluster.admin().await?, self.process(), self.name());
        let ready = async {
            // Nobody answers at the socket of an earlier run.
            let answers = async || UnixStream::connect(self.socket()).await.ok();
            until("the programs of the node being started", STARTED, answers).await?;
            nodes::wait_for(&client, &process, &name, || self.log()).await
        };
        // A node that cannot work at all ends.
        let ended = async {
            loop {
                sleep(LOOK).await;
                self.cluster.still_runs(&process)?;
            }
        };
        tokio::select! { ready = ready => ready, ended = ended => ended }
    }

    /// Kills a program of the node. Containers go on.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub async fn kill(&self, program: NodeProgram) -> Result<(), Error> {
        self.ask(&json!({"kill": program.name()})).await
    }

    /// Starts a program of the node that was killed.
    ///
    /// # Errors
    ///
    /// If it is running.
    pub async fn start(&self, program: NodeProgram) -> Result<(), Error> {
        self.ask(&json!({"start": program.name()})).await
    }

    /// Lets a program of the node stand still. With its kubelet, the node seems to be gone, and its containers go on.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub async fn freeze(&self, program: NodeProgram) -> Result<(), Error> {
        self.ask(&json!({"freeze": program.name()})).await
    }

    /// Lets a program go on that stands still.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub async fn thaw(&self, program: NodeProgram) -> Result<(), Error> {
        self.ask(&json!({"thaw": program.name()})).await
    }

    /// Brings further images to the node. An image replaces an earlier one of its name, as a registry's new image does.
    ///
    /// # Errors
    ///
    /// If the images cannot be written or imported.
    pub async fn import(&self, images: &[Image]) -> Result<(), Error> {
        let archive = self.folder().join("more-images.tar");
        write_archive(images, &archive)?;
        self.ask(&json!({"import": archive})).await
    }

    /// Sends the node one request (`testenv/node/control.go`).
    async fn ask(&self, request: &Value) -> Result<(), Error> {
        let asked = async {
            let mut stream = UnixStream::connect(self.socket()).await?;
            stream.write_all(request.to_string().as_bytes()).await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            Ok(serde_json::from_slice::<Value>(&answer)?)
        };
        let failed = |reason: String| Error::Node { node: self.process(), reason };
        let answer = match timeout(PATIENCE, asked).await {
            Ok(answer) => answer.map_err(|error: std::io::Error| failed(error.to_string()))?,
            Err(_) => return Err(failed("it does not answer".to_owned())),
        };
        match answer.get("error").and_then(Value::as_str) {
            Some(reason) => Err(failed(reason.to_owned())),
            None => Ok(()),
        }
    }
}
