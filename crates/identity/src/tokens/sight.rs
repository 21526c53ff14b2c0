//! Containers that the kernel lets see the processes or the files of the Pod's other containers, and so the tokens of
//! sidecars (TOK-9, E7).

use pillion_kubernetes::json;
use pillion_sidecarset::pod;
use serde_json::Value;

use super::held::shown;

/// The fields of a Pod's spec with which its containers see the processes of each other.
const SHARED: [&str; 2] = ["shareProcessNamespace", "hostPID"];
/// Capabilities with which a container sees more than its own files and processes.
const CAPABILITIES: [&str; 2] = ["SYS_ADMIN", "SYS_PTRACE"];
/// The maximum number of names in a message.
const NAMES_MAX: usize = 8;

/// Returns the fields of a Pod that let every container see the processes of the others.
pub fn shared_by(pod: &Value) -> impl Iterator<Item = &'static str> {
    SHARED.into_iter().filter(|field| json::flag(pod, &["spec", field]))
}

/// Says with what a container can see the others: `is privileged`, or `has the capability SYS_ADMIN`.
pub fn power(container: &Value) -> Option<String> {
    power_among(container, &CAPABILITIES)
}

/// Says with what a container has one of these capabilities: `is privileged`, or `has the capability ALL`.
pub fn power_among(container: &Value, capabilities: &[&'static str]) -> Option<String> {
    if json::flag(container, &["securityContext", "privileged"]) {
        return Some("is privileged".to_owned());
    }
    let added = json::texts(container, &["securityContext", "capabilities", "add"]);
    let found = added.into_iter().find_map(|text| capability(text, capabilities));
    found.map(|capability| format!("has the capability {capability}"))
}

/// Returns the capability that a text stands for, if it is `ALL` or one of `capabilities`. Container runtimes accept any
/// case, and the kernel's prefix.
fn capability(text: &str, capabilities: &[&'static str]) -> Option<&'static str> {
    let name = match text.split_at_checked(4) {
        Some((prefix, rest)) if prefix.eq_ignore_ascii_case("CAP_") => rest,
        _ => text,
    };
    ["ALL"].iter().chain(capabilities).find(|known| known.eq_ignore_ascii_case(name)).copied()
}

/// Returns warnings about an ephemeral container that can see the containers called `holders`, each of which holds a
/// token.
pub(crate) fn of_ephemeral(container: &Value, fields: &[&str], holders: &str) -> Vec<String> {
    let name = shown(pod::name(container));
    let through = |field: &&str| {
        format!("ephemeral container {name} can read the tokens of {holders} through /proc, since spec.{field} is true")
    };
    let mut warnings: Vec<String> = fields.iter().map(through).collect();
    let power = power(container);
    warnings
        .extend(power.map(|power| format!("ephemeral container {name} {power} and can read the tokens of {holders}")));
    warnings
}

/// Names containers for a message: `the sidecar "a"`, `the sidecars "a", "b"`. Many are not all named.
pub(crate) fn named<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    let listed: Vec<String> = names.take(NAMES_MAX).map(shown).collect();
    let sidecars = if count == 1 { "sidecar" } else { "sidecars" };
    let more = count.saturating_sub(NAMES_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("the {sidecars} {}{more}", listed.join(", "))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::privileged(json!({"privileged": true}), Some("is privileged"))]
    #[case::both(json!({"privileged": true, "capabilities": {"add": ["SYS_ADMIN"]}}), Some("is privileged"))]
    #[case::the_administrators(json!({"capabilities": {"add": ["NET_ADMIN", "SYS_ADMIN"]}}), Some("has the capability SYS_ADMIN"))]
    #[case::the_debuggers(json!({"capabilities": {"add": ["SYS_PTRACE"]}}), Some("has the capability SYS_PTRACE"))]
    #[case::all(json!({"capabilities": {"add": ["all"]}}), Some("has the capability ALL"))]
    #[case::with_the_kernels_prefix(json!({"capabilities": {"add": ["cap_Sys_Ptrace"]}}), Some("has the capability SYS_PTRACE"))]
    #[case::harmless(json!({"privileged": false, "capabilities": {"add": ["NET_BIND_SERVICE", "CAP_", "é", "SYS_ADMINS"]}}), None)]
    #[case::dropped(json!({"capabilities": {"drop": ["ALL"]}}), None)]
    #[case::nothing(json!(null), None)]
    fn tok9_what_a_container_sees_others_with(#[case] context: Value, #[case] expected: Option<&str>) {
        assert_eq!(power(&json!({"securityContext": context})).as_deref(), expected);
    }

    #[test]
    fn e18_not_all_of_many_names_are_shown() {
        assert_eq!(named(["a"].into_iter()), "the sidecar \"a\"");
        assert_eq!(named(["a", "b"].into_iter()), "the sidecars \"a\", \"b\"");
        let many = named(["a"; 10].into_iter());
        assert!(many.ends_with("\"a\" and 2 more"), "{many}");
    }
}
