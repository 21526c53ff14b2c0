//! The defaults that the admission of a `SidecarSet` sets (DEF-3 to DEF-7).
//!
//! Works in place on the decoded JSON of either version: the fields are the same in both. Never changes a field that is
//! present and not zero, except a quantity finer than milli.

use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::quantity::Quantity;
use serde_json::Value;

use crate::image;
use crate::tables;

/// The kind of a container. The kinds differ in the default injection position.
#[derive(Clone, Copy)]
enum Role {
    Init,
    Plain,
}

/// Sets the defaults of the webhook (DEF-3 to DEF-7). Returns whether this changed anything: comparing with a copy
/// would cost more than all defaults of a long object (E18).
pub fn apply(sidecar_set: &mut Value) -> bool {
    let mut defaults = Defaults { is_changed: false };
    if let Some(spec) = sidecar_set.as_object_mut().and_then(|object| json::object_mut(object, "spec")) {
        defaults.spec(spec);
    }
    defaults.is_changed
}

/// Sets the defaults of the CRD, which the API server sets before it calls webhooks (API-5).
///
/// For manifests that never passed through an API server. At admission, an empty value comes from the user, and the
/// webhook refuses it.
pub(crate) fn apply_crd(sidecar_set: &mut Value) {
    let mut defaults = Defaults { is_changed: false };
    if let Some(spec) = sidecar_set.as_object_mut().and_then(|object| find(object, "spec")) {
        defaults.spec_of_crd(spec);
    }
}

/// Sets defaults and records whether it set any.
struct Defaults {
    is_changed: bool,
}

impl Defaults {
    fn spec(&mut self, spec: &mut Object) {
        if let Some(strategy) = json::object_mut(spec, "updateStrategy") {
            self.text(strategy, "type", "RollingUpdate");
            self.absent(strategy, "maxUnavailable", Default::Number(1));
            self.absent(strategy, "partition", Default::Number(0));
        }
        for (list, role) in [("initContainers", Role::Init), ("containers", Role::Plain)] {
            each(spec, list, |sidecar| self.container(sidecar, role));
        }
        each(spec, "volumes", |volume| self.volume(volume));
        self.absent(spec, "revisionHistoryLimit", Default::Number(10));
        each(spec, "patchPodMetadata", |patch| self.text(patch, "patchPolicy", "Retain"));
        if let Some(revision) = find(spec, "injectionStrategy").and_then(|strategy| find(strategy, "revision")) {
            self.text(revision, "policy", "Always");
        }
    }

    fn spec_of_crd(&mut self, spec: &mut Object) {
        for list in ["initContainers", "containers"] {
            each(spec, list, |sidecar| {
                if let Some(policy) = find(sidecar, "resourcesPolicy") {
                    self.absent(policy, "targetContainersNameRegex", Default::Text(".*"));
                }
            });
        }
        if let Some(revision) = find(spec, "injectionStrategy").and_then(|strategy| find(strategy, "revision")) {
            self.absent(revision, "policy", Default::Text("Always"));
        }
        each(spec, "imagePullSecrets", |secret| self.absent(secret, "name", Default::Text("")));
    }

    /// Sets the defaults of DEF-4, then those of DEF-5.
    fn container(&mut self, sidecar: &mut Object, role: Role) {
        let policy = match role {
            Role::Init => "AfterAppContainer",
            Role::Plain => "BeforeAppContainer",
        };
        self.text(sidecar, "podInjectPolicy", policy);
        if let Some(strategy) = json::object_mut(sidecar, "upgradeStrategy") {
            self.text(strategy, "upgradeType", "ColdUpgrade");
        }
        if let Some(policy) = json::object_mut(sidecar, "shareVolumePolicy") {
            self.text(policy, "type", "disabled");
        }

        let image = sidecar.get("image").and_then(Value::as_str).unwrap_or_default();
        let pull_policy = if image::is_latest(image) { "Always" } else { "IfNotPresent" };
        self.text(sidecar, "imagePullPolicy", pull_policy);
        self.text(sidecar, "terminationMessagePath", "/dev/termination-log");
        self.text(sidecar, "terminationMessagePolicy", "File");
        each(sidecar, "ports", |port| self.text(port, "protocol", "TCP"));
        for (list, key) in [("transferEnv", "sourceContainerNameFrom"), ("env", "valueFrom")] {
            each(sidecar, list, |item| {
                if let Some(source) = find(item, key) {
                    self.field_ref(source);
                }
            });
        }
        if let Some(resources) = find(sidecar, "resources") {
            for list in ["limits", "requests"] {
                for (_, amount) in find(resources, list).into_iter().flatten() {
                    self.round_up_to_milli(amount);
                }
            }
        }
        for name in ["livenessProbe", "readinessProbe"] {
            if let Some(probe) = find(sidecar, name) {
                self.number(probe, "timeoutSeconds", 1);
                self.number(probe, "periodSeconds", 10);
                self.number(probe, "successThreshold", 1);
                self.number(probe, "failureThreshold", 3);
                self.http_get(probe);
            }
        }
        // OpenKruise sets no defaults for this probe, then refuses it unless three of them are written explicitly. Any
        // further default would change the hash of a `SidecarSet` that OpenKruise accepts (DIFF-28).
        if let Some(probe) = find(sidecar, "startupProbe") {
            self.number(probe, "successThreshold", 1);
            self.http_get(probe);
        }
        if let Some(lifecycle) = find(sidecar, "lifecycle") {
            for name in ["postStart", "preStop"] {
                if let Some(handler) = find(lifecycle, name) {
                    self.http_get(handler);
                }
            }
        }
    }

