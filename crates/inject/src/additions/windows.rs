//! Security contexts for another operating system than the Pod's (`spec.os`).

use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::pod::Pod;

use super::Additions;

/// The fields of a container's security context that a Windows Pod may not have.
const OF_LINUX: [&str; 10] = [
    "allowPrivilegeEscalation",
    "appArmorProfile",
    "capabilities",
    "privileged",
    "procMount",
    "readOnlyRootFilesystem",
    "runAsGroup",
    "runAsUser",
    "seLinuxOptions",
    "seccompProfile",
];
/// The field that a Linux Pod may not have.
const OF_WINDOWS: [&str; 1] = ["windowsOptions"];

/// Checks that the added containers have no security context of another system.
pub(super) fn check(pod: Pod<'_>, additions: Additions<'_>, reasons: &mut Vec<Reason>) {
    let (system, foreign) = match json::text(pod.as_value(), &["spec", "os", "name"]) {
        "windows" => ("windows", &OF_LINUX[..]),
        "linux" => ("linux", &OF_WINDOWS[..]),
        _ => return,
    };
    for added in additions.all() {
        let context = json::object(added.container(), &["securityContext"]);
        let is_set = |field: &&str| context.and_then(|context| context.get(*field)).is_some_and(|it| !it.is_null());
        let set: Vec<&str> = foreign.iter().copied().filter(is_set).collect();
        if set.is_empty() {
            continue;
        }
        let problem = format!(
            "container \"{}\" sets {}, which the API server refuses in a Pod with spec.os.name {system}",
            added.name(),
            set.join(", "),
        );
        reasons.push(added.reason(
            "securityContext",
            problem,
            "change the Pod's labels or the SidecarSet's selector, so that the SidecarSet does not match Pods of this system",
        ));
    }
}
