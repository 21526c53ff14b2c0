//! Puts load on `pillion serve`, and breaks it, as a client: `make load`, `make bench-load`, `make bench-faults`.
//!
//! [`server`] starts the server as a process of its own, and [`usage`] reads what that process takes. [`load`] sends
//! reviews, compares the answers with those of the module and measures what they cost; [`faults`] overloads and breaks
//! the server and checks what other clients notice. No cluster is needed: where an API server has to go away, a
//! [`stand_in`] does.
//!
//! It never measures the module alone: `pillion-bench` does. Start with [`load::run`] or [`faults::run`].
#![forbid(unsafe_code)]

pub mod faults;
pub mod load;
pub mod server;
pub mod stand_in;
pub mod usage;
