//! Options of the form KEY=VALUE.

use pillion_kubernetes::name_validation;

/// Reads a label.
///
/// # Errors
/// If the text has no `=`, or the API server refuses the key or the value.
pub fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a label is written KEY=VALUE")?;
    match name_validation::qualified_name(key).or_else(|| name_validation::label_value(value)) {
        Some(wrong) => Err(wrong.to_owned()),
        None => Ok((key.to_owned(), value.to_owned())),
    }
}

/// Reads an annotation, whose value may be any text.
///
/// # Errors
/// If the text has no `=`, or the API server refuses the key.
pub fn annotation(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("an annotation is written KEY=VALUE")?;
    match name_validation::qualified_name(key) {
        Some(wrong) => Err(wrong.to_owned()),
        None => Ok((key.to_owned(), value.to_owned())),
    }
}
