//! Recognises an injected container that is already in the Pod (ORDER-3, ORDER-4).
//!
//! The API server calls a webhook again after others have changed the Pod, and users create Pods from manifests that
//! they read from a cluster. So annotations prove nothing: the existing container must equal the one that Pillion would
//! write.

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::json::{self, MAX_DEPTH, Object};
use pillion_kubernetes::quantity::Quantity;
use pillion_sidecarset::tables::{Field, Kind, Omit, SIDECAR_CONTAINER, Table, VOLUME, VOLUME_MOUNT};
use serde_json::Value;

/// The path at which the API server mounts the token of the Pod's ServiceAccount.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Fields that decide what runs in a container. They have no defaults, so a field that Pillion does not write must be
/// absent. Otherwise, a manifest with Pillion's annotations and a `command` of its own would disable a security
/// sidecar.
const DECISIVE: [&str; 12] = [
    "args",
    "command",
    "env",
    "envFrom",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "restartPolicy",
    "restartPolicyRules",
    "startupProbe",
    "volumeDevices",
    "workingDir",
];

/// Additional fields that an object of the Pod may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    /// Any fields.
    Anything,
    /// Only defaults of the API server. Other fields would make it a different probe, handler, mount or variable.
    Defaults,
}

/// Whether `existing`, a container of the Pod, equals the one that Pillion would write: it has every field of `wanted`
/// with the same value. Added or defaulted fields are no difference, among them resources and mounts of a
/// ServiceAccount token. Quantities compare by value.
pub fn covers(existing: &Value, wanted: &Value) -> bool {
    let (Some(existing), Some(wanted)) = (existing.as_object(), wanted.as_object()) else { return false };
    let absent = |key: &str| existing.get(key).is_none_or(is_zero);
    DECISIVE.iter().all(|key| wanted.contains_key(*key) || absent(key))
        && mounts(existing, wanted)
        && wanted.iter().all(|(key, wanted)| match SIDECAR_CONTAINER.field(key) {
            None => untyped(existing.get(key), wanted, MAX_DEPTH),
            Some(known) => match known.name {
                "volumeMounts" => true,
                _ => field(existing.get(key), wanted, known, beside(known), MAX_DEPTH),
            },
        })
}

/// Returns the replacement for `existing`: `wanted`, with the token mount that the API server added to `existing`. The
/// ServiceAccount admission plugin does not run again after the last webhook, so the mount would be lost.
pub fn replacement(existing: &Value, mut wanted: Value) -> Value {
    if let Some(mount) = json::items(existing, &["volumeMounts"]).iter().find(|mount| is_added(mount))
        && !json::items(&wanted, &["volumeMounts"]).iter().any(is_at_token_path)
        && let Some(mounts) = wanted.as_object_mut().and_then(|wanted| json::list_mut(wanted, "volumeMounts"))
    {
        mounts.push(mount.clone());
    }
    wanted
}

/// The lists whose items are compared one by one, with the field that tells items apart.
const ITEMISED: [(&str, &str); 3] = [("env", "name"), ("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")];
/// Fields that a replacement takes away, although they may stay in a container that is not replaced. Further fields of
/// this kind are defaults, which the API server fills in again.
const NO_DEFAULTS: [&str; 2] = ["ports", "securityContext"];

