//! Rollouts of SidecarSets to running Pods (docs/spec/rollouts.md). Pure functions: Pods and SidecarSets are arguments,
//! and results are values.

#![forbid(unsafe_code)]

pub mod amount;
pub mod budget;
pub mod order;
pub mod scatter;
