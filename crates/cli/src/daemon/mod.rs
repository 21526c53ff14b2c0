//! What the commands share that stay until they are told to end.

pub mod logging;
pub mod settings;
pub mod signals;
pub mod units;
