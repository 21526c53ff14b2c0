//! Measures the cost of an admission: exact instruction counts, and times next to a baseline in the same run.
//!
//! [`corpus`] generates SidecarSets and Pods, [`scenario`] combines them under names,
//! [`engine`] counts instructions, [`provider`] runs the module as kwctl and policy servers do, [`timing`] measures
//! times, [`load`] puts load on `pillion serve`, [`faults`] breaks it.
#![forbid(unsafe_code)]

pub mod corpus;
pub mod engine;
mod errors;
pub mod faults;
pub mod limits;
pub mod load;
pub mod measure;
pub mod objects;
pub mod provider;
pub mod report;
pub mod scenario;
pub mod server;
pub mod timing;
pub mod usage;
