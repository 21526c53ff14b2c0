//! Scenarios: a Pod, the SidecarSets of the policy, and the cluster.

use pillion_identity::names;
use pillion_kubernetes::json;
use serde_json::{Value, json};

use super::kubelet::Secrets;
use super::{Accounts, NAMESPACE};
use crate::FakeCluster;

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// A SidecarSet.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are drawn one by one")]
pub struct Set {
    /// Its name.
    pub name: &'static str,
    /// Whether it selects the Pod.
    pub matches: bool,
    /// `serviceAccountName`.
    pub account: Option<&'static str>,
    /// `serviceAccountMode`.
    pub mode: &'static str,
    /// `behaviorWhenServiceAccountInjection`.
    pub on_conflict: &'static str,
    /// Whether annotations declare the identity instead of fields.
    pub by_annotation: bool,
    /// Whether its container is a hot-upgrade pair.
    pub is_pair: bool,
    /// Whether it has an init container, and whether that is a native sidecar.
    pub init: Option<bool>,
    /// `shareVolumePolicy` of its container.
    pub shares: bool,
    /// `podInjectPolicy` of its container.
    pub place: &'static str,
    /// The name of its volume. If a volume of the Pod has the same name, the Pod's volume replaces it.
    pub volume: &'static str,
    /// A token of its own, which the reference allows: the audience and the mount path.
    pub token: Option<(&'static str, &'static str)>,
    /// A second mount path of its volume: at, above or below the place of tokens.
    pub in_the_way: Option<&'static str>,
    /// `serviceAccountTokens`: the audience and the file of each.
    pub tokens: &'static [(&'static str, &'static str)],
}

impl Set {
    /// Creates a SidecarSet that selects the Pod and has one container, `<name>-main`, with this account in this mode.
    pub fn new(name: &'static str, account: Option<&'static str>, mode: &'static str) -> Self {
        Self {
            name,
            matches: true,
            account,
            mode,
            on_conflict: "Refuse",
            by_annotation: false,
            is_pair: false,
            init: None,
            shares: false,
            place: "AfterAppContainer",
            volume: "agent-data",
            token: None,
            in_the_way: None,
            tokens: &[],
        }
    }

    /// Whether it asks for an identity in this Pod.
    pub fn asks(&self) -> bool {
        self.matches && self.account.is_some()
    }

    /// Returns what the names of its volume and its Secret are derived from if it gets `account` (AUD-4). It has its own
    /// unless it has no tokens for other audiences, or gets a merged account (AUD-6).
    pub fn credential(&self, account: &str) -> String {
        let own = Some(self.name).filter(|_| !self.tokens.is_empty() && self.account == Some(account));
        names::credential(account, own)
    }

    /// Returns the name of its volume in a Pod if it gets `account`; `None` if it has none. In a Pod whose app may hold
    /// the account's token, too, the volume of a set with tokens for other audiences has another name (AUD-4).
    pub fn volume_in(&self, pod: &Value, account: &str) -> Option<String> {
        let id = self.credential(account);
        let beside_the_app = (id != account).then(|| format!("{id}\n"));
        let names = [Some(id), beside_the_app].into_iter().flatten().map(|id| names::token_volume(&id));
        let volumes = json::items(pod, &["spec", "volumes"]);
        names.into_iter().find(|name| volumes.iter().any(|volume| json::text(volume, &["name"]) == name))
    }

    /// Returns the names of its containers in a Pod.
    pub fn containers(&self) -> Vec<String> {
        let main = format!("{}-main", self.name);
        let mut names = if self.is_pair { vec![format!("{main}-1"), format!("{main}-2")] } else { vec![main] };
        names.extend(self.init.map(|_| format!("{}-init", self.name)));
        names
    }

    /// Returns the manifest. `shares` decides whether it may take the mounts of the Pod's containers.
    fn manifest(&self, shares: bool) -> Value {
        let mut main = json!({
            "name": format!("{}-main", self.name), "image": "agent:1", "podInjectPolicy": self.place,
            "volumeMounts": [{"name": self.volume, "mountPath": "/agent"}],
            "transferEnv": [{"sourceContainerName": "app", "envName": "SECRET"}],
        });
        if self.is_pair {
            main["upgradeStrategy"] = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
        }
        if self.shares && shares {
            main["shareVolumePolicy"] = json!({"type": "enabled"});
        }
        let mut volumes = vec![json!({"name": self.volume, "emptyDir": {}})];
        if let Some((audience, path)) = self.token {
            let name = format!("{}-token", self.name);
            volumes.push(token_volume(&name, audience));
            main["volumeMounts"].as_array_mut().unwrap().push(json!({"name": name, "mountPath": path}));
        }
        if let Some(path) = self.in_the_way {
            main["volumeMounts"].as_array_mut().unwrap().push(json!({"name": self.volume, "mountPath": path}));
        }
        let mut init = Vec::new();
        if let Some(stays) = self.init {
            let mut container = json!({"name": format!("{}-init", self.name), "image": "setup:1"});
            if stays {
                container["restartPolicy"] = json!("Always");
            }
            init.push(container);
        }
        let value = if self.matches { "web" } else { "other" };
        let mut set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": self.name},
            "spec": {
                "selector": {"matchLabels": {"app": value}}, "containers": [main], "initContainers": init,
                "volumes": volumes, "updateStrategy": {"type": "NotUpdate"},
            },
        });
        let Some(account) = self.account else { return set };
        let tokens: Value =
            self.tokens.iter().map(|(audience, path)| json!({"audience": audience, "path": path})).collect();
        let permissions = json!([{"apiGroups": [""], "resources": [self.name], "verbs": ["get"]}]);
        if self.by_annotation {
            set["metadata"]["annotations"] = json!({
                "pillion.dev/service-account-name": account,
                "pillion.dev/service-account-mode": self.mode,
                "pillion.dev/service-account-conflict": self.on_conflict.to_ascii_lowercase(),
                "pillion.dev/service-account-permissions": permissions.to_string(),
                "pillion.dev/service-account-tokens": tokens.to_string(),
            });
        } else {
            set["spec"]["serviceAccountName"] = json!(account);
            set["spec"]["serviceAccountMode"] = json!(self.mode);
            set["spec"]["behaviorWhenServiceAccountInjection"] = json!(self.on_conflict);
            set["spec"]["serviceAccountPermissions"] = permissions;
            set["spec"]["serviceAccountTokens"] = tokens;
        }
        set
    }
}

