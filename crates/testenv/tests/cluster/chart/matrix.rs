//! Values of the chart, each with the flags of `pillion manifest` that render the same objects.

use pillion_install::rendering::document::Document;
use pillion_install::rendering::options::{Controller, Kubewarden, Standalone};
use pillion_install::rendering::{controller, kubewarden, standalone};

use crate::support::options;
use serde_json::{Value, json};

/// A certificate as `server.certificates.caBundle` takes it.
pub const PEM: &str = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";
const BASE64: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";

/// What a release runs the policy in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installation {
    Standalone,
    Kubewarden,
}

/// Values of the chart, and the same for `pillion manifest`.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: &'static str,
    pub release: &'static str,
    pub namespace: &'static str,
    pub values: Value,
    installation: Installation,
    /// Flags of `pillion manifest standalone` or `kubewarden`.
    flags: Vec<&'static str>,
    /// Flags of `pillion manifest controller`; `None` if no controller runs.
    controller: Option<Vec<&'static str>>,
    ca_bundle: Option<String>,
}

impl Case {
    fn new(name: &'static str, installation: Installation, mut values: Value) -> Self {
        if installation == Installation::Kubewarden {
            json_patch::merge(&mut values, &json!({"kubewarden": {"enabled": true}}));
        }
        Self {
            name,
            release: "pillion",
            namespace: "pillion-system",
            values,
            installation,
            flags: Vec::new(),
            controller: Some(Vec::new()),
            ca_bundle: None,
        }
    }

    /// Adds flags for the server or the policies.
    fn with(mut self, flags: &[&'static str]) -> Self {
        self.flags.extend(flags);
        self
    }

    /// Adds flags for the controllers.
    fn controllers(mut self, flags: &[&'static str]) -> Self {
        self.controller.get_or_insert_default().extend(flags);
        self
    }

    /// Adds flags for both.
    fn both(self, flags: &[&'static str]) -> Self {
        self.with(flags).controllers(flags)
    }

    fn without_controllers(self) -> Self {
        Self { controller: None, ..self }
    }

    /// Returns the settings that `pillion manifest` gets: those of the values, and what the chart adds.
    fn effective_settings(&self) -> Value {
        let given = self.values.get("settings").cloned().unwrap_or(json!({}));
        let mut settings = json!({
            "bundleRef": {"name": "pillion-bundle", "namespace": self.namespace},
            "systemNamespace": self.namespace,
            "serviceAccounts": {
                "controllerUser": format!("system:serviceaccount:{}:{}-controller", self.namespace, self.release),
            },
        });
        if self.controller.iter().flatten().any(|flag| *flag == "--bundle-settings") {
            settings["bundleCache"] = json!(true);
        }
        json_patch::merge(&mut settings, &given);
        let guards = settings.pointer_mut("/serviceAccounts/guards");
        if let Some(guards) = guards.filter(|guards| guards["images"] == true && guards.get("imageUsers").is_none()) {
            guards["imageUsers"] = json!([
                format!("system:serviceaccount:{}:{}-controller-rollout", self.namespace, self.release),
                "system:serviceaccount:kruise-system:kruise-manager",
            ]);
        }
        // A null turns the default off, in the chart and in `pillion manifest`.
        if given.get("bundleRef").is_some_and(Value::is_null) {
            settings["bundleRef"] = Value::Null;
        }
        settings
    }

    /// Returns the objects of `pillion manifest`.
    pub fn manifest(&self) -> Vec<Value> {
        let settings = self.effective_settings();
        let name = format!("{}-controller", self.release);
        let mut flags = vec!["--name", self.release, "--any-sidecar-sets"];
        let mut documents = match self.installation {
            Installation::Standalone => {
                flags.extend(["--namespace", self.namespace].iter().chain(&self.flags));
                let options = Standalone { ca_bundle: self.ca_bundle.clone(), ..options(&flags) };
                standalone::render(&settings, &options).unwrap().documents
            }
            Installation::Kubewarden => {
                flags.extend(&self.flags);
                kubewarden::render(&settings, &options::<Kubewarden>(&flags)).unwrap().documents
            }
        };
        if let Some(flags) = &self.controller {
            let mut all = vec!["--name", &name, "--namespace", self.namespace];
            all.extend(flags);
            documents.extend(controller::render(&settings, &options::<Controller>(&all)).unwrap().documents);
        }
        documents.into_iter().map(|document: Document| document.object).collect()
    }
}

fn set(name: &str, spec: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"logs": "collect"}}, "containers": [{"name": name, "image": "i:1"}]}
    });
    json_patch::merge(&mut set["spec"], spec);
    set
}

