//! What Pods and Namespaces may change in their sidecars (OVR-1 to OVR-10).
//!
//! The author of a `SidecarSet` allows it, with bounds ([`Rules`]). A Pod or its Namespace asks for it ([`Asked`]).
//! [`judge`] compares the two, and [`Values`] writes what is allowed into the `SidecarSet` of that Pod. So whoever reads
//! the `SidecarSet` afterwards, injection as well as rollouts, needs to know nothing of overrides.
//!
//! Hashes and stored versions are those of the `SidecarSet` as it is written: a Pod with overrides has its version.

mod apply;
mod asked;
mod judge;
mod rules;

pub use apply::Values;
pub use asked::{Asked, By, Field, ISTIO, container_of};
pub use judge::{Annotations, Judged, Override, Ruling, judge};
pub use rules::{OutOfBounds, Rules, Source, validate};

/// The annotation of a `SidecarSet` with what may be overridden, and within what bounds (OVR-1).
pub const OVERRIDES: &str = "pillion.dev/overrides";
/// The beginning of the annotation of a Pod or a Namespace with its overrides of a sidecar (OVR-3). The name of the
/// sidecar follows.
pub const PREFIX: &str = "overrides.pillion.dev/";
