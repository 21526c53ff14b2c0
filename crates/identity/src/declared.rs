//! Which ServiceAccount a SidecarSet asks for (`serviceaccounts.md` A2, A3, G Fields).

use std::collections::BTreeSet;

use pillion_kubernetes::field::{Cause, ERRORS_MAX, FieldError, FieldErrors, FieldPath};
use pillion_kubernetes::format;
use pillion_kubernetes::json;
use pillion_kubernetes::rbac::{self, Oversize, PolicyRule, listed};
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::names;

/// How the sidecars get their identity (G, Fields).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The Pod runs under the account, and only the sidecars get its token (B, option 1).
    #[default]
    SidecarsOnly,
    /// The Pod keeps its account; the sidecars get a token of their own (B, option 2).
    Isolate,
    /// The Pod runs under the account, the app with it (B, option 0).
    Pod,
}

/// What happens where several SidecarSets name different accounts for one Pod (F2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnConflict {
    /// The Pod is refused.
    #[default]
    Refuse,
    /// The Pod gets an account with the permissions of all of them.
    Merge,
}

/// The values of an enumeration as they are stored.
trait Named: Sized + Copy + 'static {
    const ALL: &'static [(&'static str, Self)];

    /// V8: compared without case.
    fn of(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, value)| *value)
    }

    /// The name as it is stored.
    fn canonical(text: &str) -> Option<&'static str> {
        Self::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(name, _)| *name)
    }
}

impl Named for Mode {
    const ALL: &'static [(&'static str, Self)] =
        &[("SidecarsOnly", Self::SidecarsOnly), ("Isolate", Self::Isolate), ("Pod", Self::Pod)];
}

impl Named for OnConflict {
    const ALL: &'static [(&'static str, Self)] = &[("Refuse", Self::Refuse), ("Merge", Self::Merge)];
}

/// What a SidecarSet says about its identity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declared {
    /// The account, in the namespace of each Pod (F1); a set without one does not use the feature.
    pub service_account: Option<String>,
    /// F2.
    pub on_conflict: OnConflict,
    /// F3.
    pub permissions: Vec<PolicyRule>,
    /// G, Fields.
    pub mode: Mode,
}

/// A field of the spec, and the annotation that stands for it where the CRD in the cluster prunes the field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The field below `spec`.
    pub name: &'static str,
    /// The annotation.
    pub annotation: &'static str,
}

/// F1.
pub const ACCOUNT: Field = Field { name: "serviceAccountName", annotation: "pillion.dev/service-account-name" };
/// F2.
pub const CONFLICT: Field =
    Field { name: "behaviorWhenServiceAccountInjection", annotation: "pillion.dev/service-account-conflict" };
/// F3.
pub const PERMISSIONS: Field =
    Field { name: "serviceAccountPermissions", annotation: "pillion.dev/service-account-permissions" };
/// The mode.
pub const MODE: Field = Field { name: "serviceAccountMode", annotation: "pillion.dev/service-account-mode" };
/// Everything that V1 covers.
pub const FIELDS: [Field; 4] = [ACCOUNT, CONFLICT, PERMISSIONS, MODE];

