//! Cases as they are recorded, and how to run one.

pub mod compare;
pub mod fields;

use pillion_core::admission::sidecar_set::{Context, Operation, SidecarSetRequest, admit};
use pillion_core::controller_revision::ControllerRevision;
use pillion_core::field::FieldPath;
use pillion_core::gates::Gates;
use pillion_core::json;
use pillion_core::lookup::{Answer, Lookup, ObjectRef};
use pillion_core::names;
use pillion_core::outcome::{Outcome, Verdict};
use pillion_core::schema;
use pillion_core::sidecar_set::SidecarSet;
use pillion_core::sidecar_set::decode::{Decoded, decode};
use serde_json::Value;

/// One line of the file.
pub struct Case {
    pub id: String,
    pub target: String,
    pub tags: Vec<String>,
    pub gates: Gates,
    pub objects: Vec<Value>,
    pub request: Request,
    pub expect: Expect,
}

pub struct Request {
    pub operation: String,
    pub version: String,
    pub sub_resource: String,
    pub object: Value,
    pub old_object: Option<Value>,
}

pub struct Expect {
    pub allowed: bool,
    pub message: String,
    pub object: Option<Value>,
}

fn texts(value: &Value, path: &[&str]) -> Vec<String> {
    json::items(value, path).iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn present(value: &Value, path: &[&str]) -> Option<Value> {
    json::at(value, path).filter(|value| !value.is_null()).cloned()
}

impl Case {
    pub fn parse(line: &str) -> Self {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |path: &[&str]| json::text(&line, path).to_owned();
        let mut gates = Gates::default();
        for (name, value) in json::text(&line, &["gates"]).split(',').filter_map(|gate| gate.split_once('=')) {
            *gates.get_mut(name).unwrap() = value == "true";
        }
        Self {
            id: text(&["id"]),
            target: text(&["target"]),
            tags: texts(&line, &["tags"]),
            gates,
            objects: json::items(&line, &["objects"]).to_vec(),
            request: Request {
                operation: text(&["request", "operation"]),
                version: text(&["request", "resource", "version"]),
                sub_resource: text(&["request", "subResource"]),
                object: json::at(&line, &["request", "object"]).cloned().unwrap_or_default(),
                old_object: present(&line, &["request", "oldObject"]),
            },
            expect: Expect {
                allowed: json::flag(&line, &["expect", "allowed"]),
                message: text(&["expect", "message"]),
                object: present(&line, &["expect", "object"]),
            },
        }
    }

    /// The objects of one kind.
    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |object| json::text(object, &["kind"]) == kind)
    }

    pub fn others(&self) -> Vec<SidecarSet> {
        self.of_kind("SidecarSet").map(|set| decode(set.clone()).map(Decoded::into_sidecar_set).unwrap()).collect()
    }

    /// The fields of the object that the reference drops.
    pub fn unknown(&self) -> Vec<FieldPath> {
        let schema = match self.request.version.as_str() {
            "v1alpha1" => &schema::SIDECAR_SET_V1ALPHA1,
            _ => &schema::SIDECAR_SET_V1BETA1,
        };
        schema::unknown(&self.request.object, schema, &FieldPath::default())
    }

    /// The names that the object may share its containers with: its base, and its canaries.
    pub fn exempt(&self) -> impl Iterator<Item = String> {
        let annotation = |object: &Value, key: &str| json::text(object, &["metadata", "annotations", key]).to_owned();
        let base = move |object: &Value| {
            let base = annotation(object, names::BASE);
            (annotation(object, names::CANARY) == "true" && !base.is_empty()).then_some(base)
        };
        let name = |object: &Value| json::text(object, &["metadata", "name"]).to_owned();
        let own = name(&self.request.object);
        let canaries = self.of_kind("SidecarSet").filter(move |set| base(set).as_ref() == Some(&own)).map(name);
        base(&self.request.object).into_iter().chain(canaries)
    }

    /// Runs the admission.
    pub fn admit(&self) -> Outcome {
        let operation = match self.request.operation.as_str() {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            _ => return Verdict::Unchanged.into(),
        };
        if !self.request.sub_resource.is_empty() {
            return Verdict::Unchanged.into();
        }
        let revisions: Vec<_> =
            self.of_kind("ControllerRevision").map(|it| ControllerRevision::decode(it.clone()).unwrap()).collect();
        let request = SidecarSetRequest {
            operation,
            version: self.request.version.clone(),
            object: self.request.object.clone(),
            old_object: self.request.old_object.clone(),
        };
        let context = Context {
            others: &self.others(),
            revisions: &revisions,
            gates: self.gates,
            system_namespace: "kruise-system",
            whitelist: None,
            lookup: self,
        };
        admit(request, &context)
    }
}

impl Lookup for Case {
    fn get(&self, wanted: &ObjectRef) -> Answer {
        let found = self.of_kind(wanted.kind).find(|object| {
            json::text(object, &["metadata", "name"]) == wanted.name
                && json::text(object, &["metadata", "namespace"]) == wanted.namespace.as_deref().unwrap_or_default()
        });
        found.map_or(Answer::NotFound, |object| Answer::Found(object.clone()))
    }
}
