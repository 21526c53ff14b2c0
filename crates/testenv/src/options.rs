//! What a cluster consists of.

use std::collections::BTreeMap;

use crate::servers::{API_SERVER, CONTROLLER_MANAGER, ETCD_SERVER, KWOK, SCHEDULER};

/// Whose requests the audit log has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Audited {
    Everybody,
    User(String),
}

/// What a cluster consists of: etcd and kube-apiserver, and what is asked for here.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(crate) api_server: Vec<String>,
    pub(crate) gates: BTreeMap<String, bool>,
    pub(crate) audit_log: Option<Audited>,
    pub(crate) controller_manager: bool,
    pub(crate) controller_manager_flags: Vec<String>,
    pub(crate) nodes: u8,
}

impl Options {
    /// etcd and kube-apiserver, with the defaults of its release: RBAC, and the admission plugins that are on by
    /// default.
    pub fn new() -> Self {
        Self::default()
    }

    /// A further flag of kube-apiserver, as `--name=value`. It comes after those that every cluster has, so it wins.
    #[must_use]
    pub fn api_server_flag(mut self, flag: impl Into<String>) -> Self {
        self.api_server.push(flag.into());
        self
    }

    /// Turns a feature gate of Kubernetes on or off in every server but etcd and kwok. They refuse one that they do not
    /// know.
    #[must_use]
    pub fn feature_gate(mut self, name: impl Into<String>, on: bool) -> Self {
        self.gates.insert(name.into(), on);
        self
    }

    /// With an audit log of every request, as metadata: see [`Cluster::audit_log`](crate::Cluster::audit_log).
    #[must_use]
    pub fn audit_log(mut self) -> Self {
        self.audit_log = Some(Audited::Everybody);
        self
    }

    /// With an audit log of the requests of one user, as metadata: where others send so many that writing them all down
    /// would be work.
    #[must_use]
    pub fn audit_log_of(mut self, user: impl Into<String>) -> Self {
        self.audit_log = Some(Audited::User(user.into()));
        self
    }

    /// With kube-controller-manager: Deployments have Pods, namespaces have ServiceAccounts, what is unused is deleted.
    #[must_use]
    pub fn controller_manager(mut self) -> Self {
        self.controller_manager = true;
        self
    }

    /// With kube-controller-manager, and a further flag for it, as `--name=value`. It comes after those that every
    /// cluster has, so it wins.
    #[must_use]
    pub fn controller_manager_flag(mut self, flag: impl Into<String>) -> Self {
        self.controller_manager_flags.push(flag.into());
        self.controller_manager()
    }

    /// With this many nodes, which kwok plays, with kube-scheduler and kube-controller-manager: Pods are Running,
    /// Jobs complete.
    #[must_use]
    pub fn nodes(mut self, nodes: u8) -> Self {
        self.nodes = nodes;
        self.controller_manager |= nodes > 0;
        self
    }

    /// The servers that this takes.
    pub(crate) fn servers(&self) -> Vec<&'static str> {
        let mut all = vec![ETCD_SERVER, API_SERVER];
        if self.controller_manager {
            all.push(CONTROLLER_MANAGER);
        }
        if self.nodes > 0 {
            all.extend([SCHEDULER, KWOK]);
        }
        all
    }
}
