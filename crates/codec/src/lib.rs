//! Bytes to JSON values and back.
//!
//! These are the loops that every admission runs over every byte of a Pod, and over every byte of a bundle. They stand in
//! a crate of their own because the rest of the module is compiled for size, and they for speed: a Pod is read in half
//! the time, for some kilobytes.
#![forbid(unsafe_code)]

pub mod base64;
pub mod go_json;
mod parse;
mod scan;
#[cfg(target_arch = "wasm32")]
mod simd;

pub use parse::{ParseError, Reader, parse};

/// A JSON object.
pub type Object = serde_json::Map<String, serde_json::Value>;
