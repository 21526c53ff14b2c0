//! Checksums.
#![forbid(unsafe_code)]

pub mod checksum;
