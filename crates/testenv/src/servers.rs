//! The flags of each server.

use std::path::Path;

use serde_json::json;

use crate::Options;
use crate::options::Audited;

/// The issuer of the tokens of ServiceAccounts, and their default audience.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The addresses that the API server assigns to Services; no server listens there.
const SERVICES: &str = "10.96.0.0/16";
/// The first of these, which is the API server's own.
pub(crate) const API_SERVICE: &str = "10.96.0.1";
/// etcd's sockets, in the folder in which all servers run. They need no port, and only the user can open them. etcd
/// accepts only names that look like a host and a port, so the number is part of the socket's name.
const ETCD: &str = "unix://etcd.sock:1";
const ETCD_PEER: &str = "unix://etcd.sock:2";

/// Names of the servers: of their programs, and of their logs.
pub(crate) const ETCD_SERVER: &str = "etcd";
pub(crate) const API_SERVER: &str = "kube-apiserver";
pub(crate) const CONTROLLER_MANAGER: &str = "kube-controller-manager";
pub(crate) const SCHEDULER: &str = "kube-scheduler";
pub(crate) const KWOK: &str = "kwok";

/// Returns the servers of a cluster with these options.
pub(crate) fn needed(options: &Options) -> Vec<&'static str> {
    let mut all = vec![ETCD_SERVER, API_SERVER];
    if options.controller_manager {
        all.push(CONTROLLER_MANAGER);
    }
    if options.has_nodes() {
        all.push(SCHEDULER);
    }
    if options.simulated_nodes > 0 {
        all.push(KWOK);
    }
    all
}

/// Returns a policy that logs every response that is asked for. Only [`Audited::Writes`] contains the objects.
pub(crate) fn audit_policy(audited: &Audited) -> String {
    let rules = match audited {
        Audited::Everybody => json!([{"level": "Metadata"}]),
        Audited::Writes(plural) => json!([
            {
                "level": "RequestResponse", "verbs": ["create", "update", "patch", "delete"],
                "resources": [{"group": "", "resources": [plural, format!("{plural}/*")]}],
            },
            {"level": "None"},
        ]),
        Audited::User(user) => json!([{"level": "Metadata", "users": [user]}, {"level": "None"}]),
    };
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules
    });
    policy.to_string()
}

/// Names of files in the cluster's folder.
pub(crate) mod file {
    pub(crate) const AUTHORITY: &str = "ca.crt";
    pub(crate) const CERTIFICATE: &str = "apiserver.crt";
    pub(crate) const KEY: &str = "apiserver.key";
    pub(crate) const TOKEN_KEY: &str = "service-accounts.key";
    pub(crate) const TOKEN_PUBLIC_KEY: &str = "service-accounts.pub";
    pub(crate) const ADMIN: &str = "admin.kubeconfig";
    pub(crate) const CONTROLLER_MANAGER: &str = "controller-manager.kubeconfig";
    pub(crate) const SCHEDULER: &str = "scheduler.kubeconfig";
    pub(crate) const AUDIT_POLICY: &str = "audit-policy.json";
    pub(crate) const AUDIT_LOG: &str = "logs/audit.log";
    pub(crate) const STAGES: &str = "stages.yaml";
    pub(crate) const EGRESS: &str = "egress.json";
}