fn identities() -> Value {
    json!({"featureGates": {"SidecarSetServiceAccountInjection": true}})
}

/// Returns settings with every guard of running Pods, and texts that CEL and regular expressions read in another way.
fn guarded() -> Value {
    json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "serviceAccounts": {"guards": {
            "exec": true, "execUsers": ["ann", "it's \"me\" & <you>\\"], "images": true, "tokenRequests": true,
            "tokenRequestAccounts": [
                {"namespaces": ["*"], "names": ["log-agent", "a.b?(c)"]}, {"namespaces": ["team-*", "x"], "names": ["v|w"]},
            ],
            "breakGlassGroups": ["oncall"],
        }},
    })
}

/// Returns SidecarSets that merge their accounts, with permissions in fields and in annotations.
fn merging() -> Value {
    let rule = |verb: &str| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
    let of_fields = |name: &str, verb: &str| {
        let conflict = json!({
            "serviceAccountName": name, "behaviorWhenServiceAccountInjection": "Merge",
            "serviceAccountPermissions": rule(verb),
        });
        set(name, &conflict)
    };
    let mut of_annotations = set("c", &json!({"serviceAccountName": "c"}));
    of_annotations["metadata"]["annotations"] = json!({
        "pillion.dev/service-account-conflict": "merge",
        "pillion.dev/service-account-permissions": rule("watch").to_string(),
    });
    let refusing = set("d", &json!({"serviceAccountName": "d", "serviceAccountPermissions": rule("delete")}));
    json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "sidecarSets": [of_fields("a", "get"), of_fields("b", "list"), of_annotations, refusing],
    })
}

const WITH_LOOPS: &str = "*,serviceaccount,serviceaccount-token,root-ca-publisher,legacy-token-cleaner";

/// Returns every combination of values.
pub fn all() -> Vec<Case> {
    [standalone_cases(), webhooks(), certificates(), controllers(), kubewarden_cases()].concat()
}

