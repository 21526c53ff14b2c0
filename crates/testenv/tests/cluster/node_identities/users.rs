//! Containers that are not root, in a namespace with the strictest Pod Security.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{StoryNamespace, World};
use crate::support::node::APP;

/// The user of the sidecar, if it has one of its own.
pub const SIDECAR: u32 = 2000;
const APPS: u32 = 1000;
const GROUP: u32 = 3000;

/// Returns what Pod Security asks of a container at its strictest, and a root file system that is read-only.
pub fn strict() -> Value {
    json!({
        "runAsNonRoot": true, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// A Pod of this story.
struct Case {
    mode: &'static str,
    /// Whether the sidecar has a user of its own, or that of the Pod.
    has_user: bool,
    /// Whether the Pod has a group for its volumes.
    has_group: bool,
    /// The permissions and the owner of the sidecar's token. The kubelet chooses them for tokens that it requests, and
    /// keeps those of the volume for the content of a Secret.
    wanted: (&'static str, &'static str),
}

const CASES: [Case; 8] = [
    Case { mode: "SidecarsOnly", has_user: true, has_group: false, wanted: ("644", "0:0") },
    Case { mode: "SidecarsOnly", has_user: true, has_group: true, wanted: ("640", "0:3000") },
    Case { mode: "SidecarsOnly", has_user: false, has_group: false, wanted: ("600", "1000:0") },
    Case { mode: "SidecarsOnly", has_user: false, has_group: true, wanted: ("640", "1000:3000") },
    Case { mode: "Isolate", has_user: true, has_group: false, wanted: ("644", "0:0") },
    Case { mode: "Isolate", has_user: true, has_group: true, wanted: ("644", "0:3000") },
    Case { mode: "Isolate", has_user: false, has_group: false, wanted: ("644", "0:0") },
    Case { mode: "Isolate", has_user: false, has_group: true, wanted: ("644", "0:3000") },
];

impl Case {
    fn story(&self) -> String {
        format!("users-{}-{}", self.mode.to_lowercase(), if self.has_user { "own" } else { "pods" })
    }

    fn pod(&self) -> String {
        format!("{}-{}", self.story(), if self.has_group { "group" } else { "plain" })
    }

    fn spec(&self) -> Value {
        let mut context = json!({"runAsUser": APPS});
        if self.has_group {
            context["fsGroup"] = GROUP.into();
        }
        json!({
            "serviceAccountName": if self.mode == "Isolate" { "web" } else { "default" }, "securityContext": context,
            "containers": [{"name": "app", "image": APP, "securityContext": strict()}],
        })
    }

    /// Checks what the containers of the running Pod see.
    async fn check(&self, place: &StoryNamespace<'_>) {
        let name = self.pod();
        let apps = match self.mode {
            "Isolate" => "web lists services, reads token:web",
            _ => "nobody lists nothing, reads nothing",
        };
        place.sees(&name, [("app", apps)]).await;
        for container in ["logs", "logs-native"] {
            let view = place.look(&name, container).await;
            assert_eq!(view.to_string(), "logs lists pods, reads token:logs", "{name} {container}");
            let file = &view.tokens["token"];
            assert_eq!((file.mode.as_str(), file.owner.as_str()), self.wanted, "{name} {container}");
        }
        let user = place.shell(&name, "logs").run("id -u; touch /here 2>/dev/null || echo read-only").await;
        let wanted = if self.has_user { SIDECAR } else { APPS };
        assert_eq!(user, format!("{wanted}\nread-only"), "{name}");
    }
}

/// The sidecar can read its token, and the app its own in mode `Isolate`, whichever users and groups they have.
pub async fn who_is_not_root_can_read_its_token(world: &World) {
    let place = world.place("users").await;
    for case in &CASES {
        place.pod(&case.pod(), &case.story(), &case.spec()).await;
    }
    let names = CASES.each_ref().map(Case::pod);
    join_all(names.iter().map(|name| place.ready(name))).await;

    join_all(CASES.iter().map(|case| case.check(&place))).await;
}