impl Declared {
    /// Reads the fields of a SidecarSet and the annotations that stand for them.
    ///
    /// # Errors
    /// Every field of another type, unknown value (V8), and every annotation that says something else than its field.
    pub fn of(set: &SidecarSet) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let account = text(set, ACCOUNT, &mut errors);
        let declared = Self {
            on_conflict: choice(set, CONFLICT, &mut errors),
            mode: choice(set, MODE, &mut errors),
            permissions: rules_of(set, &mut errors),
            service_account: account.filter(|name| !name.is_empty()).map(str::to_owned),
        };
        if errors.is_empty() { Ok(declared) } else { Err(errors) }
    }

    /// Checks what can be told without asking anybody: V2, V6, V7, E16. Answers errors and warnings.
    pub fn check(&self) -> (Vec<FieldError>, Vec<String>) {
        let mut errors = Vec::new();
        let mut warnings = Vec::new();
        if let Some(name) = &self.service_account {
            errors.extend(name_error(name).map(|detail| FieldError::invalid(path(ACCOUNT), name, detail)));
            if self.on_conflict == OnConflict::Merge && self.permissions.is_empty() {
                warnings.push(format!(
                    "spec.{} is Merge, but spec.{} is empty: nothing of \"{name}\" reaches a merged ServiceAccount",
                    CONFLICT.name, PERMISSIONS.name
                ));
            }
        } else if !self.permissions.is_empty() {
            errors.push(FieldError::forbidden(
                path(PERMISSIONS),
                "permissions belong to a ServiceAccount; set spec.serviceAccountName",
            ));
        }
        if self.on_conflict == OnConflict::Refuse && !self.permissions.is_empty() {
            warnings.push(format!("spec.{} is only used where spec.{} is Merge", PERMISSIONS.name, CONFLICT.name));
        }
        let path = path(PERMISSIONS);
        let path = FieldPath::new(&path);
        for (index, rule) in self.permissions.iter().enumerate() {
            check_rule(rule, &path.index(index), &mut errors, &mut warnings);
        }
        (errors, warnings)
    }
}

/// V8: writes the values of enumerations as they are stored, in a SidecarSet of either version. Answers whether that changed
/// anything.
pub fn canonicalise(object: &mut Value) -> bool {
    let mut is_changed = false;
    let canonical = |field: Field, text: &str| match field.name {
        name if name == MODE.name => Mode::canonical(text),
        name if name == CONFLICT.name => OnConflict::canonical(text),
        _ => None,
    };
    for field in FIELDS {
        for (path, key) in [(&["spec"][..], field.name), (&["metadata", "annotations"][..], field.annotation)] {
            let mut parent = Some(&mut *object);
            for step in path {
                parent = parent.and_then(|parent| parent.get_mut(*step));
            }
            let value = parent.and_then(Value::as_object_mut).and_then(|parent| parent.get_mut(key));
            if let Some(value) = value
                && let Some(text) = value.as_str().and_then(|text| canonical(field, text))
                && value != text
            {
                *value = text.into();
                is_changed = true;
            }
        }
    }
    is_changed
}

/// V2, E6, E16: what is wrong with the name of an account.
pub fn name_error(name: &str) -> Option<String> {
    if name == "default" {
        return Some("every Pod has \"default\"; name an account of the sidecar's own".to_owned());
    }
    if names::is_merged(name) {
        return Some(format!("names that start with \"{}\" belong to merged ServiceAccounts", names::MERGED_PREFIX));
    }
    if format::has(name, b'/') {
        return Some("an account is one of the Pod's own namespace; give its name without a namespace".to_owned());
    }
    format::dns_subdomain(name).map(Into::into)
}

/// What Kubernetes' own resources and admission know as verbs; others grant nothing unless something of the cluster's own
/// asks for them.
const VERBS: [&str; 16] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "*",
    "use",
    "bind",
    "escalate",
    "impersonate",
    "approve",
    "sign",
    "attest",
];
/// Resources without a namespace that people ask for: a Role does not grant them (A5-10).
const CLUSTER_SCOPED: [&str; 10] = [
    "nodes",
    "namespaces",
    "persistentvolumes",
    "componentstatuses",
    "storageclasses",
    "customresourcedefinitions",
    "clusterroles",
    "clusterrolebindings",
    "priorityclasses",
    "apiservices",
];