fn standalone_cases() -> Vec<Case> {
    use Installation::Standalone as Server;
    let whitelist = json!({"patchPodMetadataWhitelist": {"rules": [
        {"allowedAnnotationKeyExprs": ["^log\\.example\\.com/", "it's"]}, {"allowedAnnotationKeyExprs": ["b"]}]}});
    let everything = json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true}, "shoots": {"enabled": true},
        "serviceAccounts": {"legacyTokenSecrets": "Deny", "legacyTokenExempt": ["a/b"], "protectDefault": true},
    });
    let mut elsewhere = Case::new("another name and namespace", Server, json!({}));
    (elsewhere.release, elsewhere.namespace) = ("second", "elsewhere");
    let numbers = json!({"sidecarSets": [set("a", &json!({"containers": [
        {"name": "a", "image": "i:1", "securityContext": {"runAsUser": 1_000_000_000}, "ports": [{"containerPort": 80}]}]}))]});
    vec![
        Case::new("defaults", Server, json!({})),
        elsewhere,
        Case::new("identities", Server, json!({"settings": identities()})),
        Case::new("everything", Server, json!({"settings": everything})),
        Case::new("running Pods are guarded", Server, json!({"settings": guarded()})),
        Case::new(
            "connections alone are guarded",
            Server,
            json!({"settings": {"serviceAccounts": {"guards": {"exec": true}}}, "without": ["sidecarsets"], "optOutLabel": "a=b"}),
        )
        .with(&["--without", "sidecarsets", "--opt-out-label", "a=b"]),
        Case::new("shoots", Server, json!({"settings": {"shoots": {"enabled": true}}})),
        Case::new(
            "default accounts are guarded",
            Server,
            json!({"settings": {"serviceAccounts": {"protectDefault": true}}}),
        ),
        Case::new(
            "token Secrets are checked",
            Server,
            json!({"settings": {"serviceAccounts": {"legacyTokenSecrets": "Deny"}}}),
        ),
        Case::new("authors create Pods", Server, json!({"settings": {"serviceAccounts": {"requireCreatePods": true}}})),
        Case::new(
            "a whitelist in the settings",
            Server,
            json!({"settings": whitelist, "controller": {"rollouts": {"enabled": true}}}),
        )
        .controllers(&["--controllers", "*,sidecarset-rollout"]),
        Case::new("numbers stay", Server, json!({"settings": numbers})),
        Case::new("without a bundle", Server, json!({"settings": {"bundleRef": null}})).without_controllers(),
        Case::new(
            "the bundle elsewhere",
            Server,
            json!({"settings": {"bundleRef": {"name": "b", "namespace": "bundles"}}}),
        ),
        Case::new(
            "without parts",
            Server,
            json!({"settings": identities(), "without": ["token-secrets", "assert", "sidecarsets"]}),
        )
        .with(&["--without", "token-secrets,assert,sidecarsets"]),
        Case::new(
            "nothing mutates",
            Server,
            json!({"settings": identities(), "without": ["pods", "sidecarsets", "token-secrets"]}),
        )
        .with(&["--without", "pods,sidecarsets,token-secrets"]),
        Case::new("nothing is watched", Server, json!({"without": ["pods"]})).with(&["--without", "pods"]),
        Case::new("no role in the system namespace", Server, json!({"systemRole": false})).with(&["--no-system-role"]),
        Case::new("no definition", Server, json!({"crds": {"install": false}})).with(&["--no-crd"]),
        Case::new("one replica", Server, json!({"server": {"replicas": 1}, "controller": {"replicas": 1}}))
            .both(&["--replicas", "1"]),
        Case::new(
            "three replicas",
            Server,
            json!({"server": {"replicas": 3, "priorityClassName": "system-cluster-critical"}}),
        )
        .with(&["--replicas", "3", "--priority-class", "system-cluster-critical"]),
        Case::new(
            "another image",
            Server,
            json!({"image": {"repository": "registry.example.com/pillion", "tag": "v2"}}),
        )
        .both(&["--image", "registry.example.com/pillion:v2"]),
        Case::new("no network policy", Server, json!({"networkPolicy": {"enabled": false}}))
            .both(&["--no-network-policy"]),
        Case::new("ports of the API server", Server, json!({"networkPolicy": {"apiServerPorts": [16443]}}))
            .both(&["--api-server-ports", "16443"]),
    ]
}

/// Returns what the webhooks of the server are called for, and how the API server reaches it.
fn webhooks() -> Vec<Case> {
    use Installation::Standalone as Server;
    vec![
        Case::new(
            "an opt-out label",
            Server,
            json!({"settings": identities(), "optOutLabel": "pillion.dev/injection=off"}),
        )
        .with(&["--opt-out-label", "pillion.dev/injection=off"]),
        Case::new("excluded namespaces", Server, json!({"excludeNamespaces": ["cert-manager", "a", "kube-system"]}))
            .with(&["--exclude-namespaces", "cert-manager,a,kube-system"]),
        Case::new(
            "fails open",
            Server,
            json!({"settings": identities(), "failurePolicy": "Ignore", "guardFailurePolicy": "Ignore"}),
        )
        .with(&["--failure-policy", "Ignore", "--guard-failure-policy", "Ignore"]),
        Case::new(
            "a control plane that does not reach Pods, and another that edits webhooks",
            Server,
            json!({"server": {
                "hostNetwork": true, "port": 9443, "healthPort": 9080,
                "webhookAnnotations": {"admissions.enforcer/disabled": "true", "team": "a"},
            }}),
        )
        .with(&["--host-network", "--port", "9443", "--health-port", "9080"])
        .with(&["--webhook-annotations", "admissions.enforcer/disabled=true,team=a"]),
        Case::new(
            "another time limit, and nodes of a pool",
            Server,
            json!({
                "settings": identities(), "webhookTimeoutSeconds": 25,
                "server": {"nodeSelector": {"pool": "system"}}, "controller": {"nodeSelector": {"pool": "system"}},
            }),
        )
        .with(&["--webhook-timeout", "25"])
        .both(&["--node-selector", "pool=system"]),
    ]
}

