//! Tables of a container's `securityContext`.

use super::Kind::{Bool, Int64, Object, Text, Texts};
use super::{Table, always, optional, pointer};

pub(super) static SECURITY_CONTEXT: Table = Table::new(
    "SecurityContext",
    &[
        pointer("capabilities", Object(&CAPABILITIES)),
        pointer("privileged", Bool),
        pointer("seLinuxOptions", Object(&SE_LINUX_OPTIONS)),
        pointer("windowsOptions", Object(&WINDOWS_SECURITY_CONTEXT_OPTIONS)),
        pointer("runAsUser", Int64),
        pointer("runAsGroup", Int64),
        pointer("runAsNonRoot", Bool),
        pointer("readOnlyRootFilesystem", Bool),
        pointer("allowPrivilegeEscalation", Bool),
        pointer("procMount", Text),
        pointer("seccompProfile", Object(&PROFILE)),
        pointer("appArmorProfile", Object(&PROFILE)),
    ],
);

static CAPABILITIES: Table = Table::new("Capabilities", &[optional("add", Texts), optional("drop", Texts)]);

static SE_LINUX_OPTIONS: Table = Table::new(
    "SELinuxOptions",
    &[optional("user", Text), optional("role", Text), optional("type", Text), optional("level", Text)],
);

static WINDOWS_SECURITY_CONTEXT_OPTIONS: Table = Table::new(
    "WindowsSecurityContextOptions",
    &[
        pointer("gmsaCredentialSpecName", Text),
        pointer("gmsaCredentialSpec", Text),
        pointer("runAsUserName", Text),
        pointer("hostProcess", Bool),
    ],
);

static PROFILE: Table = Table::new("Profile", &[always("type", Text), pointer("localhostProfile", Text)]);