fn flags<const N: usize>(flags: [(&str, &str); N]) -> Vec<String> {
    flags.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

/// Returns the feature gates as one flag.
fn gates(options: &Options) -> Option<String> {
    options.feature_gates().map(|gates| format!("--feature-gates={gates}"))
}

/// Returns the flags of etcd. Its data lasts only as long as the cluster, so it need not wait for the disk.
pub(crate) fn etcd() -> Vec<String> {
    flags([
        ("data-dir", "etcd"),
        ("listen-client-urls", ETCD),
        ("advertise-client-urls", ETCD),
        ("listen-peer-urls", ETCD_PEER),
        ("initial-advertise-peer-urls", ETCD_PEER),
        ("initial-cluster", &format!("default={ETCD_PEER}")),
        ("unsafe-no-fsync", "true"),
        ("log-level", "warn"),
    ])
}

/// Returns the flags of kube-apiserver; everything else has the defaults of its release.
pub(crate) fn api_server(port: u16, options: &Options) -> Vec<String> {
    let mut all = flags([
        ("etcd-servers", ETCD),
        ("bind-address", "127.0.0.1"),
        ("advertise-address", "127.0.0.1"),
        ("secure-port", &port.to_string()),
        // There is only one API server, and an EndpointSlice cannot contain its loopback address.
        ("endpoint-reconciler-type", "none"),
        ("tls-cert-file", file::CERTIFICATE),
        ("tls-private-key-file", file::KEY),
        ("client-ca-file", file::AUTHORITY),
        ("service-account-issuer", ISSUER),
        ("service-account-key-file", file::TOKEN_PUBLIC_KEY),
        ("service-account-signing-key-file", file::TOKEN_KEY),
        ("service-cluster-ip-range", SERVICES),
        ("allow-privileged", "true"),
    ]);
    // kubelets have the rights of kubelets, and no more.
    all.extend(if options.real_nodes > 0 {
        flags([("authorization-mode", "Node,RBAC"), ("enable-admission-plugins", "NodeRestriction")])
    } else {
        flags([("authorization-mode", "RBAC")])
    });
    if options.audit_log.is_some() {
        // A large size limit, so that the log stays in one file.
        all.extend(flags([
            ("audit-policy-file", file::AUDIT_POLICY),
            ("audit-log-path", file::AUDIT_LOG),
            ("audit-log-maxsize", "1000"),
        ]));
    }
    if options.services {
        all.extend(flags([("egress-selector-config-file", file::EGRESS)]));
    }
    all.extend(gates(options));
    all.extend(options.api_server.iter().cloned());
    all
}

/// Returns the flags of kube-controller-manager. Each controller has its own rights, as in real clusters.
pub(crate) fn controller_manager(options: &Options) -> Vec<String> {
    let mut all = flags([
        ("kubeconfig", file::CONTROLLER_MANAGER),
        ("leader-elect", "false"),
        ("secure-port", "0"),
        ("use-service-account-credentials", "true"),
        ("service-account-private-key-file", file::TOKEN_KEY),
        ("root-ca-file", file::AUTHORITY),
    ]);
    all.extend(gates(options));
    all.extend(options.controller_manager_flags.iter().cloned());
    all
}

/// Returns the flags of kube-scheduler.
pub(crate) fn scheduler(options: &Options) -> Vec<String> {
    let mut all = flags([("kubeconfig", file::SCHEDULER), ("leader-elect", "false"), ("secure-port", "0")]);
    all.extend(gates(options));
    all
}

/// Returns the flags of kwok, which simulates every node and its kubelet.
pub(crate) fn kwok(folder: &Path) -> Vec<String> {
    // kwok resolves a relative name in its own folder.
    let path = |name| folder.join(name).display().to_string();
    let mut all = flags([
        ("kubeconfig", &path(file::ADMIN)),
        ("config", &path(file::STAGES)),
        ("node-ip", "127.0.0.1"),
        ("cidr", "10.244.0.0/16"),
        ("node-lease-duration-seconds", "40"),
    ]);
    all.push("--manage-all-nodes".to_owned());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_gets_the_feature_gates_and_the_api_server_its_flags_last() {
        let options =
            Options::new().feature_gate("B", false).feature_gate("A", true).api_server_flag("--secure-port=1");

        let api_server = api_server(20_000, &options);

        assert_eq!(api_server.last().unwrap(), "--secure-port=1");
        for flags in [api_server, controller_manager(&options), scheduler(&options)] {
            assert!(flags.contains(&"--feature-gates=A=true,B=false".to_owned()), "{flags:?}");
        }
        assert!(!scheduler(&Options::new()).iter().any(|flag| flag.contains("gates")));
    }
}