/// A Pod, the SidecarSets of the policy, and the cluster.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The Pod as its author wrote it.
    pub pod: Value,
    /// The SidecarSets, by name.
    pub sets: Vec<Set>,
    /// The accounts of the namespace, including merged ones that are ready.
    pub accounts: Accounts,
    /// `serviceAccounts.onMissing`.
    pub on_missing: &'static str,
    /// `serviceAccounts.onConflict`.
    pub on_conflict: &'static str,
    /// `serviceAccounts.onAppServiceAccount`.
    pub on_app_account: &'static str,
    /// `serviceAccounts.allowPodMode`.
    pub allow_pod_mode: bool,
    /// Whether the controller has created the merged objects.
    pub merged_is_ready: bool,
}

impl Scenario {
    /// Creates a scenario with default settings.
    pub fn new(pod: Value, sets: Vec<Set>, accounts: Accounts) -> Self {
        Self {
            pod,
            sets,
            accounts,
            on_missing: "Deny",
            on_conflict: "Deny",
            on_app_account: "Keep",
            allow_pod_mode: false,
            merged_is_ready: false,
        }
    }

    /// Returns the settings of the injecting policy with the feature on.
    pub fn settings(&self) -> Value {
        json!({
            "sidecarSets": self.sets.iter().map(|set| set.manifest(true)).collect::<Vec<_>>(),
            "featureGates": {"SidecarSetServiceAccountInjection": true},
            "serviceAccounts": {
                "onMissing": self.on_missing, "onConflict": self.on_conflict,
                "onAppServiceAccount": self.on_app_account, "allowPodMode": self.allow_pod_mode,
                "allowedAudiences": ["vault", "sts.*"],
            },
        })
    }

    /// Returns the settings with the feature off. If a set asks for an identity, no mounts are shared, since the
    /// feature does not share tokens then (IDC-8).
    pub fn settings_without(&self) -> Value {
        let shares = !self.sets.iter().any(Set::asks);
        json!({ "sidecarSets": self.sets.iter().map(|set| set.manifest(shares)).collect::<Vec<_>>() })
    }

    /// Returns the settings of the asserting twin.
    pub fn settings_of_twin(&self) -> Value {
        let mut settings = self.settings();
        settings["role"] = json!("Assert");
        settings
    }

    /// Returns the Secrets with tokens of isolated sidecars: one for each account, and one for each SidecarSet with
    /// tokens for other audiences (AUD-4, AUD-7).
    pub fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::new(&self.accounts);
        for set in self.sets.iter().filter(|set| set.asks() && !set.tokens.is_empty()) {
            let account = set.account.unwrap_or_default();
            secrets.add(&names::token_secret(&set.credential(account)), account, set.tokens);
        }
        secrets
    }

    /// Returns the cluster as the policy sees it.
    pub fn cluster(&self) -> FakeCluster {
        let mut objects = Vec::new();
        for sets in merges(&self.sets).into_iter().filter(|_| self.merged_is_ready) {
            let name = names::merged(&sets);
            let metadata = json!({
                "name": name, "namespace": NAMESPACE, "annotations": {"pillion.dev/sidecarsets": sets.join(",")},
            });
            objects.push(json!({
                "apiVersion": RBAC, "kind": "Role", "metadata": metadata,
                "rules": [{"apiGroups": [""], "resources": sets, "verbs": ["get"]}],
            }));
            objects.push(json!({
                "apiVersion": RBAC, "kind": "RoleBinding", "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
            }));
        }
        self.accounts.cluster(objects)
    }
}

/// Returns the groups of SidecarSets that may have a merged account.
pub(super) fn merges(sets: &[Set]) -> Vec<Vec<&'static str>> {
    let names: Vec<&'static str> = sets.iter().filter(|set| set.asks()).map(|set| set.name).collect();
    let mut groups = Vec::new();
    for mask in 0_u8..8 {
        let group: Vec<_> =
            names.iter().enumerate().filter(|(index, _)| mask & (1 << index) != 0).map(|(_, name)| *name).collect();
        if group.len() > 1 {
            groups.push(group);
        }
    }
    groups
}

/// Returns a volume with a token of the Pod's account.
pub(super) fn token_volume(name: &str, audience: &str) -> Value {
    let mut token = json!({"path": "token", "expirationSeconds": 3600});
    if !audience.is_empty() {
        token["audience"] = json!(audience);
    }
    json!({"name": name, "projected": {"sources": [{"serviceAccountToken": token}]}})
}
