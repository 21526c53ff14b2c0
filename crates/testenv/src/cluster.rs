//! A running cluster.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::GetParams;
use kube::core::Request;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::Error;
use crate::Options;
use crate::binaries::Binaries;
use crate::certificates::{Authority, token_keys};
use crate::identity::{Credentials, Identity};
use crate::keeper::Keeper;
use crate::nodes;
use crate::ports;
use crate::servers::{self, API_SERVER, API_SERVICE, CONTROLLER_MANAGER, ETCD_SERVER, KWOK, SCHEDULER, file};
use crate::services::{self, Proxy, Routes};

/// How long the API server may take to start. It needs some seconds on an idle machine.
const READY: Duration = Duration::from_mins(3);
/// The pause between two readiness checks; below it, the timeout of a check.
const LOOK: Duration = Duration::from_millis(100);
const ANSWER: Duration = Duration::from_secs(5);
/// Seconds that the API server gets to finish its requests when it is stopped.
const GRACE: u8 = 5;
/// Maximum number of starts. Another process may take the port between the choice and the start.
const STARTS: u8 = 3;
const PORT_TAKEN: &str = "address already in use";

/// An API server on a port of 127.0.0.1, with the other servers that [`Options`] ask for.
///
/// The cluster ends when it is dropped, and when the process that owns it ends.
pub struct Cluster {
    // Ends before the keeper removes its socket.
    proxy: Option<Proxy>,
    keeper: Keeper,
    binaries: Binaries,
    options: Options,
    authority: Authority,
    port: u16,
    admin: Identity,
}

