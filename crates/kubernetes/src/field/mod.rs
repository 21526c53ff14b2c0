//! Field paths and field errors.

mod error;
mod errors;
mod path;
mod text;

pub use error::joined;
pub use error::{Cause, FieldError};
pub use errors::{ERRORS_MAX, FieldErrors};
pub use path::FieldPath;
pub use text::shortened;
