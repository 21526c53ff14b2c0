//! What several tests share.

use std::sync::Arc;

use clap::FromArgMatches;
use pillion_documents::manifest::{Source, parse};
use serde_json::Value;

/// Returns the objects of a YAML text. Messages call it `name`.
pub fn objects(name: &str, text: &str) -> Vec<Value> {
    let source = Arc::new(Source::new(name, text));
    parse(&source).unwrap().into_iter().map(|manifest| manifest.value).collect()
}

/// Parses options as on a command line.
pub fn options<T: clap::Args + FromArgMatches>(flags: &[&str]) -> T {
    let flags = std::iter::once("pillion").chain(flags.iter().copied());
    let matches = T::augment_args(clap::Command::new("pillion")).try_get_matches_from(flags).unwrap();
    T::from_arg_matches(&matches).unwrap()
}
