//! Manifests as users write and read them.
//!
//! [`manifest`] reads YAML and JSON and remembers where each value stood, [`yaml`] writes values back, [`diff`] shows
//! the difference between two texts. [`kinds`] names the kinds that create Pods. [`objects`] finds manifests as a
//! cluster would.
#![forbid(unsafe_code)]

pub mod diff;
pub mod kinds;
pub mod manifest;
pub mod objects;
pub mod yaml;
