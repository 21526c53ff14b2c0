//! Generated inputs: documents of a corpus, changed at random, against the module and the parsers of the core.
//!
//! Each test of `tests/` is a target. [`run`] gives a target every input of its corpus as it is, then inputs that a
//! generator makes of them for as long as `FUZZ_SECONDS` says. [`json`] changes documents, [`sequence`] changes texts and
//! bytes, [`pool`] has the parts that go from one document into another. [`bundle`] damages
//! bundles. [`policy`] evaluates the module and judges its
//! answer and its cost.
#![forbid(unsafe_code)]

pub mod bundle;
pub mod corpus;
pub mod document;
pub mod json;
pub mod policy;
pub mod pool;
pub mod run;
pub mod sequence;
