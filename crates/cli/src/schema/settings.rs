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
    shape: Shape,
}

/// Which values a setting takes.
enum Shape {
    /// These, and `null`, which is absent.
    Schema(fn(&mut Definitions) -> Value),
    /// None yet, except for the one that asks for nothing that this version does not do.
    ToCome(Option<&'static str>),
}

/// Every setting that has a name, those to come among them.
pub const SETTINGS: [Setting; 12] = [
    Setting {
        name: "sidecarSets",
        kind: "list of SidecarSet manifests",
        default: "[]",
        means: "what is injected",
        example: "sidecarSets:\n  - apiVersion: apps.kruise.io/v1beta1\n    kind: SidecarSet\n    metadata:\n      name: log-agent\n    spec:\n      selector:\n        matchLabels:\n          logs: collect\n      containers:\n        - name: log-agent\n          image: fluent/fluent-bit:3.0",
        is_telling: true,
        shape: Shape::Schema(|definitions| json!({"type": ["array", "null"], "items": definitions.sidecar_set()})),
    },
    Setting {
        name: "controllerRevisions",
        kind: "list of ControllerRevision manifests",
        default: "[]",
        means: "stored versions that `injectionStrategy.revision` names",
        example: "",
        is_telling: true,
        shape: Shape::Schema(
            |definitions| json!({"type": ["array", "null"], "items": definitions.controller_revision()}),
        ),
    },
    Setting {
        name: "featureGates",
        kind: "map from name to boolean",
        default: "{}",
        means: "OpenKruise's feature gates for SidecarSets, all off",
        example: "featureGates:\n  SidecarSetServiceAccountInjection: true",
        is_telling: false,
        shape: Shape::Schema(gates),
    },
    Setting {
        name: "systemNamespace",
        kind: "string, an RFC 1123 label",
        default: "\"kruise-system\"",
        means: "where the ConfigMap `kruise-configuration` and the ControllerRevisions are",
        example: "systemNamespace: kruise-system",
        is_telling: false,
        shape: Shape::Schema(|_| {
            json!({
                "type": ["string", "null"],
                "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
                "maxLength": pillion_core::format::DNS_LABEL_MAX,
                "default": SYSTEM_NAMESPACE,
            })
        }),
    },
    Setting {
        name: "patchPodMetadataWhitelist",
        kind: "object",
        default: "",
        means: "which annotations SidecarSets may patch; instead of the ConfigMap",
        example: "patchPodMetadataWhitelist:\n  rules:\n    - selector:\n        matchLabels:\n          team: platform\n      allowedAnnotationKeyExprs:\n        - ^log\\.example\\.com/",
        is_telling: true,
        shape: Shape::Schema(whitelist),
    },
    Setting {
        name: "shoots",
        kind: "object",
        default: "{}",
        means: "rules for Gardener Shoots, off",
        example: "shoots:\n  enabled: true\n  migration: Deny",
        is_telling: true,
        shape: Shape::Schema(shoots),
    },
    Setting {
        name: "serviceAccounts",
        kind: "object",
        default: "{}",
        means: "which ServiceAccounts sidecars may get, and what is guarded",
        example: "serviceAccounts:\n  allowed:\n    - namespaces: [team-*]\n      names: [log-agent, mesh-*]\n  onAppServiceAccount: Isolate\n  protectInUse: true",
        is_telling: false,
        shape: Shape::Schema(|_| service_accounts::schema()),
    },
    Setting {
        name: "role",
        kind: "string",
        default: "\"Inject\"",
        means: "`Inject`, or `Assert`: the twin that checks what became of the identities and never patches",
        example: "role: Assert",
        is_telling: false,
        shape: Shape::Schema(|_| json!({"enum": ["Inject", "Assert", null]})),
    },
    Setting {
        name: "bundle",
        kind: "string",
        default: "",
        means: "more SidecarSets, compiled into one string by `pillion bundle`: cheaper for the policy server, which copies the settings for every request",
        example: "",
        is_telling: false,
        shape: Shape::Schema(|_| json!({"type": ["string", "null"], "pattern": "^pillion-bundle-1:"})),
    },
    to_come("bundleRef", "object", "", "the ConfigMap in which the controller keeps compiled SidecarSets", None),
    to_come(
        "onBundleUnavailable",
        "string",
        "\"Deny\"",
        "what happens when the bundle is missing or too old",
        Some("Deny"),
    ),
    to_come("bundleMaxAge", "string, a duration", "", "how old the bundle may be", None),
];

const fn to_come(
    name: &'static str,
    kind: &'static str,
    default: &'static str,
    means: &'static str,
    harmless: Option<&'static str>,
) -> Setting {
    Setting { name, kind, default, means, example: "", is_telling: false, shape: Shape::ToCome(harmless) }
}

/// The names of settings that no other file has.
pub fn telling() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().filter(|setting| setting.is_telling).map(|setting| setting.name)
}

impl Setting {
    /// Whether this version of the policy has it.
    pub fn is_supported(&self) -> bool {
        matches!(self.shape, Shape::Schema(_))
    }

    /// For a setting to come: the one value that is taken anyway.
    pub fn harmless(&self) -> Option<&'static str> {
        match self.shape {
            Shape::Schema(_) => None,
            Shape::ToCome(harmless) => harmless,
        }
    }

    pub(super) fn schema(&self, definitions: &mut Definitions) -> Value {
        let mut schema = match self.shape {
            Shape::Schema(schema) => schema(definitions),
            Shape::ToCome(None) => json!({"type": "null"}),
            Shape::ToCome(Some(harmless)) => json!({"enum": [harmless, null]}),
        };
        let note = if self.is_supported() { "" } else { " (not supported by this version of the policy)" };
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("description".to_owned(), format!("{}{note}", self.means).into());
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
