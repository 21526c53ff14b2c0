//! Admission requests and responses, between the API server and policies.

mod request;
mod response;

pub use request::{AdmissionRequest, GroupVersionKind, GroupVersionResource, RequestError};
pub use response::{AdmissionResponse, Handling, Mode, Status, StatusCause, StatusDetails};
