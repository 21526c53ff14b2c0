//! The table of `serviceAccounts`: schema, reference and suggestions for misspelt keys are made of it.

use serde_json::{Map, Value, json};

use super::definitions::policy_rule;

/// One key below `serviceAccounts`.
pub struct Field {
    /// The key.
    pub name: &'static str,
    /// Which values it takes.
    pub kind: Kind,
    /// What it is where it is absent, as JSON.
    pub default: &'static str,
    /// What happens, on one line.
    pub means: &'static str,
}

/// The values of a key.
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// One of these.
    Choice(&'static [&'static str]),
    /// A text that is not empty.
    Text,
    /// A list of such texts.
    Texts,
    /// A list of globs of namespaces and names.
    Allowed,
    /// A list of PolicyRules.
    Rules,
}

/// Every key (`serviceaccounts.md` G, Settings).
pub const FIELDS: [Field; 16] = [
    Field {
        name: "allowed",
        kind: Kind::Allowed,
        default: "[]",
        means: "where it is not empty, a SidecarSet may only name an account that the `names` of an entry match, and a Pod only gets it in a namespace that the `namespaces` of that entry match; globs of `*` and `?`",
    },
    Field {
        name: "protectedNamespaces",
        kind: Kind::Texts,
        default: r#"["kube-system","kube-public","kube-node-lease","pillion-system","kubewarden"]"#,
        means: "a Pod there is refused when a SidecarSet that matches it names an account; a SidecarSet that names one of these namespaces is refused, one that may match them gets a warning; your list stands instead of this one",
    },
    Field {
        name: "onMissing",
        kind: Kind::Choice(&["Deny", "Skip"]),
        default: "\"Deny\"",
        means: "the account is not there, or is being deleted: refuse the Pod, or inject without the identity, with a warning",
    },
    Field {
        name: "onConflict",
        kind: Kind::Choice(&["Deny", "Skip"]),
        default: "\"Deny\"",
        means: "SidecarSets want different accounts for one Pod, and not all of them merge: refuse the Pod, or inject without the identities, with a warning",
    },
    Field {
        name: "onAppServiceAccount",
        kind: Kind::Choice(&["Keep", "Deny", "Isolate"]),
        default: "\"Keep\"",
        means: "the Pod has an account of its own: keep it and inject without the identity, with a warning; refuse the Pod; or treat the SidecarSets as in mode `Isolate`",
    },
    Field {
        name: "allowPodMode",
        kind: Kind::Bool,
        default: "false",
        means: "SidecarSets may have the mode `Pod`, in which the app gets the permissions of the sidecar",
    },
    Field {
        name: "strictExistence",
        kind: Kind::Bool,
        default: "false",
        means: "a SidecarSet is refused, not only warned of, whose account is not there in a namespace that it names; at most 8 are looked at",
    },
    Field {
        name: "protectDefault",
        kind: Kind::Bool,
        default: "false",
        means: "nobody deletes the account `default` of a namespace that stays",
    },
    Field {
        name: "protectInUse",
        kind: Kind::Bool,
        default: "false",
        means: "nobody deletes an account that one of the `sidecarSets` names for its namespace",
    },
    Field {
        name: "requireCreatePods",
        kind: Kind::Bool,
        default: "false",
        means: "the author of any SidecarSet must be allowed to create Pods where it can match",
    },
    Field {
        name: "denyPermissions",
        kind: Kind::Rules,
        default: r#"[{"apiGroups":["*"],"resources":["*"],"verbs":["escalate","bind","impersonate"]},{"apiGroups":["rbac.authorization.k8s.io","admissionregistration.k8s.io","policies.kubewarden.io"],"resources":["*"],"verbs":["create","update","patch","delete","deletecollection"]},{"apiGroups":["apps.kruise.io"],"resources":["sidecarsets"],"verbs":["create","update","patch","delete","deletecollection"]},{"apiGroups":[""],"resources":["secrets","serviceaccounts/token","pods/exec","pods/attach","pods/portforward","pods/proxy","pods/ephemeralcontainers","services/proxy","nodes/proxy"],"verbs":["*"]}]"#,
        means: "what no SidecarSet may grant, whoever writes it, and what no account that it names may do; your list stands instead of this one",
    },
    Field {
        name: "legacyTokenSecrets",
        kind: Kind::Choice(&["Allow", "Warn", "Deny"]),
        default: "\"Warn\"",
        means: "what happens to new Secrets of the type `kubernetes.io/service-account-token`, whose tokens do not expire; one for an account that is merged, missing or has another UID is refused whatever this says",
    },
    Field {
        name: "legacyTokenExempt",
        kind: Kind::Texts,
        default: "[]",
        means: "globs of `namespace/name` of Secrets to which that does not apply",
    },
    Field {
        name: "ephemeralContainers",
        kind: Kind::Choice(&["Deny", "Warn"]),
        default: "\"Deny\"",
        means: "what happens when an ephemeral container reaches for a sidecar's token",
    },
    Field {
        name: "trustedCsiDrivers",
        kind: Kind::Texts,
        default: r#"["nfs.csi.k8s.io","smb.csi.k8s.io"]"#,
        means: "CSI drivers that ask for no token of the Pods that mount their volumes (`CSIDriver.spec.tokenRequests`); an inline volume of any other driver counts as a token of the Pod's account; your list stands instead of this one",
    },
    Field {
        name: "controllerUser",
        kind: Kind::Text,
        default: "\"system:serviceaccount:pillion-system:pillion-controller\"",
        means: "the only user who may make, change and delete merged ServiceAccounts, Roles and RoleBindings",
    },
];

