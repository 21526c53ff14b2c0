//! The SidecarSets of the stories. A Pod's label `story` selects them.

use serde_json::{Value, json};

use super::AGENT;
use super::users::SIDECAR;

/// Prints who a container is to where the kubelet reports it: containers that end cannot be asked later.
pub const WHOAMI: &str = "kubectl auth whoami -o jsonpath={.status.userInfo.username} > /dev/termination-log 2>/dev/null || echo nobody > \
     /dev/termination-log";
/// The services of the story of audiences: the sidecar, its audience, its file and the lifetime of its token.
pub const SERVICES: [(&str, &str, &str, i64); 2] =
    [("aws", "sts.amazonaws.com", "aws-token", 7200), ("vault", "https://vault.example.com", "vault-token", 600)];
/// The modes with an identity that the kubelet, or the controller, provides for one set.
pub const MODES: [&str; 3] = ["SidecarsOnly", "Isolate", "Pod"];

/// Returns a SidecarSet with one container, named like it, and these fields of its spec.
fn set(name: &str, container: &str, story: &str, fields: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"story": story}},
            "containers": [{"name": container, "image": AGENT}],
            "updateStrategy": {"type": "NotUpdate"},
        },
    });
    json_patch::merge(&mut set["spec"], fields);
    set
}

/// Returns a SidecarSet for `logs`, with an init container and a native sidecar besides its container, and one without
/// an account.
fn with_every_kind(story: &str, mode: &str) -> [Value; 2] {
    let init = json!([
        {"name": "logs-init", "image": AGENT, "command": ["sh", "-c", WHOAMI]},
        {"name": "logs-native", "image": AGENT, "restartPolicy": "Always"},
    ]);
    let logs = json!({"serviceAccountName": "logs", "serviceAccountMode": mode, "initContainers": init});
    [set(&format!("logs-{story}"), "logs", story, &logs), set(&format!("plain-{story}"), "plain", story, &json!({}))]
}

/// Returns the SidecarSets that share one merged account.
fn merged() -> [Value; 2] {
    [("logs", "pods"), ("metrics", "configmaps")].map(|(account, resource)| {
        let fields = json!({
            "serviceAccountName": account, "behaviorWhenServiceAccountInjection": "Merge",
            "serviceAccountPermissions": [{"apiGroups": [""], "resources": [resource], "verbs": ["list"]}],
        });
        set(&format!("{account}-merge"), account, "merge", &fields)
    })
}

/// Returns the SidecarSets that log in to other services.
fn with_audiences(mode: &str) -> [Value; 2] {
    let story = format!("audiences-{}", mode.to_lowercase());
    SERVICES.map(|(name, audience, path, lifetime)| {
        let fields = json!({
            "serviceAccountName": "logs", "serviceAccountMode": mode,
            "serviceAccountTokens": [{"audience": audience, "path": path, "expirationSeconds": lifetime}],
        });
        set(&format!("{name}-{story}"), name, &story, &fields)
    })
}

/// Returns a SidecarSet that Pod Security admits, whose sidecar has a user of its own, or the Pod's.
fn restricted(mode: &str, has_user: bool) -> Value {
    let whose = if has_user { "own" } else { "pods" };
    let story = format!("users-{}-{whose}", mode.to_lowercase());
    let mut context = super::users::strict();
    if has_user {
        context["runAsUser"] = SIDECAR.into();
    }
    let container = |name: &str, more: Value| {
        let mut container = json!({"name": name, "image": AGENT, "securityContext": context});
        json_patch::merge(&mut container, &more);
        container
    };
    let fields = json!({
        "serviceAccountName": "logs", "serviceAccountMode": mode,
        "containers": [container("logs", json!({}))],
        "initContainers": [container("logs-native", json!({"restartPolicy": "Always"}))],
    });
    set(&format!("logs-{story}"), "logs", &story, &fields)
}

/// Returns the SidecarSet `logs` for another story.
fn plain(story: &str, mode: &str, fields: &Value) -> Value {
    let mut all = json!({"serviceAccountName": "logs", "serviceAccountMode": mode});
    json_patch::merge(&mut all, fields);
    set(&format!("logs-{story}"), "logs", story, &all)
}

/// Returns the SidecarSet `logs` for the Pods of a Job, in which its container is a native sidecar.
fn native(story: &str, mode: &str) -> Value {
    let mut set = plain(story, mode, &json!({}));
    set["metadata"]["annotations"] = json!({"pillion.dev/native": "EndingPods"});
    set
}

/// Returns the settings of all stories.
pub fn settings() -> Value {
    let mut sets: Vec<Value> = Vec::new();
    sets.extend(with_every_kind("sidecars-only", "SidecarsOnly"));
    sets.extend(with_every_kind("isolate", "Isolate"));
    let metrics = json!({"serviceAccountName": "metrics", "serviceAccountMode": "Isolate"});
    sets.push(set("metrics-isolate", "metrics", "isolate", &metrics));
    sets.push(plain("pod", "Pod", &json!({})));
    sets.extend(merged());
    sets.extend(MODES.map(with_audiences).into_iter().flatten());
    for mode in ["SidecarsOnly", "Isolate"] {
        sets.extend([true, false].map(|has_user| restricted(mode, has_user)));
    }
    sets.push(plain("life", "Isolate", &json!({})));
    let sharing = json!({"containers": [{"name": "logs", "image": AGENT, "shareVolumePolicy": {"type": "enabled"}}]});
    sets.push(plain("own-tokens", "Isolate", &sharing));
    sets.push(plain("boundaries", "SidecarsOnly", &json!({})));
    sets.push(native("job", "Isolate"));
    json!({
        "sidecarSets": sets,
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "serviceAccounts": {
            "allowPodMode": true, "onAppServiceAccount": "Keep",
            "allowedAudiences": ["sts.amazonaws.com", "https://vault.*"],
        },
    })
}
