//! Validation of the identity fields (IDV-1, E1, E3, E4), as far as it needs no questions to the cluster.

use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Reason;
use pillion_kubernetes::selector::{Op, Possible, Requirement, Selector, Values};
use pillion_kubernetes::strings;
use pillion_sidecarset::names::NAMESPACE_NAME_LABEL;
use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::author;
use super::changes;
use super::declared::{self, ACCOUNT, Declared, FIELDS, MODE, Mode, TOKENS};
use super::names;
use super::paths::{self, Place};
use super::rules::{Objection, Rules};
use super::tokens::volumes::{self, Given};
use pillion_kubernetes::index::distinct;

/// The name of the feature gate.
const GATE: &str = "SidecarSetServiceAccountInjection";

/// The result of validating a SidecarSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Errors of fields: the set is refused as invalid.
    pub invalid: Vec<FieldError>,
    /// Reasons to refuse the set, each with its code: the settings or the cluster forbid it, or a question to the
    /// cluster failed.
    pub refused: Vec<Reason>,
    /// Warnings for the author.
    pub warnings: Vec<String>,
}

impl Findings {
    /// Whether there are no errors and no refusals.
    pub fn is_fine(&self) -> bool {
        self.invalid.is_empty() && self.refused.is_empty()
    }

    /// Returns errors and refusals as errors of fields, for settings, which have no status codes.
    pub fn into_errors(self) -> Vec<FieldError> {
        let mut errors = self.invalid;
        for Reason { field, problem, remedy, .. } in self.refused {
            errors.push(FieldError::forbidden(&field, [problem.as_str(), "; ", &remedy].concat()));
        }
        errors
    }
}

/// IDV-1: without the gate, a request must not set any of the fields anew. An update may keep or remove old values. If
/// the set names an account, an update must not change other injected fields, either (E23).
pub fn check_gate(set: &SidecarSet, old: Option<&SidecarSet>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let detail = format!("the feature gate {GATE} is off; turn it on in featureGates, or remove this");
    for field in FIELDS {
        let in_spec =
            |set: &SidecarSet| set.spec(&[field.name]).filter(|value| !value.is_null() && **value != "").cloned();
        let value = in_spec(set);
        if value.is_some() && value != old.and_then(in_spec) {
            errors.push(FieldError::forbidden(declared::path(field), detail.as_str()));
        }
        let text = set.annotation(field.annotation);
        if !text.is_empty() && old.is_none_or(|old| old.annotation(field.annotation) != text) {
            errors.push(FieldError::forbidden(declared::annotation_path(field), detail.as_str()));
        }
    }
    // A field that is set anew already has an error.
    let more = old.map(|old| changes::check_while_off(set, old)).unwrap_or_default();
    let is_new = |error: &FieldError| errors.iter().all(|known| known.path != error.path);
    let more: Vec<FieldError> = more.into_iter().filter(is_new).collect();
    errors.extend(more);
    errors
}

/// Checks a defaulted SidecarSet: IDV-2, IDV-5 to IDV-8, E1, E3, E4, E16, ESC-4.
pub fn check(set: &SidecarSet, rules: &Rules) -> (Declared, Findings) {
    let mut findings = Findings::default();
    let declared = match Declared::of(set) {
        Ok(declared) => declared,
        Err(errors) => {
            findings.invalid = errors;
            return (Declared::default(), findings);
        }
    };
    (findings.invalid, findings.warnings) = declared.check();
    findings.refused = author::denied(set.name(), &declared, rules);
    if let Some(account) = &declared.service_account {
        check_place(set, account, rules, &mut findings);
        if declared.mode == Mode::Pod && !rules.allow_pod_mode {
            findings.refused.push(refusal(
                set,
                declared::path(MODE),
                format!("mode Pod would give the app the permissions of \"{account}\""),
                "use SidecarsOnly or Isolate, or set serviceAccounts.allowPodMode",
            ));
        }
        check_audiences(set, &declared, rules, &mut findings);
        check_volumes(set, rules, &mut findings.invalid);
        findings.invalid.append(&mut misplaced(set));
        check_secrets(set, &mut findings.invalid);
    }
    (declared, findings)
}

/// AUD-5: checks the audiences and lifetimes of the tokens.
fn check_audiences(set: &SidecarSet, declared: &Declared, rules: &Rules, findings: &mut Findings) {
    let path = declared::path(TOKENS);
    let path = FieldPath::new(&path);
    for (index, token) in declared.tokens.iter().enumerate() {
        if let Some(Objection { problem, remedy }) = rules.objects_to(token) {
            findings.refused.push(refusal(set, path.index(index).to_string(), problem, remedy));
        }
    }
}

/// E1, IDV-5: checks the namespaces in which the account would be used.
fn check_place(set: &SidecarSet, account: &str, rules: &Rules, findings: &mut Findings) {
    let selector = FieldPath::new("spec.namespaceSelector");
    let Some(namespaces) = author::closed_list(set) else {
        let may_match = may_select(set, &rules.protected_namespaces);
        if !may_match.is_empty() {
            findings.warnings.push(format!(
                "Pods in the protected namespaces {} are refused where this SidecarSet matches them; exclude them in {selector}",
                strings::joined(&may_match, ", ")
            ));
        }
        if !rules.allows_anywhere(account) {
            findings.refused.push(not_allowed(set, account, "in any namespace"));
        }
        return;
    };
    let protected = distinct(rules.protected_namespaces.iter().map(String::as_str));
    let Some(allowed) = rules.allowed_namespaces(account, &namespaces) else {
        let problem = format!("too many namespaces to compare with serviceAccounts.allowed for \"{account}\"");
        let remedy = "select fewer namespaces, or write fewer and shorter globs";
        findings.refused.push(refusal(set, selector.to_string(), problem, remedy));
        return;
    };
    for namespace in namespaces {
        if protected.contains(namespace) {
            let problem = format!("no sidecar gets a ServiceAccount in the protected namespace \"{namespace}\"");
            let remedy = "leave the namespace out, or change serviceAccounts.protectedNamespaces";
            findings.refused.push(refusal(set, selector.to_string(), problem, remedy));
        } else if !allowed.contains(namespace) {
            findings.refused.push(not_allowed(set, account, &format!("in namespace \"{namespace}\"")));
        }
    }
}

