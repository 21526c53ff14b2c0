//! Requests that the module refuses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pillion_host::{
    AccessRequest, Cluster, ClusterError, Operation, ResourceRequest, SettingsResponse, ValidationResponse,
};
use pillion_testkit::{FakeCluster, module};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::support::files::text;

/// Complete documents by name. A case changes one of them.
pub struct Bases(BTreeMap<String, Value>);

impl Bases {
    pub fn read(file: &str) -> Self {
        Self(serde_saphyr::from_str(&text(file)).unwrap_or_else(|error| panic!("{file}: {error}")))
    }
}

/// A change of a base.
#[derive(Deserialize)]
pub struct Case {
    base: Option<String>,
    /// A merge patch of the base (RFC 7386).
    #[serde(default)]
    change: Value,
    /// Lists that are too long to write down.
    #[serde(default)]
    many: Vec<Many>,
}

/// Fills a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Many {
    /// The JSON pointer of the list, or of the object, in the document.
    at: String,
    count: usize,
    /// An item; `{n}` in it is the number of the item. If the list is an object, `[key, value]`.
    item: Value,
}

/// What the module said.
pub struct Answer {
    /// None if it refuses its settings.
    pub code: Option<u16>,
    pub message: String,
}

/// A document: what the policy is asked, and what it can see.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Document {
    /// The bytes of the call, instead of all others.
    #[serde(default)]
    payload: String,
    /// The object of the request. Without it, the policy validates its settings.
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old: Value,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    sub_resource: String,
    #[serde(default)]
    user: String,
    /// Further fields of the request.
    #[serde(default)]
    request: Map<String, Value>,
    /// The SidecarSets of the settings.
    #[serde(default)]
    sets: Map<String, Value>,
    #[serde(default)]
    settings: Map<String, Value>,
    /// The objects that can be looked up.
    #[serde(default)]
    objects: Map<String, Value>,
    /// The kinds that the policy may not read.
    #[serde(default)]
    unreadable: Vec<String>,
    /// Who may do something: `user verb resource`, or `user` for everything.
    #[serde(default)]
    may: Vec<String>,
    /// Whether questions about rights fail, or take too long.
    #[serde(default)]
    reviews: Reviews,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Reviews {
    #[default]
    Answered,
    Failing,
    /// They fail if they are about a ServiceAccount.
    Accounts,
    Slow,
}

impl Case {
    /// Returns the refusal; `None` if nothing is refused.
    pub fn answer(&self, bases: &Bases, base: &str) -> Option<Answer> {
        let base = self.base.as_deref().unwrap_or(base);
        let mut document = bases.0.get(base).unwrap_or_else(|| panic!("no base {base:?}")).clone();
        json_patch::merge(&mut document, &self.change);
        for many in &self.many {
            many.fill(&mut document);
        }
        serde_json::from_value::<Document>(document).unwrap().answer()
    }
}

impl Many {
    fn fill(&self, document: &mut Value) {
        let item = |number: usize| {
            let text = self.item.to_string().replace("{n}", &number.to_string());
            serde_json::from_str::<Value>(&text).unwrap()
        };
        match document.pointer_mut(&self.at).unwrap_or_else(|| panic!("nothing at {}", self.at)) {
            Value::Array(list) => list.extend((0..self.count).map(item)),
            Value::Object(object) => {
                object.extend((0..self.count).map(|number| {
                    let item = item(number);
                    (item[0].as_str().unwrap().to_owned(), item[1].clone())
                }));
            }
            other => panic!("neither a list nor an object: {other}"),
        }
    }
}

impl Document {
    fn answer(mut self) -> Option<Answer> {
        if !self.sets.is_empty() {
            let sets = std::mem::take(&mut self.sets).into_iter().map(|(_, set)| set).collect();
            self.settings.insert("sidecarSets".to_owned(), Value::Array(sets));
        }
        let settings = Value::Object(std::mem::take(&mut self.settings));
        if !self.payload.is_empty() {
            let function = if self.operation.is_empty() { Operation::ValidateSettings } else { Operation::Validate };
            let answer =
                module().evaluate(function, self.payload.as_bytes(), Arc::new(FakeCluster::default())).unwrap();
            return match function {
                Operation::Validate => refusal(serde_json::from_slice(&answer).unwrap()),
                _ => verdict(serde_json::from_slice(&answer).unwrap()),
            };
        }
        if self.operation.is_empty() {
            return verdict(module().validate_settings(&settings).unwrap());
        }
        let request = self.request();
        refusal(module().validate(&request, &settings, Arc::new(self.cluster())).unwrap())
    }

    fn request(&mut self) -> Value {
        let subject = if self.object.is_null() { &self.old } else { &self.object };
        let of = |pointer: &str| subject.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let api_version = of("/apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let mut request = json!({
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": self.operation, "dryRun": false,
            "namespace": of("/metadata/namespace"), "name": of("/metadata/name"),
            "kind": {"group": group, "version": version, "kind": of("/kind")},
            "subResource": self.sub_resource,
            "userInfo": {"username": self.user, "groups": ["system:authenticated"]},
            "object": self.object, "oldObject": self.old,
        });
        json_patch::merge(&mut request, &Value::Object(std::mem::take(&mut self.request)));
        request
    }

    fn cluster(self) -> Court {
        Court {
            objects: FakeCluster::with(self.objects.into_iter().map(|(_, object)| object)),
            unreadable: self.unreadable,
            may: self.may,
            reviews: self.reviews,
        }
    }
}

fn refusal(answer: ValidationResponse) -> Option<Answer> {
    if answer.accepted {
        return None;
    }
    Some(Answer { code: answer.code, message: answer.message.unwrap() })
}

fn verdict(answer: SettingsResponse) -> Option<Answer> {
    answer.message.filter(|_| !answer.valid).map(|message| Answer { code: None, message })
}

/// A cluster with objects and rights.
struct Court {
    objects: FakeCluster,
    unreadable: Vec<String>,
    may: Vec<String>,
    reviews: Reviews,
}

impl Cluster for Court {
    fn get(&self, resource: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        if self.unreadable.contains(&resource.kind) {
            return Err(ClusterError::Failed("Forbidden".to_owned()));
        }
        self.objects.get(resource)
    }

    fn can_i(&self, request: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        let review = &request.subject_access_review;
        let is_of_account = review.user.starts_with("system:serviceaccount:");
        match self.reviews {
            Reviews::Accounts if !is_of_account => {}
            Reviews::Failing | Reviews::Accounts => return Err(ClusterError::Failed("Forbidden".to_owned())),
            Reviews::Slow => thread::sleep(Duration::from_millis(4100)),
            Reviews::Answered => {}
        }
        let attributes = &review.resource_attributes;
        let sub = attributes.subresource.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
        let asked = format!("{} {} {}{sub}", review.user, attributes.verb, attributes.resource);
        let allowed = self.may.iter().any(|may| *may == review.user || *may == asked);
        Ok(json!({ "allowed": allowed }).to_string().into_bytes())
    }
}
