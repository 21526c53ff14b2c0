//! The identity fields of a SidecarSet (IDF-1 to IDF-5, IDV-1).

use std::collections::BTreeSet;

use pillion_kubernetes::field::{Cause, ERRORS_MAX, FieldError, FieldErrors, FieldPath};
use pillion_kubernetes::json;
use pillion_kubernetes::name_validation;
use pillion_kubernetes::rbac::{self, Oversize, PolicyRule, listed};
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::audience::{self, AudienceToken};
use super::{names, partner_names};

/// How the sidecars get their identity (IDF-5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The Pod runs under the account, and only the sidecars get its token (IDF-5).
    #[default]
    SidecarsOnly,
    /// The Pod keeps its account; the sidecars get a token of their own (IDF-5).
    Isolate,
    /// The Pod runs under the account, and the app gets its token, too (IDF-5).
    Pod,
}

/// What happens if several SidecarSets name different accounts for one Pod (IDF-2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnConflict {
    /// The Pod is refused.
    #[default]
    Refuse,
    /// The Pod gets an account with the permissions of all of them.
    Merge,
}

/// An enumeration with the names of its values as they are stored.
trait Named: Sized + Copy + 'static {
    const ALL: &'static [(&'static str, Self)];

    /// IDV-8: returns the value with this name, ignoring case.
    fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, value)| *value)
    }

    /// Returns the stored spelling of a name, ignoring case.
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

/// The identity fields of a SidecarSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declared {
    /// The name of the account in the namespace of each Pod (IDF-1). A set without an account does not use the feature.
    pub service_account: Option<String>,
    /// What happens on a conflict with other sets (IDF-2).
    pub on_conflict: OnConflict,
    /// The permissions for a merged account (IDF-3).
    pub permissions: Vec<PolicyRule>,
    /// How the sidecars get the identity (IDF-4).
    pub mode: Mode,
    /// The tokens for audiences other than the API server, in the order of the set (AUD-1).
    pub tokens: Vec<AudienceToken>,
    /// The names of the SidecarSets that this one trusts, in the order of the set (IDF-7). A set without an account may
    /// have them, too: partners name each other.
    pub partners: Vec<String>,
}

/// A field of the spec, and the annotation that replaces it if the CRD of the cluster prunes the field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name of the field in `spec`.
    pub name: &'static str,
    /// The key of the annotation.
    pub annotation: &'static str,
}

/// The account (IDF-1).
pub const ACCOUNT: Field = Field { name: "serviceAccountName", annotation: "pillion.dev/service-account-name" };
/// The behaviour on a conflict (IDF-2).
pub(crate) const CONFLICT: Field =
    Field { name: "behaviorWhenServiceAccountInjection", annotation: "pillion.dev/service-account-conflict" };
/// The permissions (IDF-3).
pub const PERMISSIONS: Field =
    Field { name: "serviceAccountPermissions", annotation: "pillion.dev/service-account-permissions" };
/// The mode.
pub const MODE: Field = Field { name: "serviceAccountMode", annotation: "pillion.dev/service-account-mode" };
/// The tokens for other audiences (AUD-1).
pub const TOKENS: Field = Field { name: "serviceAccountTokens", annotation: "pillion.dev/service-account-tokens" };
/// The partners (IDF-7).
pub const PARTNERS: Field =
    Field { name: "serviceAccountPartners", annotation: "pillion.dev/service-account-partners" };
/// The fields that IDV-1 covers.
pub const FIELDS: [Field; 6] = [ACCOUNT, CONFLICT, PERMISSIONS, MODE, TOKENS, PARTNERS];
/// What is wrong with tokens in a SidecarSet that names no account (AUD-2).
pub const TOKENS_WITHOUT_ACCOUNT: &str = "tokens belong to a ServiceAccount; set spec.serviceAccountName";