/// Returns what a replacement of `existing` by `wanted` sets back, for a message (ORDER-8): `image`, `env[HTTP_PROXY]`.
///
/// Items that only `wanted` has do not count: a sidecar that shares mounts or takes variables gets those that the app has
/// now.
pub(crate) fn set_back(existing: &Value, wanted: &Value) -> Vec<String> {
    let (Some(existing), Some(wanted)) = (existing.as_object(), wanted.as_object()) else { return Vec::new() };
    let unknown = DECISIVE.into_iter().chain(wanted.keys().map(String::as_str));
    let unknown: BTreeSet<&str> = unknown.filter(|key| SIDECAR_CONTAINER.field(key).is_none()).collect();
    let is_same = |key: &str| match wanted.get(key) {
        None => existing.get(key).is_none_or(is_zero),
        Some(wanted) => untyped(existing.get(key), wanted, MAX_DEPTH),
    };
    let mut found: Vec<String> = unknown.into_iter().filter(|key| !is_same(key)).map(str::to_owned).collect();
    for known in SIDECAR_CONTAINER.fields {
        let (there, ours) = (existing.get(known.name), wanted.get(known.name));
        let itemised = ITEMISED.iter().find(|(list, _)| *list == known.name);
        if let (Some((list, key)), Kind::Objects(table)) = (itemised, known.kind) {
            let items = |of: Option<&'_ Value>| of.and_then(Value::as_array).cloned().unwrap_or_default();
            let (there, ours) = (items(there), items(ours));
            let ours: BTreeMap<&str, &Value> = ours.iter().map(|item| (json::text(item, &[key]), item)).collect();
            let is_ours = |item: &Value| {
                let pair = ours.get(json::text(item, &[key])).and_then(|ours| ours.as_object().zip(item.as_object()));
                pair.is_some_and(|(ours, there)| object(there, ours, table, Beside::Defaults, MAX_DEPTH))
            };
            let dropped = there.iter().filter(|item| !is_token_mount(item) && !is_ours(item));
            found.extend(dropped.map(|item| format!("{list}[{}]", json::text(item, &["name"]))));
        } else {
            let same = match ours {
                None => {
                    there.is_none_or(is_zero) || !(DECISIVE.contains(&known.name) || NO_DEFAULTS.contains(&known.name))
                }
                Some(ours) => field(there, ours, known, beside(known), MAX_DEPTH),
            };
            if !same {
                found.push(known.name.to_owned());
            }
        }
    }
    found
}

/// Returns which further fields the field of a container may have.
fn beside(known: &Field) -> Beside {
    match known.name {
        "resources" | "securityContext" => Beside::Anything,
        _ => Beside::Defaults,
    }
}

/// Whether `existing`, a volume of the Pod, equals the one that Pillion would write.
pub fn covers_volume(existing: &Value, wanted: &Value) -> bool {
    match (existing.as_object(), wanted.as_object()) {
        (Some(existing), Some(wanted)) => object(existing, wanted, &VOLUME, Beside::Anything, MAX_DEPTH),
        _ => false,
    }
}

/// Whether the mounts are the same in the same order. Token mounts are compared separately, at any position, and only
/// if Pillion would write one: the API server adds token mounts to containers that a webhook added. It does so, too, if
/// the path of ours is spelt in another way (SAP-8j).
fn mounts(existing: &Object, wanted: &Object) -> bool {
    let of = |container: &Object| -> (Vec<Value>, Vec<Value>) {
        let mounts = container.get("volumeMounts").and_then(Value::as_array).cloned().unwrap_or_default();
        mounts.into_iter().partition(is_token_mount)
    };
    let ((mut existing_tokens, existing), (wanted_tokens, wanted)) = (of(existing), of(wanted));
    if !wanted_tokens.iter().any(is_at_token_path) {
        existing_tokens.retain(|mount| !is_added(mount));
    }
    let same =
        |existing: &[Value], wanted: &[Value]| list(existing, wanted, &VOLUME_MOUNT, Beside::Defaults, MAX_DEPTH);
    same(&existing, &wanted) && (wanted_tokens.is_empty() || same(&existing_tokens, &wanted_tokens))
}

/// Whether the API server may have added a mount: that of a token, read-only and with no further field.
fn is_added(mount: &Value) -> bool {
    let keys = ["name", "mountPath", "readOnly"];
    is_at_token_path(mount)
        && json::flag(mount, &["readOnly"])
        && mount.as_object().is_some_and(|mount| mount.keys().all(|key| keys.contains(&key.as_str())))
}

/// Whether a mount has the path that the API server looks for, letter by letter.
fn is_at_token_path(mount: &Value) -> bool {
    json::text(mount, &["mountPath"]) == TOKEN_PATH
}

fn is_token_mount(mount: &Value) -> bool {
    json::text(mount, &["mountPath"]).trim_end_matches('/') == TOKEN_PATH
}

fn object(existing: &Object, wanted: &Object, table: &Table, beside: Beside, depth: usize) -> bool {
    let more =
        |(key, value): (&String, &Value)| !wanted.contains_key(key) && !is_zero(value) && !is_default(key, value);
    depth > 0
        && (beside == Beside::Anything || !existing.iter().any(more))
        && wanted.iter().all(|(key, wanted)| match table.field(key) {
            None => untyped(existing.get(key), wanted, depth),
            Some(known) => field(existing.get(key), wanted, known, beside, depth),
        })
}