    /// Sets the defaults of DEF-6.
    fn volume(&mut self, volume: &mut Object) {
        let mut sources = tables::VOLUME.fields.iter().map(|field| field.name).filter(|name| *name != "name");
        if !sources.any(|source| volume.get(source).is_some_and(|value| !value.is_null())) {
            volume.insert("emptyDir".to_owned(), Value::Object(Object::new()));
            self.is_changed = true;
        }
        if let Some(source) = find(volume, "hostPath") {
            self.absent(source, "type", Default::Text(""));
        }
        for name in ["secret", "configMap", "downwardAPI", "projected"] {
            if let Some(source) = find(volume, name) {
                self.absent(source, "defaultMode", Default::Number(420));
            }
        }
        if let Some(source) = find(volume, "downwardAPI") {
            each(source, "items", |item| self.field_ref(item));
        }
        if let Some(source) = find(volume, "projected") {
            each(source, "sources", |projection| {
                if let Some(source) = find(projection, "downwardAPI") {
                    each(source, "items", |item| self.field_ref(item));
                }
                if let Some(source) = find(projection, "serviceAccountToken") {
                    self.absent(source, "expirationSeconds", Default::Number(3600));
                }
            });
        }
    }

    /// Sets the default of the `fieldRef` of `source`. Validation, not defaulting, reports a missing `fieldRef`
    /// (DIFF-16).
    fn field_ref(&mut self, source: &mut Object) {
        if let Some(reference) = find(source, "fieldRef") {
            self.text(reference, "apiVersion", "v1");
        }
    }

    fn http_get(&mut self, handler: &mut Object) {
        if let Some(action) = find(handler, "httpGet") {
            self.text(action, "path", "/");
            self.text(action, "scheme", "HTTP");
        }
    }

    /// Rewrites a quantity only if rounding changes its value: the hash uses the canonical form anyway (HASH-7).
    fn round_up_to_milli(&mut self, value: &mut Value) {
        if let Ok(quantity) = Quantity::from_json(value) {
            let rounded = quantity.round_up_to_milli();
            if rounded != quantity {
                *value = Value::String(rounded.to_string());
                self.is_changed = true;
            }
        }
    }

    fn insert(&mut self, object: &mut Object, key: &str, default: Default<'_>) {
        object.insert(key.to_owned(), default.value());
        self.is_changed = true;
    }

    /// Sets a text that is absent or empty.
    fn text(&mut self, object: &mut Object, key: &str, default: &str) {
        if object.get(key).and_then(Value::as_str).is_none_or(str::is_empty) {
            self.insert(object, key, Default::Text(default));
        }
    }

    /// Sets a number that is absent or zero.
    fn number(&mut self, object: &mut Object, key: &str, default: i32) {
        if object.get(key).is_none_or(|value| value.is_null() || value.as_i64() == Some(0)) {
            self.insert(object, key, Default::Number(default));
        }
    }

    /// Sets a field that is absent. The field is a Go pointer, whose zero value counts as present.
    fn absent(&mut self, object: &mut Object, key: &str, default: Default<'_>) {
        if object.get(key).is_none_or(Value::is_null) {
            self.insert(object, key, default);
        }
    }
}

/// Returns the object at `key`, if there is one.
fn find<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    object.get_mut(key).and_then(Value::as_object_mut)
}

/// Runs `edit` on every object of the list at `key`.
fn each(object: &mut Object, key: &str, mut edit: impl FnMut(&mut Object)) {
    for item in object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(item) = item {
            edit(item);
        }
    }
}

/// The value of a default.
#[derive(Clone, Copy)]
enum Default<'a> {
    Text(&'a str),
    Number(i32),
}

impl Default<'_> {
    fn value(self) -> Value {
        match self {
            Self::Text(text) => Value::from(text),
            Self::Number(number) => Value::from(number),
        }
    }
}

#[cfg(test)]
mod tests;
