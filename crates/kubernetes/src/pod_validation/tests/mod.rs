//! Tables of inputs and the error paths that Kubernetes v1.32 reports for them.

mod environment;
mod legacy_volumes;
mod mounts;
mod names_and_images;
mod ports;
mod probes;
mod properties;
mod resources;
mod security_contexts;
mod volumes;

use serde_json::{Value, json};

/// Returns a valid container.
fn container(name: &str) -> Value {
    json!({
        "name": name,
        "image": "busybox:1",
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "resources": {},
    })
}

/// Returns a valid container with `fields` in place of its own. A null removes a field.
fn with(name: &str, fields: &Value) -> Value {
    let mut container = container(name);
    let target = container.as_object_mut().unwrap();
    for (key, value) in fields.as_object().unwrap() {
        match value {
            Value::Null => target.remove(key),
            value => target.insert(key.clone(), value.clone()),
        };
    }
    container
}

/// Returns the paths of all errors, ascending, without duplicates.
fn paths(init_containers: &[Value], containers: &[Value], volumes: &[Value]) -> Vec<String> {
    let errors = super::validate(init_containers, containers, volumes);
    assert!(errors.iter().all(|error| !error.detail.is_empty() || error.value.is_some()), "{errors:?}");
    let mut paths: Vec<String> = errors.iter().map(|error| error.path.clone()).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Returns the error paths of a Pod with one container that has `fields`, relative to that container.
fn of_container(fields: &Value) -> Vec<String> {
    below("spec.containers[0].", &paths(&[], &[with("c", fields)], &[]))
}

/// Returns the error paths of a Pod with the init container `fields`, relative to that container.
fn of_init_container(fields: &Value) -> Vec<String> {
    below("spec.initContainers[0].", &paths(&[with("i", fields)], &[container("c")], &[]))
}

/// Returns the error paths of a Pod with one volume `v` of this source, relative to that volume.
fn of_volume(source: &Value) -> Vec<String> {
    let mut volume = source.clone();
    volume.as_object_mut().unwrap().insert("name".to_owned(), json!("v"));
    below("spec.volumes[0].", &paths(&[], &[container("c")], &[volume]))
}

fn below(prefix: &str, paths: &[String]) -> Vec<String> {
    paths.iter().map(|path| path.strip_prefix(prefix).unwrap_or(path).to_owned()).collect()
}

/// Moves `paths`, separated by blanks, below `parent`. `.` is the parent itself.
fn under(parent: &str, paths: &str) -> String {
    let whole = |path: &str| match path {
        "." => parent.to_owned(),
        index if index.starts_with('[') => format!("{parent}{index}"),
        key => format!("{parent}.{key}"),
    };
    paths.split_whitespace().map(whole).collect::<Vec<_>>().join(" ")
}

/// Compares error paths with a list that is separated by blanks.
#[track_caller]
fn assert_paths(found: &[String], expected: &str, given: &Value) {
    let expected: Vec<&str> = expected.split_whitespace().collect();
    assert_eq!(found, expected, "{given}");
}