fn certificates() -> Vec<Case> {
    use Installation::Standalone as Server;
    let values = |certificates: Value| json!({"settings": identities(), "server": {"certificates": certificates}});
    let mut files = Case::new(
        "certificates of files",
        Server,
        values(json!({"source": "files", "secretName": "mine", "caBundle": PEM})),
    )
    .with(&["--certificates", "files", "--tls-secret", "mine"]);
    files.ca_bundle = Some(BASE64.to_owned());
    vec![
        files,
        Case::new(
            "certificates of files that the system trusts",
            Server,
            values(json!({"source": "files", "secretName": "mine"})),
        )
        .with(&["--certificates", "files", "--tls-secret", "mine"]),
        Case::new("another Secret", Server, values(json!({"secretName": "other"}))).with(&["--tls-secret", "other"]),
        Case::new("cert-manager", Server, values(json!({"source": "cert-manager"})))
            .with(&["--certificates", "cert-manager"]),
        Case::new(
            "an issuer",
            Server,
            values(json!({"source": "cert-manager", "issuer": {"kind": "ClusterIssuer", "name": "internal"}})),
        )
        .with(&["--certificates", "cert-manager", "--issuer", "ClusterIssuer/internal"]),
    ]
}

fn controllers() -> Vec<Case> {
    use Installation::Standalone as Server;
    let kruise = json!({
        "systemNamespace": "kruise-system", "bundleRef": {"name": "b", "namespace": "kruise-system"},
        "serviceAccounts": {"protectedNamespaces": ["kube-system", "vault"]},
    });
    vec![
        Case::new("rollouts", Server, json!({"controller": {"rollouts": {"enabled": true}}}))
            .controllers(&["--controllers", "*,sidecarset-rollout"]),
        Case::new("rollouts beside OpenKruise", Server, json!({"settings": kruise, "controller": {"rollouts": {"enabled": true}, "controllers": ["*", "legacy-token-cleaner"]}}))
            .controllers(&["--controllers", "*,legacy-token-cleaner,sidecarset-rollout"]),
        Case::new("rollouts alone", Server, json!({"settings": {"bundleRef": null}, "controller": {"rollouts": {"enabled": true}}}))
            .controllers(&["--controllers", "*,sidecarset-rollout"]),
        Case::new("merged accounts", Server, json!({"settings": merging()})),
        Case::new("tokens of isolated sidecars", Server, json!({"settings": identities(), "controller": {"tokenNamespaces": ["shop", "news", "shop"]}}))
            .controllers(&["--token-namespaces", "shop,news,shop"]),
        Case::new("every controller", Server, json!({"settings": merging(), "controller": {
            "tokenNamespaces": ["shop"], "rollouts": {"enabled": true},
            "controllers": WITH_LOOPS.split(',').collect::<Vec<_>>(),
        }}))
            .controllers(&["--token-namespaces", "shop", "--controllers"])
            .controllers(&["*,serviceaccount,serviceaccount-token,root-ca-publisher,legacy-token-cleaner,sidecarset-rollout"]),
        Case::new("one controller less", Server, json!({"settings": identities(), "controller": {"controllers": ["*", "-merged-serviceaccounts"]}}))
            .controllers(&["--controllers", "*,-merged-serviceaccounts"]),
        Case::new("one of the loops", Server, json!({"controller": {"controllers": ["serviceaccount"]}}))
            .controllers(&["--controllers", "serviceaccount"]),
        Case::new("no controllers", Server, json!({"controller": {"enabled": false, "rollouts": {"enabled": true}}})).without_controllers(),
    ]
}

