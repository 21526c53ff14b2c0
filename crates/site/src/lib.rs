//! The documentation site: mdBook builds it from `docs/`, and everything that a reader could stumble over is checked:
//! pages that the sidebar does not list, links and anchors that lead nowhere, pictures without a text, code blocks that
//! are not what they say.
//!
//! This crate is a tool for `make site`. No other crate depends on it.
//!
//! It never changes a document. Start with [`build`].

pub mod blocks;
pub mod outside;
pub mod pages;
pub mod summary;

mod book;
mod files;
mod markdown;

pub use book::build;
pub use files::documents;