impl Cluster {
    /// Starts a cluster, and waits until the API server reports ready and all nodes are Ready.
    ///
    /// # Errors
    ///
    /// If a program is missing, ends, or is not ready after some minutes. In the latter two cases, the error contains
    /// the end of the program's log.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let binaries = Binaries::from_environment();
        let mut starts = 1;
        loop {
            match Self::try_start(binaries.clone(), options.clone()).await {
                Err(Error::Ended { log, .. }) if starts < STARTS && log.contains(PORT_TAKEN) => starts += 1,
                other => return other,
            }
        }
    }

    async fn try_start(binaries: Binaries, options: Options) -> Result<Self, Error> {
        // Checks all needed programs before starting any.
        for server in servers::needed(&options) {
            binaries.server(server)?;
        }
        let keeper = Keeper::start(&binaries.keeper()?)?;
        let authority = Authority::new()?;
        let port = ports::free()?;
        let admin = Credentials::Certificate(authority.client("testenv-admin", Some("system:masters"))?);
        let admin = Identity::new(port, &authority.certificate(), &admin);
        let has_pods = (options.real_nodes > 0).then(|| admin.clone());
        let proxy = options.services.then(|| Proxy::start(keeper.folder(), has_pods)).transpose()?;
        let cluster = Self { proxy, keeper, binaries, options, authority, port, admin };

        cluster.write_files()?;
        cluster.run(ETCD_SERVER, &servers::etcd()).await?;
        cluster.start_api_server().await?;
        if cluster.options.controller_manager {
            cluster.run(CONTROLLER_MANAGER, &servers::controller_manager(&cluster.options)).await?;
        }
        if cluster.options.has_nodes() {
            cluster.run(SCHEDULER, &servers::scheduler(&cluster.options)).await?;
        }
        if cluster.options.simulated_nodes > 0 {
            cluster.run(KWOK, &servers::kwok(cluster.folder())).await?;
            nodes::join(cluster.admin().await?, cluster.options.simulated_nodes, || cluster.log(KWOK)).await?;
        }
        if cluster.options.real_nodes > 0 {
            cluster.start_real_nodes().await?;
        }
        Ok(cluster)
    }

    fn write_files(&self) -> Result<(), Error> {
        let server = self.authority.server(&["127.0.0.1", "localhost", "kubernetes.default.svc", API_SERVICE])?;
        let (private, public) = token_keys()?;
        let component = |user| self.as_user(user, None).map(|identity| identity.kubeconfig());
        let audited = self.options.audit_log.as_ref();
        let files = [
            (file::AUTHORITY, self.authority.certificate()),
            (file::CERTIFICATE, server.certificate),
            (file::KEY, server.key),
            (file::TOKEN_KEY, private),
            (file::TOKEN_PUBLIC_KEY, public),
            (file::ADMIN, self.admin.kubeconfig()),
            (file::CONTROLLER_MANAGER, component("system:kube-controller-manager")?),
            (file::SCHEDULER, component("system:kube-scheduler")?),
            (file::AUDIT_POLICY, audited.map(servers::audit_policy).unwrap_or_default()),
            (file::STAGES, nodes::STAGES.to_owned()),
            (file::EGRESS, services::configuration()),
        ];
        files.iter().try_for_each(|(name, text)| self.write_file(name, text))
    }

    /// Writes a new file into the cluster's folder, which only the user can read.
    pub(crate) fn write_file(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.folder().join(name);
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Error::file(path))
    }

    async fn run(&self, server: &'static str, flags: &[String]) -> Result<(), Error> {
        self.keeper.run(server, &self.binaries.server(server)?, flags).await
    }

    /// Starts the API server with its earlier port and data, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// If it is already running, ends, or is not ready after some minutes.
    pub async fn start_api_server(&self) -> Result<(), Error> {
        self.run(API_SERVER, &servers::api_server(self.port, &self.options)).await?;
        let client = self.admin.client().await?;
        let started = Instant::now();
        loop {
            let reason = match ready(&client).await {
                Ok(()) => return Ok(()),
                Err(reason) => reason,
            };
            self.keeper.still_runs(ETCD_SERVER)?;
            self.keeper.still_runs(API_SERVER)?;
            if started.elapsed() > READY {
                let log = self.keeper.log(API_SERVER);
                return Err(Error::NotReady { server: API_SERVER.to_owned(), after: READY, reason, log });
            }
            sleep(LOOK).await;
        }
    }

    /// Stops the API server. It keeps its data and its port.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub async fn stop_api_server(&self) -> Result<(), Error> {
        self.keeper.still_runs(API_SERVER)?;
        self.keeper.end(API_SERVER, GRACE).await
    }

    /// Starts another program, for servers under test that are separate programs. The program ends with the cluster,
    /// however that ends. It runs in [`Cluster::folder`] with this process's environment; [`Cluster::log`] returns its
    /// output. Returns once the program has started, whether or not it is ready.
    ///
    /// # Errors
    ///
    /// If a program of this name is running, or the program cannot be started.
    pub async fn start_program(&self, name: &str, program: &Path, arguments: &[String]) -> Result<(), Error> {
        self.keeper.run(name, program, arguments).await
    }

    /// Stops a program with SIGTERM, and with SIGKILL after `grace` seconds. With a `grace` of 0, uses only SIGKILL.
    /// Returns when the program has ended.
    ///
    /// # Errors
    ///
    /// If the cluster's keeper has ended.
    pub async fn stop_program(&self, name: &str, grace: u8) -> Result<(), Error> {
        self.keeper.end(name, grace).await
    }

    /// Checks that a server or a program is still running.
    ///
    /// # Errors
    ///
    /// If it has ended; the error contains the end of its log.
    pub fn still_runs(&self, name: &str) -> Result<(), Error> {
        self.keeper.still_runs(name)
    }

    /// Sets which ports of this machine answer for Services, in place of all earlier routes. Has no effect without
    /// [`Options::services`].
    pub fn route(&self, routes: Routes) {
        if let Some(proxy) = &self.proxy {
            proxy.route(routes);
        }
    }

    /// Returns the URL of the API server: `https://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Returns the certificate of the authority that signed the API server's, in PEM.
    pub fn authority_certificate(&self) -> String {
        self.authority.certificate()
    }

    /// Creates a certificate of the cluster's authority for a server with these names and addresses. Returns the
    /// certificate and its key, in PEM.
    ///
    /// # Errors
    ///
    /// If a name is none.
    pub fn server_certificate(&self, names: &[&str]) -> Result<(String, String), Error> {
        let certified = self.authority.server(names)?;
        Ok((certified.certificate, certified.key))
    }

    /// Returns the folder of the servers' data and logs (`logs/<server>.log`). It is removed with the cluster.
    pub fn folder(&self) -> &Path {
        self.keeper.folder()
    }

    /// Returns the path of the administrator's kubeconfig, for programs such as `kubectl`.
    pub fn admin_kubeconfig_file(&self) -> PathBuf {
        self.folder().join(file::ADMIN)
    }

    /// Returns the events of the audit log so far (`audit.k8s.io/v1`), including the webhooks' `annotations`. Empty
    /// without [`Options::audit_log`].
    pub fn audit_log(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.audit_log_file()).unwrap_or_default();
        // The last line may be incomplete.
        log.lines().filter_map(|event| serde_json::from_str(event).ok()).collect()
    }

    /// Returns the path of the audit log, for readers that follow it.
    pub fn audit_log_file(&self) -> PathBuf {
        self.folder().join(file::AUDIT_LOG)
    }

    /// Returns the end of the log of a server or a program, for messages of tests.
    pub fn log(&self, server: &str) -> String {
        self.keeper.log(server)
    }

    pub(crate) fn admin_identity(&self) -> &Identity {
        &self.admin
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    pub(crate) fn identity(&self, credentials: &Credentials) -> Identity {
        Identity::new(self.port, &self.authority.certificate(), credentials)
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Whether kube-controller-manager creates the objects of a new namespace.
    pub(crate) fn has_controllers(&self) -> bool {
        self.options.controller_manager
    }
}

/// Checks that the API server reports ready.
async fn ready(client: &Client) -> Result<(), String> {
    let request = Request::new("").get("readyz", &GetParams::default()).map_err(|error| error.to_string())?;
    match timeout(ANSWER, client.request_text(request)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_can_be_started_and_used_in_any_thread() {
        fn send<T: Send>(_: T) {}
        fn sync<T: Send + Sync>() {}

        send(Cluster::start(Options::new()));
        sync::<Cluster>();
    }
}
