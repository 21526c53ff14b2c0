//! SidecarSets of a cluster, and how far their rollouts are: what the commands that look at rollouts share.
//!
//! [`pillion_rollout`] decides; nothing here repeats its rules.

pub mod age;
pub mod budgets;
pub mod inventory;
pub mod report;
pub mod sets;
pub mod standing;
pub mod strategy;
pub mod summary;
pub mod table;
