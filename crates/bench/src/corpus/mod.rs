//! Inputs of measurements: SidecarSets, Pods and requests. The same arguments yield the same bytes.

pub mod pods;
pub mod random;
pub mod requests;
pub mod sets;
mod sidecars;
pub mod style;

pub use sets::{Corpus, sidecar_sets};
pub use style::Style;