/// Whether a field that the tables do not know has the same value, beside what the API server writes as defaults.
fn untyped(existing: Option<&Value>, wanted: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    match (existing, wanted) {
        (Some(Value::Object(existing)), Value::Object(wanted)) => {
            let is_more = |(key, value): (&String, &Value)| !wanted.contains_key(key) && !is_default(key, value);
            !existing.iter().any(is_more)
                && wanted.iter().all(|(key, wanted)| untyped(existing.get(key), wanted, depth))
        }
        (Some(Value::Array(existing)), Value::Array(wanted)) => {
            existing.len() == wanted.len()
                && existing.iter().zip(wanted).all(|(existing, wanted)| untyped(Some(existing), wanted, depth))
        }
        (existing, wanted) => existing == Some(wanted),
    }
}

fn field(existing: Option<&Value>, wanted: &Value, field: &Field, beside: Beside, depth: usize) -> bool {
    let Some(existing) = existing.filter(|value| !value.is_null()) else {
        // The API server drops zero values of these fields, but not of pointers.
        return wanted.is_null() || (field.omit != Omit::Absent && is_zero(wanted));
    };
    match field.kind {
        Kind::Object(table) => match (existing.as_object(), wanted.as_object()) {
            (Some(existing), Some(wanted)) => object(existing, wanted, table, beside, depth - 1),
            _ => false,
        },
        Kind::Objects(table) => match (existing.as_array(), wanted.as_array()) {
            (Some(existing), Some(wanted)) if field.name == "resizePolicy" => {
                resize_policies(existing, wanted, table, depth - 1)
            }
            (Some(existing), Some(wanted)) => list(existing, wanted, table, beside, depth - 1),
            _ => false,
        },
        Kind::Quantity => same_quantity(existing, wanted),
        Kind::QuantityMap => each_member(existing, wanted, same_quantity),
        Kind::TextMap => each_member(existing, wanted, |existing, wanted| existing == wanted),
        Kind::Int32 | Kind::Int64 => existing.as_i64().is_some() && existing.as_i64() == wanted.as_i64(),
        _ => existing == wanted,
    }
}

/// Whether lists have the same items in the same order.
fn list(existing: &[Value], wanted: &[Value], table: &Table, beside: Beside, depth: usize) -> bool {
    existing.len() == wanted.len()
        && existing.iter().zip(wanted).all(|pair| match pair {
            (Value::Object(existing), Value::Object(wanted)) => object(existing, wanted, table, beside, depth),
            _ => false,
        })
}

/// Whether lists of resize policies are the same. The API server appends a policy for each resource without one.
fn resize_policies(existing: &[Value], wanted: &[Value], table: &Table, depth: usize) -> bool {
    let Some((ours, added)) = existing.split_at_checked(wanted.len()) else { return false };
    list(ours, wanted, table, Beside::Defaults, depth)
        && added.iter().all(|policy| json::text(policy, &["restartPolicy"]) == "NotRequired")
}

/// Whether the API server writes this value as a default.
fn is_default(key: &str, value: &Value) -> bool {
    match key {
        "apiVersion" => value == "v1",
        "divisor" => value == "0",
        // Of a port, and of an HTTP probe or handler since Kubernetes 1.37.
        "protocol" => value == "TCP" || value == "HTTP1",
        "path" => value == "/",
        "scheme" => value == "HTTP",
        "timeoutSeconds" | "successThreshold" => value.as_i64() == Some(1),
        "periodSeconds" => value.as_i64() == Some(10),
        "failureThreshold" => value.as_i64() == Some(3),
        // Of `podCertificate`.
        "maxExpirationSeconds" => value.as_i64() == Some(86_400),
        // The API server copies the container's port in a Pod on the host's network.
        "hostPort" => true,
        _ => false,
    }
}

fn each_member(existing: &Value, wanted: &Value, same: impl Fn(&Value, &Value) -> bool) -> bool {
    match (existing.as_object(), wanted.as_object()) {
        (Some(existing), Some(wanted)) => {
            wanted.iter().all(|(key, wanted)| existing.get(key).is_some_and(|existing| same(existing, wanted)))
        }
        _ => false,
    }
}