impl Declared {
    /// Reads the fields of a SidecarSet and the annotations that replace them.
    ///
    /// # Errors
    /// Every field of the wrong type, every unknown value (IDV-8), and every annotation that contradicts its field.
    pub fn from_sidecar_set(set: &SidecarSet) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let account = text(set, ACCOUNT, &mut errors);
        let json_of = |annotation: &str| json::parse(annotation.as_bytes()).ok();
        let read_partners = |names: &Value, at: &FieldPath<'_>| partner_names::read(names, at, set.name());
        let declared = Self {
            on_conflict: choice(set, CONFLICT, &mut errors),
            mode: choice(set, MODE, &mut errors),
            permissions: list_of(set, PERMISSIONS, json_of, read_rules, &mut errors),
            tokens: list_of(set, TOKENS, json_of, audience::read, &mut errors),
            partners: list_of(set, PARTNERS, partner_names::of_annotation, read_partners, &mut errors),
            service_account: account.filter(|name| !name.is_empty()).map(str::to_owned),
        };
        if errors.is_empty() { Ok(declared) } else { Err(errors) }
    }

    /// Whether the Pods of the set may run under a merged account (IDC-6).
    pub fn merges(&self) -> bool {
        self.service_account.is_some() && self.on_conflict == OnConflict::Merge && self.mode != Mode::Isolate
    }

    /// Runs the checks that need neither settings nor the cluster: IDV-2, IDV-6, IDV-7, E16. Returns errors and
    /// warnings.
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
            if self.merges() && !self.tokens.is_empty() {
                warnings.push(format!(
                    "spec.{}: a Pod that runs under a merged ServiceAccount gets none of these tokens; mode Isolate gives them in any case",
                    TOKENS.name
                ));
            }
        } else {
            let permissions = "permissions belong to a ServiceAccount; set spec.serviceAccountName";
            for (field, detail, is_there) in [
                (PERMISSIONS, permissions, !self.permissions.is_empty()),
                (TOKENS, TOKENS_WITHOUT_ACCOUNT, !self.tokens.is_empty()),
            ] {
                if is_there {
                    errors.push(FieldError::forbidden(path(field), detail));
                }
            }
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

/// IDV-8: replaces the values of enumerations by their stored spelling, in a SidecarSet of either version. Returns
/// whether anything changed.
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

/// IDV-2, E6, E16: returns why the name of an account is invalid, if it is.
pub fn name_error(name: &str) -> Option<String> {
    if name == "default" {
        return Some("every Pod has \"default\"; name an account of the sidecar's own".to_owned());
    }
    if names::is_merged(name) {
        return Some(format!("names that start with \"{}\" belong to merged ServiceAccounts", names::MERGED_PREFIX));
    }
    if name.contains('/') {
        return Some("an account is one of the Pod's own namespace; give its name without a namespace".to_owned());
    }
    name_validation::dns_subdomain(name).map(Into::into)
}

/// The verbs that Kubernetes itself checks. Other verbs have no effect unless a component of the cluster checks them.
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
/// Common cluster-scoped resources. A Role cannot grant access to them (IDC-10).
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

/// IDV-6: reports errors for rules that the API server would refuse in a Role, and warnings for those without an
/// effect.
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

/// Returns the path of a field in a SidecarSet.
pub fn path(field: Field) -> String {
    FieldPath::new("spec").child(field.name).to_string()
}

/// Returns the path of the annotation that replaces a field.
pub fn annotation_path(field: Field) -> String {
    FieldPath::new("metadata.annotations").key(field.annotation).to_string()
}

/// Returns the text of a field, or else of its annotation.
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
    T::parse(text).unwrap_or_else(|| {
        let names: Vec<&str> = T::ALL.iter().map(|(name, _)| *name).collect();
        let path = if set.spec(&[field.name]).is_some() { path(field) } else { annotation_path(field) };
        errors.push(FieldError::not_supported(&path, text, &names));
        T::default()
    })
}

/// Reads a list from its field, or else from its annotation, whose text `parse` turns into a list.
fn list_of<T>(
    set: &SidecarSet,
    field: Field,
    parse: impl FnOnce(&str) -> Option<Value>,
    read: impl FnOnce(&Value, &FieldPath<'_>) -> Result<Vec<T>, Vec<FieldError>>,
    errors: &mut Vec<FieldError>,
) -> Vec<T> {
    let in_spec = set.spec(&[field.name]).filter(|value| !value.is_null());
    let annotation = set.annotation(field.annotation);
    let in_annotation = if annotation.is_empty() {
        None
    } else {
        let list = parse(annotation);
        if list.is_none() {
            let detail = format!("must be a JSON list, as in spec.{}", field.name);
            errors.push(FieldError::new(annotation_path(field), Cause::Invalid, detail));
            return Vec::new();
        }
        list
    };
    let (list, at) = match (in_spec, &in_annotation) {
        (Some(list), Some(other)) if list != other => {
            errors.push(disagreement(field));
            return Vec::new();
        }
        (Some(list), _) => (list, path(field)),
        (None, Some(list)) => (list, annotation_path(field)),
        (None, None) => return Vec::new(),
    };
    read(list, &FieldPath::new(&at)).unwrap_or_else(|found| {
        errors.extend(found);
        Vec::new()
    })
}

/// Reads the list of PolicyRules at `at`. In a rule, null counts as an absent field.
///
/// # Errors
/// Everything of the wrong shape, unknown fields included. Otherwise the first limit on size that the rules exceed
/// (E18).
pub(crate) fn read_rules(rules: &Value, at: &FieldPath<'_>) -> Result<Vec<PolicyRule>, Vec<FieldError>> {
    let Some(list) = rules.as_array() else {
        return Err(vec![FieldError::wrong_type(at, "a list of PolicyRules", rules)]);
    };
    // Each rule counts as one permission at least, so a longer list is too large; do not read it (E18).
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

/// E18: returns the error for rules that are too large to expand; `at` is the path of their list.
fn too_large(oversize: Oversize, at: &FieldPath<'_>) -> FieldError {
    let detail = oversize.to_string();
    match oversize {
        Oversize::Combinations => FieldError::new(at, Cause::TooMany, detail),
        Oversize::Length { rule, list, text, .. } => {
            FieldError::new(at.index(rule).item(list, text), Cause::TooLong, detail)
        }
    }
}

/// Checks that a PolicyRule consists of the known lists of strings. The type of k8s-openapi would ignore unknown
/// fields.
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
