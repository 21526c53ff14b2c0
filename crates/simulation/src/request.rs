//! What a request to an API server asks for.

use http::Request;
use pillion_kubernetes::json;
use serde_json::Value;

use super::objects::{Key, group};

/// The object or the objects that a path stands for.
#[derive(Debug, PartialEq)]
pub(super) enum Asked {
    /// The resources of a group and version.
    Resources { api_version: String },
    /// The objects of a resource, or an object to create.
    List { api_version: String, resource: String, namespace: Option<String> },
    /// One object.
    One { api_version: String, key: Key },
    /// A part of one object, such as `status`.
    Part { api_version: String, key: Key, part: String },
}

impl Asked {
    /// Parses a path; `None` for paths of no kind.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (api_version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ((*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            _ => return None,
        };
        let key = |resource: &str, namespace: &str, name: &str| Key {
            group: group(&api_version).to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let list = |resource: &str, namespace: Option<&str>| Self::List {
            api_version: api_version.clone(),
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
        };
        let one = |key: Key| Self::One { api_version: api_version.clone(), key };
        let part = |key: Key, part: &str| Self::Part { api_version: api_version.clone(), key, part: part.to_owned() };
        match *rest {
            [] => Some(Self::Resources { api_version }),
            [resource] => Some(list(resource, None)),
            ["namespaces", namespace, resource] => Some(list(resource, Some(namespace))),
            ["namespaces", namespace, resource, name] => Some(one(key(resource, namespace, name))),
            ["namespaces", namespace, resource, name, of] => Some(part(key(resource, namespace, name), of)),
            [resource, name] => Some(one(key(resource, "", name))),
            [resource, name, of] => Some(part(key(resource, "", name), of)),
            _ => None,
        }
    }
}

/// The query of a request.
pub(super) struct Query(String);

impl Query {
    pub(super) fn from_request<B>(request: &Request<B>) -> Self {
        Self(request.uri().query().unwrap_or_default().to_owned())
    }

    /// Returns the value of a parameter, or `""`.
    pub(super) fn text(&self, name: &str) -> String {
        let mut all = form_urlencoded::parse(self.0.as_bytes());
        all.find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
    }

    /// Whether a parameter is true.
    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self.text(name).as_str(), "true" | "1")
    }

    /// Returns the number in a parameter; `None` if it has none.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }

    /// Returns the selectors of a list or a watch.
    pub(super) fn selection(&self) -> Selection {
        Selection { labels: self.text("labelSelector"), fields: self.text("fieldSelector") }
    }
}

/// The selectors of a list. Only the forms that controllers use are supported: `key=value` and `key`, for fields also
/// `key!=value`.
pub(super) struct Selection {
    labels: String,
    fields: String,
}

impl Selection {
    /// Whether an object in this JSON text is selected.
    pub(super) fn takes_text(&self, object: &str) -> bool {
        if self.labels.is_empty() && self.fields.is_empty() {
            return true;
        }
        serde_json::from_str(object).is_ok_and(|object: Value| self.takes(&object))
    }

    /// Whether an object is selected.
    pub(super) fn takes(&self, object: &Value) -> bool {
        let terms = |text: &str| text.split(',').filter(|term| !term.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let labelled = terms(&self.labels).iter().all(|term| {
            let (key, value) = term.split_once('=').map_or((term.as_str(), None), |(key, value)| (key, Some(value)));
            let label = json::at(object, &["metadata", "labels", key]).and_then(Value::as_str);
            label.is_some() && (value.is_none() || label == value)
        });
        let has_fields = terms(&self.fields).iter().all(|term| {
            let (path, value) = term.split_once('=').unwrap_or((term, ""));
            let (path, is_wanted) = path.strip_suffix('!').map_or((path, true), |path| (path, false));
            (json::text(object, &path.split('.').collect::<Vec<_>>()) == value) == is_wanted
        });
        labelled && has_fields
    }
}
