//! Kubernetes' own values and rules: names, quantities, selectors, errors of fields, RBAC rules, the validation of Pods;
//! and the traits through which rules ask a cluster.
//!
//! Everything here is a function of its arguments.
#![forbid(unsafe_code)]

pub mod annotations;
pub mod authorizer;
pub mod duration;
pub mod field;
pub mod format;
pub mod glob;
pub mod index;
pub mod json;
pub mod lookup;
pub mod node;
pub mod nullable;
pub mod operation;
pub mod outcome;
pub mod pod_validation;
pub mod quantity;
pub mod rbac;
pub mod selector;
pub mod text;
pub mod time;
pub mod unique;
pub mod world;
