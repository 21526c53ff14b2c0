//! Security contexts of containers.

use serde_json::Value;

use super::paths;
use crate::field::{Cause, FieldError, FieldErrors, FieldPath};
use crate::json;
use crate::name_validation;
use crate::node::Node;

const ID_MAX: i64 = i32::MAX as i64;
/// The maximum length of a profile path, in bytes.
const PROFILE_MAX: usize = 4095;
/// The maximum length of a credential spec, in bytes.
const CREDENTIAL_SPEC_MAX: usize = 64 * 1024;
const UNMASKED: &str = "Unmasked";
/// The type of a profile in a file on the node.
const LOCALHOST: &str = "Localhost";
/// The field that names the file.
const PROFILE: &str = "localhostProfile";
const NEEDS_PROFILE: &str = "the type Localhost needs it";
const NO_PROFILE: &str = "may only be set where the type is Localhost";
const EMPTY: &str = "must not be empty; remove it";
const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

/// Checks the `securityContext` of one container.
pub(super) fn check(container: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let context = container.part("securityContext");
    context.in_range("runAsUser", 0, ID_MAX, errors);
    context.in_range("runAsGroup", 0, ID_MAX, errors);
    context.known("procMount", &["Default", UNMASKED], errors);
    if context.is_one_of("procMount", &[UNMASKED]) {
        let detail = "needs a Pod with hostUsers: false, which a SidecarSet cannot ask for; remove it";
        context.invalid("procMount", detail, errors);
    }
    if let Some(profile) = &context.get("seccompProfile") {
        check_seccomp(profile, errors);
    }
    if context.optional_flag("allowPrivilegeEscalation") == Some(false) {
        if context.flag("privileged") {
            let detail = "allowPrivilegeEscalation: false and privileged: true exclude each other";
            errors.invalid(&context.place, "", detail);
        }
        if context.part("capabilities").list("add").iter().any(|name| name == "CAP_SYS_ADMIN") {
            let detail = "allowPrivilegeEscalation: false and the capability CAP_SYS_ADMIN exclude each other";
            errors.invalid(&context.place, "", detail);
        }
    }
    check_windows(&context.part("windowsOptions"), errors);
    if let Some(profile) = &context.get("appArmorProfile") {
        check_app_armor(profile, errors);
    }
}

fn check_seccomp(profile: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    profile.one_of("type", &PROFILES, errors);
    match (profile.is_one_of("type", &[LOCALHOST]), profile.optional_text(PROFILE)) {
        (true, None) => errors.required(&profile.at(PROFILE), NEEDS_PROFILE),
        (true, Some(_)) => profile.formatted(PROFILE, paths::descending, errors),
        (false, Some(_)) => profile.invalid(PROFILE, NO_PROFILE, errors),
        (false, None) => {}
    }
}

fn check_app_armor(profile: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    profile.one_of("type", &PROFILES, errors);
    let path = profile.text(PROFILE);
    match profile.text("type") {
        LOCALHOST if path.is_empty() => errors.required(&profile.at(PROFILE), NEEDS_PROFILE),
        LOCALHOST => {
            if path.trim() != path {
                profile.invalid(PROFILE, "must not have leading or trailing white space", errors);
            }
            if path.len() > PROFILE_MAX {
                errors.too_long(&profile.at(PROFILE), PROFILE_MAX);
            }
        }
        "RuntimeDefault" | "Unconfined" if profile.optional_text(PROFILE).is_some() => {
            profile.invalid(PROFILE, NO_PROFILE, errors);
        }
        _ => {}
    }
}

fn check_windows(options: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    options.formatted("gmsaCredentialSpecName", name_validation::dns_subdomain, errors);
    if let Some(spec) = options.optional_text("gmsaCredentialSpec") {
        let wrong = match spec.len() {
            0 => EMPTY,
            length if length > CREDENTIAL_SPEC_MAX => "must not be longer than 64 KiB",
            _ => "",
        };
        if !wrong.is_empty() {
            // The value is a credential: never show it.
            errors.add(|| FieldError::new(options.at("gmsaCredentialSpec"), Cause::Invalid, wrong));
        }
    }
    options.formatted("runAsUserName", wrong_user_name, errors);
}

/// Returns the problem of a Windows user name, `user` or `DOMAIN\user`, if there is one.
fn wrong_user_name(name: &str) -> Option<&'static str> {
    const DOMAIN_MAX: usize = 255;
    const USER_MAX: usize = 104;
    if name.is_empty() {
        return Some(EMPTY);
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

/// Whether the domain has 1 to 15 characters, no separators of names, and no leading dot.
fn is_net_bios_name(domain: &str) -> bool {
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|'])
}

/// Whether the domain consists of labels joined by dots. Labels have letters of either case, digits and inner hyphens.
fn is_dns_domain(domain: &str) -> bool {
    domain.split('.').all(|label| name_validation::dns_label(&label.to_ascii_lowercase()).is_none())
}

/// Checks host-process containers (Windows): all containers or none are host-process containers, and they need a Pod on
/// the host network, which the synthetic Pod is not.
pub(super) fn check_host_process(
    spec: &FieldPath<'_>,
    containers: &[Value],
    init_containers: &[Value],
    errors: &mut Vec<FieldError>,
) {
    let (mut some, mut all) = (false, true);
    for container in containers.iter().chain(init_containers) {
        let asks = json::flag(container, &["securityContext", "windowsOptions", "hostProcess"]);
        some |= asks;
        all &= asks;
    }
    if !some {
        return;
    }
    if !all {
        errors.invalid(spec, "", "either all containers are host-process containers or none is");
    }
    let detail = "host-process containers need the host's network, which a SidecarSet cannot ask for";
    errors.invalid(&spec.child("hostNetwork"), "false", detail);
}
