//! Inputs of measurements: SidecarSets, Pods and requests. The same arguments yield the same bytes.

pub mod pods;
pub mod random;
pub mod requests;
pub mod sets;
mod sidecars;

pub use sets::{Corpus, Style, sidecar_sets};
