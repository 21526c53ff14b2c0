//! The standalone admission server.

pub mod certificates;
