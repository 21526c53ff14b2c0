//! Admission, kind by kind.

pub mod sidecar_set;