fn not_allowed(set: &SidecarSet, account: &str, place: &str) -> Reason {
    let problem = format!("ServiceAccount \"{account}\" is not allowed {place}");
    refusal(set, declared::path(ACCOUNT), problem, "add it to serviceAccounts.allowed")
}

/// Returns those of the namespaces in which the set can match a Pod. The selector is read once: both may be long (E18).
fn may_select<'a>(set: &SidecarSet, namespaces: &'a [String]) -> Vec<&'a str> {
    let selector = set.spec(&["namespaceSelector"]).map(Selector::parse_known).unwrap_or_default();
    let possible = Possible::of(&selector);
    let may_be_in = |namespace: &&str| {
        let named = Requirement { key: NAMESPACE_NAME_LABEL, op: Op::In, values: Values::One(namespace) };
        possible.overlaps(&Possible::of(&Selector::only(named)))
    };
    namespaces.iter().map(String::as_str).filter(may_be_in).collect()
}

/// E4, E19: checks the volumes. They must not give the containers a token of another account, must not name Secrets of
/// isolated sidecars, and must not have names that the API server or Pillion uses for its own volumes.
fn check_volumes(set: &SidecarSet, rules: &Rules, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.volumes");
    for (index, volume) in set.volumes().iter().enumerate() {
        let at = path.index(index);
        let name = pod::name(volume);
        for prefix in [names::AUTOMOUNT_VOLUME_PREFIX, names::TOKEN_VOLUME_PREFIX] {
            if name.starts_with(prefix) {
                let detail = format!("volumes called \"{prefix}...\" hold tokens; choose another name");
                errors.push(FieldError::invalid(at.child("name"), name, detail));
            }
        }
        match volumes::given(volume, &rules.trusted_csi_drivers) {
            None => {}
            Some(Given::Token | Given::Certificate) => {
                let detail = "the token would be that of the Pod's ServiceAccount; remove it, spec.serviceAccountName brings one";
                errors.push(FieldError::forbidden(at.child("projected"), detail));
            }
            Some(Given::Driver(driver)) => {
                let detail = "the driver may get a token of the Pod's ServiceAccount; remove the volume, or name the driver in serviceAccounts.trustedCsiDrivers if it asks for none";
                errors.push(FieldError::forbidden(at.child("csi").child("driver"), detail).showing(driver));
            }
        }
        for secret in volumes::token_secrets_of_volume(volume) {
            errors.push(FieldError::forbidden(at, of_isolated(secret)));
        }
    }
}

/// TOK-2, E21: returns an error for each path in a container that is at, above or below the directory of the token.
pub fn misplaced(set: &SidecarSet) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut judge = |at: &FieldPath<'_>, path: &str| {
        let detail = match paths::place(path) {
            None => return,
            Some(Place::At) => {
                "the sidecar's token is mounted here; remove the mount, or spec.serviceAccountName".to_owned()
            }
            Some(Place::Above | Place::Below) => format!(
                "this can hide the sidecar's token, which is mounted at {}; choose another path, or remove spec.serviceAccountName",
                names::MOUNT_PATH
            ),
        };
        errors.push(FieldError::invalid(at, path, detail));
    };
    for (at, container) in containers(set) {
        let at = FieldPath::new(&at);
        for (list, field) in [("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")] {
            for (index, mount) in json::items(container, &[list]).iter().enumerate() {
                judge(&at.child(list).index(index).child(field), json::text(mount, &[field]));
            }
        }
        let field = "terminationMessagePath";
        judge(&at.child(field), json::text(container, &[field]));
    }
    errors
}

/// E4: checks that neither environment variables nor pull secrets name Secrets of isolated sidecars.
fn check_secrets(set: &SidecarSet, errors: &mut Vec<FieldError>) {
    for (at, container) in containers(set) {
        for (field, secret) in volumes::token_secrets_of_environment(container) {
            errors.push(FieldError::forbidden(FieldPath::new(&at).child(field), of_isolated(secret)));
        }
    }
    for secret in volumes::token_secrets_of_pulls(set.as_value()) {
        errors.push(FieldError::forbidden("spec.imagePullSecrets", of_isolated(secret)));
    }
}

fn of_isolated(secret: &str) -> String {
    format!("the Secret \"{secret}\" belongs to isolated sidecars; remove it")
}

/// Returns the containers of a set, each with its path.
fn containers(set: &SidecarSet) -> impl Iterator<Item = (String, &Value)> {
    let lists = [("initContainers", set.init_containers()), ("containers", set.containers())];
    lists.into_iter().flat_map(|(list, containers)| {
        let item = move |index| FieldPath::new("spec").item(list, index).to_string();
        containers.iter().enumerate().map(move |(index, container)| (item(index), container))
    })
}

pub(super) fn refusal(set: &SidecarSet, field: String, problem: String, remedy: &str) -> Reason {
    Reason::forbidden(field, problem, remedy).about(set.name())
}

#[cfg(test)]
mod tests;