fn kubewarden_cases() -> Vec<Case> {
    use Installation::Kubewarden as Policies;
    let everything = json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true}, "shoots": {"enabled": true},
        "serviceAccounts": {"legacyTokenSecrets": "Deny", "legacyTokenExempt": ["a/b"], "protectDefault": true},
    });
    let of_rancher = json!({
        "namespace": "cattle-kubewarden-system", "serviceAccount": "policy-server-other", "policyServer": "other",
        "module": "registry://registry.example.com/pillion:v2",
    });
    let mut elsewhere = Case::new("Kubewarden, another name and namespace", Policies, json!({}));
    (elsewhere.release, elsewhere.namespace) = ("second", "elsewhere");
    let cases = vec![
        Case::new("Kubewarden", Policies, json!({})),
        elsewhere.with(&["--exclude-namespaces", "elsewhere"]),
        Case::new("Kubewarden, everything", Policies, json!({"settings": everything})),
        Case::new("Kubewarden, running Pods are guarded", Policies, json!({"settings": guarded()})),
        Case::new("Kubewarden in Rancher", Policies, json!({"kubewarden": of_rancher})).with(&[
            "--namespace",
            "cattle-kubewarden-system",
            "--service-account",
            "policy-server-other",
            "--policy-server",
            "other",
            "--module",
            "registry://registry.example.com/pillion:v2",
        ]),
        Case::new(
            "Kubewarden only logs",
            Policies,
            json!({"settings": identities(), "kubewarden": {"mode": "monitor"}}),
        )
        .with(&["--mode", "monitor"]),
        Case::new(
            "Kubewarden only logs, and refuses Pods while it does not answer",
            Policies,
            json!({"settings": identities(), "kubewarden": {"mode": "monitor"}, "failurePolicy": "Fail"}),
        )
        .with(&["--mode", "monitor", "--failure-policy", "Fail"]),
        Case::new(
            "Kubewarden, with options",
            Policies,
            json!({
                "settings": identities(), "without": ["guards"], "optOutLabel": "a=", "failurePolicy": "Ignore",
                "excludeNamespaces": ["cilium"], "systemRole": false, "webhookTimeoutSeconds": 7,
            }),
        )
        .with(&["--without", "guards", "--opt-out-label", "a=", "--failure-policy", "Ignore", "--webhook-timeout", "7"])
        .with(&["--exclude-namespaces", "cilium", "--no-system-role"]),
        Case::new(
            "Kubewarden beside OpenKruise",
            Policies,
            json!({
                "settings": {"systemNamespace": "kruise-system"}, "crds": {"install": false},
                "controller": {"rollouts": {"enabled": true}},
            }),
        )
        .with(&["--exclude-namespaces", "pillion-system"])
        .controllers(&["--controllers", "*,sidecarset-rollout"]),
        Case::new("Kubewarden, SidecarSets in the settings", Policies, json!({"settings": merging()})),
        Case::new("Kubewarden, past the cache", Policies, json!({"settings": {"bundleCache": false}})),
        Case::new(
            "Kubewarden, every controller",
            Policies,
            json!({"settings": merging(), "controller": {"tokenNamespaces": ["shop"], "rollouts": {"enabled": true}}}),
        )
        .controllers(&["--token-namespaces", "shop", "--controllers", "*,sidecarset-rollout"]),
    ];
    let cases =
        cases.into_iter().map(|case| case.with(&["--sidecar-sets", "bundle-ref"]).controllers(&["--bundle-settings"]));
    // The chart installs the definition unless it is told not to.
    let defines = |case: &Case| case.values.pointer("/crds/install") != Some(&json!(false));
    cases
        .chain(kubewarden_cases_without_the_bundle())
        .map(|case| if defines(&case) { case.with(&["--crd"]) } else { case })
        .collect()
}

/// Nothing puts the SidecarSets of the settings into the bundle, or they are there for when it is missing.
fn kubewarden_cases_without_the_bundle() -> Vec<Case> {
    use Installation::Kubewarden as Policies;
    let settings = |key: &str, value: Value| {
        let mut settings = merging();
        settings[key] = value;
        settings
    };
    let cases = [
        Case::new(
            "Kubewarden without controllers",
            Policies,
            json!({"settings": merging(), "controller": {"enabled": false}}),
        )
        .without_controllers(),
        Case::new("Kubewarden, no bundle", Policies, json!({"settings": settings("bundleRef", Value::Null)})),
        Case::new(
            "Kubewarden, no controller for the bundle",
            Policies,
            json!({"settings": merging(), "controller": {"controllers": ["*", "-bundle"]}}),
        )
        .controllers(&["--controllers", "*,-bundle"]),
        Case::new(
            "Kubewarden, settings in place of the bundle",
            Policies,
            json!({"settings": settings("onBundleUnavailable", json!("UseSettings"))}),
        ),
    ];
    cases.map(|case| case.with(&["--sidecar-sets", "manifests"])).into()
}
