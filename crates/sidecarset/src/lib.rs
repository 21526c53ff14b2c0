//! SidecarSets (fields, decoding, defaults, hashes, revisions, expressions and validation) and the Pods that they apply
//! to.
//!
//! [`sidecar_set`] decodes and converts them, with the [`tables`] of their fields. [`hash`] and [`controller_revision`]
//! name their versions. [`expression`] computes amounts, [`validation`] and [`warnings`] judge what people write.
//!
//! It never changes a Pod (`pillion_inject` does), and asks a cluster only through the traits of `pillion_kubernetes`.
//!
//! Start with [`sidecar_set`].
#![forbid(unsafe_code)]

pub mod controller_revision;
pub mod expression;
pub mod gates;
pub mod hash;
pub mod image;
pub mod made;
pub mod names;
pub mod native;
pub mod newer;
pub mod opt_out;
pub mod other_webhooks;
pub mod overrides;
pub mod pod;
pub mod requested_revision;
pub mod reserved;
pub mod sidecar;
pub mod sidecar_set;
pub mod tables;
pub mod upgrades;
pub mod validation;
pub mod warnings;
