//! Whether an object is valid: all errors at once, each with its field.

pub mod pod;
