//! The table of settings: schema, reference and the search for settings among files are made of it.

use pillion_core::gates::Gates;
use pillion_core::settings::SYSTEM_NAMESPACE;
use serde_json::{Map, Value, json};

use super::definitions::Definitions;
use super::service_accounts;

/// One setting.
pub struct Setting {
    /// Its key.
    pub name: &'static str,
    /// Its type, in words.
    pub kind: &'static str,
    /// What it is where it is absent, as JSON; empty where that is nothing.
    pub default: &'static str,
    /// What it means, on one line.
    pub means: &'static str,
    /// An example, as YAML; empty where there is nothing to show.
    pub example: &'static str,
    /// Whether a document with this key, and without `kind`, can only be settings of this policy.
    pub is_telling: bool,
    /// The schema of its values; `null` is one of them, and counts as absent.
    shape: fn(&mut Definitions) -> Value,
}

/// Every setting.
pub const SETTINGS: [Setting; 12] = [
    Setting {
        name: "sidecarSets",
        kind: "list of SidecarSet manifests",
        default: "[]",
        means: "what is injected",
        example: "sidecarSets:\n  - apiVersion: apps.kruise.io/v1beta1\n    kind: SidecarSet\n    metadata:\n      name: log-agent\n    spec:\n      selector:\n        matchLabels:\n          logs: collect\n      containers:\n        - name: log-agent\n          image: fluent/fluent-bit:3.0",
        is_telling: true,
        shape: |definitions| json!({"type": ["array", "null"], "items": definitions.sidecar_set()}),
    },
    Setting {
        name: "controllerRevisions",
        kind: "list of ControllerRevision manifests",
        default: "[]",
        means: "stored versions that `injectionStrategy.revision` names",
        example: "",
        is_telling: true,
        shape: |definitions| json!({"type": ["array", "null"], "items": definitions.controller_revision()}),
    },
    Setting {
        name: "featureGates",
        kind: "map from name to boolean",
        default: "{}",
        means: "OpenKruise's feature gates for SidecarSets, all off",
        example: "featureGates:\n  SidecarSetServiceAccountInjection: true",
        is_telling: false,
        shape: gates,
    },
    Setting {
        name: "systemNamespace",
        kind: "string, an RFC 1123 label",
        default: "\"kruise-system\"",
        means: "where the ConfigMap `kruise-configuration` and the ControllerRevisions are",
        example: "systemNamespace: kruise-system",
        is_telling: false,
        shape: |_| {
            json!({
                "type": ["string", "null"],
                "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
                "maxLength": pillion_core::format::DNS_LABEL_MAX,
                "default": SYSTEM_NAMESPACE,
            })
        },
    },
    Setting {
        name: "patchPodMetadataWhitelist",
        kind: "object",
        default: "",
        means: "which annotations SidecarSets may patch; instead of the ConfigMap",
        example: "patchPodMetadataWhitelist:\n  rules:\n    - selector:\n        matchLabels:\n          team: platform\n      allowedAnnotationKeyExprs:\n        - ^log\\.example\\.com/",
        is_telling: true,
        shape: whitelist,
    },
    Setting {
        name: "shoots",
        kind: "object",
        default: "{}",
        means: "rules for Gardener Shoots, off",
        example: "shoots:\n  enabled: true\n  migration: Deny",
        is_telling: true,
        shape: shoots,
    },
    Setting {
        name: "serviceAccounts",
        kind: "object",
        default: "{}",
        means: "which ServiceAccounts sidecars may get, and what is guarded",
        example: "serviceAccounts:\n  allowed:\n    - namespaces: [team-*]\n      names: [log-agent, mesh-*]\n  onAppServiceAccount: Isolate\n  protectInUse: true",
        is_telling: false,
        shape: |_| service_accounts::schema(),
    },
    Setting {
        name: "role",
        kind: "string",
        default: "\"Inject\"",
        means: "`Inject`, or `Assert`: the twin that checks what became of the identities and never patches",
        example: "role: Assert",
        is_telling: false,
        shape: |_| json!({"enum": ["Inject", "Assert", null]}),
    },
    Setting {
        name: "bundle",
        kind: "string",
        default: "",
        means: "more SidecarSets, compiled into one string by `pillion bundle`: cheaper for the policy server, which copies the settings for every request",
        example: "",
        is_telling: false,
        shape: |_| json!({"type": ["string", "null"], "pattern": "^(pillion-bundle-3:|$)"}),
    },
    Setting {
        name: "bundleRef",
        kind: "object",
        default: "",
        means: "`{namespace, name}` of the ConfigMap in which a controller keeps compiled SidecarSets",
        example: "bundleRef:\n  namespace: pillion-system\n  name: sidecarsets",
        is_telling: true,
        shape: bundle_ref,
    },
    Setting {
        name: "onBundleUnavailable",
        kind: "string",
        default: "\"Deny\"",
        means: "what happens where the ConfigMap of `bundleRef` is missing, damaged or too old: `Deny`, or `UseSettings`",
        example: "onBundleUnavailable: UseSettings",
        is_telling: true,
        shape: |_| json!({"enum": ["Deny", "UseSettings", null]}),
    },
    Setting {
        name: "bundleMaxAge",
        kind: "string, a duration",
        default: "\"10m\"",
        means: "how old the ConfigMap of `bundleRef` may be, as in `90s`, `10m` or `1h30m`",
        example: "bundleMaxAge: 10m",
        is_telling: true,
        shape: |_| {
            let number = "([0-9]+(\\.[0-9]*)?|\\.[0-9]+)";
            json!({"type": ["string", "null"], "pattern": format!("^[+]?({number}(ns|us|\u{b5}s|\u{3bc}s|ms|s|m|h))+$")})
        },
    },
];

