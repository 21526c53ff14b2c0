//! The verbs of kubectl for the SidecarSets of a cluster: `pillion status`, `pillion rollout` and `pillion set`.
//!
//! Each verb is a module with its arguments, which are most of what a verb is, and a function that runs it.
//! [`pillion_cluster::rollouts`] sums up what the verbs show, and [`pillion_cluster::Change`] is what they write.
//!
//! A verb never decides which Pod is upgraded next: [`pillion_rollout`] does. It changes nothing but SidecarSets, and
//! evicts Pods only in a restart.
//!
//! Start with [`status`], which the others share most with.
#![forbid(unsafe_code)]

pub mod rollout;
pub mod set;
pub mod status;