fn same_quantity(existing: &Value, wanted: &Value) -> bool {
    match (Quantity::from_json(existing), Quantity::from_json(wanted)) {
        (Ok(existing), Ok(wanted)) => existing == wanted,
        _ => existing == wanted,
    }
}

/// Whether Go's JSON encoder omits the value: null, `""`, `0`, `false`, an empty list or map.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn wanted() -> Value {
        json!({
            "name": "log", "image": "log:1", "stdin": false, "command": ["run"],
            "env": [{"name": "A", "value": ""}, {"name": "IS_INJECTED", "value": "true"}],
            "resources": {"limits": {"cpu": "0.5"}},
            "securityContext": {"runAsUser": 0, "capabilities": {}},
            "ports": [{"containerPort": 80}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "envFrom": [{"secretRef": {"name": "s"}}],
            "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
            "startupProbe": {"tcpSocket": {"port": 80}, "successThreshold": 1},
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
            "future": {"a": [1]}
        })
    }

    /// Returns the wanted container, changed by `edit`.
    fn after(edit: impl FnOnce(&mut Value)) -> Value {
        let mut container = wanted();
        edit(&mut container);
        container
    }

    #[rstest]
    #[case::itself(wanted())]
    #[case::zero_values_dropped(after(|c| {
        c.as_object_mut().unwrap().remove("stdin");
        c["env"][0] = json!({"name": "A"});
    }))]
    #[case::quantity_in_canonical_form(after(|c| c["resources"]["limits"]["cpu"] = json!("500m")))]
    #[case::resources_defaulted(after(|c| c["resources"] = json!({
        "limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "500m"}
    })))]
    #[case::port_protocol_defaulted(after(|c| c["ports"][0]["protocol"] = json!("TCP")))]
    #[case::probe_defaulted(after(|c| c["startupProbe"] = json!({
        "tcpSocket": {"port": 80}, "successThreshold": 1, "timeoutSeconds": 1, "periodSeconds": 10, "failureThreshold": 3
    })))]
    #[case::hook_defaulted(after(|c| c["lifecycle"]["preStop"]["httpGet"] = json!({
        "path": "/", "port": 80, "scheme": "HTTP"
    })))]
    #[case::hook_defaulted_by_kubernetes_1_37(after(|c| c["lifecycle"]["preStop"]["httpGet"] = json!({
        "path": "/", "port": 80, "scheme": "HTTP", "protocol": "HTTP1"
    })))]
    #[case::resize_policy_defaulted(after(|c| c["resizePolicy"].as_array_mut().unwrap().push(
        json!({"resourceName": "memory", "restartPolicy": "NotRequired"})
    )))]
    #[case::unknown_object_defaulted(after(|c| c["future"]["timeoutSeconds"] = json!(1)))]
    #[case::unknown_field_added(after(|c| c["newer"] = json!(1)))]
    #[case::termination_message_path_defaulted(after(|c| c["terminationMessagePath"] = json!("/dev/x")))]
    #[case::security_context_extended(after(|c| c["securityContext"]["runAsNonRoot"] = json!(true)))]
    #[case::token_mount_added(after(|c| c["volumeMounts"].as_array_mut().unwrap().push(
        json!({"name": "kube-api-access-x", "mountPath": TOKEN_PATH, "readOnly": true})
    )))]
    #[case::token_mount_added_with_slash(after(|c| c["volumeMounts"].as_array_mut().unwrap().insert(
        0, json!({"name": "t", "mountPath": format!("{TOKEN_PATH}/")})
    )))]
    fn order4_stays_where_it_says_what_we_would_say(#[case] existing: Value) {
        assert!(covers(&existing, &wanted()), "{existing}");
    }

    #[rstest]
    #[case::image(after(|c| c["image"] = json!("evil")))]
    #[case::command(after(|c| c["command"] = json!(["sleep"])))]
    #[case::args_added(after(|c| c["args"] = json!(["--off"])))]
    #[case::probe_added(after(|c| c["livenessProbe"] = json!({"exec": {"command": ["false"]}})))]
    #[case::lifecycle_added(after(|c| c["lifecycle"] = json!({"postStart": {"exec": {"command": ["kill"]}}})))]
    #[case::variable_changed(after(|c| c["env"][0]["value"] = json!("x")))]
    #[case::variable_from_elsewhere(after(|c| c["env"][0] = json!({"name": "A", "valueFrom": {"fieldRef": {}}})))]
    #[case::variable_added(after(|c| c["env"].as_array_mut().unwrap().push(json!({"name": "B"}))))]
    #[case::variables_reordered(after(|c| c["env"].as_array_mut().unwrap().reverse()))]
    #[case::quantity(after(|c| c["resources"]["limits"]["cpu"] = json!("501m")))]
    #[case::limit_removed(after(|c| c["resources"] = json!({})))]
    #[case::pointer_dropped(after(|c| c["securityContext"] = json!({"capabilities": {}})))]
    #[case::sub_path_added(after(|c| c["volumeMounts"][0]["subPath"] = json!("x")))]
    #[case::other_mount_added(after(|c| c["volumeMounts"].as_array_mut().unwrap().push(
        json!({"name": "x", "mountPath": "/x"})
    )))]
    #[case::mount_removed(after(|c| c["volumeMounts"] = json!([])))]
    #[case::unknown_field_dropped(after(|c| { c.as_object_mut().unwrap().remove("future"); }))]
    #[case::unknown_object_extended(after(|c| c["future"]["b"] = json!(1)))]
    #[case::unknown_list_extended(after(|c| c["future"]["a"] = json!([1, 2])))]
    #[case::readiness_probe_added(after(|c| c["readinessProbe"] = json!({"exec": {"command": ["kill", "1"]}})))]
    #[case::hook_added_beside_ours(after(|c| c["lifecycle"]["postStart"] = json!({"exec": {"command": ["kill", "1"]}})))]
    #[case::probe_made_impatient(after(|c| c["startupProbe"]["failureThreshold"] = json!(1)))]
    #[case::rules_for_restarts_added(after(|c| c["restartPolicyRules"] = json!([
        {"action": "Restart", "exitCodes": {"operator": "In", "values": [0]}}
    ])))]
    #[case::options_of_a_mount_added(after(|c| c["volumeMounts"][0]["bindMountOptions"] = json!(["nosuid"])))]
    #[case::prefix_added(after(|c| c["envFrom"][0]["prefix"] = json!("X_")))]
    #[case::resize_policy_added(after(|c| c["resizePolicy"].as_array_mut().unwrap().push(
        json!({"resourceName": "memory", "restartPolicy": "RestartContainer"})
    )))]
    #[case::no_object(json!("log"))]
    fn is_replaced_where_it_differs(#[case] existing: Value) {
        assert!(!covers(&existing, &wanted()), "{existing}");
    }

    #[rstest]
    #[case::nothing(wanted(), &[])]
    #[case::image(after(|c| c["image"] = json!("mirror.example/log:1")), &["image"])]
    #[case::variables(after(|c| {
        c["env"] = json!([{"name": "HTTP_PROXY", "value": "p"}, {"name": "A", "value": "x"}, {"name": "IS_INJECTED", "value": "true"}]);
    }), &["env[HTTP_PROXY]", "env[A]"])]
    #[case::mounts(after(|c| {
        c["volumeMounts"].as_array_mut().unwrap().push(json!({"name": "ca", "mountPath": "/etc/ssl/certs"}));
    }), &["volumeMounts[ca]"])]
    #[case::a_token_mount(after(|c| {
        c["volumeMounts"].as_array_mut().unwrap().push(json!({"name": "t", "mountPath": TOKEN_PATH, "subPath": "x"}));
    }), &[])]
    #[case::fields(after(|c| {
        c["args"] = json!(["--off"]);
        c["securityContext"]["runAsUser"] = json!(7);
        c["resources"] = json!({"limits": {"cpu": "2"}});
    }), &["args", "resources", "securityContext"])]
    #[case::a_field_that_is_gone(after(|c| drop(c.as_object_mut().unwrap().remove("startupProbe"))), &["startupProbe"])]
    #[case::fields_of_newer_versions(after(|c| {
        c["future"] = json!(null);
        c["restartPolicyRules"] = json!([{"action": "Restart"}]);
    }), &["future", "restartPolicyRules"])]
    #[case::defaults(after(|c| {
        c["imagePullPolicy"] = json!("IfNotPresent");
        c["terminationMessagePath"] = json!("/dev/termination-log");
        c["ports"][0]["protocol"] = json!("TCP");
    }), &[])]
    #[case::what_the_app_lacked_before(after(|c| {
        c["env"].as_array_mut().unwrap().remove(0);
        c["volumeMounts"] = json!([]);
    }), &[])]
    fn order8_what_a_replacement_sets_back(#[case] existing: Value, #[case] expected: &[&str]) {
        let mut found = set_back(&existing, &wanted());
        found.sort();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    #[rstest]
    #[case::itself(json!({}), true)]
    #[case::with_its_default(json!({"maxExpirationSeconds": 86_400}), true)]
    #[case::that_lasts_longer(json!({"maxExpirationSeconds": 172_800}), false)]
    #[case::of_another_signer(json!({"signerName": "a/other"}), false)]
    fn order4_a_volume_with_a_certificate_is_ours(#[case] edit: Value, #[case] expected: bool) {
        let volume =
            |certificate: &Value| json!({"name": "v", "projected": {"sources": [{"podCertificate": certificate}]}});
        let wanted = json!({"signerName": "a/b", "keyType": "ED25519", "credentialBundlePath": "bundle.pem"});
        let mut existing = wanted.clone();
        existing.as_object_mut().unwrap().extend(edit.as_object().unwrap().clone());
        assert_eq!(covers_volume(&volume(&existing), &volume(&wanted)), expected);
    }

    /// Returns the wanted container without mounts.
    fn without_mounts() -> Value {
        after(|container| drop(container.as_object_mut().unwrap().remove("volumeMounts")))
    }

    fn with_token(name: &str) -> Value {
        after(|container| {
            container["volumeMounts"].as_array_mut().unwrap().insert(0, json!({"name": name, "mountPath": TOKEN_PATH}));
        })
    }

    #[test]
    fn a_mount_is_a_difference_where_we_write_none() {
        assert!(!covers(&wanted(), &without_mounts()));
        assert!(covers(&without_mounts(), &without_mounts()));
    }

    #[test]
    fn a_token_that_we_write_must_be_that_token_wherever_it_stands() {
        let mut moved = with_token("ours");
        moved["volumeMounts"].as_array_mut().unwrap().reverse();
        assert!(covers(&moved, &with_token("ours")));
        assert!(!covers(&with_token("theirs"), &with_token("ours")));
        assert!(!covers(&wanted(), &with_token("ours")));
        let shadowed = json!({"name": "theirs", "mountPath": format!("{TOKEN_PATH}/")});
        moved["volumeMounts"].as_array_mut().unwrap().push(shadowed);
        assert!(!covers(&moved, &with_token("ours")));
    }

    #[test]
    fn sap8j_the_api_server_adds_its_mount_beside_one_with_a_slash() {
        let own = json!({"name": "v", "mountPath": format!("{TOKEN_PATH}/")});
        let wanted = after(|container| container["volumeMounts"] = json!([own]));
        let added = json!({"name": "kube-api-access-x", "mountPath": TOKEN_PATH, "readOnly": true});
        let existing = after(|container| container["volumeMounts"] = json!([own, added]));
        assert!(covers(&existing, &wanted));
        assert_eq!(replacement(&existing, wanted.clone()), existing);
        let another =
            after(|container| container["volumeMounts"] = json!([own, {"name": "w", "mountPath": TOKEN_PATH}]));
        assert!(!covers(&another, &wanted));
    }

    #[rstest]
    #[case::of_the_api_server(json!({"name": "t", "mountPath": TOKEN_PATH, "readOnly": true}), true)]
    #[case::of_another_shape(json!({"name": "t", "mountPath": TOKEN_PATH, "readOnly": true, "subPath": "x"}), false)]
    #[case::elsewhere(json!({"name": "t", "mountPath": "/t", "readOnly": true}), false)]
    fn a_replaced_container_keeps_the_token_mount(#[case] mount: Value, #[case] kept: bool) {
        let existing = json!({"name": "log", "volumeMounts": [mount]});
        let mounts = replacement(&existing, wanted())["volumeMounts"].as_array().unwrap().clone();
        assert_eq!(mounts.contains(&mount), kept);
        assert_eq!(replacement(&existing, with_token("ours")), with_token("ours"));
    }
}
