//! The setting `serviceAccounts` (`serviceaccounts.md` G).

use serde_json::Value;

use super::read;
use crate::field::{Cause, FieldError, FieldPath, Place, Report as _};
use crate::format;
use crate::json;
use crate::service_account::declared;
use crate::service_account::permissions;
use crate::service_account::rules::{Allowed, GLOB_MAX, Judgement, OnAppAccount, Otherwise, Rules};

/// Values of an enumeration, as they are written.
type Names<T> = [(&'static str, T)];

const OTHERWISE: &Names<Otherwise> = &[("Deny", Otherwise::Deny), ("Skip", Otherwise::Skip)];
const ON_APP_ACCOUNT: &Names<OnAppAccount> =
    &[("Keep", OnAppAccount::Keep), ("Deny", OnAppAccount::Deny), ("Isolate", OnAppAccount::Isolate)];
const LEGACY: &Names<Judgement> = &[("Allow", Judgement::Allow), ("Warn", Judgement::Warn), ("Deny", Judgement::Deny)];
const EPHEMERAL: &Names<Judgement> = &[("Deny", Judgement::Deny), ("Warn", Judgement::Warn)];

/// Decodes the setting; errors are added to `errors`, each with its path.
pub fn decode(value: Value, path: &FieldPath, errors: &mut Vec<FieldError>) -> Rules {
    let mut rules = Rules::default();
    let object = match value {
        Value::Null => return rules,
        Value::Object(object) => object,
        other => {
            errors.push(wrong_type(path, &other, "an object"));
            return rules;
        }
    };
    for (key, value) in object {
        let at = path.child(&key);
        let at = &at;
        // `null` is absent, everywhere in the settings.
        if value.is_null() {
            continue;
        }
        match key.as_str() {
            "allowed" => rules.allowed = allowed(value, at, errors),
            "protectedNamespaces" => rules.protected_namespaces = whole_names(value, at, errors),
            "onMissing" => choose(&mut rules.on_missing, &value, OTHERWISE, at, errors),
            "onConflict" => choose(&mut rules.on_conflict, &value, OTHERWISE, at, errors),
            "onAppServiceAccount" => choose(&mut rules.on_app_account, &value, ON_APP_ACCOUNT, at, errors),
            "allowPodMode" => flag(&mut rules.allow_pod_mode, &value, at, errors),
            "strictExistence" => flag(&mut rules.strict_existence, &value, at, errors),
            "protectDefault" => flag(&mut rules.protect_default, &value, at, errors),
            "protectInUse" => flag(&mut rules.protect_in_use, &value, at, errors),
            "requireCreatePods" => flag(&mut rules.require_create_pods, &value, at, errors),
            "denyPermissions" => {
                let list = items(value, at, errors);
                if let Err(oversize) = permissions::check_size(&list) {
                    errors.push(declared::too_large(oversize, at));
                    continue;
                }
                for (index, rule) in list.iter().enumerate() {
                    declared::check_shape(rule, &at.index(index), errors);
                    check_says_something(rule, &at.index(index), errors);
                }
                rules.deny_permissions = Some(permissions::atoms(&list));
            }
            "legacyTokenSecrets" => choose(&mut rules.legacy_token_secrets, &value, LEGACY, at, errors),
            "legacyTokenExempt" => rules.legacy_token_exempt = texts(value, at, errors),
            "ephemeralContainers" => choose(&mut rules.ephemeral_containers, &value, EPHEMERAL, at, errors),
            "trustedCsiDrivers" => rules.trusted_csi_drivers = whole_names(value, at, errors).into_iter().collect(),
            "controllerUser" => match value {
                Value::String(user) if !user.is_empty() => rules.controller_user = user,
                Value::String(_) => errors.push(FieldError::required(at, "name the user, or leave it out")),
                other => errors.push(wrong_type(at, &other, "a string")),
            },
            _ => errors.push(FieldError::new(at, Cause::Unknown, "no setting has this name; see docs/settings.md")),
        }
    }
    rules
}

fn wrong_type(at: &FieldPath, found: &Value, wanted: &str) -> FieldError {
    read::wrong_type(&Place::new(at.as_str()), found, wanted)
}

fn items(list: Value, at: &FieldPath, errors: &mut Vec<FieldError>) -> Vec<Value> {
    match list {
        Value::Null => Vec::new(),
        Value::Array(items) => items,
        other => {
            errors.push(wrong_type(at, &other, "a list"));
            Vec::new()
        }
    }
}

fn flag(slot: &mut bool, value: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    match value {
        Value::Bool(on) => *slot = *on,
        other => errors.push(wrong_type(at, other, "true or false")),
    }
}

fn choose<T: Copy>(slot: &mut T, value: &Value, names: &Names<T>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(text) = value.as_str() else {
        errors.push(wrong_type(at, value, "a string"));
        return;
    };
    if let Some((_, value)) = names.iter().find(|(name, _)| *name == text) {
        *slot = *value;
    } else {
        let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        errors.push(FieldError::not_supported(at, text, &known));
    }
}

fn texts(value: Value, at: &FieldPath, errors: &mut Vec<FieldError>) -> Vec<String> {
    let mut texts = Vec::new();
    for (index, item) in items(value, at, errors).into_iter().enumerate() {
        if errors.is_full() {
            break;
        }
        match item {
            Value::String(text) if text.len() > GLOB_MAX => {
                let detail = format!("may have at most {GLOB_MAX} bytes");
                errors.push(FieldError::new(&at.index(index), Cause::TooLong, detail));
            }
            Value::String(text) if !text.is_empty() => texts.push(text),
            Value::String(_) => errors.push(FieldError::required(&at.index(index), "remove it, or write a name")),
            other => errors.push(wrong_type(&at.index(index), &other, "a string")),
        }
    }
    texts
}

/// Names that are taken as they are: a glob among them would stand for nothing.
fn whole_names(value: Value, at: &FieldPath, errors: &mut Vec<FieldError>) -> Vec<String> {
    let names = texts(value, at, errors);
    for (index, name) in names.iter().enumerate() {
        if format::has(name, b'*') {
            errors.push(FieldError::invalid(&at.index(index), name, "no glob: write each name in full"));
        }
    }
    names
}

/// A rule that forgets one of its lists stands for nothing: it would deny nothing.
fn check_says_something(rule: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    for field in ["apiGroups", "resources", "verbs"] {
        let is_empty = match json::at(rule, &[field]) {
            None | Some(Value::Null) => rule.is_object(),
            Some(list) => list.as_array().is_some_and(Vec::is_empty),
        };
        if is_empty {
            errors.push(FieldError::required(&at.child(field), "give at least one; \"*\" is all of them"));
        }
    }
}

/// Both lists of an entry are needed: an entry that forgets one should not allow everything.
fn allowed(value: Value, at: &FieldPath, errors: &mut Vec<FieldError>) -> Vec<Allowed> {
    let mut entries = Vec::new();
    for (index, item) in items(value, at, errors).into_iter().enumerate() {
        if errors.is_full() {
            break;
        }
        let at = at.index(index);
        let Value::Object(object) = item else {
            errors.push(wrong_type(&at, &item, "an object with namespaces and names"));
            continue;
        };
        let mut entry = Allowed { namespaces: Vec::new(), names: Vec::new() };
        for (key, value) in object {
            let path = at.child(&key);
            match key.as_str() {
                "namespaces" => entry.namespaces = texts(value, &path, errors),
                "names" => entry.names = texts(value, &path, errors),
                _ => errors.push(FieldError::new(&path, Cause::Unknown, "an entry has namespaces and names")),
            }
        }
        for (list, name) in [(&entry.namespaces, "namespaces"), (&entry.names, "names")] {
            if list.is_empty() {
                errors.push(FieldError::required(&at.child(name), "give at least one; \"*\" is all of them"));
            }
        }
        entries.push(entry);
    }
    entries
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::service_account::permissions::Atom;

    fn decoded(value: Value) -> (Rules, Vec<String>) {
        let mut errors = Vec::new();
        let rules = decode(value, &FieldPath::new("serviceAccounts"), &mut errors);
        (rules, errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn everything_has_a_default() {
        for value in [json!(null), json!({}), json!({"allowed": null, "onMissing": null})] {
            assert_eq!(decoded(value), (Rules::default(), Vec::new()));
        }
    }

    #[test]
    fn every_field_is_read() {
        let (rules, errors) = decoded(json!({
            "allowed": [{"namespaces": ["team-*"], "names": ["log-agent"]}],
            "protectedNamespaces": ["kube-system"],
            "onMissing": "Skip", "onConflict": "Skip", "onAppServiceAccount": "Isolate",
            "allowPodMode": true, "strictExistence": true, "protectDefault": true, "protectInUse": true,
            "requireCreatePods": true,
            "denyPermissions": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["*"]}],
            "legacyTokenSecrets": "Deny", "legacyTokenExempt": ["ci/*"],
            "ephemeralContainers": "Warn", "controllerUser": "me", "trustedCsiDrivers": ["b.example", "a.example"]
        }));
        assert_eq!(errors, [""; 0]);
        let list = |text: &str| vec![text.to_owned()];
        let nodes = Atom { group: String::new(), resource: "nodes".to_owned(), name: None, verb: "*".to_owned() };
        assert_eq!(
            rules,
            Rules {
                allowed: vec![Allowed { namespaces: list("team-*"), names: list("log-agent") }],
                protected_namespaces: list("kube-system"),
                on_missing: Otherwise::Skip,
                on_conflict: Otherwise::Skip,
                on_app_account: OnAppAccount::Isolate,
                allow_pod_mode: true,
                strict_existence: true,
                protect_default: true,
                protect_in_use: true,
                require_create_pods: true,
                deny_permissions: Some(vec![nodes]),
                legacy_token_secrets: Judgement::Deny,
                legacy_token_exempt: list("ci/*"),
                ephemeral_containers: Judgement::Warn,
                controller_user: "me".to_owned(),
                trusted_csi_drivers: ["a.example", "b.example"].map(str::to_owned).into(),
            }
        );
    }

    #[test]
    fn all_errors_come_at_once_with_their_paths() {
        let (_, errors) = decoded(json!({
            "allowed": [{"namespaces": ["a"]}, "b", {"namespaces": [1], "names": [""], "name": []}],
            "onMissing": "skip", "protectDefault": "yes", "denyPermissions": [{"verbs": "get", "apiGroups": []}],
            "protectedNamespaces": ["kube-*"],
            "controllerUser": "", "allowedNames": [], "trustedCsiDrivers": ["*.example", 1]
        }));
        assert_eq!(
            errors,
            [
                "serviceAccounts.allowed[0].names: Required value: give at least one; \"*\" is all of them",
                "serviceAccounts.allowed[1]: Invalid value: must be an object with namespaces and names, found a string",
                "serviceAccounts.allowed[2].name: Unknown field: an entry has namespaces and names",
                "serviceAccounts.allowed[2].names[0]: Required value: remove it, or write a name",
                "serviceAccounts.allowed[2].namespaces[0]: Invalid value: must be a string, found a number",
                "serviceAccounts.allowed[2].namespaces: Required value: give at least one; \"*\" is all of them",
                "serviceAccounts.allowed[2].names: Required value: give at least one; \"*\" is all of them",
                "serviceAccounts.allowedNames: Unknown field: no setting has this name; see docs/settings.md",
                "serviceAccounts.controllerUser: Required value: name the user, or leave it out",
                "serviceAccounts.denyPermissions[0].verbs: Invalid value: must be a list of strings, not a string",
                "serviceAccounts.denyPermissions[0].apiGroups: Required value: give at least one; \"*\" is all of them",
                "serviceAccounts.denyPermissions[0].resources: Required value: give at least one; \"*\" is all of them",
                "serviceAccounts.onMissing: Unsupported value: \"skip\": supported values: \"Deny\", \"Skip\"",
                "serviceAccounts.protectDefault: Invalid value: must be true or false, found a string",
                "serviceAccounts.protectedNamespaces[0]: Invalid value: \"kube-*\": no glob: write each name in full",
                "serviceAccounts.trustedCsiDrivers[1]: Invalid value: must be a string, found a number",
                "serviceAccounts.trustedCsiDrivers[0]: Invalid value: \"*.example\": no glob: write each name in full",
            ]
        );
    }

    #[rstest]
    #[case::list(json!([]), "serviceAccounts: Invalid value: must be an object, found a list")]
    #[case::text(json!("x"), "serviceAccounts: Invalid value: must be an object, found a string")]
    fn other_shapes_are_refused(#[case] value: Value, #[case] error: &str) {
        assert_eq!(decoded(value).1, [error]);
    }
}
