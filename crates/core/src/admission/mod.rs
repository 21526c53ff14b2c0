//! Decisions, by the kind of object that is admitted.

pub mod audit;
pub mod pod;
pub mod sidecar_set;