impl Kind {
    /// The type, for people.
    pub fn in_words(&self) -> String {
        match self {
            Self::Bool => "boolean".to_owned(),
            Self::Choice(values) => values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", "),
            Self::Text => "string".to_owned(),
            Self::Texts => "list of strings".to_owned(),
            Self::Allowed => "list of `{namespaces, names}`".to_owned(),
            Self::Rules => "list of PolicyRules".to_owned(),
        }
    }

    fn schema(&self) -> Value {
        let text = json!({"type": "string", "minLength": 1});
        match self {
            Self::Bool => json!({"type": ["boolean", "null"]}),
            Self::Choice(values) => {
                json!({"enum": values.iter().copied().map(Value::from).chain([Value::Null]).collect::<Value>()})
            }
            Self::Text => json!({"type": ["string", "null"], "minLength": 1}),
            Self::Texts => json!({"type": ["array", "null"], "items": text}),
            Self::Allowed => {
                let globs = json!({"type": "array", "minItems": 1, "items": text});
                let entry = json!({
                    "type": "object",
                    "properties": {"namespaces": globs, "names": globs},
                    "required": ["namespaces", "names"],
                    "additionalProperties": false,
                });
                json!({"type": ["array", "null"], "items": entry})
            }
            Self::Rules => json!({"type": ["array", "null"], "items": policy_rule(false)}),
        }
    }
}

/// The schema of `serviceAccounts`.
pub(super) fn schema() -> Value {
    let properties: Map<String, Value> = FIELDS
        .iter()
        .map(|field| {
            let mut schema = field.kind.schema();
            if let Some(schema) = schema.as_object_mut() {
                schema.insert("description".to_owned(), field.means.into());
                schema.insert("default".to_owned(), field.default.parse().unwrap_or_default());
            }
            (field.name.to_owned(), schema)
        })
        .collect();
    json!({"type": ["object", "null"], "properties": properties, "additionalProperties": false})
}

#[cfg(test)]
mod tests {
    use pillion_core::field::Cause;
    use pillion_core::service_account::rules::Rules;
    use pillion_core::settings::Settings;

    use super::*;

    fn decoded(key: &str, value: &Value) -> Result<Rules, Vec<String>> {
        let settings = Settings::decode(json!({"serviceAccounts": {key: value}}));
        settings
            .map(|settings| settings.service_accounts)
            .map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn defaults_are_those_of_the_policy() {
        for field in &FIELDS {
            let default: Value = field.default.parse().unwrap();
            let rules = decoded(field.name, &default).unwrap_or_else(|errors| panic!("{errors:?}"));
            // P4 as rules is another order of the same atoms.
            let sorted = |mut rules: Rules| {
                let mut denied = rules.denied().into_owned();
                denied.sort();
                rules.deny_permissions = Some(denied);
                rules
            };
            assert_eq!(sorted(rules), sorted(Rules::default()), "{}", field.name);
        }
    }

    #[test]
    fn every_field_of_the_policy_is_in_the_table() {
        // A new field does not compile here until it is named, and is missed below until it is in the table.
        let Rules {
            allowed: _,
            protected_namespaces: _,
            on_missing: _,
            on_conflict: _,
            on_app_account: _,
            allow_pod_mode: _,
            strict_existence: _,
            protect_default: _,
            protect_in_use: _,
            require_create_pods: _,
            deny_permissions: _,
            legacy_token_secrets: _,
            legacy_token_exempt: _,
            ephemeral_containers: _,
            controller_user: _,
            trusted_csi_drivers: _,
        } = Rules::default();
        assert_eq!(FIELDS.len(), 16);
        for field in &FIELDS {
            let errors = Settings::decode(json!({"serviceAccounts": {field.name: {"no such key": 1}}})).unwrap_err();
            assert!(errors.iter().all(|error| error.cause != Cause::Unknown), "{}", field.name);
        }
    }

    #[test]
    fn choices_are_those_of_the_policy() {
        for field in &FIELDS {
            let Kind::Choice(values) = field.kind else { continue };
            for value in values {
                assert!(decoded(field.name, &json!(value)).is_ok(), "{} {value}", field.name);
            }
            // The policy lists what it supports, and that is what is listed here.
            let refused = decoded(field.name, &json!("none of them")).unwrap_err().join("");
            let supported: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
            assert!(refused.ends_with(&format!("supported values: {}", supported.join(", "))), "{refused}");
        }
    }
}
