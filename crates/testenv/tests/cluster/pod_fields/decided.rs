//! The schema of the API server against the fields that are decided about.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use http::Request;
use pillion_sidecarset::newer::{FEATURES, NewField};
use pillion_testkit::module::workspace;
use serde_json::Value;

use super::{OLDEST, cluster};

/// The fields of a Pod in Kubernetes 1.33, as `Container.image`.
const FIRST: &str = include_str!("kubernetes-1.33.txt");
/// The document with the fields that came later.
const DOCUMENT: &str = "docs/spec/pod-fields.md";

/// The versions that have a field: since one, and up to another if it is gone.
#[derive(Clone, Copy)]
struct Versions {
    since: u32,
    last: Option<u32>,
}

/// Returns the fields of the document's table, with their versions.
fn decided() -> BTreeMap<String, Versions> {
    let text = fs::read_to_string(workspace().join(DOCUMENT)).unwrap();
    let minor = |text: &str| text.strip_prefix("1.").map(|minor| minor.parse().unwrap());
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, fields, versions, decision, _] = cells[..] else { return Vec::new() };
        let Some(since) = minor(versions.split(' ').next().unwrap_or_default()) else { return Vec::new() };
        assert!(!decision.is_empty(), "{fields}: no decision");
        let versions =
            Versions { since, last: versions.split(' ').next_back().filter(|last| versions != *last).and_then(minor) };
        fields.split(", ").map(|field| (field.trim_matches('`').to_owned(), versions)).collect()
    };
    let rows: Vec<(String, Versions)> = text.lines().flat_map(row).collect();
    let count = rows.len();
    let all: BTreeMap<String, Versions> = rows.into_iter().collect();
    assert_eq!(all.len(), count, "{DOCUMENT} has a field twice");
    all
}

/// Returns the schemas that a schema refers to.
fn references<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
    match schema {
        Value::Object(object) => {
            let reference = object.get("$ref").and_then(Value::as_str);
            found.extend(reference.and_then(|reference| reference.rsplit('/').next()));
            for (_, value) in object.iter().filter(|(key, _)| *key != "properties") {
                references(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// Returns the fields of all types that a Pod's spec consists of.
fn fields(schemas: &Value) -> BTreeSet<String> {
    let (mut fields, mut seen, mut left) = (BTreeSet::new(), BTreeSet::new(), vec!["io.k8s.api.core.v1.PodSpec"]);
    while let Some(schema) = left.pop() {
        if !seen.insert(schema) {
            continue;
        }
        let name = schema.rsplit('.').next().unwrap();
        for (field, schema) in schemas[schema]["properties"].as_object().into_iter().flatten() {
            fields.insert(format!("{name}.{field}"));
            references(schema, &mut left);
        }
    }
    fields
}

#[test]
fn field1_field4_the_versions_of_features_are_those_of_their_fields() {
    let decided = decided();
    for feature in FEATURES {
        for NewField { owner, key } in feature.fields {
            let versions = decided.get(&format!("{owner}.{key}"));
            let since = versions.map(|versions| versions.since);
            assert_eq!(since, Some(feature.since.0), "{owner}.{key} in {DOCUMENT}, and {}", feature.name);
        }
    }
}

#[tokio::test]
async fn field1_every_field_of_a_pod_is_decided_about() {
    let (cluster, minor) = cluster().await;
    let request = Request::get("/openapi/v3/api/v1").body(Vec::new()).unwrap();
    let document: Value = cluster.admin().await.unwrap().request(request).await.unwrap();

    let there = fields(&document["components"]["schemas"]);

    let decided = decided();
    let is_there = |versions: &Versions| versions.since <= minor && versions.last.is_none_or(|last| minor <= last);
    let newer = decided.iter().filter(|(_, versions)| is_there(versions)).map(|(field, _)| field.clone());
    let known: BTreeSet<String> = FIRST.lines().map(str::to_owned).chain(newer).collect();
    let (new, gone): (Vec<_>, Vec<_>) = (there.difference(&known).collect(), known.difference(&there).collect());
    assert!(new.is_empty(), "Kubernetes 1.{minor} has fields about which {DOCUMENT} does not decide: {new:?}");
    assert!(gone.is_empty(), "Kubernetes 1.{minor} lacks fields that {DOCUMENT} gives it: {gone:?}");
    assert!(minor >= OLDEST && there.len() > 450, "{} fields", there.len());
}