fn bundle_ref(_: &mut Definitions) -> Value {
    let part = |pattern: &str, max: usize| json!({"type": "string", "pattern": pattern, "maxLength": max});
    let label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
    let named = json!({
        "properties": {
            "namespace": part(&format!("^{label}$"), pillion_core::format::DNS_LABEL_MAX),
            "name": part(&format!("^{label}(\\.{label})*$"), pillion_core::format::DNS_SUBDOMAIN_MAX),
        },
    });
    let empty = json!({"properties": {"namespace": {"const": ""}, "name": {"const": ""}}});
    json!({
        "type": ["object", "null"],
        "properties": {
            "namespace": {"type": "string", "description": "the namespace of the ConfigMap"},
            "name": {"type": "string", "description": "its name"},
        },
        "required": ["namespace", "name"],
        "additionalProperties": false,
        "anyOf": [{"type": "null"}, named, empty],
    })
}

impl Setting {
    pub(super) fn schema(&self, definitions: &mut Definitions) -> Value {
        let mut schema = (self.shape)(definitions);
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("description".to_owned(), self.means.into());
            if let Ok(default) = self.default.parse::<Value>() {
                schema.insert("default".to_owned(), default);
            }
        }
        schema
    }
}

/// The gates and what they do when they are on.
pub const GATES: [(&str, &str); 3] = [
    (
        "SidecarSetPatchPodMetadataDefaultsAllowed",
        "`patchPodMetadata` is allowed where no whitelist, or no rule of it, is for the SidecarSet",
    ),
    ("EnableSortSidecarContainerByName", "injected containers are sorted by name; init containers always are"),
    (
        "SidecarSetServiceAccountInjection",
        "SidecarSets may name a ServiceAccount, and their containers get a token of it",
    ),
];

fn gates(_: &mut Definitions) -> Value {
    let described = |name: &str| GATES.iter().find(|(gate, _)| *gate == name).map_or("", |(_, does)| *does);
    let properties: Map<String, Value> = Gates::NAMES
        .iter()
        .map(|name| ((*name).to_owned(), json!({"type": "boolean", "default": false, "description": described(name)})))
        .collect();
    json!({"type": ["object", "null"], "properties": properties, "additionalProperties": false})
}

fn whitelist(_: &mut Definitions) -> Value {
    let expressions = json!({
        "type": ["array", "null"],
        "items": {"type": "string"},
        "description": "Regular expressions (RE2), matched anywhere in the key of an annotation.",
    });
    let selector = json!({
        "type": ["object", "null"],
        "description": "Labels of the SidecarSets that the rule is for; absent: all of them.",
    });
    let rule = json!({
        "type": "object",
        "properties": {"selector": selector, "allowedAnnotationKeyExprs": expressions},
        "additionalProperties": false,
    });
    json!({
        "type": ["object", "null"],
        "properties": {"rules": {"type": ["array", "null"], "items": rule}},
        "additionalProperties": false,
    })
}

fn shoots(_: &mut Definitions) -> Value {
    let prefix = json!({"type": "string", "pattern": r"^[a-z][^.]*(\.[^.]+)*$"});
    json!({
        "type": ["object", "null"],
        "properties": {
            "enabled": {"type": ["boolean", "null"], "default": false, "description": "Nothing is looked at without it."},
            "migration": {
                "enum": ["Deny", "Warn", null],
                "default": "Warn",
                "description": "What happens where an issuer changes and its tokens would stop working at once.",
            },
            "managedIssuer": {
                "enum": ["Supported", "Unsupported", null],
                "default": "Supported",
                "description": "Whether the Gardener installation has a discovery server.",
            },
            "pathPrefixes": {
                "type": ["array", "null"],
                "items": prefix,
                "description": "The dotted paths at which objects hold a kubeAPIServer; empty: those of Shoot, Garden and ManagedSeedSet.",
            },
        },
        "additionalProperties": false,
    })
}
