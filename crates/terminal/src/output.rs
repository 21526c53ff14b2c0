//! The option `-o`: text for people, or data for programs.

use clap::ValueEnum;
use pillion_yaml::{self as yaml, Tree};
use serde::Serialize;

/// The option `-o` of a command that prints text for people unless it is asked for data. A command may say more about
/// its data with `mut_arg`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Output {
    /// The format.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Yaml,
    /// The same as JSON.
    Json,
}

/// A format for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DataFormat {
    /// YAML; several objects are documents.
    #[default]
    Yaml,
    /// JSON; several objects are one List.
    Json,
}

impl Output {
    /// Returns the format of the data, or `None` for text.
    pub const fn data(self) -> Option<DataFormat> {
        match self.output {
            Format::Text => None,
            Format::Yaml => Some(DataFormat::Yaml),
            Format::Json => Some(DataFormat::Json),
        }
    }
}

impl DataFormat {
    /// Returns a value as a text; its YAML has the conventional order of keys.
    ///
    /// # Errors
    /// If the value cannot be serialized.
    pub fn print(self, value: impl Serialize) -> serde_json::Result<String> {
        let value = serde_json::to_value(value)?;
        match self {
            Self::Yaml => Ok(yaml::print(&Tree::conventional(&value))),
            Self::Json => json(&value),
        }
    }

    /// Returns a tree, which has an order of its own, as a text.
    ///
    /// # Errors
    /// If serialization fails, which no tree causes.
    pub fn print_tree(self, tree: &Tree) -> serde_json::Result<String> {
        match self {
            Self::Yaml => Ok(yaml::print(tree)),
            Self::Json => json(tree),
        }
    }
}

/// Returns indented JSON that ends with a line feed.
///
/// # Errors
/// If the value cannot be serialized.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
