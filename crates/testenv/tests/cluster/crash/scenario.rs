//! The work of each controller in a run: the objects that exist at first, what somebody changes afterwards, and the
//! result.

use kube::Client;
use kube::api::{Patch, PatchParams};
use pillion_identity::names::GC_PENDING;
use pillion_plan::sidecar_tokens::UNNEEDED_SINCE;
use serde_json::{Value, json};

use super::objects::{self, Selection, find, of_kind};
use super::record::Name;
use super::rollouts;
use crate::support::sidecar_sets::{merging, set};

/// The work of one controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    Merged,
    Tokens,
    Bundle,
    DefaultAccount,
    TokenController,
    RootCa,
    Cleaner,
    Rollout,
}

/// The name of the bundle's ConfigMap.
const BUNDLE: &str = "sets";
/// The key of a token for another audience in the Secret of a set.
const AUDIENCE_KEY: &str = "vault";
const ROOT_CA: &str = "kube-root-ca.crt";
const LONG_AGO: &str = "2020-01-01T00:00:00Z";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

impl Scenario {
    /// Returns the name in `--controllers`.
    pub fn controller(self) -> &'static str {
        match self {
            Self::Merged => "merged-serviceaccounts",
            Self::Tokens => "sidecar-tokens",
            Self::Bundle => "bundle",
            Self::DefaultAccount => "serviceaccount",
            Self::TokenController => "serviceaccount-token",
            Self::RootCa => "root-ca-publisher",
            Self::Cleaner => "legacy-token-cleaner",
            Self::Rollout => "sidecarset-rollout",
        }
    }

    /// Returns further flags of `pillion controller`.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Merged => &["--collect-after=1s"],
            // kube-controller-manager deletes namespaces here, and nothing else.
            Self::TokenController => &["--force-token-controller"],
            Self::Cleaner => &["--legacy-token-period=1s"],
            _ => &[],
        }
    }

    /// Returns the settings for a run in this namespace.
    pub fn settings(self, namespace: &str) -> Value {
        let mut settings = json!({"featureGates": {"SidecarSetServiceAccountInjection": true}});
        match self {
            Self::Merged => settings["sidecarSets"] = ["get", "list"].map(|verb| merging(verb, verb)).into(),
            Self::Tokens => {
                // One Secret: a second one would be created at the same path, which hides when a retry comes too early.
                let audiences = json!([{"audience": "vault", "path": AUDIENCE_KEY}]);
                let fields = json!({"serviceAccountMode": "Isolate", "serviceAccountTokens": audiences});
                settings["sidecarSets"] = json!([set("logs", &fields)]);
                settings["serviceAccounts"] = json!({"allowedAudiences": ["vault"]});
            }
            Self::Bundle => {
                settings["bundleRef"] = json!({"namespace": namespace, "name": BUNDLE});
                settings["systemNamespace"] = namespace.into();
            }
            Self::Rollout => settings["systemNamespace"] = namespace.into(),
            _ => {}
        }
        settings
    }

    /// Returns the objects that exist before a run.
    pub fn objects(self, namespace: &str) -> Vec<Value> {
        let metadata = |name: &str| json!({"name": name, "namespace": namespace});
        let account = |name: &str, secrets: &[&str]| {
            let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name), "secrets": secrets})
        };
        let secret = |name: &str, account: &str| {
            let mut metadata = metadata(name);
            metadata["annotations"] = json!({"kubernetes.io/service-account.name": account});
            let of_type = "kubernetes.io/service-account-token";
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": of_type})
        };
        let workload = || {
            let spec = json!({"containers": [{"name": "app", "image": "app:1"}]});
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("web"),
                "spec": {
                    "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec}
                }
            })
        };
        match self {
            Self::Merged => vec![workload()],
            Self::Tokens => vec![account("logs", &[]), workload()],
            Self::Bundle => {
                ["a", "b"].map(|name| set(name, &json!({"selector": {"matchLabels": {"app": name}}}))).into()
            }
            Self::DefaultAccount | Self::RootCa => Vec::new(),
            Self::TokenController => {
                vec![account("bot", &["bot-token-x2b4z"]), secret("filled", "bot"), secret("orphan", "missing")]
            }
            Self::Cleaner => vec![account("bot", &["old"]), secret("old", "bot")],
            Self::Rollout => {
                let set = rollouts::sidecar_set(namespace);
                let pods = rollouts::PODS.map(|name| rollouts::pod(&set, namespace, name));
                [account("default", &[]), set].into_iter().chain(pods).collect()
            }
        }
    }

    /// Returns how often a request is sent at least, if that depends on the time: numbers that alone have changed are
    /// written into the status of a SidecarSet every two seconds. Three statuses are written at once: that of the new
    /// SidecarSet, and in a rollout the first one and the last one. A merged object is deleted once, and again if the
    /// deletion came before the watch knew of the mark, since it names the version that it deletes.
    pub fn least(self, name: &Name) -> Option<usize> {
        match self {
            Self::Merged if name.is_deletion() => Some(1),
            _ => (!self.is_certain(name)).then_some(3),
        }
    }

    /// Whether it is certain how many of these writes take effect.
    pub fn is_certain(self, name: &Name) -> bool {
        self != Self::Rollout || !name.is_sidecar_set_status()
    }

    /// Returns the number of phases: the first, and one after each change.
    pub fn phases(self) -> usize {
        match self {
            Self::DefaultAccount | Self::TokenController | Self::Cleaner => 2,
            Self::Merged | Self::Tokens | Self::Bundle | Self::RootCa | Self::Rollout => 3,
        }
    }

    /// Makes the change with which a phase begins, as somebody else.
    pub async fn change(self, client: &Client, namespace: &str, phase: usize) {
        match (self, phase) {
            (Self::Merged | Self::Tokens, 1) => objects::delete(client, namespace, "Deployment", "web").await,
            // A merged account is deleted some time after it was marked.
            (Self::Merged, _) => {
                let marked = json!({"metadata": {"annotations": {GC_PENDING: LONG_AGO}}});
                for kind in ["RoleBinding", "Role", "ServiceAccount"] {
                    objects::patch(client, Selection { namespace, kind, prefix: "sidecarset-merged-" }, &marked).await;
                }
            }
            (Self::Tokens, _) => {
                let marked = json!({"metadata": {"annotations": {UNNEEDED_SINCE: LONG_AGO}}});
                objects::patch(client, Selection { namespace, kind: "Secret", prefix: "sidecarset-token-" }, &marked)
                    .await;
            }
            (Self::Bundle, 1) => {
                let changed = json!({"spec": {"containers": [{"name": "b", "image": "b:2"}]}});
                let sets = objects::sidecar_sets(client);
                sets.patch("b", &PatchParams::default(), &Patch::Merge(changed)).await.unwrap();
            }
            (Self::Bundle, _) => objects::delete(client, namespace, "ConfigMap", BUNDLE).await,
            (Self::DefaultAccount, _) => objects::delete(client, namespace, "ServiceAccount", "default").await,
            (Self::RootCa, 1) => {
                let spoilt = json!({"data": {"ca.crt": "another", "more": "data"}});
                objects::patch(client, Selection { namespace, kind: "ConfigMap", prefix: ROOT_CA }, &spoilt).await;
            }
            (Self::RootCa, _) => objects::delete(client, namespace, "ConfigMap", ROOT_CA).await,
            (Self::TokenController, _) => objects::delete(client, namespace, "ServiceAccount", "bot").await,
            (Self::Cleaner, _) => {
                let marked = json!({"metadata": {"labels": {INVALID_SINCE: "2020-01-01"}}});
                objects::patch(client, Selection { namespace, kind: "Secret", prefix: "old" }, &marked).await;
            }
            // Only then may the next Pod be upgraded.
            (Self::Rollout, phase) => {
                rollouts::restart_containers(client, namespace, rollouts::PODS[phase - 1]).await;
            }
        }
    }

    /// Whether the process is started again for each phase: this controller does its work once a day.
    pub fn restarts(self) -> bool {
        self == Self::Cleaner
    }

    /// Whether the work of a phase is done.
    pub fn is_done(self, objects: &[Value], phase: usize) -> bool {
        let is_set = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
        let secret = |name: &str| find(objects, "Secret", name);
        let token_secrets = || {
            let secrets = of_kind(objects, "Secret").into_iter();
            let is_ours = |secret: &&Value| secret["metadata"]["name"].to_string().contains("sidecarset-token-");
            secrets.filter(is_ours).collect::<Vec<_>>()
        };
        match (self, phase) {
            (Self::Merged, 0) => {
                let (roles, bindings) = (of_kind(objects, "Role"), of_kind(objects, "RoleBinding"));
                roles.iter().any(|role| role["rules"].as_array().is_some_and(|rules| !rules.is_empty()))
                    && bindings.iter().any(|binding| is_set(binding.get("subjects")))
            }
            (Self::Merged, 1) => ["ServiceAccount", "Role", "RoleBinding"].into_iter().all(|kind| {
                let mark = |object: &&&Value| is_set(object["metadata"]["annotations"].get(GC_PENDING));
                of_kind(objects, kind).iter().any(|object| mark(&object) && object["metadata"]["finalizers"].is_null())
            }),
            (Self::Merged, _) => ["ServiceAccount", "Role", "RoleBinding"].into_iter().all(|kind| {
                let is_merged = |object: &&Value| object["metadata"]["name"].to_string().contains("sidecarset-merged-");
                !of_kind(objects, kind).iter().any(is_merged)
            }),
            (Self::Tokens, 0) => {
                let has = |secret: &Value, key: &str| is_set(secret["data"].get(key));
                token_secrets().iter().any(|secret| has(secret, "token") && has(secret, AUDIENCE_KEY))
            }
            (Self::Tokens, 1) => {
                token_secrets().iter().any(|secret| is_set(secret["metadata"]["annotations"].get(UNNEEDED_SINCE)))
            }
            (Self::Tokens, _) => token_secrets().is_empty(),
            (Self::Bundle, _) => {
                let sets = objects.iter().filter(|object| object["kind"] == "SidecarSet");
                let generation = |name: &Value| if *name == "b" && phase > 0 { 2 } else { 1 };
                let is_told = |set: &Value| {
                    let condition = &set["status"]["conditions"][0];
                    condition["status"] == "True"
                        && condition["observedGeneration"] == generation(&set["metadata"]["name"])
                };
                let map = find(objects, "ConfigMap", BUNDLE);
                sets.map(is_told).eq([true; 2]) && map.is_some_and(|map| is_set(map.pointer("/data/bundle")))
            }
            (Self::DefaultAccount, _) => find(objects, "ServiceAccount", "default").is_some(),
            (Self::RootCa, _) => find(objects, "ConfigMap", ROOT_CA)
                .is_some_and(|map| map["data"]["ca.crt"] != "another" && map["data"]["more"].is_null()),
            (Self::TokenController, 0) => {
                let names_none = |account: &Value| account["secrets"].as_array().is_none_or(Vec::is_empty);
                secret("filled").is_some_and(|secret| is_set(secret.pointer("/data/token")))
                    && secret("orphan").is_none()
                    && find(objects, "ServiceAccount", "bot").is_some_and(names_none)
            }
            (Self::TokenController, _) => secret("filled").is_none(),
            (Self::Cleaner, 0) => {
                secret("old").is_some_and(|secret| is_set(secret["metadata"]["labels"].get(INVALID_SINCE)))
            }
            (Self::Cleaner, _) => secret("old").is_none(),
            (Self::Rollout, phase) => rollouts::is_done(objects, phase),
        }
    }
}
