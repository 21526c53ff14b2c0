//! Security contexts of containers.

use super::node::{Node, push_wrong};
use super::paths::check_descending;
use crate::field::{Cause, FieldError, FieldPath};
use crate::format;

const ID_MAX: i64 = i32::MAX as i64;
/// The longest path of a profile, in bytes.
const PROFILE_MAX: usize = 4095;
/// The longest credential spec, in bytes.
const CREDENTIAL_SPEC_MAX: usize = 64 * 1024;
const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

/// The `securityContext` of one container.
pub(super) fn check(container: &Node<'_>, errors: &mut Vec<FieldError>) {
    let Some(context) = container.get("securityContext") else { return };
    context.in_range("runAsUser", 0, ID_MAX, errors);
    context.in_range("runAsGroup", 0, ID_MAX, errors);
    match context.optional_text("procMount") {
        None | Some("Default") => {}
        Some("Unmasked") => {
            let detail = "needs a Pod with hostUsers: false, which a SidecarSet cannot ask for; remove it";
            errors.push(FieldError::invalid(&context.at("procMount"), "Unmasked", detail));
        }
        Some(other) => {
            errors.push(FieldError::not_supported(&context.at("procMount"), other, &["Default", "Unmasked"]));
        }
    }
    if let Some(profile) = context.get("seccompProfile") {
        check_seccomp(&profile, errors);
    }
    if context.optional_flag("allowPrivilegeEscalation") == Some(false) {
        if context.flag("privileged") {
            let detail = "allowPrivilegeEscalation: false and privileged: true exclude each other";
            errors.push(FieldError::invalid(&context.path, "", detail));
        }
        if context.get("capabilities").is_some_and(|sets| sets.texts("add").any(|name| name == "CAP_SYS_ADMIN")) {
            let detail = "allowPrivilegeEscalation: false and the capability CAP_SYS_ADMIN exclude each other";
            errors.push(FieldError::invalid(&context.path, "", detail));
        }
    }
    if let Some(options) = context.get("windowsOptions") {
        check_windows(&options, errors);
    }
    if let Some(profile) = context.get("appArmorProfile") {
        check_app_armor(&profile, errors);
    }
}

fn check_seccomp(profile: &Node<'_>, errors: &mut Vec<FieldError>) {
    profile.one_of("type", &PROFILES, errors);
    let at = profile.at("localhostProfile");
    match (profile.text("type"), profile.optional_text("localhostProfile")) {
        ("Localhost", None) => errors.push(FieldError::required(&at, "the type Localhost needs it")),
        ("Localhost", Some(path)) => check_descending(path, &at, errors),
        (_, Some(path)) => errors.push(FieldError::invalid(&at, path, "may only be set where the type is Localhost")),
        (_, None) => {}
    }
}

fn check_app_armor(profile: &Node<'_>, errors: &mut Vec<FieldError>) {
    profile.one_of("type", &PROFILES, errors);
    let at = profile.at("localhostProfile");
    match (profile.text("type"), profile.optional_text("localhostProfile")) {
        ("Localhost", None | Some("")) => errors.push(FieldError::required(&at, "the type Localhost needs it")),
        ("Localhost", Some(path)) => {
            if path.trim() != path {
                errors.push(FieldError::invalid(&at, path, "must not have leading or trailing white space"));
            }
            if path.len() > PROFILE_MAX {
                let detail = format!("must be no more than {PROFILE_MAX} bytes");
                errors.push(FieldError::new(&at, Cause::TooLong, detail));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(path)) => {
            errors.push(FieldError::invalid(&at, path, "may only be set where the type is Localhost"));
        }
        _ => {}
    }
}

fn check_windows(options: &Node<'_>, errors: &mut Vec<FieldError>) {
    options.formatted("gmsaCredentialSpecName", format::dns_subdomain, errors);
    if let Some(spec) = options.optional_text("gmsaCredentialSpec") {
        let wrong = match spec.len() {
            0 => Some("must not be empty; remove it"),
            length if length > CREDENTIAL_SPEC_MAX => Some("must not be longer than 64 KiB"),
            _ => None,
        };
        // The value is a credential: it is never shown.
        let at = options.at("gmsaCredentialSpec");
        errors.extend(wrong.map(|detail| FieldError::new(&at, Cause::Invalid, detail)));
    }
    if let Some(name) = options.optional_text("runAsUserName") {
        push_wrong(&options.at("runAsUserName"), name, wrong_user_name(name).map(str::to_owned), errors);
    }
}

/// What is wrong with a Windows user, `user` or `DOMAIN\user`, if anything.
fn wrong_user_name(name: &str) -> Option<&'static str> {
    const DOMAIN_MAX: usize = 255;
    const USER_MAX: usize = 104;
    if name.is_empty() {
        return Some("must not be empty; remove it");
    }
    if name.bytes().any(|byte| byte.is_ascii_control()) {
        return Some("must not contain control characters");
    }
    let (domain, user) = match name.split_once('\\') {
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    if user.contains('\\') {
        Some("must not contain more than one backslash")
    } else if domain.is_some_and(|domain| domain.len() > DOMAIN_MAX) {
        Some("the domain must be shorter than 256 bytes")
    } else if domain.is_some_and(|domain| !is_net_bios_name(domain) && !is_dns_domain(domain)) {
        Some("the domain must be a NetBIOS name or a DNS name")
    } else if user.is_empty() {
        Some("the user must not be empty")
    } else if user.len() > USER_MAX {
        Some("the user must not be longer than 104 bytes")
    } else if user.chars().all(|character| matches!(character, '.' | ' ')) {
        Some("the user must not consist of dots and spaces only")
    } else if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        Some("the user must not contain any of \" / \\ : ; | = , + * ? < > @ [ ]")
    } else {
        None
    }
}

/// 1 to 15 characters, none of those that separate names, no dot in front.
fn is_net_bios_name(domain: &str) -> bool {
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|'])
}

/// Labels of letters, digits and inner hyphens, of either case, joined by dots.
fn is_dns_domain(domain: &str) -> bool {
    domain.split('.').all(|label| format::dns_label(&label.to_ascii_lowercase()).is_none())
}

/// Host-process containers (Windows): all or none, and only in a Pod on the host's network, which this one is not.
pub(super) fn check_host_process<'n, 'v: 'n>(
    spec: &FieldPath,
    containers: impl Iterator<Item = &'n Node<'v>>,
    errors: &mut Vec<FieldError>,
) {
    let asks = |container: &Node<'_>| {
        container
            .get("securityContext")
            .and_then(|context| context.get("windowsOptions"))
            .is_some_and(|options| options.flag("hostProcess"))
    };
    let (host_process, others): (Vec<_>, Vec<_>) = containers.partition(|container| asks(container));
    if host_process.is_empty() {
        return;
    }
    if !others.is_empty() {
        let detail = "either all containers are host-process containers or none is";
        errors.push(FieldError::invalid(spec, "", detail));
    }
    let detail = "host-process containers need the host's network, which a SidecarSet cannot ask for";
    errors.push(FieldError::invalid(&spec.child("hostNetwork"), false, detail));
}
