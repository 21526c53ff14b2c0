//! What an installation is made of: renderings, schemas, and the files of the repository that come from them. The
//! arguments of `pillion manifest` and the files that it writes are tested with the command line.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod kustomize;
mod rendering;
mod schema;
mod schemas;
mod support;
mod system_namespaces;
