//! YAML and JSON as kubectl reads them, and written as kubectl prints them.
//!
//! [`documents`] reads a text and remembers where each part stands, [`from_str`] reads a value of a type, and
//! [`text::decode`] the bytes of a file. [`print()`] writes a value.
#![forbid(unsafe_code)]

mod edit;
mod node;
mod part;
mod places;
mod pointer;
mod printing;
mod problem;
mod read;
mod scalar;
pub mod text;

pub use self::edit::{Original, edit};
pub use self::part::Part;
pub use self::places::Places;
pub use self::pointer::token;
pub use self::printing::{Tree, print};
pub use self::problem::Problem;
pub use self::read::{Document, documents, from_str, is_marker, parts};
