//! The admission server over real TLS on loopback.

mod bounds;
mod change;
mod probes;
mod reviews;
mod support;
