//! What an admission costs: instructions, which are exact, and times beside a baseline in the same run.
//!
//! [`corpus`] makes SidecarSets and Pods, [`scenario`] puts them together under names, [`cost`] makes inputs grow, [`engine`] counts instructions,
//! [`provider`] runs the module as kwctl and policy servers do, [`timing`] takes times.
#![forbid(unsafe_code)]

pub mod corpus;
pub mod cost;
pub mod engine;
mod errors;
pub mod limits;
pub mod measure;
pub mod objects;
pub mod provider;
pub mod report;
pub mod scenario;
pub mod timing;
