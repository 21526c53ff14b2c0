//! Rollouts of SidecarSets to running Pods (docs/spec/rollouts.md). Pure functions: Pods and SidecarSets are arguments,
//! and results are values.
//!
//! They never write, and read no clock. `pillion_controllers` observes and carries out. Start with [`decide`], then
//! [`round`] and [`upgrade`].

#![forbid(unsafe_code)]

pub mod absence;
pub mod amount;
pub mod budget;
pub mod consistency;
pub mod counters;
pub mod counts;
pub mod deadline;
pub mod decide;
pub mod difference;
pub mod dry_runs;
pub mod edit;
pub mod eligibility;
pub mod evicted;
pub mod evictions;
pub mod failed_progress;
pub mod failure;
pub mod follow;
mod form;
pub mod history;
pub mod hot;
mod in_place;
pub mod left;
pub mod method;
pub mod observed;
pub mod order;
mod overridden;
pub mod owner;
pub mod pair;
pub mod pod;
pub mod recreate;
pub mod recreation;
pub mod resize;
pub mod restart;
pub mod rollback;
pub mod round;
mod running;
pub mod scatter;
pub mod sized_by_others;
pub mod status;
pub mod target;
pub mod template;
pub mod trouble;
pub mod unwritten;
pub mod upgradable;
pub mod upgrade;

#[cfg(test)]
mod tests;
