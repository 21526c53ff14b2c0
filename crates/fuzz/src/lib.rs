//! Fuzzing: randomly changed documents of a corpus, against the module and the parsers of the core.
//!
//! Each test in `tests/fuzz` is a target. [`run`] passes every input of the corpus to the target, then inputs that a
//! generator derives from them, for `FUZZ_SECONDS`. [`json`] changes documents, [`sequence`] changes texts and bytes,
//! [`pool`] holds the parts that move from one document to another. [`bundle`] damages bundles. [`policy`] evaluates
//! the module and checks its answer and its cost.
//!
//! [`cost`] surveys what inputs cost: it makes one part of an input longer after the other, and counts instructions
//! (E18). Its tests are in `tests/fuzz/cost`; `make cost` runs all of them.
//!
//! It never says how a rule should decide: it looks for traps, for wrong shapes of answers, and for costs. Start with
//! [`run`].
#![forbid(unsafe_code)]

pub mod bundle;
pub mod corpus;
pub mod cost;
pub mod document;
pub mod json;
pub mod policy;
pub mod pool;
pub mod run;
pub mod sequence;
