//! What is measured with: SidecarSets, Pods and requests. The same arguments give the same bytes.

pub mod pods;
pub mod random;
pub mod requests;
pub mod sets;
mod sidecars;

pub use sets::{Corpus, Style, sidecar_sets};