/// V6: what the API server would refuse in a Role, and what RBAC never grants.
fn check_rule(rule: &PolicyRule, path: &FieldPath<'_>, errors: &mut Vec<FieldError>, warnings: &mut Vec<String>) {
    if errors.is_full() {
        return;
    }
    let mut warn = |warning: String| {
        if warnings.len() < ERRORS_MAX {
            warnings.push(warning);
        }
    };
    let groups = listed(rule.api_groups.as_ref());
    let resources = listed(rule.resources.as_ref());
    let names = listed(rule.resource_names.as_ref());
    for (field, texts, detail) in [
        ("verbs", rule.verbs.as_slice(), "give at least one verb"),
        ("apiGroups", groups, "give at least one group; \"\" is the core group"),
        ("resources", resources, "give at least one resource"),
    ] {
        if texts.is_empty() {
            errors.push(FieldError::required(path.child(field), detail));
        }
    }
    if !listed(rule.non_resource_urls.as_ref()).is_empty() {
        errors.push(FieldError::forbidden(
            path.child("nonResourceURLs"),
            "a Role belongs to a namespace and cannot grant URLs; remove it",
        ));
    }
    for (index, name) in names.iter().enumerate() {
        if name.is_empty() && !errors.is_full() {
            let path = path.item("resourceNames", index);
            errors.push(FieldError::invalid(path, "", "\"\" is no name; leave resourceNames out for every object"));
        }
    }
    for verb in rule.verbs.iter().map(String::as_str) {
        if !names.is_empty() && matches!(verb, "create" | "deletecollection") {
            warn(format!("{path}: \"{verb}\" with resourceNames is never granted: it names no object"));
        } else if !VERBS.contains(&verb) {
            warn(format!("{path}: no API of Kubernetes asks for the verb \"{verb}\""));
        }
    }
    for resource in resources {
        if CLUSTER_SCOPED.contains(&resource.split('/').next().unwrap_or_default()) {
            warn(format!(
                "{path}: \"{resource}\" belongs to no namespace, and the merged Role is of one: it grants nothing"
            ));
        }
    }
    let lists =
        [("verbs", rule.verbs.as_slice()), ("apiGroups", groups), ("resources", resources), ("resourceNames", names)];
    for (field, texts) in lists {
        let mut seen = BTreeSet::new();
        for text in texts.iter().filter(|text| !seen.insert(*text)) {
            warn(format!("{path}.{field}: \"{text}\" is there twice"));
        }
    }
}

/// Whether this is the path of one of the four fields: no table knows them, since no hash and no revision has them.
pub fn is_field(path: &str) -> bool {
    path.strip_prefix("spec.").is_some_and(|name| FIELDS.iter().any(|field| field.name == name))
}

/// Where a field is in a SidecarSet.
pub fn path(field: Field) -> String {
    FieldPath::new("spec").child(field.name).to_string()
}

/// Where the annotation that stands for a field is.
pub fn annotation_path(field: Field) -> String {
    FieldPath::new("metadata.annotations").key(field.annotation).to_string()
}

/// The text of a field, or of its annotation.
fn text<'a>(set: &'a SidecarSet, field: Field, errors: &mut Vec<FieldError>) -> Option<&'a str> {
    let in_spec = set.spec(&[field.name]).filter(|value| !value.is_null());
    let annotation = Some(set.annotation(field.annotation)).filter(|text| !text.is_empty());
    let Some(value) = in_spec else {
        return annotation;
    };
    let Some(text) = value.as_str() else {
        errors.push(FieldError::wrong_type(path(field), "a string", value));
        return None;
    };
    if annotation.is_some_and(|other| !other.eq_ignore_ascii_case(text)) {
        errors.push(disagreement(field));
    }
    Some(text)
}

fn choice<T: Named + Default>(set: &SidecarSet, field: Field, errors: &mut Vec<FieldError>) -> T {
    let Some(text) = text(set, field, errors).filter(|text| !text.is_empty()) else {
        return T::default();
    };
    T::of(text).unwrap_or_else(|| {
        let names: Vec<&str> = T::ALL.iter().map(|(name, _)| *name).collect();
        let path = if set.spec(&[field.name]).is_some() { path(field) } else { annotation_path(field) };
        errors.push(FieldError::not_supported(&path, text, &names));
        T::default()
    })
}

