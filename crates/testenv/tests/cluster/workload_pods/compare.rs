//! Compares the request of an API server with that of a preview.

use std::collections::BTreeSet;

use serde_json::Value;

/// The fields of a request that no preview can know: the label `app` of the Pods (`*` for all), the path, and why.
const UNKNOWN: [(&str, &str, &str); 21] = [
    ("*", "/uid", "the API server draws it; that of a preview is the same each time"),
    ("*", "/userInfo/uid", "the author's ServiceAccount has another one in each cluster"),
    ("*", "/userInfo/extra", "the certificate or token of the author"),
    ("pod", "/userInfo/username", "administrators have names of their own"),
    ("pod-to-be-named", "/userInfo/username", "the same"),
    ("pod", "/options/fieldManager", "what applies the manifest names itself"),
    ("*", "/object/metadata/managedFields", "has the time, and names what applies the manifest"),
    ("*", "/object/metadata/ownerReferences/0/uid", "the owner has another one in each cluster"),
    ("deployment", "/object/metadata/generateName", "the ReplicaSet's name has a hash of the template"),
    ("deployment", "/object/metadata/ownerReferences/0/name", "the same"),
    ("cron-job", "/object/metadata/generateName", "the Job's name has the time"),
    ("cron-job", "/object/metadata/ownerReferences/0/name", "the same"),
    ("cron-job", "/object/metadata/labels/job-name", "the same"),
    ("cron-job", "/object/metadata/labels/batch.kubernetes.io/job-name", "the same"),
    ("*", "/object/metadata/labels/pod-template-hash", "a hash of the template with its defaults"),
    ("*", "/object/metadata/labels/controller-revision-hash", "the same"),
    ("*", "/object/metadata/labels/controller-uid", "the uid of the Job"),
    ("*", "/object/metadata/labels/batch.kubernetes.io/controller-uid", "the same"),
    ("daemon-set", NODE, "the node of the Pod"),
    ("daemon-set-of-the-host", NODE, "the same"),
    ("*", TOKEN, "the API server draws the last letters"),
];
/// The name of the node in the affinity of a Pod of a `DaemonSet`.
const NODE: &str = "/object/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/\
                    matchFields/0/values/0";
/// Stands for the names of the volume with the token, wherever they are.
const TOKEN: &str = "kube-api-access-";

/// The fields that differ.
#[derive(Default)]
pub struct Differences {
    /// Those that should not, one line each.
    pub wrong: Vec<String>,
    /// The rows of [`UNKNOWN`] that were needed.
    needed: BTreeSet<usize>,
}

impl Differences {
    /// Compares the request about a Pod with that of a preview.
    pub fn compare(&mut self, app: &str, real: &Value, imitated: &Value) {
        self.fields(app, "", (Some(real), Some(imitated)));
    }

    /// Returns the rows of the table of exceptions that no Pod needs.
    pub fn needless(&self) -> Vec<&'static str> {
        let rows = UNKNOWN.iter().enumerate().filter(|(index, _)| !self.needed.contains(index));
        rows.map(|(_, (_, path, _))| *path).collect()
    }

    fn fields(&mut self, app: &str, path: &str, (real, imitated): (Option<&Value>, Option<&Value>)) {
        if real == imitated {
            return;
        }
        let is_token =
            |value: Option<&Value>| value.and_then(Value::as_str).is_some_and(|text| text.starts_with(TOKEN));
        let is_row = |(of, row, _): &(&str, &str, &str)| {
            (*of == "*" || *of == app) && (*row == path || (*row == TOKEN && is_token(real) && is_token(imitated)))
        };
        if let Some(row) = UNKNOWN.iter().position(is_row) {
            self.needed.insert(row);
            return;
        }
        match (real, imitated) {
            (Some(Value::Object(one)), Some(Value::Object(other))) => {
                let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
                for key in keys {
                    self.fields(app, &format!("{path}/{key}"), (one.get(key), other.get(key)));
                }
            }
            (Some(Value::Array(one)), Some(Value::Array(other))) => {
                for index in 0..one.len().max(other.len()) {
                    self.fields(app, &format!("{path}/{index}"), (one.get(index), other.get(index)));
                }
            }
            _ => {
                let shown = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
                let (real, imitated) = (shown(real), shown(imitated));
                self.wrong.push(format!("{app}: {path}: the API server has {real}, the preview {imitated}"));
            }
        }
    }
}
