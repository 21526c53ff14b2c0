//! A request whose objects stay text, because the module gets them as they arrived. What the server itself reads is
//! parsed at most once.

use std::cell::OnceCell;

use pillion_admission::pod::PodRequest;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::admission::AdmissionRequest;

/// A request with objects as they arrived.
pub(super) type Request<'a> = AdmissionRequest<&'a RawValue>;

/// A request and its object.
pub(super) struct Subject<'a> {
    request: Request<'a>,
    object: OnceCell<Option<Value>>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(request: Request<'a>) -> Self {
        Self { request, object: OnceCell::new() }
    }

    pub(super) fn request(&self) -> &Request<'a> {
        &self.request
    }

    /// Returns the object; `None` if there is none, or if it is nested too deeply to be read.
    pub(super) fn object(&self) -> Option<&Value> {
        self.object.get_or_init(|| serde_json::from_str(self.request.object?.get()).ok()).as_ref()
    }

    /// Returns the Pod if the request creates one, as far as the host can tell. The policy takes no other request for
    /// the creation of a Pod.
    pub(super) fn new_pod(&self) -> Option<PodRequest<'_>> {
        let Request { uid, kind, sub_resource, namespace, operation, .. } = &self.request;
        let is_pod =
            kind.group.is_empty() && kind.kind == "Pod" && sub_resource.as_deref().unwrap_or_default().is_empty();
        let object = self.object().filter(|_| is_pod && operation == "CREATE")?;
        Some(PodRequest { uid, namespace: namespace.as_deref().unwrap_or_default(), object })
    }

    /// Returns the length of the objects in bytes.
    pub(super) fn length(&self) -> usize {
        let Request { object, old_object, options, .. } = &self.request;
        [object, old_object, options].into_iter().flatten().map(|object| object.get().len()).sum()
    }
}
