//! The admission server over real TLS on loopback.

mod bounds;
mod change;
mod faults;
mod forms;
mod probes;
mod reviews;
mod support;
