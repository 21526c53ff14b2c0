//! Paths and errors of fields.

mod error;
mod errors;
mod path;
mod text;

pub(crate) use error::joined;
pub use error::{Cause, FieldError};
pub use errors::{ERRORS_MAX, FieldErrors};
pub use path::FieldPath;
pub(crate) use text::shortened;
