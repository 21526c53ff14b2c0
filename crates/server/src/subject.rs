//! A request whose objects stay text, because the module gets them as they arrived. What the server itself reads is
//! parsed at most once.

use std::cell::OnceCell;
use std::sync::Arc;

use pillion_admission::pod::PodRequest;
use pillion_host::admission::AdmissionRequest;
use pillion_kubernetes::json::Object;
use pillion_patch::Node;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A request with objects as they arrived.
pub(crate) type Request<'a> = AdmissionRequest<&'a RawValue>;

/// A request and its object.
pub(crate) struct Subject<'a> {
    request: Request<'a>,
    object: OnceCell<Option<Node<'a>>>,
    new_pod: OnceCell<Option<Arc<NewPod>>>,
}

/// What decides which SidecarSets match a new Pod.
pub(crate) struct NewPod {
    pub(crate) namespace: String,
    pub(crate) labels: Option<Object>,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(request: Request<'a>) -> Self {
        Self { request, object: OnceCell::new(), new_pod: OnceCell::new() }
    }

    pub(crate) fn request(&self) -> &Request<'a> {
        &self.request
    }

    /// Returns the object; `None` if there is none, or if it is nested too deeply to be read.
    pub(crate) fn object(&self) -> Option<&Node<'a>> {
        self.object.get_or_init(|| Node::parse(self.request.object?.get()).ok()).as_ref()
    }

    /// Returns the Pod if the request creates one, as far as the host can tell. The policy takes no other request for
    /// the creation of a Pod.
    pub(crate) fn new_pod(&self) -> Option<&Arc<NewPod>> {
        self.new_pod.get_or_init(|| self.find_new_pod().map(Arc::new)).as_ref()
    }

    /// Whether SidecarSets decide on the request that have nothing to do with a ServiceAccount.
    pub(crate) fn needs_all_sets(&self) -> bool {
        self.creates_pod() || (self.request.kind.kind == "SidecarSet" && self.request.object.is_some())
    }

    fn creates_pod(&self) -> bool {
        let Request { kind, sub_resource, operation, .. } = &self.request;
        let is_pod =
            kind.group.is_empty() && kind.kind == "Pod" && sub_resource.as_deref().unwrap_or_default().is_empty();
        is_pod && operation == "CREATE"
    }

    fn find_new_pod(&self) -> Option<NewPod> {
        let Request { uid, namespace, .. } = &self.request;
        if !self.creates_pod() {
            return None;
        }
        let object = self.object()?;
        let own = object.at(&["metadata", "namespace"]).map(Node::to_value);
        let own = json!({"metadata": {"namespace": own}});
        let request = PodRequest { uid, namespace: namespace.as_deref().unwrap_or_default(), object: &own };
        let labels = match object.at(&["metadata", "labels"]).map(Node::to_value) {
            Some(Value::Object(labels)) => Some(labels),
            _ => None,
        };
        Some(NewPod { namespace: request.namespace().to_owned(), labels })
    }

    /// Returns the length of the objects in bytes.
    pub(crate) fn length(&self) -> usize {
        let Request { object, old_object, options, .. } = &self.request;
        [object, old_object, options].into_iter().flatten().map(|object| object.get().len()).sum()
    }
}
