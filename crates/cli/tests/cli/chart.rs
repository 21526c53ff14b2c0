//! The chart's files that come from the code (`charts/pillion`), and its table of values.

use pillion_install::rendering::chart;
use serde_json::Value;

use crate::support::files::{root, text};

const RENEW: &str = "PILLION_RENEW";
const HOW: &str = "PILLION_RENEW=1 cargo test --workspace --test cli chart::";

/// Compares a file of the chart with what it should be, or writes it.
fn compare(path: &str, wanted: &str) {
    let name = format!("charts/pillion/{path}");
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(root().join(&name), wanted).unwrap();
        return;
    }
    // No assert_eq: it would print both files.
    assert!(text(&name) == wanted, "{name} is stale; renew it with: {HOW}");
}

#[test]
fn the_data_of_the_chart_come_from_the_code() {
    for file in chart::files().unwrap() {
        compare(file.path, &file.text);
    }
}

/// A value of values.yaml with the comment before it.
struct Documented {
    path: Vec<String>,
    comment: String,
}

/// Returns the keys of values.yaml, each with the lines of comment directly before it.
fn documented() -> Vec<Documented> {
    let mut found: Vec<Documented> = Vec::new();
    let (mut path, mut comment): (Vec<(usize, String)>, Vec<String>) = (Vec::new(), Vec::new());
    for line in text("charts/pillion/values.yaml").lines() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if let Some(words) = trimmed.strip_prefix("# ") {
            comment.push(words.to_owned());
        } else if trimmed.is_empty() {
            comment.clear();
        } else if let Some((key, _)) = trimmed.split_once(':').filter(|(key, _)| !key.starts_with('-')) {
            // A list's items have the indentation of a deeper level: their keys belong to the list.
            path.retain(|(of, _)| *of < indent);
            path.push((indent, key.to_owned()));
            let comment = std::mem::take(&mut comment).join(" ");
            found.push(Documented { path: path.iter().map(|(_, key)| key.clone()).collect(), comment });
        }
    }
    found
}

fn values() -> Value {
    let [values] =
        <[Value; 1]>::try_from(serde_saphyr::from_multiple(&text("charts/pillion/values.yaml")).unwrap()).unwrap();
    values
}

/// Returns the documented values that are no mere groups of others: each has a comment, and no documented value is
/// below it.
fn rows() -> Vec<Documented> {
    let all = documented();
    let is_group = |path: &[String]| {
        all.iter()
            .any(|other| other.path.len() > path.len() && other.path.starts_with(path) && !other.comment.is_empty())
    };
    let groups: Vec<bool> = all.iter().map(|value| is_group(&value.path)).collect();
    let kept = all.into_iter().zip(groups).filter(|(value, is_group)| !is_group && !value.comment.is_empty());
    kept.map(|(value, _)| value).collect()
}

#[test]
fn the_readme_has_every_value() {
    let values = values();
    let mut table = "| value | default | |\n| --- | --- | --- |\n".to_owned();
    for Documented { path, comment } in rows() {
        let default = path.iter().fold(&values, |value, key| &value[key]);
        assert!(!default.is_null(), "{path:?}");
        let row = format!("| `{}` | `{default}` | {} |\n", path.join("."), comment.replace('|', "\\|"));
        table.push_str(&row);
    }
    let (start, end) = ("<!-- values -->\n", "<!-- end of values -->");
    let readme = text("charts/pillion/README.md");
    let (before, rest) = readme.split_once(start).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    compare("README.md", &format!("{before}{start}\n{table}\n{end}{after}"));
}

/// Every value is in a row of the README, itself or as part of a larger default.
#[test]
fn every_value_is_documented() {
    fn leaves(at: Vec<String>, value: &Value, found: &mut Vec<Vec<String>>) {
        match value.as_object().filter(|members| !members.is_empty()) {
            Some(members) => {
                for (key, value) in members {
                    leaves([&at[..], std::slice::from_ref(key)].concat(), value, found);
                }
            }
            None => found.push(at),
        }
    }
    let mut found = Vec::new();
    leaves(Vec::new(), &values(), &mut found);
    let rows = rows();
    let without: Vec<_> =
        found.into_iter().filter(|leaf| !rows.iter().any(|row| leaf.starts_with(&row.path))).collect();
    assert_eq!(without, Vec::<Vec<String>>::new());
}

/// Returns the path of each value that a schema names, groups of values included. The content of `settings` is the
/// policy's, and a list or map of the user has no named values.
fn named_values(schema: &Value, whole: &Value, at: &[String], found: &mut Vec<Vec<String>>) {
    let schema = match schema["$ref"].as_str() {
        Some(place) => whole.pointer(place.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        let path = [at, std::slice::from_ref(key)].concat();
        found.push(path.clone());
        if path != ["settings"] {
            named_values(value, whole, &path, found);
        }
    }
}

/// Every value that the schema allows is in values.yaml, and `chart::every_value_has_an_effect` of the cluster tests
/// changes each of those: so no value passes the schema and is read by no template.
#[test]
fn every_value_of_the_schema_has_a_default() {
    let schema: Value = serde_json::from_str(&text("charts/pillion/values.schema.json")).unwrap();
    let mut named = Vec::new();
    named_values(&schema, &schema, &[], &mut named);
    assert!(named.len() > 100, "{}", named.len());
    let values = values();
    let is_there = |path: &Vec<String>| path.iter().try_fold(&values, |value, key| value.get(key)).is_some();
    let without: Vec<_> = named.into_iter().filter(|path| !is_there(path)).collect();
    assert_eq!(without, Vec::<Vec<String>>::new());
}

/// The chart has the version of the program and of the module, also in what Artifact Hub shows.
#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart: Value = serde_saphyr::from_str(&text("charts/pillion/Chart.yaml")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!([&chart["version"], &chart["appVersion"]], [version, version]);
    let images = chart["annotations"]["artifacthub.io/images"].as_str().unwrap();
    let images: Value = serde_saphyr::from_str(images).unwrap();
    let images: Vec<_> = images.as_array().unwrap().iter().map(|image| image["image"].as_str().unwrap()).collect();
    assert_eq!(
        images,
        [format!("ghcr.io/pillion/pillion:v{version}"), format!("ghcr.io/pillion/policies/pillion:v{version}")]
    );
}
