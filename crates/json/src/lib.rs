//! JSON as `serde_json` reads and writes it, with a limit on the memory of parsed values ([`parse()`],
//! [`Budget`]), and with Go's escapes ([`go`]).
//!
//! Generic code is compiled in the crate that uses it, with the options of that crate. This crate is compiled for
//! speed, the rest of the module for size.
#![forbid(unsafe_code)]

pub mod go;
mod parse;
mod partial;

pub use parse::{Bounded, Budget, ParseError, parse};
pub use partial::{Part, Partial};

/// A JSON object.
pub type Object = serde_json::Map<String, serde_json::Value>;
