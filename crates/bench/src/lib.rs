//! Measures the cost of an admission: exact instruction counts, and times next to a baseline in the same run.
//!
//! [`corpus`] generates SidecarSets and Pods, [`scenario`] combines them under names, [`engine`] counts instructions,
//! [`provider`] runs the module as kwctl and policy servers do, [`timing`] measures times, [`report`] prints all of it
//! beside the promises.
//!
//! It measures the module alone, and judges no answer: `pillion-stress` measures the admission server, and the survey
//! of `pillion-fuzz` looks for inputs that cost too much. Start with [`scenario`].
#![forbid(unsafe_code)]

pub mod corpus;
pub mod engine;
mod errors;
pub mod limits;
pub mod measure;
pub mod objects;
pub mod provider;
pub mod report;
pub mod scenario;
pub mod timing;
