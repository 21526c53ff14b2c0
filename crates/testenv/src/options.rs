//! Options of a cluster.

use std::collections::BTreeMap;

use crate::Image;

/// The requests that the audit log contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Audited {
    Everybody,
    User(String),
    /// Writes to objects of this kind, by anybody, with the objects as they were stored.
    Writes(&'static str),
}

/// Options of a cluster, which always has etcd and kube-apiserver.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(crate) api_server: Vec<String>,
    pub(crate) gates: BTreeMap<String, bool>,
    pub(crate) audit_log: Option<Audited>,
    pub(crate) controller_manager: bool,
    pub(crate) controller_manager_flags: Vec<String>,
    pub(crate) simulated_nodes: u8,
    pub(crate) real_nodes: u8,
    pub(crate) images: Vec<Image>,
    pub(crate) services: bool,
}

impl Options {
    /// etcd and kube-apiserver, with the defaults of the release: RBAC, and the default admission plugins.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a flag of kube-apiserver, as `--name=value`. It comes after the flags that every cluster has, so it wins.
    #[must_use]
    pub fn api_server_flag(mut self, flag: impl Into<String>) -> Self {
        self.api_server.push(flag.into());
        self
    }

    /// Turns a feature gate of Kubernetes on or off in every server but etcd and kwok. The servers refuse unknown
    /// gates.
    #[must_use]
    pub fn feature_gate(mut self, name: impl Into<String>, on: bool) -> Self {
        self.gates.insert(name.into(), on);
        self
    }

    /// Writes an audit log of every request, as metadata: see [`Cluster::audit_log`](crate::Cluster::audit_log).
    #[must_use]
    pub fn audit_log(mut self) -> Self {
        self.audit_log = Some(Audited::Everybody);
        self
    }

    /// Writes an audit log of one user's requests, as metadata. Useful if other users send so many requests that
    /// logging them all would be expensive.
    #[must_use]
    pub fn audit_log_of(mut self, user: impl Into<String>) -> Self {
        self.audit_log = Some(Audited::User(user.into()));
        self
    }

    /// Writes an audit log of everybody's writes to Pods, with the Pods as they were stored.
    #[must_use]
    pub fn audit_log_of_pods(mut self) -> Self {
        self.audit_log = Some(Audited::Writes("pods"));
        self
    }

    /// Adds kube-controller-manager: Deployments get Pods, namespaces get ServiceAccounts, unused objects are deleted.
    #[must_use]
    pub fn controller_manager(mut self) -> Self {
        self.controller_manager = true;
        self
    }

    /// Adds kube-controller-manager with a further flag, as `--name=value`. It comes after the flags that every cluster
    /// has, so it wins.
    #[must_use]
    pub fn controller_manager_flag(mut self, flag: impl Into<String>) -> Self {
        self.controller_manager_flags.push(flag.into());
        self.controller_manager()
    }

    /// Adds this many nodes, simulated by kwok, with kube-scheduler and kube-controller-manager: Pods run, Jobs
    /// complete.
    #[must_use]
    pub fn nodes(mut self, nodes: u8) -> Self {
        self.simulated_nodes = nodes;
        self.controller_manager |= nodes > 0;
        self
    }

    /// Adds this many real nodes, each with containerd and kubelet, with kube-scheduler and kube-controller-manager:
    /// containers run. Needs root and containerd; see [`Node`](crate::Node).
    #[must_use]
    pub fn real_nodes(mut self, nodes: u8) -> Self {
        self.real_nodes = nodes;
        self.controller_manager |= nodes > 0;
        self
    }

    /// Brings an image to every real node. Nodes know no registry, so a container of another image does not start.
    #[must_use]
    pub fn image(mut self, image: Image) -> Self {
        self.images.push(image);
        self
    }

    /// Whether Pods are scheduled.
    pub(crate) fn has_nodes(&self) -> bool {
        self.simulated_nodes > 0 || self.real_nodes > 0
    }

    /// Returns feature gates as the value of a flag; `None` without any. A server refuses unknown gates, but all servers
    /// that get this value share one registry.
    pub(crate) fn feature_gates(&self) -> Option<String> {
        let gates: Vec<String> = self.gates.iter().map(|(name, on)| format!("{name}={on}")).collect();
        (!gates.is_empty()).then(|| gates.join(","))
    }

    /// Lets connections of the API server to Services reach ports of this machine: see
    /// [`Cluster::route`](crate::Cluster::route). Webhook configurations need no change then.
    #[must_use]
    pub fn services(mut self) -> Self {
        self.services = true;
        self
    }
}