fn rules_of(set: &SidecarSet, errors: &mut Vec<FieldError>) -> Vec<PolicyRule> {
    let in_spec = set.spec(&[PERMISSIONS.name]).filter(|value| !value.is_null());
    let annotation = set.annotation(PERMISSIONS.annotation);
    let in_annotation = if annotation.is_empty() {
        None
    } else {
        let Ok(rules) = json::parse(annotation.as_bytes()) else {
            let detail = "must be a JSON list of PolicyRules";
            errors.push(FieldError::new(annotation_path(PERMISSIONS), Cause::Invalid, detail));
            return Vec::new();
        };
        Some(rules)
    };
    let (rules, at) = match (in_spec, &in_annotation) {
        (Some(rules), Some(other)) if rules != other => {
            errors.push(disagreement(PERMISSIONS));
            return Vec::new();
        }
        (Some(rules), _) => (rules, path(PERMISSIONS)),
        (None, Some(rules)) => (rules, annotation_path(PERMISSIONS)),
        (None, None) => return Vec::new(),
    };
    read_rules(rules, &FieldPath::new(&at)).unwrap_or_else(|found| {
        errors.extend(found);
        Vec::new()
    })
}

/// Reads the PolicyRules at `at`. Null counts as absent.
///
/// # Errors
/// Everything that has another shape, unknown fields included; else the first reason not to take the rules apart (E18).
pub fn read_rules(rules: &Value, at: &FieldPath<'_>) -> Result<Vec<PolicyRule>, Vec<FieldError>> {
    let Some(list) = rules.as_array() else {
        return Err(vec![FieldError::wrong_type(at, "a list of PolicyRules", rules)]);
    };
    // Each rule counts, whatever is in it: more than this are too many, and are not read (E18).
    if list.len() > rbac::COMBINATIONS_MAX {
        return Err(vec![too_large(Oversize::Combinations, at)]);
    }
    let mut errors = Vec::new();
    for (index, rule) in list.iter().enumerate() {
        check_shape(rule, &at.index(index), &mut errors);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let rules: Vec<PolicyRule> =
        serde_path_to_error::deserialize(rules).map_err(|error| vec![FieldError::undecodable(at, &error)])?;
    rbac::check_size(&rules).map_err(|oversize| vec![too_large(oversize, at)])?;
    Ok(rules)
}

/// E18: the error for rules that are not taken apart; `at` is where their list is.
fn too_large(oversize: Oversize, at: &FieldPath<'_>) -> FieldError {
    let detail = oversize.to_string();
    match oversize {
        Oversize::Combinations => FieldError::new(at, Cause::TooMany, detail),
        Oversize::Length { rule, list, text, .. } => {
            FieldError::new(at.index(rule).item(list, text), Cause::TooLong, detail)
        }
    }
}

/// A PolicyRule holds lists of strings, and nothing else: the type of k8s-openapi passes over unknown fields.
fn check_shape(rule: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let Some(rule) = rule.as_object() else {
        errors.push(FieldError::wrong_type(path, "a PolicyRule", rule));
        return;
    };
    for (field, value) in rule {
        if errors.is_full() {
            return;
        }
        let path = path.child(field);
        if !matches!(field.as_str(), "apiGroups" | "nonResourceURLs" | "resourceNames" | "resources" | "verbs") {
            errors.push(FieldError::new(path, Cause::Unknown, "a PolicyRule has no such field"));
        } else if !value.is_null() && !value.as_array().is_some_and(|list| list.iter().all(Value::is_string)) {
            errors.push(FieldError::wrong_type(path, "a list of strings", value));
        }
    }
}

fn disagreement(field: Field) -> FieldError {
    let detail = format!("says something else than spec.{}; keep one of the two", field.name);
    FieldError::new(annotation_path(field), Cause::Invalid, detail)
}

#[cfg(test)]
mod tests;
