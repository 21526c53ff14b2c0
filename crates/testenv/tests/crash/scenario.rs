//! What each controller has to do in a run.

use serde_json::{Value, json};

/// The work of one controller.
#[derive(Clone, Copy, Debug)]
pub enum Scenario {
    Merged,
    Tokens,
    Bundle,
    DefaultAccount,
    TokenController,
    RootCa,
    Cleaner,
}

/// The name of the bundle's ConfigMap.
const BUNDLE: &str = "sets";

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
        }
    }

    /// Returns further flags of `pillion controller`.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            // kube-controller-manager deletes namespaces here, and nothing else.
            Self::TokenController => &["--force-token-controller"],
            Self::Cleaner => &["--legacy-token-period=1s"],
            _ => &[],
        }
    }

    /// Whether SidecarSets are objects of the cluster.
    pub fn has_sets(self) -> bool {
        matches!(self, Self::Bundle)
    }

    /// Returns the settings for a run in this namespace.
    pub fn settings(self, namespace: &str) -> Value {
        let mut settings = json!({"featureGates": {"SidecarSetServiceAccountInjection": true}});
        let set = |name: &str, fields: Value| crate::support::sidecar_sets::set(name, &fields);
        match self {
            Self::Merged => {
                settings["sidecarSets"] =
                    ["get", "list"].map(|verb| crate::support::sidecar_sets::merging(verb, verb)).into();
            }
            Self::Tokens => settings["sidecarSets"] = json!([set("logs", json!({"serviceAccountMode": "Isolate"}))]),
            Self::Bundle => {
                settings["bundleRef"] = json!({"namespace": namespace, "name": BUNDLE});
                settings["systemNamespace"] = namespace.into();
            }
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
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/service-account-token"})
        };
        let workload = || {
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("web"),
                "spec": {
                    "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
                    "template": {
                        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}
                    }
                }
            })
        };
        match self {
            Self::Merged => vec![workload()],
            Self::Tokens => vec![account("logs", &[]), workload()],
            Self::Bundle => ["a", "b"]
                .map(|name| {
                    let selector = json!({"matchLabels": {"app": name}});
                    crate::support::sidecar_sets::set(name, &json!({"selector": selector}))
                })
                .into(),
            Self::DefaultAccount | Self::RootCa => Vec::new(),
            Self::TokenController => {
                vec![account("bot", &["bot-token-x2b4z"]), secret("filled", "bot"), secret("orphan", "missing")]
            }
            Self::Cleaner => vec![account("bot", &["old"]), secret("old", "bot")],
        }
    }

    /// Whether everything that this controller makes is there.
    pub fn is_done(self, objects: &[Value]) -> bool {
        let of = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>();
        let named =
            |kind: &str, name: &str| of(kind).into_iter().find(|object| object["metadata"]["name"] == name).cloned();
        let is_some = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
        match self {
            Self::Merged => {
                let role = of("Role");
                role.len() == 1
                    && role[0]["rules"].as_array().is_some_and(|rules| !rules.is_empty())
                    && of("RoleBinding").iter().any(|binding| is_some(binding.get("subjects")))
            }
            Self::Tokens => of("Secret").iter().any(|secret| is_some(secret.pointer("/data/token"))),
            Self::Bundle => {
                let are_told = of("SidecarSet").iter().all(|set| set["conditions"][0]["status"] == "True");
                are_told && named("ConfigMap", BUNDLE).is_some_and(|map| is_some(map.pointer("/data/bundle")))
            }
            Self::DefaultAccount => named("ServiceAccount", "default").is_some(),
            Self::RootCa => named("ConfigMap", "kube-root-ca.crt").is_some(),
            Self::TokenController => {
                let account = named("ServiceAccount", "bot");
                named("Secret", "filled").is_some_and(|secret| is_some(secret.pointer("/data/token")))
                    && named("Secret", "orphan").is_none()
                    && account.is_some_and(|account| account["secrets"].as_array().is_none_or(Vec::is_empty))
            }
            Self::Cleaner => named("Secret", "old").is_some_and(|secret| {
                is_some(secret.pointer("/metadata/labels/kubernetes.io~1legacy-token-invalid-since"))
            }),
        }
    }
}
