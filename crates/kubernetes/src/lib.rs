//! Kubernetes' own values and rules: names, quantities, selectors, field errors, RBAC rules and Pod validation; and the
//! traits through which rules query a cluster.
//!
//! Everything here is a pure function of its arguments.
//!
//! It never asks a cluster, and knows neither SidecarSets nor Pillion's settings. Start with [`field`] and [`outcome`],
//! which every rule returns, and with [`lookup`], through which it reads.
#![forbid(unsafe_code)]

pub mod annotations;
pub mod authorizer;
pub mod downward_api;
pub mod duration;
pub mod field;
pub mod json;
pub mod lookup;
pub mod name_validation;
pub mod node;
pub mod nullable;
pub mod operation;
pub mod outcome;
pub mod paths;
pub mod pod_validation;
pub mod quantity;
pub mod rbac;
pub mod selector;
pub mod text;
pub mod time;
pub mod unique;
pub mod version;
pub mod words;
pub mod world;
