//! What every command shares with its user: the streams, colours, formats of output, values with units, the clock, exit
//! codes.
//!
//! It never reads a file, asks a cluster, or knows what a command is about.
//!
//! Start with [`Terminal`], the only writer to `stdout` and `stderr`, and [`output`], the option `-o`.
#![forbid(unsafe_code)]

mod clock;
pub mod key_value;
pub mod output;
mod status;
mod streams;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod units;
pub mod wrap;

pub use self::clock::now;
pub use self::status::Status;
pub use self::streams::{Color, ERROR, Terminal, WARNING, progress};
